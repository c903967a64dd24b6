# Evaluated code has its method's name, and its memory is soon that of other code: the name is that of the method that
# evaluated it, or none.
Checks.define("evaluate") do |report, way|
  Program.run(way, "programs/evaluate.rb") do |program|
    program.wait_ready
    recording = Recorder.record(program.pid, rate: 4999, cpu: 4)
    program.stop
    named = Hash.new(0)
    wrong = Hash.new(0)
    recording.stacks.each do |stack|
      names = Recording.ruby_frames(stack).map { |f| f["name"] }
      at = names.index("Kernel#eval") or next
      next unless [names[at - 1], names[at + 1]].all? { |name| name =~ /\A(Object#)?(left|right)\z/ }
      named[names[at - 1]] += stack["samples"]
      wrong[names.join(" > ")] += stack["samples"] if names[at - 1].delete_prefix("Object#") != names[at + 1].delete_prefix("Object#")
    end
    report.ok(named.size == 2 && named.values.min >= 100, "both are seen", named.to_s)
    report.ok(wrong.empty?, "evaluated code is never named after another method", wrong.map { |names, count| "#{count} #{names}" }.first(5))
    others = recording.stacks.sum { |s| s["outcome"] == "truncated" ? s["samples"] : 0 }
    report.ok(others.zero?, "no stack is cut", others.to_s)
  end
end
