# Code that allocates, so that collections begin by themselves, anywhere.
require_relative "../lib/known"

def strings(n) = Array.new(n) { |i| "string #{i}" }

TEXT = <<~'RUBY'
  class K_N
    attr_reader :kept
    def m_N(k)
      @kept = k.times.map { |i| [i, "m_N"] }
      strings(k).map(&:dup).to_h { |s| [s, s.to_sym] }
    end
    def c_N
      4.times { |i| m_N(100) }
    end
  end
RUBY

Known.expect("K_N#c_N:7", "Integer#times", "block in K_N#c_N:7", "K_N#m_N:4", "Object#strings")
Known.expect("K_N#m_N:3", "Enumerable#map", "Enumerator#each", "Integer#times", "block in K_N#m_N:3")

Known.run do |n|
  Known.enter(n)
  Known.define(n, TEXT)
  Object.const_get("K_#{n}").new.public_send("c_#{n}")
  Known.remove("K_#{n}")
  Known.leave(n)
end
