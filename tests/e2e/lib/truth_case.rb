# The program's side of a case: what a program under test needs to tell its own stack.
#
#   Case.expect(0, "Worker#leaf", "Truth.burn")   the Ruby part of place 0, spelled out (below: <main>, Case.run, ...)
#   Case.run { work }                             does the work over and over until SIGUSR2
#
# Each place (Truth.burn(k) and its kin, see ext/truth.c) prints a line of JSON whenever its stack is a new one.
# After the first pass the program prints "ready".
require "json"
require_relative "first_lines"
$LOAD_PATH.unshift(ENV.fetch("TRUTH_EXT"))
require "truth"

module Truth
  # The current stack's Ruby frames, leaf first, without the top `drop` + 1.
  def self.ruby_frames(drop)
    locations, profile = caller_locations(0), profile_frames # on one line: the lines must be equal
    told = Case.align(locations, profile)
    marks = Thread.current[:truth_marks] || {}
    depth = locations.size + 1
    skip = false
    frames = locations.zip(told).map do |location, (qualified, is_c)|
      depth -= 1
      cfa, label = marks[depth]
      frame = { name: Case.name(location.label, qualified, is_c), kind: is_c ? "cfunc" : "ruby",
                path: location.path, line: location.lineno,
                loop: label == location.label && !is_c ? cfa : nil }
      frame[:first_line] = FirstLines.of(location.path, location.label, location.lineno) unless is_c
      # The method's own frame under its rescue or ensure body: Ruby 3.4 shows one frame for both.
      frame[:under_rescue] = true if skip
      skip = !is_c && location.label.match?(/\A(?:rescue|ensure) in /)
      frame
    end
    frames.drop(drop + 1)
  end

  # Called by the extension at a place; on the stack: this method, then the C function that led here.
  def self.describe(_place)
    JSON.generate(ruby_frames(1).reverse)
  end

  # In a method or block of a case: notes which activation of the interpreter's loop runs it.
  def self.at
    cfa, = loop
    locations = caller_locations(1)
    (Thread.current[:truth_marks] ||= {})[locations.size] = [cfa, locations[0].label]
  end

  # The next collection's mark (or free) function burns at place k. To be called on the line that sets it off; `above`
  # are the frames through which that line gets there: names of C functions, or frames.
  def self.arm_collection(what, k, *above)
    frames = ruby_frames(1).reverse
    above.each { |f| frames << frames.last.merge(loop: nil, first_line: nil).merge(f.is_a?(Hash) ? f : { name: f, kind: "cfunc" }) }
    arm(what, k, JSON.generate(frames))
  end

  # C functions of each shape, called from Ruby and from C, teach the extension where methods in C are called from.
  # Twice: where a call was made before there is a shorter way. A JIT is told to compile what is called more often.
  def self.learn
    cross_jit
    2.times { learn_once }
  end

  def self.learn_once
    block = proc {}
    args = [1, 2]
    learn_0; learn_1(1); learn_2(1, 2); learn_3(1, 2, 3); learn_v; learn_v(1); learn_v(1, 2); learn_a; learn_a(1)
    learn_0 {}; learn_1(1) {}; learn_v(1) {}; learn_a(1) {}; send(:learn_0) {}
    learn_0(&block); learn_1(1, &block); learn_v(&block); learn_a(&block)
    learn_2(*args); learn_v(*args); learn_a(*args); learn_v(k: 1); learn_v(**{ k: 1 }); learn_v(*args, &block)
    send(:learn_0); send(:learn_v, 1); __send__(:learn_1, 1); public_send(:learn_1, 1)
    call(self, :learn_0); call(self, :learn_1, 1); call(self, :learn_v, 1); call(self, :learn_a, 1)
    method(:learn_0).call; method(:learn_1).to_proc.call(1)
    [1].each(&method(:learn_1))
    [self].each(&:learn_0); [self].map(&:learn_0); [self].each(&:learn_v)
  end
end

module Case
  PREFIX = /\A(?:block (?:\(\d+ levels\) )?in |rescue in |ensure in )+/

  @names = {}
  @facts = {}
  @prefix = ["<main>", "Case.run", "block in <main>"]
  class << self
    # What else the judge is to know: see Facts in lib/judge.rb.
    attr_reader :facts

    # Names that Ruby 3.4 prints and that no interface of the older Ruby tells: {label => name}.
    def names(table)
      @names.update(table)
    end

    # Names from the root on, as Ruby 3.4 prints them. The judge compares them with what the program found out by
    # itself, so that a mistake in the one shows in the other.
    def expect(place, *names, root: @prefix)
      Truth.puts(JSON.generate(expect: place, names: root + names))
    end

    # For each location: [qualified method name or nil, is it a C function]. The profiler's list also has the frames of
    # blocks written in C, as one more frame of the C function that made the block; they are passed over.
    def align(locations, profile)
      profile = profile.reverse
      locations.reverse.map do |location|
        profile.shift until profile.empty? || same?(location, *profile.first)
        profile.shift or raise "truth: no profile frame for #{location}"
      end.reverse
    end

    def same?(location, qualified, is_c, base_label, line)
      return qualified.to_s.end_with?(location.label) && location.label == location.base_label if is_c
      base_label == location.base_label && line == location.lineno
    end

    # The label that Ruby 3.4 prints.
    def name(label, qualified, is_c)
      known = @names[label]
      return known if known
      bare = qualified.nil? || qualified.start_with?("#<")
      return bare ? label : qualified if is_c
      prefix = label[PREFIX].to_s.gsub(/(?:rescue|ensure) in /, "")
      rest = label.sub(PREFIX, "")
      return prefix + rest if bare || rest.match?(/\A<[a-z]/) || rest == "singleton class"
      prefix + (qualified.end_with?("##{rest}", ".#{rest}") ? qualified : rest)
    end

    def run
      Truth.learn
      FirstLines.read
      is_ready = false
      until Truth.stop?
        Truth.at
        yield
        ready unless is_ready
        is_ready = true
      end
      Truth.puts(JSON.generate(done: true))
    end

    def ready
      Truth.puts(JSON.generate({ ready: true, pid: Process.pid, ruby: RUBY_VERSION, sites: Truth.nr_sites,
                                 loop: Truth.loop[1] }.merge(@facts)))
    end
  end
end

$stdout.sync = true
