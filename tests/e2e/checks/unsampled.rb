# A recording without a sample of a process that used CPU time is an error; one of an idle process is not. The build with checks can be
# told to find no process, which stands for whatever may hide one.
module UnsampledCheck
  BLIND = { "RPROF_PLANT" => "7" }.freeze # enum planted in bpf/maps.bpf.h
  BLINDED = File.join(Rubies::BUILD, "check/rprof")

  module_function

  def run(report, way)
    Dir.mktmpdir("unsampled") do |dir|
      file = File.join(dir, "x.rprof")
      idle(report, way, file)
      return report.skip("a process without samples", "make CHECK=1 has not been run") unless File.executable?(BLINDED)
      busy(report, way, file)
      both(report, way, file)
      exiting(report, way, file)
    end
  end

  def record(rprof, env, file, *args)
    out, err, status = Open3.capture3(env, rprof, "record", "-F", "997", "-o", file, *args)
    Recorder::Result.new(status, out, err)
  end

  def sleeper(way)
    IO.popen([way.env, *way.command, "-e", "$stdout.sync = true; puts 1; sleep"]) do |io|
      io.gets
      begin
        yield io.pid
      ensure
        Process.kill(:KILL, io.pid)
      end
    end
  end

  def idle(report, way, file)
    sleeper(way) do |pid|
      result = record(Recorder::RPROF, {}, file, "-p", pid.to_s, "-d", "1s")
      report.ok(result.status.success? && result.err.include?("was the process idle?"), "no sample of an idle process is no error", "#{result.status} #{result.err}")
    end
  end

  # Status, one sentence that names the process, and the recording is kept.
  def told(report, what, result, pid, file)
    report.ok(result.status.exitstatus == 12, "#{what}: status 12", "#{result.status} #{result.err}")
    sentence = result.err.lines.grep(/\Arprof: there is no sample/)
    report.ok(sentence.size == 1 && sentence[0].include?("process #{pid}, which used"), "#{what}: a sentence", result.err)
    report.ok(!result.err.include?("was the process idle?"), "#{what}: no other guess", result.err)
    report.ok(File.binread(file, 15) == "SQLite format 3", "#{what}: the recording is kept")
  end

  def busy(report, way, file)
    Program.run(way, "programs/idle.rb") do |program|
      program.wait_ready
      told(report, "no sample of a busy process", record(BLINDED, BLIND, file, "-p", program.pid.to_s, "-d", "1s"), program.pid, file)
      quiet = record(BLINDED, BLIND, file, "-p", program.pid.to_s, "-d", "1s", "-q", "--json")
      report.ok(quiet.status.exitstatus == 12 && JSON.parse(quiet.out)["samples"].zero?, "and as JSON", "#{quiet.status} #{quiet.out} #{quiet.err}")
      result = record(BLINDED, {}, file, "-p", program.pid.to_s, "-d", "1s")
      report.ok(result.status.success?, "with samples it is none", "#{result.status} #{result.err}")
    end
  end

  # Each process counts by itself.
  def both(report, way, file)
    Program.run(way, "programs/idle.rb") do |program|
      program.wait_ready
      sleeper(way) do |pid|
        told(report, "no sample of one of two", record(BLINDED, BLIND, file, "-p", "#{pid},#{program.pid}", "-d", "1s"), program.pid, file)
        result = record(Recorder::RPROF, {}, file, "-p", "#{pid},#{program.pid}", "-d", "1s")
        report.ok(result.status.success?, "an idle one beside a busy one is no error", "#{result.status} #{result.err}")
      end
    end
  end

  def exiting(report, way, file)
    Program.run(way, "programs/idle.rb", "3") do |program|
      program.wait_ready
      result = record(BLINDED, BLIND, file, "-p", program.pid.to_s, "-d", "60s")
      told(report, "no sample of a process that exits", result, program.pid, file)
      Process.wait(program.pid)
      program.gone!
    end
  end
end

require "open3"
Checks.define("unsampled", rubies: [Rubies::FIRST]) { |report, way| UnsampledCheck.run(report, way) }
