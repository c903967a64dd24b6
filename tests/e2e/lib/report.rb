# What one job found; printed in one piece when it ends.
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

  class Tap
    def initialize
      @lock = Mutex.new
      @number = 0
      @failed = 0
    end

    attr_reader :failed

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
