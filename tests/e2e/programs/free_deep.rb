# Recursion, blocks in blocks, long loops in the interpreter alone, garbage.
require_relative "../lib/free"

Node = Struct.new(:left, :right)

class Tree
  def build(depth)
    return Node.new(nil, nil) if depth.zero?
    Node.new(build(depth - 1), build(depth - 1))
  end

  def count(node)
    return 0 unless node
    1 + count(node.left) + count(node.right)
  end

  def walk(node, depth = 0, &block)
    return unless node
    block.call(node, depth)
    [node.left, node.right].each { |n| walk(n, depth + 1, &block) }
  end
end

class Numbers
  def fib(n)
    n < 2 ? n : fib(n - 1) + fib(n - 2)
  end

  def loops
    i = 0
    sum = 0
    while i < 3000
      sum += i & 3
      i += 1
    end
    10.times { |a| 10.times { |b| sum += a * b } }
    sum
  end

  def ackermann(m, n)
    if m.zero? then n + 1
    elsif n.zero? then ackermann(m - 1, 1)
    else ackermann(m - 1, ackermann(m, n - 1))
    end
  end

  def strings
    s = +""
    200.times { |i| s << "part #{i}" << ("x" * 20) }
    s.split(" ").map(&:upcase).reject(&:empty?).size
  end
end

TREE = Tree.new
NUMBERS = Numbers.new

def work
  root = TREE.build(5)
  TREE.count(root)
  TREE.walk(root) { |_, depth| depth + 1 }
  NUMBERS.fib(11)
  NUMBERS.loops
  NUMBERS.ackermann(2, 3)
  NUMBERS.strings
end

Free.run { work }
