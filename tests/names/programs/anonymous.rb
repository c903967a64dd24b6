# Classes and modules without a name, some of which get one later: from then on their methods have it too.
require_relative "../lib/known"

def spin = 20.times { |i| i }

TEXT = <<~'RUBY'
  Class.new do
    def a_N = 5.times { spin }
    def before_N
      a_N
    end
    def after_N
      a_N; Known.collect
    end
    const_set(:Inner, Class.new { def i_N = 5.times { spin } })
  end
RUBY

Known.expect("before_N:3", "a_N:1", "Integer#times", "block in a_N:1", "Object#spin")
Known.expect("K_N#after_N:6", "K_N#a_N:1", "Integer#times", "block in K_N#a_N:1", "Object#spin")
Known.expect("i_N:8", "Integer#times", "block in i_N:8", "Object#spin")

Known.run do |n|
  Known.enter(n)
  klass = Known.define(n, TEXT)
  2.times { klass.new.public_send("before_#{n}") }
  klass::Inner.new.public_send("i_#{n}")
  Object.const_set("K_#{n}", klass)
  2.times { klass.new.public_send("after_#{n}") }
  klass::Inner.new.public_send("i_#{n}")
  Known.remove("K_#{n}")
  Known.leave(n)
end
