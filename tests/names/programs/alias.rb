# Methods under other names, in their class and in another.
require_relative "../lib/known"

def spin = 20.times { |i| i }

TEXT = <<~'RUBY'
  class K_N
    def m_N(k) = k.times { spin }
    alias a_N m_N
    alias_method :b_N, :a_N
    def o_N(k) = k.times { spin } end
  class L_N < K_N
    alias z_N o_N
    def o_N(k) = z_N(k)
    def c_N = [a_N(5), b_N(5), z_N(5), o_N(5), Known.collect] end
RUBY

# An alias in a class below makes the method that class's; rb_profile_frame_classpath tells the other (defined_class, not owner).
Known.names("K_N#o_N" => "L_N#o_N", "block in K_N#o_N" => "block in L_N#o_N")
Known.expect("L_N#c_N:8", "K_N#m_N:1", "Integer#times", "block in K_N#m_N:1", "Object#spin")
Known.expect("L_N#c_N:8", "L_N#o_N:7", "L_N#o_N:4", "Integer#times", "block in L_N#o_N:4")

Known.run do |n|
  Known.enter(n)
  Known.define(n, TEXT)
  klass = Object.const_get("L_#{n}")
  2.times { klass.new.public_send("c_#{n}") }
  Known.remove("L_#{n}", "K_#{n}")
  Known.leave(n)
end
