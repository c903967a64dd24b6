# Handlers on a stack of their own, one after the other.
require_relative "../lib/truth_case"
Truth.rounds = 10

def signalled
  [1].each { Truth.signal(0, true) }
end

Case.run { signalled }
