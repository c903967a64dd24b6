# Methods made of blocks, of lambdas and of other methods.
require_relative "../lib/known"

def spin = 20.times { |i| i }

TEXT = <<~'RUBY'
  class K_N
    define_method(:d_N) { |k|
      k.times { spin } }
    define_method(:e_N, &->() { spin; Known.collect })
    define_method(:f_N, instance_method(:d_N))
    def c_N
      d_N(5); e_N; f_N(5)
      define_singleton_method(:s_N) { 5.times { spin } }; s_N
    end
  end
RUBY

Known.expect("K_N#c_N:6", "block in <class:K_N>:2", "Integer#times", "block (2 levels) in <class:K_N>:2", "Object#spin")
Known.expect("K_N#c_N:6", "block in <class:K_N>:3", "Known.collect")
Known.expect("K_N#c_N:7", "block in c_N:7", "Integer#times", "block (2 levels) in c_N:7", "Object#spin")

Known.run do |n|
  Known.enter(n)
  Known.define(n, TEXT)
  klass = Object.const_get("K_#{n}")
  2.times { klass.new.public_send("c_#{n}") }
  Known.remove("K_#{n}")
  Known.leave(n)
end
