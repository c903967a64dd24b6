# What a sample may cost, counted, not timed: tests/walk/budget.
module Walk
  class Budget
    FILE = File.join(ROOT, "tests/walk/budget")
    HEADER = <<~TEXT.freeze
      # What a sample may cost at most, on Ruby 3.1 at 4999 Hz over 2000 samples or more: reads of user memory, searches in the
      # unwind tables, bytes in the ring buffer; and wake-ups of user space in 1000 samples. That is the largest of five runs
      # times 1.25, 2, 1.4 and 2: what goes over it is no noise. `tests/walk/run --measure` writes this file anew.
      # program reads lookups bytes wakeups
    TEXT
    PROGRAMS = [["stack", 30], ["stack", 300], ["stack", 1000], ["cext"]].freeze
    Counter = Struct.new(:scale, :margin, :least)
    # least: below that nothing can be held to a figure, for the first samples' share of it.
    COUNTERS = { "user_reads" => Counter.new(1, 1.25, 1), "table_lookups" => Counter.new(1, 2, 0.5),
                 "ring_bytes" => Counter.new(1, 1.4, 50), "wakeups" => Counter.new(1000, 2, 10) }.freeze
    MIN_SAMPLES = 2000

    def self.read
      File.readlines(FILE).reject { |line| line.start_with?("#") }.to_h do |line|
        program, *values = line.split
        [program.tr("-", " "), COUNTERS.keys.zip(values.map(&:to_f)).to_h]
      end
    end

    def self.workloads = PROGRAMS.map { |name, *arguments| Workload.new(Rubies::FIRST, name, arguments, []) }

    # Of each counter, how much a sample. In one recording: the first sample of each has all frames in it. What was lost was
    # walked too, and what comes after it is sent whole.
    def self.measure(workload, way)
      Walk.run_workload(workload, way) do |pid|
        summary = Walk.record_with(File.join(Rubies::BUILD, "rprof"), pid, rate: 4999, seconds: 1) { |sum| sum["samples"] >= MIN_SAMPLES && sum["lost"].values.sum.zero? }
        COUNTERS.to_h { |name, counter| [name, summary.fetch(name) * counter.scale.to_f / summary["samples"]] }
      end
    end

    def self.write(way, runs: 5)
      lines = workloads.map do |workload|
        measured = Array.new(runs) { measure(workload, way) }
        values = COUNTERS.map { |name, counter| [measured.map { |m| m[name] }.max * counter.margin, counter.least].max.ceil(1) }
        warn "#{workload.label}: #{measured.map { |m| m.values.map { |v| v.round(2) } }}"
        "#{[workload.name, *workload.arguments].join('-')} #{values.join(' ')}\n"
      end
      File.write(FILE, HEADER + lines.join)
    end
  end
end
