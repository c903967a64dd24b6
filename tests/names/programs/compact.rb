# Code that is moved: compaction in each pass, and while the collector sweeps.
require_relative "../lib/known"

GC.auto_compact = true

def spin = 20.times { |i| i }

TEXT = <<~'RUBY'
  class K_N
    def m_N(k)
      k.times { |i| spin }
      GC.compact
      k.times { spin }
      Known.collect
    end
    define_method(:d_N) { m_N(Known.repeat(40)) }
    def self.c_N = new.d_N
  end
RUBY

Known.expect("K_N.c_N:8", "block in <class:K_N>:7", "K_N#m_N:2", "Integer#times", "block in K_N#m_N:2", "Object#spin")
Known.expect("K_N#m_N:3", "GC.compact")

AGAIN = 2 # passes later each definition is used once more, somewhere else in memory

def use(n)
  Known.enter(n)
  Object.const_get("K_#{n}").public_send("c_#{n}")
  Known.leave(n)
end

def define(n)
  Known.enter(n)
  Known.define(n, TEXT)
  Known.leave(n)
end

(1..AGAIN).each { |k| define(Known::FIRST - k) }
Known.run do |n|
  define(n)
  [n, n - AGAIN].each { |k| use(k) }
  Known.remove("K_#{n - AGAIN}")
end
