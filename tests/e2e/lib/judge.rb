# The judge's side: what a program said of its own stack against what rprof saw.
require "json"

# The stack that must be seen at one place: what the program printed, merged into one list, root first.
class Expected
  # ruby: a Ruby or C-function frame by name; otherwise a native frame by pc
  Entry = Struct.new(:kind, :name, :path, :line, :first_line, :pc, :func, :lib, :exact_pc, :leaf, :enters_gc,
                     keyword_init: true) do
    def ruby?
      kind != "native"
    end

    def to_s
      return format("%-6s %s  %s:%d of %s", kind, name, path, line, first_line || "?") if ruby?
      format("native %s  pc %x %s", name || "?", pc, File.basename(lib.to_s))
    end
  end

  class Wrong < StandardError; end

  attr_reader :place, :tid, :entries, :loop_func, :loop_pcs, :ruby, :trigger

  def initialize(said, loop_func)
    @place = said["place"]
    @tid = said["tid"]
    @trigger = said["trigger"]
    @ruby = said["ruby"]
    @native = said["native"]
    @loop_func = loop_func
    merge
  end

  def leaf_name
    @entries.last.name
  end

  # The native frame that entered the collector, if it runs: the collector's frame stands directly outside of it.
  def gc_entry
    @entries.find(&:enters_gc)
  end

  private

  # Where the frames stand among each other: a Ruby frame where the loop (or the JIT's code) that runs it has its native frame,
  # a C function directly below the native frame that was called from where the interpreter calls such functions. The loop's
  # own native frames are left out: a stack may have them above or below their Ruby frames.
  def merge
    loops = activations
    @loop_pcs = @native.filter_map { |f| f["pc"] if runs_ruby?(f) }
    assign_loops(loops)
    sites = @native.each_index.select { |i| @native[i]["mark"] == "site" }
    sites |= jit_sites(loops.keys, sites)
    cfuncs = @ruby.count { |f| f["kind"] == "cfunc" }
    if sites.size != cfuncs
      raise Wrong, "place #{@place}: #{cfuncs} C functions, but #{sites.size} calls of such:\n#{explain}"
    end
    interleave(loops.keys, sites)
  end

  def runs_ruby?(frame)
    frame["func"] == @loop_func || frame["mark"] == "jit"
  end

  # {index => CFA of the caller}. The loop calls the JIT's code for a method, itself or by a function in between that does not
  # begin an activation: both are one, at the inner one's index.
  def activations
    entries = @native.each_cons(2).filter_map { |caller, f| caller["func"] if f["func"] == @loop_func }.uniq
    found = {}
    @native.each_with_index do |frame, i|
      next unless runs_ruby?(frame)
      outer = frame["mark"] == "jit" && [i - 1, i - 2].find { |k| @native[k]["func"] == @loop_func }
      outer = nil if outer == i - 2 && entries.include?(@native[i - 1]["func"])
      found[i] = outer && found.delete(outer) || @native[i - 1]["cfa"]
    end
    found
  end

  # The JIT's code calls C functions as well as helpers of the interpreter; one C function more than there are sites in an
  # activation is what tells.
  def jit_sites(loops, sites)
    current = nil
    cfuncs = Hash.new(0)
    @ruby.each { |f| f["kind"] == "ruby" ? current = f["at"] : cfuncs[current] += 1 }
    loops.each_with_index.filter_map do |at, i|
      upto = loops[i + 1] || @native.size
      at if @native[at]["mark"] == "jit" && cfuncs[at] == sites.count { |site| site.between?(at, upto - 1) } + 1
    end
  end

  def assign_loops(activations)
    by_cfa = activations.invert
    loops = activations.keys
    current = nil
    under = nil
    @ruby.each do |frame|
      if frame["kind"] == "ruby"
        known = frame["loop"] && by_cfa[frame["loop"]]
        # A frame that said nothing: a new activation when C called it, else its caller's.
        fresh = under.nil? || under["kind"] == "cfunc" || !loops.include?(current)
        current = known || (fresh ? loops.find { |i| current.nil? || i > current } : current)
        frame["at"] = current or raise Wrong, "place #{@place}: no activation left for #{frame['name']}:\n#{explain}"
      end
      under = frame
    end
    unused = loops - @ruby.map { |f| f["at"] }
    raise Wrong, "place #{@place}: activations without a Ruby frame: #{unused}:\n#{explain}" if unused.any?
  end

  def interleave(loops, sites)
    @entries = []
    ruby = @ruby.dup
    @native.each_with_index do |frame, i|
      # A frame whose caller is a call site of C methods starts a C function.
      take(ruby, i, "cfunc", 1) if i.positive? && sites.include?(i - 1)
      if loops.include?(i)
        take(ruby, i, "ruby", ruby.take_while { |f| f["kind"] == "ruby" && f["at"] == i }.size)
      elsif !runs_ruby?(frame)
        @entries << Entry.new(kind: "native", name: frame["name"], pc: frame["pc"], func: frame["func"], lib: frame["lib"],
                              exact_pc: frame["signal"], leaf: i == @native.size - 1, enters_gc: frame["mark"] == "gc")
      end
    end
    raise Wrong, "place #{@place}: frames left over: #{ruby.map { |f| f['name'] }}:\n#{explain}" if ruby.any?
  end

  def take(ruby, index, kind, count)
    count.times do
      f = ruby.shift
      if f.nil? || f["kind"] != kind
        raise Wrong, "place #{@place}: #{kind} wanted at native frame #{index}, found #{f && f['name']}:\n#{explain}"
      end
      next if f["under_rescue"]
      @entries << Entry.new(kind: kind, name: f["name"], path: f["path"], line: f["line"], first_line: f["first_line"])
    end
    return if kind == "cfunc" || count.positive?
    raise Wrong, "place #{@place}: no Ruby frame for the activation at native frame #{index}:\n#{explain}"
  end

  def explain
    ruby = @ruby.map { |f| "#   #{f['kind']} #{f['name']} #{f['path']}:#{f['line']} loop #{f['loop']}" }
    native = @native.each_with_index.map do |f, i|
      "#   #{i} #{f['name'] || format('%x', f['func'])} size #{f['size']} cfa #{f['cfa']} #{f['mark']}" \
        "#{f['func'] == @loop_func ? ' LOOP' : ''}"
    end
    (ruby + native).join("\n")
  end
