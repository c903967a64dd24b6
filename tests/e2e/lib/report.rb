# What one job found; printed in one piece when it ends.
require "etc"

class Report
  attr_reader :results

  def initialize(label)
    @label = label
    @results = []
  end

  def ok(condition, what, details = [])
    @results << [condition ? true : false, "#{@label}: #{what}", condition ? [] : Array(details)]
    condition
  end

  def skip(what, why)
    @results << [true, "#{@label}: #{what} # SKIP #{why}", []]
  end

  # Runs jobs, [label, body] each, some at once: most of them wait for a recording to end. Who took how long is said at the end.
  def self.run_all(jobs, tap, at_once: 2 * Etc.nprocessors)
    queue = Queue.new
    jobs.each { |job| queue << job }
    queue.close
    took = {}
    Array.new((ENV["JOBS_AT_ONCE"] || at_once).to_i) do
      Thread.new do
        while (job = queue.pop)
          label, body = job
          report = Report.new(label)
          began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
          begin
            body.call(report)
          rescue StandardError => e
            report.ok(false, "the test itself runs", ["#{e.class}: #{e.message}", *e.backtrace.first(8)])
          end
          took[label] = took[label].to_f + Process.clock_gettime(Process::CLOCK_MONOTONIC) - began
          tap.add(report)
        end
      end
    end.each(&:join)
    tap.say("seconds: #{took.sort_by { |_, seconds| -seconds }.first(40).map { |label, seconds| "#{label} #{seconds.round}" }.join(', ')}")
  end

  class Tap
    def initialize
      @lock = Mutex.new
      @number = 0
      @failed = 0
    end

    attr_reader :failed

    def say(text) = @lock.synchronize { puts "# #{text}" }

    def add(report)
      @lock.synchronize do
        report.results.each do |passed, what, details|
          @failed += 1 unless passed
          puts "#{passed ? 'ok' : 'not ok'} #{@number += 1} - #{what}"
          details.flat_map { |d| d.to_s.lines }.first(80).each { |line| puts "# #{line.chomp}" }
        end
        $stdout.flush
      end
    end

    def plan
      puts "1..#{@number}"
    end
  end
end
