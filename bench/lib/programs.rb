# The programs that are measured, and the profilers that measure or are measured. Each is started, says when it is
# ready, and is stopped by its own process id.
require "json"
require "open3"
require "rbconfig"
require "socket"
require "tmpdir"

module Bench
  ROOT = File.expand_path("../..", __dir__)
  BUILD = ENV.fetch("BENCH_BUILD", File.join(ROOT, "build"))
  RUBY = ENV.fetch("RUBY", RbConfig.ruby)
  WORKLOADS = File.join(ROOT, "bench/workloads")
  TMP = Dir.mktmpdir("rprof-bench")
  at_exit { FileUtils.rm_rf(TMP) }

  class Failed < StandardError; end

  module_function

  def clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  def tool(name)
    dirs = ENV["PATH"].split(":") + [File.join(ENV["HOME"] || "/", ".cargo/bin")]
    dirs.map { |dir| File.join(dir, name) }.find { |path| File.executable?(path) }
  end

  @serial = 0
  def scratch(suffix) = File.join(TMP, "#{@serial += 1}#{suffix}")

  # Standard output of a command that must succeed.
  def run(*command)
    out, err, status = Open3.capture3(*command.map(&:to_s))
    raise Failed, "#{command.first(2).join(' ')}: #{err.lines.last&.strip || status}" unless status.success?

    out
  end

  def sql(recording, query) = run("sqlite3", recording, query).lines.map { |line| line.chomp.split("|") }

  def status_kb(pid, key) = File.read("/proc/#{pid}/status")[/^#{key}:\s+(\d+)/, 1].to_i

  # A child, killed at the end whatever happens.
  class Child
    attr_reader :pid

    def initialize(*command, **options)
      @pid = Process.spawn(*command.map(&:to_s), **options)
      @running = true
      Child.all << self
    end

    def self.all = (@all ||= [])

    def signal(name)
      Process.kill(name, @pid)
    rescue Errno::ESRCH
      nil
    end

    def wait
      return unless @running

      Process.wait(@pid)
      @running = false
      $?
    end

    def wait_exit(name)
      signal(name)
      wait
    end

    def kill
      wait_exit(:KILL) if @running
    end
  end
  at_exit { Child.all.each(&:kill) }

  # A Ruby program of bench/workloads that says "ready".
  class Workload < Child
    def initialize(*arguments)
      in_r, @in = IO.pipe
      @out, out_w = IO.pipe
      super(RUBY, File.join(WORKLOADS, arguments[0]), *arguments.drop(1), in: in_r, out: out_w)
      in_r.close
      out_w.close
      expect("ready")
    end

    def ask(*words)
      @in.puts(words.join(" "))
      expect("done")
    end

    def kill
      super
      [@in, @out].each { |io| io.close unless io.closed? }
    end

    private

    def expect(word)
      raise Failed, "the workload died" if @out.gets&.chomp != word
    end
  end

  # puma with a client, or a plain server with its own.
  class Web
    attr_reader :pid, :name

    def initialize
      if Bench.tool("puma") && Bench.tool("wrk") && system(RUBY, "-rsinatra/base", "-e", "", err: File::NULL)
        puma
      else
        @name = "TCPServer, 2 threads"
        @server = Workload.new("web.rb")
      end
      @pid = @server.pid
    end

    def kill
      @client&.kill
      @client ? @server.kill : @server.wait_exit(:TERM)
    end

    private

    def puma
      @name = "puma and sinatra, 2 threads"
      port = TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }
      @server = Child.new(RUBY, Bench.tool("puma"), "-q", "-t", "2:2", "-e", "production", "-b", "tcp://127.0.0.1:#{port}",
                          File.join(WORKLOADS, "web.ru"), out: File::NULL, err: File::NULL)
      answers = 100.times.any? do
        TCPSocket.open("127.0.0.1", port, &:close)
        true
      rescue Errno::ECONNREFUSED
        sleep 0.1
        false
      end
      raise Failed, "puma does not answer" unless answers

      @client = Child.new(Bench.tool("wrk"), "-t1", "-c2", "-d3600", "http://127.0.0.1:#{port}/items/100", out: File::NULL)
    end
  end

  # One run of `rprof record`.
  class Rprof
    attr_reader :path, :summary, :peak_kb, :stop_s, :began

    def initialize(pid, rate: nil, syscall: nil)
      @path = Bench.scratch(".rprof")
      @out, out_w = IO.pipe
      @err, err_w = IO.pipe
      command = [File.join(BUILD, "rprof"), "record", "--json", "-p", pid, "-o", @path]
      command += ["-F", rate] if rate
      command += ["--syscall", syscall] if syscall
      @began = (Bench.clock * 1e9).to_i
      @child = Child.new(*command, out: out_w, err: err_w)
      out_w.close
      err_w.close
      await_start
    end

    # Ends the recording and returns its summary.
    def stop
      @peak_kb = peak_now_kb
      from = Bench.clock
      status = @child.wait_exit(:INT)
      @stop_s = Bench.clock - from
      raise Failed, "rprof record: #{@said}" unless status&.success?

      @summary = JSON.parse(@out.read)
    ensure
      @drain&.join
      [@out, @err].each(&:close)
    end

    def peak_now_kb = Bench.status_kb(@child.pid, "VmHWM")

    def bytes = File.size(@path)
    def delete = File.delete(@path)

    private

    # The first line of progress is written when the events fire.
    def await_start
      @said = @err.gets.to_s.chomp
      raise Failed, "rprof record: #{@said}" unless @said.start_with?("rprof: ") && @said.include?(" samples")

      @drain = Thread.new do
        while (line = @err.gets)
          @said = line.chomp
        end
      end
    end
  end

  # `perf record -e cpu-clock`, stamped by the clock that the gaps are in.
  class Perf
    attr_reader :path

    def initialize(pid, rate, *options)
      @path = Bench.scratch(".data")
      control_r, @control = IO.pipe
      @ack, ack_w = IO.pipe
      @child = Child.new(Bench.tool("perf"), "record", "-e", "cpu-clock", "-F", rate, "-k", "CLOCK_MONOTONIC", "-D", "-1",
                         "--control", "fd:#{control_r.fileno},#{ack_w.fileno}", "-o", @path, *options, "-p", pid,
                         control_r => control_r, ack_w => ack_w, out: File::NULL, err: File::NULL)
      [control_r, ack_w].each(&:close)
      @control.write("enable\n")
      raise Failed, "perf record does not start" unless @ack.read(4)
    end

    def stop
      @child.wait_exit(:INT)
      [@control, @ack].each(&:close)
    end

    def times_ns
      Bench.run("perf", "script", "-i", @path, "--ns", "-F", "time").scan(/(\d+)\.(\d{9})/).map { |s, ns| s.to_i * 1_000_000_000 + ns.to_i }
    end

    def delete = File.delete(@path)
  end

  # A tool whose start is seen in its files under /proc or in what it says, then stopped by ^C.
  class Tool < Child
    def initialize(*command, &ready)
      err_r, err_w = IO.pipe
      super(*command, out: File::NULL, err: err_w)
      err_w.close
      200.times do
        break if ready.call(pid, err_r)

        sleep 0.02
      end
      @drain = Thread.new { err_r.read }
    end

    def stop
      wait_exit(:INT)
      @drain.join
    end
  end

  def opens?(pid, what)
    Dir.children("/proc/#{pid}/fd").any? { |fd| File.readlink("/proc/#{pid}/fd/#{fd}").include?(what) }
  rescue Errno::ENOENT
    false
  end
end
