# C and Ruby calling each other in all directions.
require_relative "../lib/free"

class Key
  attr_reader :n

  def initialize(n)
    @n = n
  end

  def hash
    n % 7
  end

  def eql?(other)
    n == other.n
  end

  def <=>(other)
    n <=> other.n
  end

  def to_s
    "key#{n}"
  end

  def coerce(other)
    [other, n]
  end

  def method_missing(name, *args)
    name == :nowhere ? n : super
  end

  def respond_to_missing?(name, all)
    name == :nowhere
  end

  define_method(:defined) { |x| x + n }
end

KEYS = Array.new(30) { |i| Key.new(i * 17 % 31) }

def sorting
  KEYS.sort.map(&:n)
  KEYS.sort_by { |k| -k.n }
  KEYS.min_by(&:n)
  KEYS.max { |a, b| a.n <=> b.n }
end

def hashing
  h = {}
  KEYS.each { |k| h[k] = k.n }
  KEYS.sum { |k| h.fetch(k) }
  KEYS.uniq.group_by { |k| k.n.odd? }
end

def strings
  text = KEYS.map { |k| "#{k},#{k.n}" }.join(";")
  text.gsub(/\d+/) { |d| (d.to_i + 1).to_s }
  text.each_char.with_index.select { |c, i| i.even? && c != ";" }.size
  text.scan(/k(e)y/).flatten.inspect
end

def numbers
  KEYS.inject(0) { |sum, k| sum + k.defined(1) + k.nowhere }
  (1..20).each_slice(3).map { |a| a.reduce(:*) }
  20.times.map { |i| 1 + KEYS[i] }
  1.upto(10).lazy.map { |x| x * 2 }.select(&:even?).first(3)
end

def external
  e = KEYS.each
  3.times { e.next }
  f = Fiber.new do |x|
    2.times { |i| x = Fiber.yield(x + i) }
    KEYS.map(&:n).sum
  end
  3.times { |i| f.resume(i) }
end

def exceptional(depth)
  raise ArgumentError, "deep" if depth.zero?
  [depth].each { |d| exceptional(d - 1) }
ensure
  KEYS.first.n
end

def exceptions
  exceptional(3)
rescue ArgumentError => e
  e.message.size
  catch(:done) { KEYS.each { |k| throw :done, k if k.n > 20 } }
end

def evaluating
  eval("KEYS.map { |k| k.n + 1 }.size")
  Key.class_eval { instance_methods(false).size }
  KEYS.first.instance_eval { @n + 1 }
end

def work
  sorting
  hashing
  strings
  numbers
  external
  exceptions
  evaluating
end

Free.run { work }
