# Environments on the heap: procs that outlive their frames, methods made of blocks, bindings, long chains of blocks.
class Escaped
  attr_reader :kept

  def initialize
    @kept = []
  end

  define_method(:down) { |n, &after| n.zero? ? after&.call : down(n - 1) { [n].each { |m| after ? after.call : m } } }

  def keep(n)
    local = n
    @kept << proc { |more| more.zero? ? local : @kept[more % @kept.size].call(more - 1) }
    @kept.shift if @kept.size > 40
    @kept.last.call(n)
  end

  def chain(n, x = 0)
    1.times { 1.times { 1.times { 1.times { 1.times { 1.times { x += n.zero? ? 1 : chain(n - 1) } } } } } }
    x
  end

  def composed
    (proc { |a| a + 1 } >> ->(a) { a * 2 } >> method(:twice).to_proc).curry.call(3)
  end

  def twice(a) = instance_exec(a) { |b| b.then { |c| c * 2 } }

  def scope(n)
    here = binding
    here.local_variable_set(:n, n)
    here.eval("(1..n).map { |i| [i].sum { |j| j + n } }.sum")
  end

  def method_missing(name, *args, &block) = name == :absent ? yield(*args) : super
  def respond_to_missing?(*) = true
end

it = Escaped.new
it.define_singleton_method(:single) { |n| n.times.map { |i| Class.new { define_method(:up) { i } }.new.up }.sum }
fibonacci = Hash.new { |hash, n| hash[n] = n < 2 ? n : hash[n - 1] + hash[n - 2] }
$stdout.sync = true
puts "ready"
n = 0
loop do
  n += 1
  it.down(n % 23)
  it.keep(n % 17)
  it.chain(n % 5)
  it.composed
  it.scope(n % 7)
  it.single(n % 9)
  it.absent(n) { |a| %i[odd? even? succ].map(&a.method(:public_send)) }
  fibonacci.clear
  fibonacci[40 + n % 20]
end
