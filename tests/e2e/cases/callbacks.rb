# C functions of the core that call methods of ours: sort_by, <=>, hash, eql?, to_s, coerce, inspect, ...
require_relative "../lib/truth_case"

# Burns once a pass, at the first call of each method that the core makes.
class Value
  include Comparable
  attr_reader :n

  def initialize(n)
    @n = n
  end

  def burn_once(k)
    Truth.at
    return if $burned[k]
    $burned[k] = true
    Truth.burn(k)
  end

  def <=>(other)
    Truth.at
    burn_once($place)
    n <=> other.n
  end

  def hash
    Truth.at
    burn_once(3)
    n % 2
  end

  def eql?(other)
    Truth.at
    burn_once(4)
    n == other.n
  end

  def to_s
    Truth.at
    burn_once($place)
    "v"
  end

  def inspect
    Truth.at
    burn_once(9)
    "i"
  end

  def coerce(number)
    Truth.at
    burn_once(8)
    [number, n]
  end

  def method_missing(name, *args)
    Truth.at
    burn_once(name == :nowhere ? 10 : 11)
  end

  def respond_to_missing?(name, all)
    Truth.at
    burn_once(12)
    false
  end

  def ==(other)
    Truth.at
    burn_once(13)
    true
  end

  def ===(other)
    Truth.at
    burn_once(14)
    true
  end

  def to_ary
    Truth.at
    burn_once(15)
    [1, 2]
  end

  def to_proc
    Truth.at
    burn_once(16)
    proc { |x| x }
  end

  def each
    Truth.at
    yield 17
  end
  include Enumerable
end

def sort_by
  Truth.at
  [2, 1].sort_by do |x|
    Truth.at
    $burned[0] ? x : ($burned[0] = true) && Truth.burn(0).to_i
  end
end

def sort(place)
  Truth.at
  $place = place
  [Value.new(1), Value.new(2)].sort
end

def compare(place)
  Truth.at
  $place = place
  Value.new(1) > Value.new(2)
end

def hashing
  Truth.at
  h = {}
  h[Value.new(1)] = 1
  h.key?(Value.new(3))
end

def strings
  Truth.at
  v = Value.new(1)
  $place = 5
  "a#{v}"
  $place = 6
  NULL.print(v)
  $place = 7
  format("%s", v)
end

def others
  Truth.at
  v = Value.new(1)
  1 + v
  [[v]].inspect
  v.nowhere
  Truth.call(v, :from_c)
  v.respond_to?(:something)
  [v] == [Value.new(2)]
  case 1
  when v then 1
  end
  a, b = v
  [1].map(&v)
  v.map do |k|
    Truth.at
    Truth.burn(k)
  end
end

UNREAD, NULL = IO.pipe # a few bytes each pass
once = "Value#burn_once", "Truth.burn"
Case.expect(0, "Object#sort_by", "Enumerable#sort_by", "Array#each", "block in Object#sort_by", "Truth.burn")
Case.expect(1, "Object#sort", "Array#sort", "Value#<=>", *once)
Case.expect(2, "Object#compare", "Comparable#>", "Value#<=>", *once)
Case.expect(3, "Object#hashing", "Value#hash", *once)
Case.expect(4, "Object#hashing", "Hash#key?", "Value#eql?", *once)
Case.expect(5, "Object#strings", "Value#to_s", *once)
Case.expect(6, "Object#strings", "IO#print", "IO#write", "Value#to_s", *once)
Case.expect(7, "Object#strings", "Kernel#format", "Value#to_s", *once)
Case.expect(8, "Object#others", "Integer#+", "Value#coerce", *once)
Case.expect(9, "Object#others", "Array#inspect", "Array#inspect", "Value#inspect", *once)
Case.expect(10, "Object#others", "Value#method_missing", *once)
Case.expect(11, "Object#others", "Truth.call", "Value#method_missing", *once)
Case.expect(12, "Object#others", "Kernel#respond_to?", "Value#respond_to_missing?", *once)
Case.expect(13, "Object#others", "Array#==", "Value#==", *once)
Case.expect(14, "Object#others", "Value#===", *once)
Case.expect(15, "Object#others", "Value#to_ary", *once)
Case.expect(16, "Object#others", "Value#to_proc", *once)
Case.expect(17, "Object#others", "Enumerable#map", "Value#each", "block in Object#others", "Truth.burn")
Case.run do
  $burned = {}
  sort_by
  sort(1)
  compare(2)
  hashing
  strings
  others
end
