# Where a handler ends, on a stack of its own, the thread is behind the last instruction of a function: the program stands below.
module SignalsCheck
  RUBY = ["<main>", "Case.run", "block in <main>", "Object#signalled", "Array#each", "block in Object#signalled", "Truth.signal"].freeze

  module_function

  def run(report, way)
    Program.run(way, "programs/signals.rb") do |program|
      program.wait_ready
      recording = Recorder.record(program.pid, cpu: 1, options: ["--syscall", "rt_sigreturn"])
      cpu = Recorder.record(program.pid, cpu: 3, rate: 4999)
      program.stop
      stacks = recording.stacks("syscall:rt_sigreturn")
      report.ok(FreeCheck.sum(stacks) >= 10, "ends of handlers are seen", FreeCheck.sum(stacks).to_s)
      wrong = stacks.reject { |s| whole?(s) }
      report.ok(wrong.empty?, "the end of each handler has the whole stack below", wrong.first(3).map { |s| FreeCheck.describe(s) + FreeCheck.describe_native(s) })
      # No fiber is switched in this program.
      fibers = cpu.stacks.select { |s| s["reason"] == "fiber-switch" }
      report.ok(fibers.empty?, "a handler is not taken for a switch of fibers", fibers.first(3).map { |s| FreeCheck.describe(s) })
    end
  end

  def whole?(stack)
    native = Recording.native_frames(stack).map { |f| f["name"] }
    stack["outcome"] == "exact" && Recording.ruby_frames(stack).map { |f| f["name"] } == RUBY && native.first == "_start" && native.include?("truth_signal")
  end
end

Checks.define("signals") { |report, way| SignalsCheck.run(report, way) }
