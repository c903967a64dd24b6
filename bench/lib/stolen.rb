# What a sample takes from the thread that is sampled. The thread notes its own gaps; a sampler's time stamps, of the
# same clock, say which of them were samples.
module Bench
  class Stolen
    DEPTHS = [30, 300, 1000].freeze
    RATES = { "cold, 99 Hz" => 99, "hot, 4999 Hz" => 4999 }.freeze
    ROUNDS = 3
    LONGEST_NS = 200_000 # longer ones are of the scheduler
    STOPPED_NS = 30_000  # what stops a process takes at least as long
    SLOW_TICK_NS = 5_000
    AIM_US = { 99 => 15, 4999 => 5 }.freeze # above the floor

    def initialize(table, scale)
      @table = table
      @scale = scale
    end

    def run
      DEPTHS.each do |depth|
        workload = Workload.new("stack.rb", depth, File.join(BUILD, "bench/gap.so"))
        RATES.each { |label, rate| measure(workload, depth, label, rate) }
      ensure
        workload&.kill
      end
      @table.skip("stolen", "rbspy", "not installed: cargo install rbspy") unless Bench.tool("rbspy")
      @table.skip("stolen", "floor and perf dwarf", "perf is not installed") unless Bench.tool("perf")
    end

    private

    def samplers(rate)
      names = [:off, :rprof, :off_again]
      names += [:floor, :dwarf] if Bench.tool("perf")
      names << :rbspy if rate == 99 && Bench.tool("rbspy")
      names
    end

    def measure(workload, depth, label, rate)
      @taken = Hash.new { |hash, name| hash[name] = [] } # ns of each gap that was a sample
      @shares = Hash.new { |hash, name| hash[name] = [] } # ns of all short gaps in a window
      @seconds = (rate == 99 ? 1.5 : 1.0) * @scale
      @ticks = []
      @stops = Hash.new { |hash, name| hash[name] = [] } # ns of all long gaps in a window
      @asked = Hash.new(0)
      ROUNDS.times do |round|
        names = samplers(rate)
        names = names.reverse if round.odd?
        names.each { |name| send("window_#{name}", name, workload, rate) }
      end
      report(depth, label, rate)
    end

    # [start, length] of the gaps of one window.
    def gaps(workload)
      path = Bench.scratch(".gaps")
      workload.ask("spin", (@seconds * 1000).to_i, path)
      File.binread(path).unpack("Q<*").each_slice(2).to_a
    ensure
      File.delete(path) if path && File.exist?(path)
    end

    def note_share(name, gaps) = @shares[name] << gaps.sum { |_, ns| ns <= LONGEST_NS ? ns : 0 }

    def note_stops(name, gaps) = @stops[name] << gaps.sum { |_, ns| ns >= STOPPED_NS ? ns : 0 }

    def note_samples(name, gaps, times)
      @asked[name] += times.size
      times.each do |time|
        at = gaps.bsearch_index { |start, _| start > time } || gaps.size
        start, ns = gaps[at - 1] if at.positive?
        @taken[name] << ns if start && time <= start + ns && ns <= LONGEST_NS
      end
    end

    def window_off(name, workload, _rate)
      found = gaps(workload)
      note_share(name, found)
      note_stops(name, found)
      @ticks << Stats.median(found.map(&:last).select { |ns| ns <= LONGEST_NS })
    end
    alias window_off_again window_off

    def window_rprof(name, workload, rate)
      recorder = Rprof.new(workload.pid, rate: rate)
      found = gaps(workload)
      recorder.stop
      note_share(name, found)
      note_samples(name, found, within(found, Bench.sql(recorder.path, "SELECT time_ns FROM sample").map { |row| row[0].to_i }))
      recorder.delete
    end

    # Only samples of the window itself: the workload also reads its orders and writes its file.
    def within(found, times) = times.select { |time| time.between?(found[0]&.first || 0, found[-1]&.sum || 0) }

    def window_perf(name, workload, rate, *options)
      perf = Perf.new(workload.pid, rate, *options)
      found = gaps(workload)
      perf.stop
      note_share(name, found)
      note_samples(name, found, within(found, perf.times_ns))
      perf.delete
    end

    def window_floor(name, workload, rate) = window_perf(name, workload, rate)
    def window_dwarf(name, workload, rate) = window_perf(name, workload, rate, "--call-graph", "dwarf,8192")

    def window_rbspy(name, workload, rate)
      path = Bench.scratch(".raw")
      rbspy = Tool.new(Bench.tool("rbspy"), "record", "-p", workload.pid, "--rate", rate, "--format", "raw", "-f", path, "--silent") do |pid, _|
        Bench.opens?(pid, "mem") || File.exist?(path)
      end
      sleep 0.5
      found = gaps(workload)
      rbspy.stop
      @asked[name] += (rate * @seconds).to_i
      note_stops(name, found)
      @taken[name].concat(found.map(&:last).select { |ns| ns >= STOPPED_NS })
    end

    NAMES = { rprof: "rprof", floor: "floor: a bare perf event", dwarf: "perf record --call-graph dwarf,8192",
              rbspy: "rbspy (gaps from 30 us)" }.freeze

    def report(depth, label, rate)
      floor = Stats.median(@taken[:floor])
      tick = Stats.median(@ticks.compact).to_f
      NAMES.each do |name, title|
        values = @taken[name].map { |ns| ns / 1e3 }
        next if values.empty?

        extra = floor && name != :floor ? Stats.median(values) - floor / 1e3 : nil
        aim = name == :rprof && floor ? (floor / 1e3 + AIM_US[rate]).round(1) : nil
        @table.add("stolen", "#{title}, #{depth} frames, #{label}", "us", Stats.of(values), aim: aim,
                   note: [extra && format("floor %+.1f", extra), "#{values.size} of #{@asked[name]}",
                          name == :rbspy && format("%.0f us a sample by difference", stopped_us)].select(&:itself).join("; "))
      end
      control(depth, label, rate, tick)
    end

    # What a window under rbspy has more of long gaps than one without, for each sample that was asked for.
    def stopped_us
      (Stats.median(@stops[:rbspy]) - Stats.median(@stops[:off] + @stops[:off_again])) / 1e3 * ROUNDS / @asked[:rbspy]
    end

    # What the difference of two windows without any profiler would be called "per sample".
    def control(depth, label, rate, tick)
      differences = @shares[:off_again].zip(@shares[:off]).map { |again, off| (again - off) / 1e3 / (rate * @seconds) }
      note = format("median gap without a profiler %.1f us%s", tick / 1e3, tick > SLOW_TICK_NS ? ": SLOW MODE, discard" : "")
      @table.add("stolen", "A/A control, #{depth} frames, #{label}", "us", Stats.of(differences), note: note)
      on = @shares[:rprof].zip(@shares[:off]).map { |with, off| (with - off) / 1e3 / (rate * @seconds) }
      @table.add("stolen", "rprof by difference, #{depth} frames, #{label}", "us", Stats.of(on), note: "ON - OFF: with the control's noise")
    end
  end
end
