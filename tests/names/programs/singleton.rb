# Singleton methods and modules of objects that are dropped.
require_relative "../lib/known"

def spin = 20.times { |i| i }

TEXT = <<~'RUBY'
  def self.s_N = 5.times { spin }

  class << self
    def t_N = [s_N, spin]
  end
  extend(Module.new { def x_N = [t_N, Known.collect] })
  x_N
RUBY
CLASS = <<~'RUBY'
  class K_N
    class << self
      def s_N = 5.times { spin }
      def t_N = [s_N, Known.collect]
    end
    module M_N
      def x_N = t_N
  end end
  K_N.extend(K_N::M_N).x_N
RUBY

Known.expect("BasicObject#instance_eval", "block (2 levels) in <main>:6", "x_N:5", "t_N:3", "s_N:0", "Integer#times", "block in s_N:0", "Object#spin")
Known.expect("K_N::M_N#x_N:6", "K_N.t_N:3", "K_N.s_N:2", "Integer#times", "block in K_N.s_N:2", "Object#spin")

Known.run do |n|
  Known.enter(n)
  2.times { Object.new.instance_eval(*Known.text(n, TEXT)) }
  Known.define(n, CLASS)
  Known.remove("K_#{n}")
  Known.leave(n)
end
