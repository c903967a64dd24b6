# Methods that set $~ and $_: a reference to the method's entry stands in its place, in an object that is as young as the call.
require_relative "../lib/known"

def spin = 20.times { |i| i }

TEXT = <<~'RUBY'
  class K_N
    def m_N(s)
      s =~ /(\d)/; spin; $~[1].to_i.times { spin }
    end
    define_method(:d_N) { |s| s.sub(/\d/) { spin; $~[0] } }
    def c_N
      s = "5 of _N"; m_N(s); d_N(s); s.gsub(/\d/) { spin }
      $_ = s; Known.collect; [$_, m_N("4")]
    end
    alias a_N c_N end
RUBY

Known.expect("K_N#c_N:6", "K_N#m_N:2", "Integer#times", "block in K_N#m_N:2", "Object#spin")
Known.expect("K_N#c_N:6", "block in <class:K_N>:4", "String#sub", "block (2 levels) in <class:K_N>:4", "Object#spin")
Known.expect("K_N#c_N:7", "K_N#m_N:2", "Object#spin")

Known.run do |n|
  Known.enter(n)
  Known.define(n, TEXT)
  klass = Object.const_get("K_#{n}")
  klass.new.public_send("c_#{n}")
  klass.instance_method("m_#{n}").bind_call(klass.new, "6")
  klass.new.public_send("a_#{n}")
  Known.remove("K_#{n}")
  Known.leave(n)
end
