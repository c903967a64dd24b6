# A recording that is under way, and what a test does to the recorder meanwhile.
require_relative "../../e2e/lib/program"

module Names
  class Recorded
    HANGS = Program::HANGS

    attr_reader :pid

    # Yields once sampling has begun; returns the summary and the path of the recording when it is over.
    def self.make(dir, target, rate:)
      recorded = new(dir, target, rate)
      recorded.wait_sampling
      yield recorded
      recorded.result
    ensure
      recorded&.finish
    end

    def initialize(dir, target, rate)
      @file = File.join(dir, "names.rprof")
      FileUtils.rm_f(@file)
      out, out_w = IO.pipe
      err, err_w = IO.pipe
      @pid = spawn(Recorder::RPROF, "record", "--json", "-p", target.to_s, "-F", rate.to_s, "-o", @file,
                   in: "/dev/null", out: out_w, err: err_w)
      [out_w, err_w].each(&:close)
      @waiter = Process.detach(@pid)
      @begun = Queue.new
      @errors = +""
      @out = Thread.new { out.read }
      @err = Thread.new { read(err) }
    end

    # The recorder shows its progress as soon as it samples.
    def wait_sampling
      Timeout.timeout(HANGS) { @begun.pop } or raise Program::Failed, "rprof record: #{@errors}"
    end

    # Returns when no thread of it runs any more: the time, by CLOCK_MONOTONIC.
    def stop
      Process.kill(:STOP, @pid)
      Timeout.timeout(HANGS) { sleep 0.001 until stopped? }
      Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
    end

    def go_on = Process.kill(:CONT, @pid)

    def interrupt = Process.kill(:INT, @pid)

    # Stopped for 300 ms of every 330, to its end, which it is told once the block says so.
    def starve
      limit = Time.now + HANGS
      told = false
      until @waiter.join(0.03)
        raise Program::Failed, "rprof record: no end" if Time.now > limit
        Process.kill(:STOP, @pid)
        sleep 0.3
        interrupt if !told && (told = yield)
        go_on
      end
    rescue Errno::ESRCH
      nil
    end

    def result
      @waiter.join(HANGS) or raise Program::Failed, "rprof record: no end"
      @err.join
      raise Program::Failed, "rprof record: #{@waiter.value} #{@errors}" unless @waiter.value.success?
      [JSON.parse(@out.value), @file]
    end

    def finish
      return unless @waiter.alive?
      Process.kill(:KILL, @pid)
      @waiter.join
    rescue Errno::ESRCH
      nil
    end

    private

    def read(err)
      err.each_line do |line|
        @errors << line if @errors.size < 4000
        @begun << true if line.match?(/ samples /)
      end
      @begun << nil
    end

    def stopped?
      Dir.glob("/proc/#{@pid}/task/*/stat").all? { |file| File.read(file)[/.*\) (\S)/, 1] == "T" }
    rescue Errno::ENOENT, Errno::ESRCH
      true
    end
  end

  module_function

  # The samples of a recording, one after the other: all at once take more memory than need be.
  def each_sample(file)
    return to_enum(:each_sample, file) unless block_given?
    IO.popen([Recorder::RPROF, "export", file, "-f", "jsonl", "--samples"]) do |lines|
      lines.each_line { |line| yield JSON.parse(line) if line.start_with?('{"type":"sample"') }
    end
    raise Program::Failed, "rprof export: #{$?}" unless $?.success?
  end

  def cpu_seconds(pid)
    File.read("/proc/#{pid}/stat")[/.*\) (.*)/, 1].split.values_at(11, 12).sum(&:to_i) / 100.0
  end
end
