# Fibers, external enumerators, lazy chains: stacks that begin at a fiber's entry.
require_relative "../lib/truth_case"

def deep(n, k)
  Truth.at
  n.zero? ? Truth.burn(k) : deep(n - 1, k)
end

def new_fiber
  Truth.at
  Fiber.new do
    Truth.at
    deep(2, 0)
    Fiber.yield
    Truth.burn(1)
  end
end

def resume_twice
  Truth.at
  f = new_fiber
  f.resume
  f.resume
end

def fiber_in_fiber
  Truth.at
  Fiber.new do
    Truth.at
    Fiber.new do
      Truth.at
      [1].each do
        Truth.at
        Truth.burn(2)
      end
    end.resume
    Truth.burn(3)
  end.resume
end

def external
  Truth.at
  e = Enumerator.new do |y|
    Truth.at
    y << 1
    Truth.burn(4)
    y.yield 2
  end
  e.next
  e.next
end

def external_of_array
  Truth.at
  e = [1].each
  e.next
  Truth.burn(5)
end

def lazy
  Truth.at
  (1..3).lazy.map do |x|
    Truth.at
    x == 1 ? Truth.burn(6) : x
  end.select { |x| x }.first(1)
end

def internal
  Truth.at
  Enumerator.new do |y|
    Truth.at
    y << 1
  end.each do |_|
    Truth.at
    Truth.burn(7)
  end
end

$own = Fiber.new do
  Truth.at
  loop do
    Truth.burn(8)
    Fiber.yield
  end
end

Case.expect(0, "block in Object#new_fiber", "Object#deep", "Object#deep", "Object#deep", "Truth.burn", root: [])
Case.expect(1, "block in Object#new_fiber", "Truth.burn", root: [])
Case.expect(2, "block (2 levels) in Object#fiber_in_fiber", "Array#each", "block (3 levels) in Object#fiber_in_fiber", "Truth.burn", root: [])
Case.expect(3, "block in Object#fiber_in_fiber", "Truth.burn", root: [])
Case.expect(4, "Enumerator#each", "Enumerator::Generator#each", "block in Object#external", "Truth.burn", root: [])
Case.expect(5, "Object#external_of_array", "Truth.burn")
Case.expect(6, "Object#lazy", "Enumerable#first", "Enumerator#each", "Enumerator::Generator#each", "Enumerator#each",
            "Range#each", "block in Object#lazy", "Truth.burn")
Case.expect(7, "Object#internal", "Enumerator#each", "Enumerator::Generator#each", "block in Object#internal",
            "Enumerator::Yielder#<<", "block in Object#internal", "Truth.burn")
Case.expect(8, "block in <main>", "Kernel#loop", "block (2 levels) in <main>", "Truth.burn", root: [])
Case.run do
  resume_twice
  fiber_in_fiber
  external
  external_of_array
  lazy
  internal
  $own.resume
end
