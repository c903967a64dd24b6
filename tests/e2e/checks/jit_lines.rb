# Code of a JIT does not note each line: where its frame is the innermost, the stack says that its line is not exact.
module JitLinesCheck
  module_function

  def run(report, way)
    plain = way.dup.tap { |w| w.command = way.command + ["--disable-yjit"] }
    jit = way.dup.tap { |w| w.command = way.command + ["--yjit"] }
    interpreted(report, record(plain))
    return report.skip("the line of compiled code", "this Ruby has no YJIT") unless system(*jit.command, "-e", "exit RubyVM::YJIT.enabled?", err: "/dev/null")
    compiled(report, record(jit))
  end

  # [stack, innermost Ruby frame] where one of the two methods runs.
  def record(way)
    Program.run(way, "programs/jit_lines.rb") do |program|
      program.wait_ready
      stacks = [2, 6, 18].each do |cpu|
        found = Recorder.record(program.pid, rate: 997, cpu: cpu).stacks.map { |s| [s, Recording.ruby_frames(s).last] }
        found.select! { |_, leaf| leaf && %w[Object#spin Array#sort].include?(leaf["name"]) }
        break found if found.sum { |s, _| s["samples"] } >= 500 || cpu == 18
      end
      return stacks.partition { |_, leaf| leaf["name"] == "Object#spin" }
    end
  end

  def sum(list)
    list.sum { |s, _| s["samples"] }
  end

  def show(list)
    list.first(3).map { |s, leaf| "#{s['samples']} #{s['outcome']} #{s['reason']} #{leaf.slice('kind', 'name', 'line', 'approximate')}" }
  end

  def line?((stack, _))
    stack["reason"] == "line"
  end

  def interpreted(report, (spin, sort))
    report.ok(sum(spin) >= 100 && sum(sort) >= 50, "both methods are sampled", "#{sum(spin)} and #{sum(sort)} samples")
    marked = (spin + sort).select { |found| line?(found) }
    report.ok(marked.empty?, "without a JIT no line is inexact", show(marked))
  end

  def compiled(report, (spin, sort))
    jit = spin.select { |_, leaf| leaf["kind"] == "jit" }
    report.ok(sum(jit) >= 100 && sum(sort) >= 50, "code of the JIT is sampled", "#{sum(jit)} and #{sum(sort)} samples")
    exact = jit.select { |s, _| s["outcome"] == "exact" }
    report.ok(exact.empty?, "no stack is exact whose innermost frame is compiled", show(exact))
    marked = jit.select { |found| line?(found) }
    wrong = marked.reject { |s, leaf| s["outcome"] == "transient" && (leaf["approximate"] || leaf["line"].nil?) }
    report.ok(sum(marked) * 10 >= sum(jit) * 9 && wrong.empty?, "it is transient for its line", show(jit - marked + wrong))
    above = sort.select { |found| line?(found) }
    report.ok(above.empty?, "the line of a caller is exact", show(above))
  end
end

Checks.define("jit-lines", rubies: [Rubies::FIRST]) { |report, way| JitLinesCheck.run(report, way) }
