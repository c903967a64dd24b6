# Puma with Sinatra under load: the stacks of all workers reach the start of their thread.
module PumaCheck
  module_function

  def run(report, way)
    return report.skip("workers reach the thread's start", "puma is not installed") unless File.exist?("/usr/bin/puma")
    Dir.mktmpdir("puma") do |dir|
      socket = File.join(dir, "socket")
      log = File.join(dir, "log")
      puma = spawn(*way.command, "/usr/bin/puma", "-b", "unix://#{socket}", "-t", "4:4", "-w", "0", "-e", "production", "--no-config", "--dir", dir, "-q",
                   way.path("programs/app.ru"), out: log, err: log, in: "/dev/null")
      begin
        connect(socket, puma, log)
        client = spawn(*way.command, way.path("programs/client.rb"), socket, out: log, err: log)
        judge(report, Recorder.record(puma, rate: 997, cpu: 5))
      ensure
        [client, puma].compact.each { |pid| Process.kill(:KILL, pid) && Process.wait(pid) }
      end
    end
  end

  def connect(socket, pid, log)
    Timeout.timeout(Recorder::HANGS) do
      begin
        UNIXSocket.new(socket).close
      rescue SystemCallError
        raise Program::Failed, File.read(log) if Process.wait(pid, Process::WNOHANG)
        sleep 0.05
        retry
      end
    end
  end

  def judge(report, recording)
    workers = recording.stacks.select { |s| s["thread"].values_at("comm", "name").compact.any? { |n| n.include?("puma") && n.match?(/tp|threadpool/) } }
    total = FreeCheck.sum(workers)
    report.ok(total >= 500, "the workers are sampled", "#{total} samples of workers; threads #{recording.stacks.map { |s| s['thread'] }.uniq}")
    cut = workers.reject { |s| FreeCheck::ROOTS.include?(Recording.native_frames(s).first&.fetch("name")) || s["reason"] == "no-cfi" }
    report.ok(cut.empty?, "every worker's stack reaches the thread's start", cut.first(4).map { |s| FreeCheck.describe_native(s) })
    rootless = workers.reject { |s| Recording.ruby_frames(s).first&.fetch("name").to_s.start_with?("block in Puma::ThreadPool") }
    report.ok(rootless.empty?, "every worker's Ruby stack begins with the thread's block", rootless.first(4).map { |s| FreeCheck.describe(s) })
    app = workers.select { |s| Recording.ruby_frames(s).any? { |f| f["name"] =~ /App|Sinatra::Base/ } }
    report.ok(FreeCheck.sum(app) * 2 > total, "the application is on the workers' stacks", "#{FreeCheck.sum(app)} of #{total}")
    FreeCheck.transient(report, "puma", workers)
    report.ok(recording.lost.zero?, "no sample is lost", recording.lost.to_s)
  end
end

require "socket"
Checks.define("puma", rubies: [Rubies::FIRST]) { |report, way| PumaCheck.run(report, way) }
