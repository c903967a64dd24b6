# Holds the samples of one recording against what the program says of its stacks and its log of who ran when.
require_relative "../../e2e/lib/program"
require_relative "stack"

module Names
  # The stacks that the program had while it was traced (lib/known.rb), as a tree. A sample's stack is possible when it begins
  # one of them: each caller at a line from which it called the next, the innermost frame at any line of its own.
  class Tree
    # Methods of the interpreter's hidden object (RubyVM::FrozenCore), which TracePoint does not show.
    HIDDEN = /\A(?:proc|lambda|core#\w+)\z/

    def initialize(ready)
      @root = {}
      @places = ready["places"].map { |name, path, line| Place.new(name, path, line) }
      @rows = ready["stacks"].map { |row| row.map { |i| @places[i] } }
      @rows.each { |row| row.inject(@root) { |node, place| node[key(place)] ||= {} } }
      @known = {}
    end

    attr_reader :rows

    # places: of the work alone; kinds: of each frame.
    def possible?(places, kinds)
      memo = [places, kinds]
      @known.fetch(memo) { @known[memo] = search(places, kinds) }
    end

    # Does some stack have these frames next to each other? wanted: "name" or "name:line".
    def shows?(wanted)
      @rows.any? do |row|
        row.each_cons(wanted.size).any? do |part|
          part.zip(wanted).all? { |place, name| name =~ /\A(.*[^:]):(\d+)\z/ ? [place.name, place.line] == [$1, $2.to_i] : place.name == name }
        end
      end
    end

    private

    def key(place) = [place.name, place.path, place.line]

    def search(places, kinds)
      if places.any? && kinds.last == "cfunc" && HIDDEN.match?(places.last.name)
        places = places[0..-2]
        kinds = kinds[0..-2]
      end
      node = @root
      places[0..-2].each { |place| node = node[key(place)] or return false } if places.any?
      leaf = places.last or return true
      return false if leaf.defined? && !leaf.line.between?(0, LINES - 1)
      # A C function has the line of the frame that it was called from.
      return node.key?(key(leaf)) if kinds.last == "cfunc"
      node.each_key.any? { |name, path, _| name == leaf.name && path == leaf.path }
    end
  end

  # From the program's log: when each definition was in use, and from when to when the program did nothing but its work.
  class Spans
    RECORD = 16

    def initialize(file)
      @spans = Hash.new { |spans, n| spans[n] = [] }
      @working = []
      numbers_and_times(file).each do |n, time|
        if n == WORKING then @working << [time, nil]
        elsif n == LEAVING then @working.last[1] = time
        elsif n.positive? then @spans[n] << [time, nil]
        else @spans[-n].last[1] = time
        end
      end
    end

    def images = @working.size

    def size = @spans.size

    # An end that is not there: the program was killed in it.
    def running?(n, time)
      @spans.key?(n) && @spans[n].any? { |from, to| from <= time && (to.nil? || time <= to) }
    end

    def worked?(time) = @working.any? { |from, to| from <= time && (to.nil? || time < to) }

    # Since the program was exec'ed for the last time.
    def worked_last?(time) = @working.last.first <= time

    private

    def numbers_and_times(file)
      bytes = File.binread(file)
      bytes.byteslice(0, bytes.bytesize / RECORD * RECORD).unpack("q<*").each_slice(2)
    end
  end

  # What was found in some samples.
  class Tally
    KINDS = %i[samples named late wrong cut moving other].freeze
    attr_reader :counts, :examples, :seen
    attr_accessor :lost

    def initialize
      @counts = KINDS.to_h { |kind| [kind, 0] }
      @examples = Hash.new { |examples, kind| examples[kind] = [] }
      @seen = {}
      @lost = 0
    end

    def [](kind) = @counts[kind]

    def add(kind, example = nil)
      @counts[kind] += 1
      @examples[kind] << example if example && @examples[kind].size < 4
    end

    def merge(other)
      other.counts.each { |kind, count| @counts[kind] += count }
      other.examples.each { |kind, list| @examples[kind].concat(list).slice!(4..) }
      @seen.update(other.seen)
      @lost += other.lost
      self
    end

    def to_s = "#{@counts.map { |kind, count| "#{count} #{kind}" }.join(', ')}, #{@lost} lost"
  end

  class Judge
    UNNAMED = /\A\((?:code freed|unreadable)/
    # The frames below the work: all of lib/known.rb, but for the first.
    BELOW = "Known.go_on".freeze
    # What a stack says of itself when Ruby's part of it is not whole; it has nothing to do with names.
    CUT = %w[unreadable bad-context fiber-switch interp-limit].freeze

    # trees: of each Ruby that the program was (it may exec). moves: it compacts. While a compaction is at work the pages whose
    # objects it moves are protected; what is met there for the first time cannot be read by anybody, and is marked.
    def initialize(trees, spans, moves: false)
      @trees = trees
      @spans = spans
      @moves = moves
      @general = {}
    end

    # samples: lines of the export. Those of other triggers are left out.
    def judge(samples)
      tally = Tally.new
      samples.each { |sample| judge_sample(sample, tally) if sample["trigger"] == "cpu" }
      tally
    end

    # [:late, :wrong, :cut, :other or nil: it is right, what is wrong, the definition that it shows]
    def verdict(sample)
      frames = Recording.ruby_frames(sample)
      late = sample["reason"] == "late-name" || frames.any? { |f| UNNAMED.match?(f["name"]) }
      return [@moves && sample["frames"].any? { |f| f["kind"] == "gc" } ? :moving : :late, "late", nil] if late
      return [:other, "not yet at work", nil] unless @spans.worked?(sample["time_ns"])
      return [gone?(sample) ? :other : :cut, "no Ruby", nil] if frames.empty?
      numbers, places, kinds, owners = general(frames)
      return [:wrong, "frames of several definitions", nil] if numbers.size > 1
      n = numbers.first
      return [:wrong, "definition #{n} did not run then", nil] if n && !@spans.running?(n, sample["time_ns"])
      return [:wrong, "an owner that is not in the name", nil] unless owners
      return [:cut, "cut", nil] if CUT.include?(sample["reason"])
      possible?(places, kinds, n) ? [nil, nil, n] : [:wrong, "a stack that the program does not have", nil]
    end

    private

    # A thread that runs no Ruby, or whose memory is gone: in its exit, or in execve.
    def gone?(sample)
      sample["outcome"] == "no-context" || sample["frames"].any? { |f| f["kind"] == "kernel" && f["name"].match?(/\Ado_exit\z|execve/) }
    end

    def judge_sample(sample, tally)
      kind, what, n = verdict(sample)
      tally.add(:samples)
      if n
        tally.add(:named)
        tally.seen[n] = true
      end
      tally.add(kind, kind == :other ? nil : "#{what}: #{describe(sample)}") if kind
    end

    def general(frames)
      shown = frames.map { |f| f.values_at("kind", "name", "path", "line", "owner") }
      @general.clear if @general.size > 5000
      @general[shown] ||= begin
        numbers, places = Names.places(shown.map { |_, name, path, line| [name, path, line] })
        owners = shown.all? { |_, name, _, _, owner| owner.nil? || name.match?(/(?:\A|in )#{Regexp.escape(owner)}[#.]/) }
        [numbers, places, shown.map(&:first), owners]
      end
    end

    def possible?(places, kinds, n)
      at = places.index { |place| place.name == BELOW }
      # Outside of the work: waiting for its turn, starting, or between two passes.
      return n.nil? && places.size <= 5 if at.nil?
      return false if at > 3
      work = places.drop(at + 1)
      # The first entry of the log, and the question whether to end.
      return n.nil? if work.first&.name == "Known.log" || work.size == 1 && kinds.last == "cfunc"
      @trees.any? { |tree| tree.possible?(work, kinds.drop(at + 1)) }
    end

    def describe(sample)
      "#{sample['outcome']} #{sample['reason']} at #{sample['time_ns']}: " +
        Recording.ruby_frames(sample).map { |f| "#{f['name']} #{File.basename(f['path'].to_s)}:#{f['line']}" }.join(" > ")
    end
  end
end
