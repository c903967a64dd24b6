# A process that ends while it is recorded: what is sampled behind the end of its memory says so.
module ExitingCheck
  module_function

  def run(report, way)
    Dir.mktmpdir("exiting") do |dir|
      file = File.join(dir, "exiting.rprof")
      Program.run(way, "programs/exiting.rb") do |program|
        program.wait_ready
        rprof = spawn(Recorder::RPROF, "record", "-p", program.pid.to_s, "-F", "4999", "-o", file, out: "/dev/null", err: "/dev/null")
        Timeout.timeout(Recorder::HANGS) { sleep 0.05 until sampled?(file) }
        program.say(".")
        Process.wait(program.pid)
        program.gone!
        Timeout.timeout(Recorder::HANGS) { Process.wait(rprof) }
      end
      judge(report, Recording.new(Recorder.lines(file)))
    end
  end

  # Not a wait for time to pass: until the recording holds samples.
  def sampled?(file)
    return false unless File.exist?(file)
    result = Recorder.rprof("export", file, "-f", "jsonl")
    result.status&.success? && result.out.include?("\"type\":\"stack\"")
  end

  def judge(report, recording)
    ending = recording.stacks.select { |s| s["frames"].any? { |f| f["kind"] == "kernel" && f["name"] == "exit_mmap" } }
    report.ok(ending.any?, "the end of the memory is seen", "#{recording.stacks.size} stacks")
    wrong = ending.reject { |s| s["outcome"] == "truncated" && s["reason"] == "exiting" }
    report.ok(wrong.empty?, "a stack whose memory is gone is marked exiting", wrong.first(3).map { |s| FreeCheck.describe(s) })
    other = recording.stacks.select { |s| s["reason"] == "unreadable" }
    report.ok(other.empty?, "no other stack is unreadable", other.first(3).map { |s| FreeCheck.describe(s) })
    lying = (recording.stacks - ending).select { |s| s["reason"] == "exiting" && s["frames"].none? { |f| f["kind"] == "kernel" && f["name"] == "do_exit" } }
    report.ok(lying.empty?, "no thread that goes on is marked exiting", lying.first(3).map { |s| FreeCheck.describe(s) })
  end
end

Checks.define("exiting", rubies: [Rubies::FIRST]) { |report, way| ExitingCheck.run(report, way) }
