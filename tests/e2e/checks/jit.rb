# A compiled method that calls nothing is a frame, also while its pc is not written; its line is one of its own, or unknown.
module JitCheck
  PATHS = [
    %w[<main> Jit.run Jit.behind_c Jit.leaf],
    %w[<main> Jit.run Jit.behind_method Jit.leaf],
    ["<main>", "Jit.run", "Jit.in_block", "Array#each", "block in Jit.in_block", "Jit.behind_c", "Jit.leaf"]
  ].freeze
  # Where a method calls the next one of PATHS.
  CALLS = { "<main>" => %w[Jit.run], "Jit.run" => %w[behind_c behind_method in_block], "Jit.behind_c" => %w[leaf],
            "Jit.behind_method" => %w[leaf], "Jit.in_block" => %w[each], "Array#each" => %w[each],
            "block in Jit.in_block" => %w[behind_c] }.freeze
  # What a pass does beside it, for an instant.
  BESIDE = %w[Jit.other Symbol#to_s Kernel#frozen? Process.pid String#frozen? Symbol#frozen?].freeze

  module_function

  def run(report, way)
    Program.run(way, "programs/jit.rb") do |program|
      program.wait_ready
      recording = Recorder.record(program.pid, cpu: 4)
      program.stop
      stacks = recording.stacks.map { |s| [s, Recording.ruby_frames(s)] }
      paths(report, stacks)
      lines(report, stacks)
    end
  end

  def paths(report, stacks)
    seen = Hash.new(0)
    other = Hash.new(0)
    stacks.each { |s, frames| (PATHS.include?(names(frames)) ? seen : other)[names(frames)] += s["samples"] }
    PATHS.each { |path| report.ok(seen[path] >= 20, "the leaf of #{path[-2]} below #{path[-3]} is seen", "#{seen[path]} samples, others: #{other}") }
    impossible = other.keys.reject { |path| part?(path) }
    report.ok(impossible.empty?, "every other stack is one on the way to a leaf", impossible.map { |p| "#{other[p]} #{p.join(' > ')}" })
    # A pass spends all but instants in the leaves.
    report.ok(other.values.sum <= seen.values.sum / 10, "samples in the leaf are not its caller's", other.map { |p, n| "#{n} #{p.join(' > ')}" })
    jit = stacks.sum { |s, frames| frames.last && frames.last["kind"] == "jit" && names(frames).last == "Jit.leaf" ? s["samples"] : 0 }
    report.ok(jit >= seen.values.sum * 9 / 10, "the leaf is told to be code of the JIT", "#{jit} of #{seen.values.sum}")
  end

  def part?(path)
    path = path[0..-2] if BESIDE.include?(path.last)
    path = path[0..-2] if BESIDE.include?(path.last)
    PATHS.any? { |whole| whole.take(path.size) == path }
  end

  def lines(report, stacks)
    source = File.readlines(File.join(Rubies::E2E, "programs/jit.rb"))
    wrong = stacks.flat_map do |s, frames|
      frames.each_cons(2).filter_map do |caller, callee|
        wanted = CALLS[caller["name"]] or next
        line = caller["line"] && source[caller["line"] - 1]
        next if BESIDE.include?(callee["name"]) || wanted.any? { |w| line.to_s.include?(w) } || caller["kind"] == "cfunc"
        "#{s['samples']} #{caller['name']} at #{caller['line'].inspect} calls #{callee['name']}"
      end
    end
    report.ok(wrong.empty?, "the line of a caller is that of its call", wrong.first(5))
    first = source.index { |l| l.include?("def leaf") } + 1
    leaves = stacks.filter_map { |s, frames| frames.last && frames.last["name"] == "Jit.leaf" ? [s, frames.last] : nil }
    # At its first line stands no code: a line that is known is one of the others.
    bad = leaves.reject { |_, f| f["line"].nil? || f["line"].between?(first + 1, first + 4) }
    report.ok(bad.empty?, "a leaf's line is one of its own or unknown", bad.map { |s, f| "#{s['samples']} at #{f['line']}" }.first(5))
    sure = leaves.reject { |_, f| f["approximate"] || f["kind"] != "jit" }
    report.ok(sure.empty?, "a leaf's line is not said to be exact", sure.map { |s, f| "#{s['samples']} at #{f['line']}" }.first(5))
  end

  def names(frames)
    frames.map { |f| f["name"] }
  end
end

Checks.define("jit", rubies: Rubies.ways.keys.grep(/-yjit\z|\Aown\z/)) { |report, way| JitCheck.run(report, way) }
