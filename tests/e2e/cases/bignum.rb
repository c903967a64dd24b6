# A multiplication in libgmp's assembly, which has no CFI: the native part is cut, the Ruby part is whole. No place of the
# extension's is on the stack; the judge asks for what stands below Integer#*.
require_relative "../lib/truth_case"

A = 3**400_000
B = 7**300_000

class Multiplier
  def multiply
    [1].each do
      A * B
    end
  end
end

m = Multiplier.new
Case.facts[:ruby_part] = ["<main>", "Case.run", "block in <main>", "Multiplier#multiply", "Array#each", "block in Multiplier#multiply", "Integer#*"]
Case.facts[:libraries] = ["libgmp.so"]
Case.run { m.multiply }
