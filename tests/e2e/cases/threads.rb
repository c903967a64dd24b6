# Threads with a stack each, burning in turns and outside the GVL at the same time, and blocked ones.
require_relative "../lib/truth_case"

class Work
  def burn(k)
    Truth.at
    Truth.burn(k)
  end

  def in_blocks(k)
    Truth.at
    [1].each do
      Truth.at
      1.times do
        Truth.at
        Truth.burn(k)
      end
    end
  end

  def outside(k)
    Truth.at
    Truth.nogvl(k)
  end
end

work = Work.new
turn = Queue.new
gates = Array.new(4) { Queue.new }
named = %i[burn in_blocks outside].each_with_index.map do |name, i|
  Thread.new do
    Thread.current.name = "worker #{name}"
    while gates[i].pop
      Truth.at
      work.public_send(name, i)
      turn << true
    end
  end
end
Thread.new { Truth.at; Thread.stop }
inner = Thread.new do
  Truth.at
  Thread.new do
    while gates[3].pop
      Truth.at
      Fiber.new { Truth.at; work.burn(3) }.resume
      turn << true
    end
  end
end.value

Case.expect(0, "block (2 levels) in <main>", "Kernel#public_send", "Work#burn", "Truth.burn", root: [])
Case.expect(1, "block (2 levels) in <main>", "Kernel#public_send", "Work#in_blocks", "Array#each", "block in Work#in_blocks",
            "Integer#times", "block (2 levels) in Work#in_blocks", "Truth.burn", root: [])
Case.expect(2, "block (2 levels) in <main>", "Kernel#public_send", "Work#outside", "Truth.nogvl", root: [])
Case.expect(3, "block (3 levels) in <main>", "Work#burn", "Truth.burn", root: [])
Case.expect(4, "Truth.burn")
Case.facts[:thread_names] = { 0 => "worker burn", 1 => "worker in_blocks", 2 => "worker outside" }
Case.run do
  gates.each { |gate| gate << true }
  Truth.burn(4)
  4.times { turn.pop }
end
