# A leaf C function, called from methods and blocks.
require_relative "../lib/truth_case"

class Worker
  def leaf
    Truth.at
    Truth.burn(0)
  end

  def in_block
    Truth.at
    [1].each do |_|
      Truth.at
      Truth.burn(1)
    end
  end

  def shapes
    Truth.at
    Truth.burn_v(2, 1, 2, 3)
    Truth.burn_a(3, 1)
    Truth.chain(4)
  end

  def self.on_the_class
    Truth.at
    Truth.burn(5)
  end
end

w = Worker.new
Case.expect(0, "Worker#leaf", "Truth.burn")
Case.expect(1, "Worker#in_block", "Array#each", "block in Worker#in_block", "Truth.burn")
Case.expect(2, "Worker#shapes", "Truth.burn_v")
Case.expect(3, "Worker#shapes", "Truth.burn_a")
Case.expect(4, "Worker#shapes", "Truth.chain")
Case.expect(5, "Worker.on_the_class", "Truth.burn")
Case.facts[:debug_info] = 4
Case.run do
  w.leaf
  w.in_block
  w.shapes
  Worker.on_the_class
end
