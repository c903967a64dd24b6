# More events than anybody could take, and a recorder that the scheduler leaves hardly any processor: its target and three busy
# neighbours stand before it on the only one that it may use. It ends when it is to end, commits until then, and counts what it lost.
module OverloadCheck
  NEIGHBOURS = 3
  LIMIT = 60 # seconds; the storm goes on until the recorder is gone

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

  # Yields in the storm: program, recorder's pid, its file. Ends the recorder if the block did not.
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
        neighbours = []
        begin
          until newest(file)
            raise Program::Failed, "rprof record ended: #{File.read(err)}" if Process.wait(rprof, Process::WNOHANG)
            sleep 0.1
          end
          neighbours = Array.new(NEIGHBOURS) { spawn("nice", "-n", "-20", "taskset", "-c", cpu, "/usr/bin/ruby", "-e", "loop {}") }
          program.say("go #{count}\n")
          yield program, rprof, file
        ensure
          [*neighbours, rprof].each { |pid| Process.kill(:KILL, pid) && Process.wait(pid) rescue nil }
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
  def commits?(program, rprof, file)
    go = said(program, "storm")
    Timeout.timeout(LIMIT) do
      sleep 0.1 until (alive = Process.wait(rprof, Process::WNOHANG).nil?) == false || newest(file).to_i > go
      alive
    end
  rescue Timeout::Error
    false
  end

  # The recorder's status; nil: it goes on and on.
  def status(rprof)
    Timeout.timeout(LIMIT) { Process.wait2(rprof)[1] }
  rescue Timeout::Error
    nil
  end

  def duration(report, way)
    storm(way, 0, "-d", "10s") do |program, rprof, file|
      report.ok(commits?(program, rprof, file), "in a storm of calls the recording is committed")
      ended = status(rprof)
      report.ok(ended&.success?, "it ends when its duration does", ended.inspect)
      next unless ended&.success?
      youngest = ask(file, "SELECT max(time_ns) - (SELECT value FROM meta WHERE key = 'start_ns') FROM sample")
      report.ok(youngest <= 10_000_000_000, "no sample is younger", "#{youngest / 1e9} s")
    end
  end

  def interrupt(report, way)
    storm(way, 0) do |program, rprof, file|
      commits?(program, rprof, file)
      Process.kill(:INT, rprof)
      ended = status(rprof)
      report.ok(ended&.success?, "^C ends it", ended.inspect)
    end
  end

  # What is not in the recording is counted as lost.
  def counts(report, way)
    storm(way, 400_000) do |program, rprof, file|
      made = said(program, "made")
      Process.kill(:INT, rprof)
      ended = status(rprof)
      next report.ok(false, "every call is recorded or counted as lost", ended.inspect) unless ended&.success?
      seen = ask(file, "SELECT count(*) FROM sample WHERE trigger = (SELECT id FROM trigger WHERE name = 'syscall:getppid')")
      lost = ask(file, "SELECT sum(count) FROM loss")
      report.ok(seen + lost == made, "every call is recorded or counted as lost", "#{seen} recorded, #{lost} lost, #{made} made")
    end
  end
end

require "open3"
Checks.define("overload", rubies: %w[3.1]) { |report, way| OverloadCheck.run(report, way) }
