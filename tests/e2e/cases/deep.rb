# 1001 frames of one method, a block at every tenth: more than 600 native frames.
require_relative "../lib/truth_case"

def rec(n)
  return Truth.burn(0) if n.zero?
  return rec(n - 1) unless (n % 10).zero?
  [n].each_with_index { |m| rec(m - 1) }
end

frames = ["Object#rec"]
1000.downto(1) do |n|
  frames << "Enumerable#each_with_index" << "Array#each" << "block in Object#rec" if (n % 10).zero?
  frames << "Object#rec"
end
Case.expect(0, *frames, "Truth.burn")
Case.facts[:at_least_native] = 600
Case.run { rec(1000) }
