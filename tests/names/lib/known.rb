# The program's side: Known.run { |n| ... } makes, runs and drops definition n, then n + 1, and so on until SIGUSR2.
#
# All that a stack can show of a definition tells its number (lib/stack.rb). What stacks there are is found out by Ruby's own
# TracePoint in the first passes, in which the block must do all that it ever does; then the program says "ready" and is
# recorded without tracing. Known.enter(n) and Known.leave(n) enclose the time in which definition n can be on a stack; they are
# written to the file NAMES_LOG at once, so that they survive the program.
require "json"
require "set"
require_relative "../../e2e/lib/truth_case"
require_relative "stack"

module Known
  TRACED_PASSES = (ENV["NAMES_TRACED"] || 3).to_i
  FIRST = (ENV["NAMES_FIRST"] || 1010).to_i
  LOG = File.open(ENV.fetch("NAMES_LOG"), "ab")
  # What the log says instead of a number: from here on the program does nothing but its work, or something else.
  WORKING = Names::WORKING
  LEAVING = Names::LEAVING

  @expected = []
  @names = {}
  class << self
    # A part of a stack that must be among those that were found, root first: names, with the line where it matters.
    def expect(*names) = @expected << names

    # {what Ruby tells us => what Ruby 3.4 prints}
    def names(table) = @names.update(table)

    # threads: how many do it at once, besides the main one; 0: the main one.
    def run(threads: 0, &work)
      @rows = [Set.new, Set.new]
      @lock = Mutex.new
      return run_alone(&work) if threads.zero?
      begun = Queue.new
      going = Queue.new
      all = Array.new(threads) do |k|
        Thread.new do
          n = trace(FIRST + k, threads, &work)
          begun << k
          going.pop
          go_on(n, threads, &work)
        end
      end
      threads.times { begun.pop }
      tell
      threads.times { going << true }
      all.each(&:join)
    end

    # What eval needs of a text in which _N is the number: a file of its own.
    def text(n, text) = [text.gsub("_N", "_#{n}"), "f_#{n}.rb", n * Names::LINES]

    def define(n, text)
      TOPLEVEL_BINDING.eval(*text(n, text))
    end

    # How often to do what shows no new stack when it is repeated: tracing takes its time.
    def repeat(n) = @tracing ? 2 : n

    # Runs the collector; now and then in full.
    def collect
      @collections = @collections.to_i + 1
      GC.start(full_mark: (@collections % 16).zero?)
    end

    def remove(*names)
      names.each { |name| Object.send(:remove_const, name) }
    end

    # The definition that is in use.
    def current = Thread.current[:known]

    def enter(n)
      Thread.current[:known] = n
      log(n)
    end

    def leave(n)
      log(-n)
      Thread.current[:known] = nil
    end

    def log(n)
      LOG.syswrite([n, Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)].pack("q<q<"))
    end

    private

    def run_alone(&work)
      n = trace(FIRST, 1, &work)
      tell
      go_on(n, 1, &work)
    end

    def go_on(n, step)
      log(WORKING)
      until Truth.stop?
        yield n
        n += step
      end
    end

    def trace(n, step)
      return n if TRACED_PASSES.zero?
      @lock.synchronize do
        thread = Thread.current
        base = nil
        pass = 0
        tracer = TracePoint.new(:call, :c_call, :b_call, :line, :class) { |tp| note(tp, pass, base) if Thread.current == thread }
        TRACED_PASSES.times do
          pass += 1
          base = caller_locations(0).size
          @tracing = true
          tracer.enable
          yield n
          tracer.disable
          @tracing = false
          n += step
        end
      end
      n
    end

    # base: how many frames are below the work.
    def note(tracepoint, pass, base)
      # Above: the traced code, the tracer's block, this method.
      frames = Truth.ruby_frames(1).drop(1).reject { |f| f[:under_rescue] }.reverse.drop(base)
      return if frames.empty?
      stack = frames.map { |f| [f[:name], f[:path].start_with?("/") ? File.expand_path(f[:path]) : f[:path], f[:line]] }
      stack << [c_name(tracepoint), *stack.last.drop(1)] if tracepoint.event == :c_call
      numbers, places = Names.places(stack)
      raise "definition #{current} has a stack of #{numbers}: #{stack}" unless (numbers - [current]).empty?
      row = places.map { |place| [@names.fetch(place.name, place.name), place.path, place.line] }
      @rows[pass > 3 && !@rows[0].include?(row) ? 1 : 0] << row
    end

    def c_name(tracepoint)
      klass = tracepoint.defined_class
      return "#{klass}##{tracepoint.method_id}" unless klass.singleton_class?
      attached = klass.inspect[/\A#<Class:([A-Z][\w:]*)>\z/, 1]
      attached ? "#{attached}.#{tracepoint.method_id}" : tracepoint.method_id.to_s
    end

    # What was found in the first passes, and what only later ones showed.
    def tell
      return if TRACED_PASSES.zero?
      index = {}
      stacks, more = @rows.map { |rows| rows.map { |row| row.map { |place| index[place] ||= index.size } } }
      Truth.puts(JSON.generate(ready: true, places: index.keys, stacks: stacks, more: more, expected: @expected))
    end
  end
end