end

# A stack line as a perfect recorder would export it, for the judge's own check.
module Perfect
  def self.stack(expected)
    frames = expected.entries.map do |e|
      next { "kind" => e.kind, "name" => e.name, "path" => e.path, "line" => e.line, "first_line" => e.first_line } if e.ruby?
      { "kind" => "native", "name" => e.name || "#{File.basename(e.lib)}+0x10", "address" => format("0x%x", e.pc), "library" => e.lib }
    end
    gc = expected.entries.index(&:enters_gc)
    frames.insert(gc, { "kind" => "gc", "name" => "(GC marking)" }) if gc
    expected.loop_pcs.each { |pc| frames.insert(1, { "kind" => "native", "name" => "vm_exec_core", "address" => format("0x%x", pc) }) }
    { "frames" => frames, "outcome" => "exact", "samples" => 1, "thread" => { "tid" => expected.tid } }
  end

  # Small wrongs, each of which must be noticed.
  def self.wrongs(stack)
    frames = stack["frames"]
    ruby = frames.each_index.select { |i| !%w[native gc].include?(frames[i]["kind"]) }
    gc = frames.index { |f| f["kind"] == "gc" }
    wrong = {}
    wrong["a collector's frame"] = frames[0..-2] + [{ "kind" => "gc" }] + frames[-1..] unless gc
    wrong["the collector's frame missing"] = frames.reject { |f| f["kind"] == "gc" } if gc
    wrong["the collector's frame one place out"] = swap(frames, gc - 1, gc) if gc
    wrong["the collector's frame one place in"] = swap(frames, gc, gc + 1) if gc
    i = ruby.rindex { |j| frames[j] != frames[j + 1] }
    i = ruby[i]
    wrong["a Ruby frame missing"] = frames.reject.with_index { |_, j| j == i }
    wrong["a Ruby frame one place up"] = swap(frames, i, i + 1) if i + 1 < frames.size
    wrong["a line off by one"] = change(frames, i, "line", frames[i]["line"].to_i + 1)
    known = ruby.rindex { |j| frames[j]["first_line"] }
    wrong["another first line"] = change(frames, ruby[known], "first_line", frames[ruby[known]]["first_line"] + 1) if known
    wrong["a C function with a first line"] = change(frames, i, "first_line", 1) if frames[i]["kind"] == "cfunc"
    wrong["another name"] = change(frames, i, "name", "#{frames[i]['name']}x")
    wrong["another file"] = change(frames, i, "path", "other.rb")
    wrong["a native frame missing"] = frames.drop(1)
    wrong["a native frame elsewhere"] = change(frames, 0, "address", "0x10")
    wrong["an invented native frame"] = [frames[0]] + frames
    wrong["a frame above the place"] = frames + [frames[0]]
    wrong.transform_values { |f| stack.merge("frames" => f) }.merge("a transient" => stack.merge("outcome" => "transient"))
  end

  def self.swap(frames, i, j)
    copy = frames.dup
    copy[i], copy[j] = copy[j], copy[i]
    copy
  end

  def self.change(frames, i, key, value)
    copy = frames.dup
    copy[i] = copy[i].merge(key => value)
    copy
  end
