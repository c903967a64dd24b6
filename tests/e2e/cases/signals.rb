# Handlers of signals in C, on the thread's stack and on a stack of their own (sigaltstack): what was interrupted stands below.
require_relative "../lib/truth_case"

def on_the_stack
  Truth.at
  Truth.signal(0, false)
end

def on_its_own
  Truth.at
  Truth.signal(1, true)
end

def in_a_block
  Truth.at
  [1].each do
    Truth.at
    Truth.signal(2, true)
  end
end

def in_a_fiber
  Fiber.new do
    Truth.at
    Truth.signal(3, true)
  end.resume
end

Case.expect(0, "Object#on_the_stack", "Truth.signal")
Case.expect(1, "Object#on_its_own", "Truth.signal")
Case.expect(2, "Object#in_a_block", "Array#each", "block in Object#in_a_block", "Truth.signal")
Case.expect(3, "block in Object#in_a_fiber", "Truth.signal", root: [])
Case.run do
  on_the_stack
  on_its_own
  in_a_block
  in_a_fiber
end
