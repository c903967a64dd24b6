# The program's side of a free-running check: Free.run { work } traces a few passes of work with Ruby's own TracePoint,
# prints every Ruby stack that these passes had, and then runs on without tracing until SIGUSR2.
#
# work must do the same thing each time. A stack is the list of names from the root on; callers are listed with the
# lines from which they called.
require "set"
require_relative "truth_case"

module Free
  TRACED_PASSES = 2

  class << self
    def run
      stacks = Set.new
      Truth.learn
      tracer = TracePoint.new(:call, :c_call, :b_call, :line, :class) { |tp| note(stacks, tp) }
      pass = 0
      until Truth.stop?
        pass += 1
        tracer.enable if pass <= TRACED_PASSES
        yield
        tracer.disable if pass <= TRACED_PASSES
        tell(stacks) if pass == TRACED_PASSES
      end
    end

    # [start, size] of the native functions where stacks may begin. Not all have a symbol.
    def roots
      { main: Truth.root, thread: Thread.new { Truth.root }.value, fiber: Fiber.new { Truth.root }.resume }
    end

    private

    # The frames above this method's: [note, block in run].
    def note(stacks, tp)
      frames = Truth.ruby_frames(1).drop(1).reject { |f| f[:under_rescue] }.reverse
      stack = frames.map { |f| [f[:name], f[:line]] }
      stack << [c_name(tp), stack.empty? ? 0 : stack.last[1]] if tp.event == :c_call
      stacks << stack
    end

    def c_name(tp)
      klass = tp.defined_class
      return "#{klass}##{tp.method_id}" unless klass.singleton_class?
      attached = klass.inspect[/\A#<Class:([A-Z][\w:]*)>\z/, 1]
      attached ? "#{attached}.#{tp.method_id}" : tp.method_id.to_s
    end

    def tell(stacks)
      index = {}
      rows = stacks.map { |s| s.map { |frame| index[frame] ||= index.size } }
      Case.facts[:frames] = index.keys
      Case.facts[:stacks] = rows
      Case.facts[:roots] = roots
      Case.ready
    end
  end
end
