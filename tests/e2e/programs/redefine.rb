# Defines a class with methods under a new name each time, runs them, and lets them be collected.
require_relative "../lib/truth_case"

def now
  Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
end

def generation(n)
  started = now
  source = "class Gen#{n}\n  def gen_#{n}\n    x = 0\n    3000.times { |i| x += i }\n  x; end\nend"
  TOPLEVEL_BINDING.eval(source, "gen_#{n}.rb", n * 10)
  Object.const_get("Gen#{n}").new.public_send("gen_#{n}")
  Object.class_eval { remove_const("Gen#{n}") }
  Truth.puts("{\"span\":#{n},\"ns\":[#{started},#{now}]}")
end

n = 0
20.times { generation(n += 1) }
Case.ready
until Truth.stop?
  generation(n += 1)
  GC.start if (n % 200).zero?
end
