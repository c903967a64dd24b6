# Threads that evaluate code of their own by turns.
require_relative "../lib/known"

def spin = 20.times { |i| i }

TEXT = <<~'RUBY'
  class K_N
    def m_N
      Known.repeat(10).times { |i| spin }
      Thread.pass
    end
    def c_N
      Known.repeat(10).times { m_N }; "5 of _N" =~ /\d/
      Known.collect
    end
  end
RUBY

Known.expect("K_N#c_N:6", "Integer#times", "block in K_N#c_N:6", "K_N#m_N:2", "Integer#times", "block in K_N#m_N:2", "Object#spin")

Known.run(threads: 4) do |n|
  Known.enter(n)
  Known.define(n, TEXT)
  Object.const_get("K_#{n}").new.public_send("c_#{n}")
  Known.remove("K_#{n}")
  Known.leave(n)
end
