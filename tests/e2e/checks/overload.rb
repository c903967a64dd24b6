# More events than anybody could take, and a recorder that the scheduler leaves hardly any processor: its target and three busy
# neighbours stand before it on the only one that it may use. It ends when it is to end, commits until then, and counts what it lost.
module OverloadCheck
  NEIGHBOURS = 3
  LIMIT = 300 # seconds; the storm goes on until the recorder is gone
  LEAST_STORM = 3_000_000_000 # ns of storm within a duration, for it to say anything

  module_function

  def processors
    list = File.read("/proc/self/status")[/^Cpus_allowed_list:\s*(\S+)/, 1]
    list.split(",").flat_map { |r| a, b = r.split("-").map(&:to_i); (a..(b || a)).to_a }
  end

  def run(report, way)
    return report.skip("a storm of system calls", "it needs a processor that the test itself does not run on") if processors.size < 2
    duration(report, way)
    interrupt(report, way)
    counts(report, way)
  end

  # Yields in the storm: program, the thread that waits for the recorder, its file. Ends the recorder if the block did not.
  def storm(way, count, *args)
    Dir.mktmpdir("overload") do |dir|
      file = File.join(dir, "storm.rprof")
      err = File.join(dir, "err")
      Program.run(way, "programs/storm.rb") do |program|
        program.wait_ready
        cpu = processors.last.to_s
        system("taskset", "-acp", cpu, program.pid.to_s, out: "/dev/null", exception: true)
        rprof = spawn("taskset", "-c", cpu, Recorder::RPROF, "record", "-p", program.pid.to_s, "--syscall", "getppid,futex,getpgid",
                      "-o", file, *args, out: err, err: err)
        ended = Process.detach(rprof)
        neighbours = []
        begin
          until newest(file)
            raise Program::Failed, "rprof record ended: #{File.read(err)}" unless ended.alive?
            sleep 0.1
          end
          neighbours = Array.new(NEIGHBOURS) { spawn("nice", "-n", "-20", "taskset", "-c", cpu, "/usr/bin/ruby", "-e", "loop {}") }
          program.say("go #{count}\n")
          yield program, ended, file
        ensure
          Process.kill(:KILL, rprof) if ended.alive?
          neighbours.each { |pid| Process.kill(:KILL, pid) && Process.wait(pid) }
        end
      end
    end
  end

  # A question to the recording, which may be about to be made. nil: no answer.
  def ask(file, sql)
    out, status = Open3.capture2e("sqlite3", "-readonly", "-cmd", ".timeout 1000", file, sql)
    status.success? && !out.empty? ? out.to_i : nil
  end

  # When the sample was taken that was stored last; nil: there is none.
  def newest(file)
    ask(file, "SELECT time_ns FROM sample ORDER BY id DESC LIMIT 1") if File.exist?(file)
  end

  def said(program, key)
    Timeout.timeout(LIMIT) do
      sleep 0.02 until (line = program.other_lines.find { |l| l.key?(key) })
      line[key]
    end
  end

  # True once the file, read while the storm goes on, holds samples of the storm; false when the recorder has ended before.
  def commits?(program, ended, file)
    go = said(program, "storm")
    Timeout.timeout(LIMIT) do
      sleep 0.1 until !ended.alive? || newest(file).to_i > go
      ended.alive?
    end
  rescue Timeout::Error
    false
  end

  # The recorder's status; nil: it goes on and on.
  def status(ended) = ended.join(LIMIT)&.value

  # A busy machine may begin the storm when the duration is all but over: then it takes a longer one.
  def duration(report, way)
    [10, 30, 90].each do |seconds|
      return if storm(way, 0, "-d", "#{seconds}s") { |program, ended, file| held?(report, program, ended, file, seconds * 1_000_000_000) }
    end
    report.ok(false, "a recording has some storm in it", "none in 90 s")
  end

  def held?(report, program, ended, file, duration_ns)
    committed = commits?(program, ended, file)
    end_ns = ask(file, "SELECT value FROM meta WHERE key = 'start_ns'") + duration_ns
    return false if end_ns - said(program, "storm") < LEAST_STORM
    report.ok(committed, "in a storm of calls the recording is committed")
    how = status(ended)
    report.ok(how&.success?, "it ends when its duration does", how.inspect)
    return true unless how&.success?
    youngest = ask(file, "SELECT max(time_ns) FROM sample")
    report.ok(youngest <= end_ns, "no sample is younger", "#{(youngest - end_ns) / 1e9} s")
    true
  end

  def interrupt(report, way)
    storm(way, 0) do |program, ended, file|
      commits?(program, ended, file)
      Process.kill(:INT, ended.pid)
      how = status(ended)
      report.ok(how&.success?, "^C ends it", how.inspect)
    end
  end

  # What is not in the recording is counted as lost.
  def counts(report, way)
    storm(way, 400_000) do |program, ended, file|
      made = said(program, "made")
      Process.kill(:INT, ended.pid)
      how = status(ended)
      next report.ok(false, "every call is recorded or counted as lost", how.inspect) unless how&.success?
      seen = ask(file, "SELECT count(*) FROM sample WHERE trigger = (SELECT id FROM trigger WHERE name = 'syscall:getppid')")
      lost = ask(file, "SELECT sum(count) FROM loss")
      report.ok(seen + lost == made, "every call is recorded or counted as lost", "#{seen} recorded, #{lost} lost, #{made} made")
    end
  end
end

require "open3"
Checks.define("overload", rubies: %w[3.1]) { |report, way| OverloadCheck.run(report, way) }
