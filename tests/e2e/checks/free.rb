# Free-running programs: every Ruby stack seen is one that the program can have, the roots are reached, and almost nothing
# is transient.
module FreeCheck
  PROGRAMS = %w[mixed deep threads].freeze
  RATE = 1997
  WANTED = 7000 # samples of each program
  ROOTS = %w[_start clone3 __clone3 clone __clone start_thread].freeze

  module_function

  def run(report, way)
    all = []
    PROGRAMS.each do |name|
      Program.run(way, "programs/free_#{name}.rb") do |program|
        facts = program.wait_ready
        stacks = collect(report, name, program)
        program.stop
        judge(report, name, facts, stacks)
        all.concat(stacks)
      end
    end
    totals(report, all)
  end

  # Until there are enough samples, however slow the machine is.
  def collect(report, name, program)
    stacks = []
    12.times do
      recording = Recorder.record(program.pid, rate: RATE, cpu: 4)
      report.ok(recording.lost.zero?, "#{name}: no sample is lost", "#{recording.lost}")
      stacks.concat(recording.stacks)
      break if sum(stacks) >= WANTED
    end
    stacks
  end

  def sum(stacks)
    stacks.sum { |s| s["samples"] }
  end

  def judge(report, name, facts, stacks)
    known = Known.new(facts)
    ruby = stacks.reject { |s| s["outcome"] == "no-context" }
    impossible = ruby.reject { |s| known.possible?(Recording.ruby_frames(s)) }
    report.ok(impossible.empty?, "#{name}: every Ruby stack is one that the program can have",
              ["#{sum(impossible)} of #{sum(stacks)} samples, #{impossible.size} stacks are not"] +
              impossible.sort_by { |s| -s["samples"] }.first(8).map { |s| describe(s) })
    # A new fiber's stack that is cut is empty: there is no telling it from another's.
    rootless = ruby.reject do |s|
      known.root?(Recording.ruby_frames(s)) || new_fiber?(s, facts) || s["reason"] == "fiber-switch" ||
        s["reason"] == "no-cfi" && Recording.ruby_frames(s).empty? || exiting?(s)
    end
    report.ok(rootless.empty?, "#{name}: every Ruby stack reaches its root", rootless.first(3).flat_map { |s| [describe(s), describe_native(s)] })
    cut = stacks.reject { |s| native_root?(s, facts) || s["reason"] == "no-cfi" }
    share = sum(cut).fdiv(sum(stacks))
    report.ok(share <= 0.001, "#{name}: the native root is reached in 99.9 %",
              ["#{sum(cut)} of #{sum(stacks)} are cut"] + cut.sort_by { |s| -s["samples"] }.first(6).map { |s| describe_native(s) })
    transient(report, name, stacks)
  end

  def transient(report, name, stacks)
    odd = stacks.select { |s| s["outcome"] == "transient" }
    reasons = odd.group_by { |s| s["reason"] }.transform_values { |l| sum(l) }
    late, odd = odd.partition { |s| s["reason"] == "late-name" }
    share = sum(odd).fdiv(sum(stacks))
    report.ok(share <= 0.02, "#{name}: at most 2 % are transient", "#{(share * 100).round(2)} %: #{reasons}")
    report.ok(late.empty?, "#{name}: every name comes with its sample", late.first(3).map { |s| describe(s) })
  end

  def totals(report, all)
    report.ok(sum(all) >= 20_000, "20 000 samples were judged", "#{sum(all)} samples")
  end

  def native_root?(stack, facts)
    native = Recording.native_frames(stack)
    return true if native.empty? && stack["outcome"] == "no-context"
    first = native.first or return false
    facts["roots"].any? { |_, (start, size)| Comparison.addr(first).between?(start, start + size) }
  end

  # A fiber before its first frame, or behind its last.
  def new_fiber?(stack, facts)
    start, size = facts["roots"]["fiber"]
    first = Recording.native_frames(stack).first
    Recording.ruby_frames(stack).empty? && first && Comparison.addr(first).between?(start, start + size)
  end

  # A thread that has given up its memory, in exit_mm(), has no stack that could be read.
  def exiting?(stack)
    stack["reason"] == "exiting" && stack["frames"].any? { |f| f["kind"] == "kernel" && f["name"] == "do_exit" }
  end

  def describe(stack)
    "#{stack['samples']} #{stack['outcome']} #{stack['reason']}: " +
      Recording.ruby_frames(stack).map { |f| "#{f['name']}#{"(#{f['kind']})" if f["kind"] != "ruby"}:#{f['line']}" }.join(" > ")
  end

  def describe_native(stack)
    native = Recording.native_frames(stack)
    "#{stack['samples']} #{stack['outcome']} #{stack['reason']}: #{native.first(3).map { |f| f['name'] }.join(' > ')} ... " +
      native.last(4).map { |f| f["name"] }.join(" > ")
  end

  # The stacks that the program had while it was traced. The traced stacks are all of a pass, so a stack is possible when it
  # is one of them or begins one of them.
  class Known
    def initialize(facts)
      frames = facts["frames"]
      @tree = {}
      facts["stacks"].each { |row| add(row.map { |i| frames[i] }) }
      @roots = @tree.keys.map(&:first).uniq
    end

    # frames: of a sample. A caller must have been at a line from which it called the next; the innermost frame may
    # be at any line.
    def possible?(frames)
      frames = frames[0..-2] if frames.any? && frames.last["kind"] == "cfunc" && HIDDEN.include?(frames.last["name"])
      nodes = [@tree]
      frames.each_with_index do |frame, i|
        last = i == frames.size - 1
        nodes = nodes.flat_map do |node|
          node.select { |(name, line), _| name == frame["name"] && (last || line.to_i == frame["line"].to_i) }.values
        end
        return i >= frames.size - 2 && outside_work?(frames) if nodes.empty?
      end
      true
    end

    def root?(frames)
      frames.any? && (@roots.include?(frames.first["name"]) || frames.first["name"] == "<main>")
    end

    # Methods of the interpreter's hidden object (RubyVM::FrozenCore), through which C makes procs. TracePoint doesn't
    # show them; caller_locations does.
    HIDDEN = %w[proc lambda].freeze

    private

    def add(stack)
      stack.inject(@tree) { |node, frame| node[frame] ||= {} }
    end

    # What Free.run itself calls around the work isn't traced.
    def outside_work?(frames)
      frames.size <= 3 && frames[0]["name"] == "<main>" && (frames.size < 2 || frames[1]["name"] == "Free.run")
    end
  end
end

Checks.define("free") { |report, way| FreeCheck.run(report, way) }
