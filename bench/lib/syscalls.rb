# What a traced system call costs the thread that makes it. Each call is timed by itself, 50 us apart, so that no
# buffer fills up.
module Bench
  class Syscalls
    DEPTHS = [30, 300].freeze
    ROUNDS = 5
    PAUSE_NS = 50_000
    TITLES = { off_again: "A/A control: nothing again", rprof: "rprof record --syscall getppid",
               other: "rprof record --syscall openat: a call not asked for", strace: "strace -c -e trace=getppid",
               perf: "perf trace -e getppid (no stack)" }.freeze

    def initialize(table, scale)
      @table = table
      @calls = (4000 * scale).to_i
    end

    def run
      names = [:off, :rprof, :other, :off_again]
      { strace: "strace", perf: "perf" }.each do |name, program|
        Bench.tool(program) ? names << name : @table.skip("syscall", TITLES[name], "#{program} is not installed")
      end
      DEPTHS.each { |depth| measure(depth, names) }
    end

    private

    def measure(depth, names)
      workload = Workload.new("stack.rb", depth, File.join(BUILD, "bench/gap.so"))
      medians = Hash.new { |hash, name| hash[name] = [] }
      ROUNDS.times do |round|
        (round.odd? ? names.reverse : names).each { |name| medians[name] << Stats.median(send("calls_#{name}", workload)) }
      end
      names.drop(1).each do |name|
        costs = medians[name].zip(medians[:off]).map { |on, off| (on - off) / 1e3 }
        @table.add("syscall", "#{TITLES[name]}, #{depth} frames", "us/call", Stats.of(costs))
      end
    ensure
      workload&.kill
    end

    def times(workload)
      path = Bench.scratch(".calls")
      workload.ask("calls", @calls, PAUSE_NS, path)
      File.readlines(path).map(&:to_i)
    ensure
      File.delete(path) if path && File.exist?(path)
    end

    alias calls_off times
    alias calls_off_again times

    def calls_rprof(workload)
      recorder = Rprof.new(workload.pid, syscall: "getppid")
      found = times(workload)
      sum = recorder.stop
      raise Failed, "rprof recorded #{sum['samples']} of #{@calls} calls" if sum["samples"] + sum["lost"].values.sum < @calls

      recorder.delete
      found
    end

    def calls_other(workload)
      recorder = Rprof.new(workload.pid, syscall: "openat")
      found = times(workload)
      recorder.stop
      recorder.delete
      found
    end

    def calls_strace(workload)
      tool = Tool.new(Bench.tool("strace"), "-c", "-f", "-e", "trace=getppid", "-o", File::NULL, "-p", workload.pid) do |_, err|
        err.wait_readable(0.1) && err.gets.to_s.include?("attached")
      end
      found = times(workload)
      tool.stop
      found
    end

    # It says nothing when it is ready: its events are open, and then it sets them off.
    def calls_perf(workload)
      tool = Tool.new(Bench.tool("perf"), "trace", "-e", "getppid", "-o", File::NULL, "-p", workload.pid) { |pid, _| Bench.opens?(pid, "perf_event") }
      sleep 0.5
      found = times(workload)
      tool.stop
      found
    end
  end
end
