# Code loaded from a binary, as a cache of compiled files does.
require_relative "../lib/known"

def spin = 20.times { |i| i }

TEXT = <<~'RUBY'
  class K_N
    def m_N
      10.times { |i| spin }
    end
    def c_N
      m_N
      Known.collect
    end
  end
  K_N.new.c_N
RUBY

Known.expect("RubyVM::InstructionSequence#eval", "<compiled>:9", "K_N#c_N:5", "K_N#m_N:2", "Integer#times", "block in K_N#m_N:2", "Object#spin")

Known.run do |n|
  Known.enter(n)
  text, file, line = Known.text(n, TEXT)
  binary = RubyVM::InstructionSequence.compile(text, file, file, line).to_binary
  2.times { RubyVM::InstructionSequence.load_from_binary(binary).eval }
  Known.remove("K_#{n}")
  Known.leave(n)
end
