# Code evaluated in each way, run once and collected.
require_relative "../lib/known"

def spin = 20.times { |i| i }

CLASS = <<~'RUBY'
  class K_N
    def m_N
      10.times { |i| spin }
      Known.collect
    end
    def c_N
      m_N
    end
  end
RUBY
BODY = <<~'RUBY'
  def self.b_N = spin

  10.times { b_N }
RUBY
PLAIN = <<~'RUBY'
  5.times { spin }
  l_N = ->(_) {
    spin }
  5.times(&l_N)
  Known.collect
RUBY

Known.expect("K_N#c_N:6", "K_N#m_N:2", "Integer#times", "block in K_N#m_N:2", "Object#spin")
Known.expect("Module#class_eval", "block in <main>:2", "Integer#times", "block (2 levels) in <main>:2", "K_N.b_N:0", "Object#spin")
Known.expect("BasicObject#instance_eval", "block in <main>:3", "Integer#times", "block (2 levels) in <main>:2", "Object#spin")
Known.expect("Kernel#eval", "Object#evaluate:3", "Integer#times", "block in Object#evaluate:2", "Object#spin")

def evaluate(n)
  text, file, line = Known.text(n, PLAIN)
  eval(text, nil, file, line)
end

Known.run do |n|
  Known.enter(n)
  Known.define(n, CLASS)
  klass = Object.const_get("K_#{n}")
  klass.new.public_send("c_#{n}")
  klass.class_eval(*Known.text(n, BODY))
  klass.new.instance_eval(*Known.text(n, PLAIN))
  evaluate(n)
  Known.remove("K_#{n}")
  Known.leave(n)
end
