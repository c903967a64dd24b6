# What the recorder itself needs: CPU, memory, disk, and the user's patience.
module Bench
  class Recorder
    NAMED = "SELECT s.time_ns FROM named_sample s JOIN named_frame f ON f.id = s.leaf WHERE EXISTS " \
            "(WITH RECURSIVE up(parent, frame) AS (SELECT parent, frame FROM stack WHERE id = s.stack UNION ALL " \
            "SELECT p.parent, p.frame FROM up JOIN stack p ON p.id = up.parent) SELECT 1 FROM up JOIN named_frame n " \
            "ON n.id = up.frame WHERE n.kind = 'ruby' AND n.name LIKE '%leaf%') ORDER BY s.time_ns LIMIT 1".freeze

    def initialize(table, scale)
      @table = table
      @scale = scale
    end

    def run
      start_and_stop
      steady("30 Ruby frames", "stack.rb", 30)
      steady("C extensions", "cext.rb")
      many_samples
      million_samples
      fed(1_000)
      fed(100_000)
    end

    private

    def add(what, unit, values, **more) = @table.add("recorder", what, unit, Stats.of(Array(values)), **more)

    def start_and_stop
      workload = Workload.new("stack.rb", 30)
      runs = Array.new(5) do
        recorder = Rprof.new(workload.pid, rate: 99)
        sleep 0.5
        recorder.stop
        first = Bench.sql(recorder.path, NAMED).dig(0, 0)
        raise Failed, "no sample has the name of the method that runs" unless first

        [(first.to_i - recorder.began) / 1e6, recorder.stop_s * 1e3]
      end
      add("exec to the first sample with names, 99 Hz", "ms", runs.map(&:first), aim: 300)
      add("^C to the closed file, 0.5 s recorded", "ms", runs.map(&:last))
    ensure
      workload&.kill
    end

    def steady(name, *arguments)
      workload = Workload.new(*arguments)
      recorder = Rprof.new(workload.pid, rate: 99)
      sleep 5 * @scale
      early_kb = recorder.peak_now_kb
      sleep 15 * @scale
      sum = recorder.stop
      add("CPU at 99 Hz, #{name}", "% of one", sum["recorder_cpu_ns"] * 100.0 / sum["duration_ns"], aim: 1)
      add("peak memory at 99 Hz, #{name}", "MB", recorder.peak_kb / 1024.0, aim: 40,
          note: format("%.1f MB a quarter of the time in", early_kb / 1024.0))
      add("recording at 99 Hz, #{name}", "bytes/sample", recorder.bytes.to_f / [sum["samples"], 1].max, aim: 100,
          note: format("%d samples, %.1f KB in all", sum["samples"], recorder.bytes / 1024.0))
    ensure
      workload&.kill
    end

    # As many as a minute of a busy server has: real stacks at a high rate.
    def many_samples
      workload = Workload.new("cext.rb")
      recorder = Rprof.new(workload.pid, rate: 4999)
      sleep 22 * @scale
      sum = recorder.stop
      note = format("%d samples, %d lost", sum["samples"], sum["lost"].values.sum)
      add("CPU at 4999 Hz, C extensions", "% of one", sum["recorder_cpu_ns"] * 100.0 / sum["duration_ns"], note: note)
      add("peak memory at 4999 Hz, C extensions", "MB", recorder.peak_kb / 1024.0, aim: 40)
      add("recording at 4999 Hz, C extensions", "bytes/sample", recorder.bytes.to_f / [sum["samples"], 1].max)
      add("^C to the closed file, 4999 Hz, C extensions", "ms", recorder.stop_s * 1e3)
      flamegraph("flame graph of that recording", recorder.path, note: note, aim: 1)
      recorder.delete
    ensure
      workload&.kill
    end

    # A million samples through the whole recorder: each system call of a loop is one.
    def million_samples
      workload = Workload.new("stack.rb", 30, File.join(BUILD, "bench/gap.so"))
      recorder = Rprof.new(workload.pid, syscall: "getppid")
      early_kb = nil
      10.times do
        workload.ask("calls", (100_000 * @scale).to_i, 10_000, File::NULL)
        early_kb ||= recorder.peak_now_kb
      end
      sum = recorder.stop
      what = "a million calls traced, 30 frames"
      add("#{what}: peak memory", "MB", recorder.peak_kb / 1024.0, aim: 40,
          note: format("%.1f MB after a tenth; %d samples, %d lost", early_kb / 1024.0, sum["samples"], sum["lost"].values.sum))
      add("#{what}: recording", "bytes/sample", recorder.bytes.to_f / [sum["samples"], 1].max, aim: 100)
      add("#{what}: recorder's CPU", "us/sample", sum["recorder_cpu_ns"] / 1e3 / [sum["samples"], 1].max)
      add("#{what}: ^C to the closed file", "ms", recorder.stop_s * 1e3)
      recorder.delete
    ensure
      workload&.kill
    end

    def flamegraph(what, path, runs: 3, **more)
      html = Bench.scratch(".html")
      seconds = Array.new(runs) do
        from = Bench.clock
        Bench.run(File.join(BUILD, "rprof"), "flamegraph", path, "-o", html)
        Bench.clock - from
      end
      add(what, "s", seconds, **more)
    ensure
      File.delete(html) if File.exist?(html)
    end

    def fed(stacks)
      path = Bench.scratch(".rprof")
      [1_000_000, 100_000].each do |samples|
        said = JSON.parse(Bench.run(File.join(BUILD, "bench/feed"), path, samples, stacks))
        what = "#{Table.number(samples)} fed samples, #{Table.number(stacks)} stacks"
        if samples == 1_000_000
          add("#{what}: writer's peak memory", "MB", said["peak_kb"] / 1024.0, aim: 40)
          add("#{what}: recording", "bytes/sample", said["bytes"].to_f / samples, aim: 100)
          add("#{what}: time to write one", "us", said["feed_ns"] / 1e3 / samples)
          add("#{what}: closing the file", "ms", said["close_ns"] / 1e6)
        else
          flamegraph("#{what}: flame graph", path, aim: 1, note: samples == stacks ? "the worst case: no stack twice" : nil)
        end
      end
    ensure
      File.delete(path) if File.exist?(path)
    end
  end
end