end

# A stack line of the export against an Expected.
class Comparison
  attr_reader :problem

  def initialize(expected, stack, outcome: "exact")
    @expected = expected
    @stack = stack
    @frames = normalise(stack["frames"])
    @problem = judge(outcome)
  end

  def same?
    @problem.nil?
  end

  # Not burning yet: the place still prints its truth.
  def helping?
    first = @above.find { |f| !f["inlined"] && f["kind"] != "gc" }
    !first.nil? && first["kind"] == "native" && HELPERS.include?(first["name"])
  end

  # How many frames agree before the first that differs.
  def equal_frames
    @at || @frames.size
  end

  # Both lists side by side, from the first difference's neighbourhood on.
  def diff
    lines = ["#{@stack['samples']} samples, outcome #{@stack['outcome']} #{@stack['reason']}: #{@problem}"]
    from = [(@at || @frames.size) - 3, 0].max
    upto = [[@expected.entries.size, @frames.size].max, from + 10].min
    lines << "  above the place: #{@above.map { |f| f['name'] }.join(' > ')}" if @above.any?
    lines << "  ... #{from} equal frames" if from.positive?
    (from...upto).each do |i|
      want = @expected.entries[i]
      got = @frames[i]
      lines << format("%s expected %-60s | got %s", i == @at ? "=>" : "  ", want&.to_s || "(nothing)", got ? show(got) : "(nothing)")
    end
    lines
  end

  private

  def show(f)
    return format("%-6s %s  %s:%s of %s", f["kind"], f["name"], f["path"], f["line"], f["first_line"] || "?") if %w[ruby jit cfunc].include?(f["kind"])
    format("%-6s %s  addr %x %s", f["kind"], f["name"], Comparison.addr(f).to_i, File.basename(f["library"].to_s))
  end

  # What is not part of the comparison goes: inlined functions, the loop's own frames, a collector's frame, and
  # what stands above the place: see above?.
  def normalise(frames)
    @loops = 0
    @loop_names = []
    leaf = frames.rindex { |f| f["kind"] == "native" && f["name"] == @expected.leaf_name }
    @above = leaf ? frames[(leaf + 1)..] : []
    (leaf ? frames[0..leaf] : frames).reject do |f|
      is_loop = f["kind"] == "native" && !f["inlined"] && @expected.loop_pcs.any? { |pc| pc_is?(f, pc) }
      @loops += 1 if is_loop
      @loop_names |= [f["name"]] if is_loop && f["role"] != "jit"
      is_loop || f["inlined"] || f["kind"] == "gc"
    end
  end

  # What a place calls: the leaf function where it burns; while it prints its truth, anything under its helpers.
  HELPERS = %w[capture describe place_print natives_free free munmap].freeze

  def above?
    helping? || @above.all? { |f| allowed_above?(f) }
  end

  # An address may be the one returned to or the one of the call.
  def pc_is?(frame, pc)
    addr = Comparison.addr(frame)
    addr == pc || addr == pc - 1
  end

  def self.addr(frame)
    a = frame["address"]
    a && Integer(a)
  end

  def judge(outcome)
    @at = @expected.entries.each_index.find { |i| !match?(@expected.entries[i], @frames[i]) }
    return "frame #{@at} differs" if @at
    if @frames.size != @expected.entries.size
      @at = @expected.entries.size
      return "#{@frames.size - @at} frames too many"
    end
    return "#{@loops} frames of the interpreter's loop, #{@expected.loop_pcs.size} expected" if @loops != @expected.loop_pcs.size
    unnamed = @loop_names - ["vm_exec_core"]
    misplaced = gc_problem
    return misplaced if misplaced && !helping?
    return "the interpreter's loop is called #{unnamed.join(' ')}" if unnamed.any?
    return "above the place: #{@above.map { |f| f['name'] }}" unless above?
    # Above the place other code may have been caught pushing a frame.
    return nil if helping?
    return "outcome #{@stack['outcome']} #{@stack['reason']} instead of #{outcome}" if @stack["outcome"] != outcome
    nil
  end

  # Where the collector runs one frame of kind gc stands directly outside of the function that entered it; elsewhere none.
  def gc_problem
    frames = @stack["frames"]
    at = frames.each_index.select { |i| frames[i]["kind"] == "gc" }
    want = @expected.gc_entry
    return at.any? ? "a gc frame where nothing is collected" : nil unless want
    return "#{at.size} gc frames, 1 expected" if at.size != 1
    inside = frames[at[0] + 1]
    return nil if inside && inside["kind"] == "native" && pc_is?(inside, want.pc)
    is = frames.index { |f| f["kind"] == "native" && pc_is?(f, want.pc) }
    "the gc frame stands #{is - at[0]} frames outside of #{show(frames[is])}"
  end

  def allowed_above?(frame)
    frame["kind"] == "kernel" || frame["name"] == "truth_leaf"
  end

  def match?(want, got)
    return false unless got
    if want.ruby?
      kinds = want.kind == "ruby" ? %w[ruby jit] : ["cfunc"]
      return kinds.include?(got["kind"]) && got["name"] == want.name && got["path"] == want.path && got["line"].to_i == want.line.to_i &&
             first_line?(want, got)
    end
    return false unless got["kind"] == "native"
    return got["name"] == want.name if want.leaf
    return false if want.exact_pc ? Comparison.addr(got) != want.pc : !pc_is?(got, want.pc)
    names?(want, got)
  end

  # Not every program knows it of every function; a C function has none.
  def first_line?(want, got)
    return got["first_line"].nil? if want.kind == "cfunc"
    want.first_line.nil? || got["first_line"] == want.first_line
  end

  # A function of the interpreter that has no symbol: by its own start, or by the role that it is known to have.
  UNNAMED = /\+0x\h+\z|\A(?:rb_)?vm_\w+\z/.freeze

  # Names are compared where the symbol is ours: elsewhere a function may have several, or a debug file.
  def names?(want, got)
    start = got["function_address"]
    return false if start && Integer(start) != want.func
    return got["name"] == want.name if own?(want) && want.name
    return got["name"].to_s.match?(UNNAMED) if want.name.nil? && File.basename(want.lib.to_s).start_with?("libruby") && stripped?(want.lib)
    true
  end

  # A Ruby that was built by hand has the names of static functions, which dladdr() does not know.
  def stripped?(lib)
    @@stripped ||= {}
    @@stripped.fetch(lib) { @@stripped[lib] = !File.exist?(lib) || !IO.popen(["readelf", "-SW", lib], &:read).include?(" .symtab ") }
  end

  def own?(want)
    File.basename(want.lib.to_s).start_with?("truth")
  end
end
