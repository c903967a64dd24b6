# Code that gets old, is used, is freed by a full collection, and leaves its memory to the next generation of the same shape.
require_relative "../lib/known"

COUNT = 20
AGE = 4 # collections after which an object is old: RVALUE_OLD_AGE is 3

def spin = 20.times { |i| i }

TEXT = <<~'RUBY'
  class Ki_N
    def mi_N(k)
      k.times { |i| spin }
    end
    def ci_N = mi_N(Known.repeat(600))
  end
RUBY

Known.expect("K7_N#c7_N:4", "K7_N#m7_N:2", "Integer#times", "block in K7_N#m7_N:2", "Object#spin")

def each_class(n)
  COUNT.times { |i| yield i, Object.const_get("K#{i}_#{n}") }
end

Known.run do |n|
  Known.enter(n)
  COUNT.times { |i| Known.define(n, TEXT.gsub(/([Kmc])i/, "\\1#{i}")) }
  AGE.times { GC.start }
  each_class(n) { |i, klass| klass.new.public_send("c#{i}_#{n}") }
  COUNT.times { |i| Known.remove("K#{i}_#{n}") }
  GC.start
  Known.leave(n)
end
