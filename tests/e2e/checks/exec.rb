# A program that execs other programs while it is recorded: what is sampled afterwards is named by the new image, and collections that
# run at that moment do no harm.
module ExecCheck
  ENOUGH = 500 # samples

  module_function

  # What the program is after its last exec.
  def after(stacks)
    stacks.select { |s| Recording.ruby_frames(s).any? { |f| f["name"] == "Object#after_exec" } }
  end

  def run(report, way)
    program = IO.popen([way.env, *way.command, way.path("programs/exec.rb"), "2", "first"])
    program.gets
    judge(report, Recorder.record(program.pid, rate: 997) { |file| FreeCheck.sum(after(Recorder.stacks_so_far(file))) > ENOUGH })
  ensure
    Process.kill(:KILL, program.pid)
    program.close
  end

  def judge(report, recording)
    after = after(recording.stacks)
    report.ok(FreeCheck.sum(after) > ENOUGH, "the program after three execs is sampled by its own names", "#{FreeCheck.sum(after)} samples")
    # It does little else than push and pop frames.
    inexact = after.reject { |s| s["outcome"] == "exact" || %w[pushing popping].include?(s["reason"]) }
    report.ok(FreeCheck.sum(inexact) * 50 <= FreeCheck.sum(after), "its stacks are whole", inexact.first(3).map { |s| FreeCheck.describe(s) })
    mixed = recording.stacks.select { |s| %w[before_exec after_exec].all? { |n| Recording.ruby_frames(s).any? { |f| f["name"].include?(n) } } }
    report.ok(mixed.empty?, "no stack holds frames of two programs", mixed.first(3).map { |s| FreeCheck.describe(s) })
  end
end

Checks.define("exec", rubies: [Rubies::FIRST]) { |report, way| ExecCheck.run(report, way) }
