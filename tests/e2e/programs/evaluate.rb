# Evaluates two texts by turns, each from a method of its own, while the collector runs all the time: the code of one is
# freed and that of the other made in its place, so that an address soon says nothing.
require_relative "../lib/truth_case"

def spin = 300.times { |i| i }
def left = eval("spin; 1")
def right = eval("spin; 2")

turns = Random.new(4)
Case.ready
n = 0
until Truth.stop?
  turns.rand(2).zero? ? left : right
  GC.start(full_mark: (n % 50).zero?) if ((n += 1) % 3).zero?
end
