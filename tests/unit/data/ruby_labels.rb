# Every construct with a frame of its own. hit() says what Ruby 3.4 calls the frame that called it (literally, here), prints
# what this Ruby says of its own stack, and waits until the test has looked.
$stdout.sync = true
HERE = __dir__

def hit(expected, above = 0)
  puts "HIT\t#{above}\t#{expected}"
  caller_locations(1).each { |l| puts "#{l.lineno}\t#{l.absolute_path || l.path}\t#{l.label}" }
  puts "END"
  command = $stdin.gets
  GC.start if command == "gc\n"
  exit!(0) if command.nil?
end

hit("<main>")

class C
  hit("<class:C>")
  class << self
    hit("singleton class")
    def s2
      hit("C.s2")
    end
  end
  def self.s = hit($duplicate ? "K2.s" : "C.s")

  def i
    hit($duplicate ? "K2#i" : "C#i")
  end
  alias al i
  alias_method :am, :i

  def b
    [1].each do
      hit("block in C#b")
    end
  end

  def b2
    [1].each { [2].map { hit("block (2 levels) in C#b2") } }
  end

  def b3
    [1].each { [2].map { [3].each_with_index { hit("block (3 levels) in C#b3") } } }
  end

  def r
    raise "x"
  rescue
    hit("C#r")
  end

  def rb
    [1].each do
      raise "x"
    rescue
      hit("block in C#rb")
    end
  end

  def en
    begin
      raise "x"
    ensure
      hit("C#en")
    end
  end

  def en_normal
    1
  ensure
    hit("C#en_normal")
  end

  def ev
    eval("hit('C#ev')")
  end

  def ev2
    eval("\n\n[1].each { hit('block in C#ev2') }")
  end

  def iev
    Object.new.instance_eval { hit("block in C#iev") }
  end

  def with_svar
    "abc" =~ /b/
    hit("C#with_svar")
  end

  def svar_block
    "abc".gsub(/b/) { hit("block in C#svar_block") }
  end

  def opt(a, b = 2, *rest, k: hit("C#opt"), **kw, &blk)
    a
  end

  def lam
    -> { hit("block in C#lam") }.call
  end

  def pr
    proc { |x| hit("block in C#pr") }.call(1)
  end

  def self.proc_in_s
    [1].each { hit("block in C.proc_in_s") }
  end

  def to_s
    hit("C#to_s")
    "c"
  end

  def ==(other)
    hit("C#==")
    true
  end

  def [](x)
    hit("C#[]")
  end

  def wh
    n = 0
    while n < 1
      n += 1
      hit("C#wh")
    end
  end

  define_method(:dm) { hit("block in <class:C>") }
  define_method(:dm_arg) do |x|
    x.times { hit("block (2 levels) in <class:C>") }
  end

  def method_missing(name, *args)
    hit("C#method_missing")
  end

  def respond_to_missing?(*)
    true
  end

  def many
    hit("C#many")
    hit("C#many"); [1].each { hit("block in C#many") }

    hit(
      "C#many",
      0
    )
  end
end

class D < C
  def i
    super
  end
  def inherited
    [self].each(&:i)
  end
end

module Mod
  hit("<module:Mod>")
  def m = hit("Mod#m")
  def self.ms = hit("Mod.ms")
  module_function def mf
    hit("Mod.mf")
  end
  class Inner
    def x
      hit("Mod::Inner#x")
    end
  end
end

def top
  hit("Object#top")
end
def self.main_single = hit("main_single")

c = C.new
top
main_single
C.s
C.s2
C.proc_in_s
c.i
c.al
c.am
%i[b b2 b3 r rb en_normal ev ev2 iev with_svar svar_block lam pr dm wh many].each { |m| c.public_send(m) }
begin
  c.en
rescue RuntimeError
  hit("<main>")
