# Who owns a method: inheritance, super, modules, refinements, singletons, Struct, aliases, anonymous classes.
require_relative "../lib/truth_case"

class Base
  def inherited_one
    Truth.at
    Truth.burn(0)
  end

  def overridden(k)
    Truth.at
    Truth.burn(k)
  end

  def self.of_class(k)
    Truth.at
    Truth.burn(k)
  end

  class << self
    def in_singleton_class
      Truth.at
      Truth.burn(1)
    end
  end
end

module Mixed
  def mixed
    Truth.at
    Truth.burn(2)
  end

  def self.of_module
    Truth.at
    Truth.burn(3)
  end

  module_function

  def function
    Truth.at
    Truth.burn(4)
  end
end

module Prepended
  def overridden(k)
    Truth.at
    super
  end
end

module Refined
  refine String do
    def refined
      Truth.at
      Truth.burn(6)
    end
  end
end
using Refined

class Derived < Base
  include Mixed
  prepend Prepended

  def overridden(k)
    Truth.at
    super
  end

  def original
    Truth.at
    Truth.burn(7)
  end
  alias other_name original
  alias_method :third_name, :original

  def private_caller
    Truth.at
    hidden
  end

  def <=>(_other)
    Truth.at
    Truth.burn(9)
    0
  end
  include Comparable

  def [](k)
    Truth.at
    Truth.burn(k)
  end

  def value=(k)
    Truth.at
    Truth.burn(k)
  end

  def -@
    Truth.at
    Truth.burn(12)
  end

  def question?
    Truth.at
    Truth.burn(13)
  end

  private

  def hidden
    Truth.at
    Truth.burn(8)
  end

  class Nested
    def self.make
      Truth.at
      new.initialized
    end

    def initialized
      Truth.at
      Truth.burn(14)
    end
  end
end

Point = Struct.new(:x) do
  def burning
    Truth.at
    Truth.burn(15)
  end
end

anonymous = Class.new do
  def burning
    Truth.at
    Truth.burn(16)
  end

  def self.burning
    Truth.at
    Truth.burn(17)
  end
end
Late = Class.new do
  def burning
    Truth.at
    Truth.burn(18)
  end
end

own = Object.new
def own.burning
  Truth.at
  Truth.burn(19)
end
extended = Object.new.extend(Mixed)
d = Derived.new

Case.expect(0, "Base#inherited_one", "Truth.burn")
Case.expect(1, "Base.in_singleton_class", "Truth.burn")
Case.expect(2, "Mixed#mixed", "Truth.burn")
Case.expect(3, "Mixed.of_module", "Truth.burn")
Case.expect(4, "Mixed.function", "Truth.burn")
Case.expect(5, "Prepended#overridden", "Derived#overridden", "Base#overridden", "Truth.burn")
Case.expect(6, "refined", "Truth.burn")
Case.expect(7, "Derived#original", "Truth.burn")
Case.expect(8, "Derived#private_caller", "Derived#hidden", "Truth.burn")
Case.expect(9, "Comparable#clamp", "Derived#<=>", "Truth.burn")
Case.expect(10, "Derived#[]", "Truth.burn")
Case.expect(11, "Derived#value=", "Truth.burn")
Case.expect(12, "Derived#-@", "Truth.burn")
Case.expect(13, "Derived#question?", "Truth.burn")
Case.expect(14, "Derived::Nested.make", "Derived::Nested#initialized", "Truth.burn")
Case.expect(15, "Point#burning", "Truth.burn")
Case.expect(16, "burning", "Truth.burn")
Case.expect(17, "burning", "Truth.burn")
Case.expect(18, "Late#burning", "Truth.burn")
Case.expect(19, "burning", "Truth.burn")
Case.expect(20, "Base.of_class", "Truth.burn")
Case.run do
  d.inherited_one
  Base.in_singleton_class
  extended.mixed
  Mixed.of_module
  Mixed.function
  d.overridden(5)
  "x".refined
  d.third_name
  d.private_caller
  d.clamp(d, d)
  d[10]
  d.value = 11
  -d
  d.question?
  Derived::Nested.make
  Point.new(1).burning
  anonymous.new.burning
  anonymous.burning
  Late.new.burning
  own.burning
  Derived.of_class(20)
end
