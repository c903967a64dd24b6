# What a walk costs in the kernel, as the kernel counts it, beside a yardstick of the same minute.
module Bench
  class Walk
    RATES = { "cold, 99 Hz" => 99, "hot, 4999 Hz" => 4999 }.freeze
    WORKLOADS = {
      "30 Ruby frames" => -> { Workload.new("stack.rb", 30) },
      "300 Ruby frames" => -> { Workload.new("stack.rb", 300) },
      "1000 Ruby frames" => -> { Workload.new("stack.rb", 1000) },
      "C extensions" => -> { Workload.new("cext.rb") },
      "web server" => -> { Web.new }
    }.freeze
    # ns: [hot, cold]
    AIMS = { "30 Ruby frames" => [3, 15], "C extensions" => [3, 15], "1000 Ruby frames" => [15, 20] }.freeze
    KINDS = "WITH RECURSIVE up(id, parent, frame) AS (SELECT k.id, k.parent, k.frame FROM sample s JOIN stack k ON k.id = s.stack " \
            "UNION ALL SELECT p.id, p.parent, p.frame FROM up JOIN stack p ON p.id = up.parent) " \
            "SELECT f.kind, count(*) * 1.0 / (SELECT count(*) FROM sample) FROM up JOIN named_frame f ON f.id = up.frame GROUP BY 1".freeze

    def initialize(table, scale)
      @table = table
      @scale = scale
      @yard = Hash.new { |hash, rate| hash[rate] = [] }
    end

    def run
      @filter = filter_costs
      WORKLOADS.each { |name, start| measure(name, start.call) }
      RATES.each do |label, rate|
        @table.add("walk", "yardstick: 100 reads of 8 bytes, #{label}", "us", Stats.of(@yard[rate]))
        @table.add("walk", "a run that is not of the process, #{label}", "us", Stats.of(@filter[rate]))
      end
      @table.add("walk", "instructions verified", "insns", Stats.of([@verified.to_f]))
    end

    private

    def yardstick(rate)
      ms = (rate == 99 ? 1000 : 300) * @scale
      said = JSON.parse(Bench.run(File.join(BUILD, "bench/yardstick"), rate, ms.to_i))
      @yard[rate] << said["ns"] / 1e3 / said["runs"] if said["runs"].positive?
    end

    def record(pid, rate)
      recorder = Rprof.new(pid, rate: rate)
      sleep((rate == 99 ? 2.0 : 1.0) * @scale)
      recorder.stop
      recorder
    end

    # Events of other processes and of idle CPUs run the program too, up to its filter.
    def filter_costs
      idle = Workload.new("idle.rb")
      costs = RATES.values.to_h do |rate|
        [rate, Array.new(3) { record(idle.pid, rate).tap(&:delete).summary.values_at("bpf_run_ns", "bpf_runs").then { |ns, runs| ns / 1e3 / runs } }]
      end
      idle.kill
      costs
    end

    def measure(name, workload)
      windows = Hash.new { |hash, rate| hash[rate] = [] }
      5.times do
        RATES.each_value do |rate|
          yardstick(rate)
          windows[rate] << record(workload.pid, rate)
        end
      end
      RATES.each { |label, rate| report(name, label, rate, windows[rate], workload) }
      windows.values.flatten.each(&:delete)
    ensure
      workload.kill
    end

    def report(name, label, rate, windows, workload)
      sums = windows.map(&:summary).select { |sum| walks(sum).positive? }
      return @table.skip("walk", "#{name}, #{label}", "no samples") if sums.empty?

      hot = rate != 99
      filter = Stats.median(@filter[rate])
      aim = AIMS[name]&.at(hot ? 0 : 1)
      net = Stats.of(sums.map { |sum| (sum["bpf_run_ns"] / 1e3 - filter * (sum["bpf_runs"] - walks(sum))) / walks(sum) })
      @table.add("walk", "#{name}, #{label}", "us", net, aim: aim, yard: Stats.median(@yard[rate]),
                 raw_us: Stats.median(sums.map { |sum| sum["bpf_run_ns"] / 1e3 / walks(sum) }),
                 samples: sums.sum { |sum| sum["samples"] }, lost: sums.sum { |sum| sum["lost"].values.sum },
                 note: hot ? (workload.name if workload.respond_to?(:name)) : frames(windows.first))
      @verified = sums[0].dig("verified_instructions", "cpu") || 0
      return unless hot

      counter(name, sums, "ring_bytes", "ring bytes a sample", "bytes", AIMS.key?(name) ? 400 : nil)
      counter(name, sums, "user_reads", "user reads a sample", "reads", nil)
      counter(name, sums, "table_lookups", "table look-ups a sample", "lookups", nil)
      counter(name, sums, "wakeups", "wake-ups a sample", "wake-ups", nil)
    end

    def walks(sum) = sum["samples"] + sum["lost"]["ring-buffer-full"]

    def counter(name, sums, key, what, unit, aim)
      known = sums.select { |sum| sum[key] && sum["samples"].positive? }
      return @table.skip("walk", "#{name}: #{what}", "n/a: rprof does not count it") if known.empty?

      @table.add("walk", "#{name}: #{what}", unit, Stats.of(known.map { |sum| sum[key].to_f / sum["samples"] }), aim: aim)
    end

    def frames(recorder)
      kinds = Bench.sql(recorder.path, KINDS).to_h { |kind, nr| [kind, nr.to_f] }
      format("%.0f Ruby + %.0f C methods, %.0f native", kinds.fetch("ruby", 0), kinds.fetch("cfunc", 0), kinds.fetch("native", 0))
    end
  end
end