end
c.opt(1)
c.dm_arg(1)
"#{c}"
c == 1
c[1]
[c].include?(c)
c.whatever
c.method(:i).call
c.method(:i).unbind.bind_call(c)
D.new.i
D.new.inherited
Class.new { include Mod }.new.m
Mod.ms
Mod.mf
Object.new.extend(Mod).m
Mod::Inner.new.x

K2 = C.dup
$duplicate = true
K2.new.al
K2.s
$duplicate = false

an = Class.new do
  def a = hit($named ? "Named#a" : "a")
  def self.as = hit($named ? "Named.as" : "as")
end
an.new.a
an.as
$named = true
Named = an
GC.start # until then the name that was read is the one that the class had when it was sampled
Named.new.a
Named.as

o = Object.new
def o.sing = hit("sing")
o.sing

module Ref
  refine String do
    def rf = hit("rf")
    def rfb = [1].each { hit("block in rfb") }
  end
end
using Ref
"x".rf
"x".rfb

S1 = Struct.new(:q) do
  def st = hit("S1#st")
end
S1.new(1).st
Struct.new(:q) { def st = hit("st") }.new(1).st

class Q
  def w = hit("Q#w")
  define_method(:v, instance_method(:w))
end
Q.new.v

class String
  def my_ext = hit("String#my_ext")
end
"".my_ext

# C functions: the frame above (outside of) the block that calls hit.
[1].each { hit("Array#each", 1) }
[3, 1].sort_by { |x| hit("Enumerable#sort_by", 2); x }
Array.new(1) { hit("Array#initialize", 1) }
Array.new(1) { hit(RUBY_VERSION < "3.3" ? "Class#new" : "Array.new", 2) }
{ a: 1 }.each { hit("Hash#each", 1) }
1.times { hit("Integer#times", 1) }
"a".each_char { hit("String#each_char", 1) }
catch(:x) { hit("Kernel#catch", 1) }
eval("hit('Kernel#eval', 1)")
C.class_eval { hit("block in <main>") }
C.class_eval { hit("Module#class_eval", 1) }
Comparable.instance_method(:clamp)
class Array
  alias my_each each
end
[1].my_each { hit("Array#each", 1) }
binding.eval("hit('<main>')")
TOPLEVEL_BINDING.eval("hit('<main>')")
RubyVM::InstructionSequence.compile("hit('<compiled>')").eval
load File.join(HERE, "ruby_labels_loaded.rb")
require File.join(HERE, "ruby_labels_loaded")
at_exit { hit("block in <main>") }

# An escaped environment, a method that outlives its caller.
def maker(x) = -> { x; hit("block in Object#maker") }
maker(1).call
$escaped = proc { hit("block in <main>") }
def yielder = yield
yielder(&$escaped)

Fiber.new { hit("block in <main>") }.resume
Enumerator.new { |y| hit("block in <main>"); y << 1 }.next
Thread.new { Thread.current.name = "worker one"; Thread.current.report_on_exception = false; $up << 1 if $up; Thread.stop }
Thread.pass until Thread.list.any? { |t| t.name == "worker one" && t.stop? }
puts "THREAD\tworker one"
$stdin.gets

# Longer than the first three blocks of the line table, with calls all over it.
src = +"def long(n)\n"
600.times { |i| src << "  x#{i} = [n, #{i}, n]\n" << (i % 3 == 0 ? "\n" : "") << "  hit('Object#long') if n == #{i}\n" }
eval(src + "end", TOPLEVEL_BINDING, "long.rb", 10)
[0, 1, 2, 3, 7, 8, 20, 31, 32, 33, 64, 100, 101, 199, 200, 255, 256, 300, 400, 511, 512, 598, 599].each { |n| long(n) }

# Methods that come and go: the same memory is another method the next time.
40.times do |i|
  name = "gone#{i}"
  Object.class_eval("def #{name}\n#{"\n" * (i % 7)} hit('Object##{name}')\nend", "gone.rb", i + 1)
  send(name)
  Object.send(:remove_method, name)
  GC.start
end
puts "DONE"
