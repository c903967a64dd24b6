# Refinements, made and used in modules that are dropped.
require_relative "../lib/known"

def spin = 20.times { |i| i }

class Target
  def plain = spin
end

TEXT = <<~'RUBY'
  module R_N
    refine(Target) do
      def m_N(k) = k.times { spin }
      def plain = [super, Known.collect]
    end
  end
  module U_N
    using R_N
    def self.c_N = [Target.new.m_N(10), Target.new.plain]
  end
RUBY

Known.expect("U_N.c_N:8", "m_N:2", "Integer#times", "block in m_N:2", "Object#spin")
Known.expect("U_N.c_N:8", "plain:3", "Target#plain", "Object#spin")
Known.expect("U_N.c_N:8", "plain:3", "Known.collect")

Known.run do |n|
  Known.enter(n)
  Known.define(n, TEXT)
  Object.const_get("U_#{n}").public_send("c_#{n}")
  Known.remove("U_#{n}", "R_#{n}")
  Known.leave(n)
end
