# Compiled, interpreted and C code in turn: what a JIT compiles, and what makes it leave its code.
class Node
  attr_accessor :left, :right, :value

  def initialize(depth)
    @value = depth
    return if depth.zero?

    @left = Node.new(depth - 1)
    @right = Node.new(depth - 1)
  end

  def sum = @value + (@left ? @left.sum : 0) + (@right ? @right.sum : 0)
  def each(&block) = (@left&.each(&block); block.call(self); @right&.each(&block))
  include Enumerable
end

def fib(n) = n < 2 ? n : fib(n - 1) + fib(n - 2)

def loops(n)
  x = i = 0
  while i < n
    x = (x * 31 + i) & 0xffff
    i += 1
  end
  x
end

def poly(list) = list.map { |v| case v when Integer then v + 1 when String then v.size when Array then poly(v) else v.to_s end }

def leave(n) = n > 40 ? [n].each { |m| return m.to_s.to_sym } : leave(n + 1)

$stdout.sync = true
puts "ready"
n = 0
loop do
  n += 1
  tree = Node.new(n % 7)
  tree.sum
  tree.sort_by { |node| -node.value }.inject(0) { |a, node| a + node.value }
  fib(10 + n % 6)
  loops(500 + n % 100)
  poly([1, "two", [3, ["four", 5.0]], nil])
  leave(n % 30)
  define_singleton_method(:fresh) { |x| x + n } if (n % 100).zero?
  fresh(n) if n > 100
end
