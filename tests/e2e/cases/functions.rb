# Functions that share a label, and methods made of blocks. Where each begins is what Ruby says of the proc, the method
# or the instruction sequence itself; the method's name is what __method__ says.
require_relative "../lib/truth_case"

FIRST = proc { |k|
  Truth.at
  Truth.burn(k)
}
SECOND = proc do |k|
  Truth.at

  Truth.burn(k)
end
SHARED = proc do |k|
  Truth.at
  Truth.burn(k)
end

def named(wanted, method)
  method == wanted or raise "#{method} for #{wanted}"
end

# The innermost frame at place k is this block's.
def inner(k, block)
  Case.facts[:functions][k].last[0] = begins(block)
  block
end

# The first line of a proc or method, told in two ways.
def begins(function)
  line = function.source_location.last
  told = RubyVM::InstructionSequence.of(function).first_lineno
  line == told or raise "#{function} begins on line #{line}, and on #{told}"
  line
end

class Made
  define_method(:one) do
    named(:one, __method__)
    Truth.at
    Truth.burn(2)
  end

  define_method("GET /two") do
    named(:"GET /two", __method__)
    Truth.at
    Truth.burn(3)
  end

  define_method(:original) do
    named(:original, __method__)
    Truth.at
    Truth.burn(4)
  end
  alias_method :other, :original

  define_method(:rescuing) do
    Truth.at
    begin
      raise "x"
    rescue RuntimeError
      named(:rescuing, __method__)
      Truth.burn(5)
    end
  end

  define_method(:nesting) do
    Truth.at
    block = proc do |k|
      Truth.at
      named(:nesting, __method__)
      Truth.burn(k)
    end
    [6].each(&inner(6, block))
  end

  define_method(:shared_7, &SHARED)
  define_method(:shared_8, &SHARED)

  define_singleton_method(:single) do
    named(:single, __method__)
    Truth.at
    Truth.burn(9)
  end
end

# What Sinatra does with a route: there is no such method but while it is called.
class Routes
  def self.route(name, &block)
    define_method(name, &block)
    method = instance_method(name)
    remove_method(name)
    method
  end
end
ROUTE = Routes.route("GET /hello") do
  named(:"GET /hello", __method__)
  Truth.at
  Truth.burn(10)
end

anonymous = Class.new do
  define_method(:nameless) do
    Truth.at
    Truth.burn(11)
  end
end

self.class.define_method(:on_object) do
  Truth.at
  Truth.burn(12)
end

# A body is a part of its function, which begins further up.
def rescued
  Truth.at
  block = proc do |k|
    Truth.at
    begin
      raise "y"
    rescue RuntimeError
      Truth.burn(k)
    end
  end
  begin
    raise "x"
  rescue RuntimeError
    [13].each(&inner(13, block))
  end
end

EVALUATED = eval("proc do\n  Truth.at\n  Truth.burn(14)\nend", nil, "evaluated.rb", 100)

MADE = Made.new
# Of each place: [first line, method] of its Ruby frames, from the work of this case on and without what burns.
def place(k, names, *functions)
  Case.expect(k, *names, "Truth.burn")
  (Case.facts[:functions] ||= {})[k] = functions
end

in_class = ["block in <class:Made>"]
place(0, ["block in <main>"], [begins(FIRST), nil])
place(1, ["block in <main>"], [begins(SECOND), nil])
place(2, in_class, [begins(MADE.method(:one)), "Made#one"])
place(3, ["Kernel#public_send", *in_class], [nil, nil], [begins(MADE.method("GET /two")), "Made#GET /two"])
place(4, in_class, [begins(MADE.method(:other)), "Made#original"])
place(5, in_class, [begins(MADE.method(:rescuing)), "Made#rescuing"])
place(6, [*in_class, "Array#each", "block (2 levels) in <class:Made>"], [begins(MADE.method(:nesting)), "Made#nesting"], [nil, nil], [nil, nil])
place(7, ["block in <main>"], [begins(SHARED), "Made#shared_7"])
place(8, ["block in <main>"], [begins(MADE.method(:shared_8)), "Made#shared_8"])
place(9, in_class, [begins(Made.method(:single)), "Made.single"])
place(10, ["Method#call", "block in <main>"], [nil, nil], [begins(ROUTE.bind(Routes.new)), "Routes#GET /hello"])
place(11, ["block (2 levels) in <main>"], [begins(anonymous.new.method(:nameless)), "nameless"])
place(12, ["block in <main>"], [begins(method(:on_object)), "Object#on_object"])
place(13, ["Object#rescued", "Array#each", "block in Object#rescued"], [begins(method(:rescued)), nil], [nil, nil], [nil, nil])
place(14, ["block in <main>"], [begins(EVALUATED), nil])
place(15, ["block in <main>"], [begins(SHARED), nil])
nameless = anonymous.new
Case.run do
  FIRST.call(0)
  SECOND.call(1)
  MADE.one
  MADE.public_send("GET /two")
  MADE.other
  MADE.rescuing
  MADE.nesting
  MADE.shared_7(7)
  MADE.shared_8(8)
  Made.single
  ROUTE.bind(Routes.new).call
  nameless.nameless
  on_object
  rescued
  EVALUATED.call
  SHARED.call(15)
end
