# A method that calls nothing, and one that calls a C function. A JIT compiles both.
$stdout.sync = true
require "json"

def spin
  i = 0
  x = 0
  while i < 200_000
    x += i
    i += 1
  end
  x
end

def sort(list)
  i = 0
  while i < 20
    list.sort
    i += 1
  end
end

list = Array.new(5000) { |i| i * 7919 % 5003 }
100.times { spin && sort([]) }
puts JSON.generate(ready: true, jit: defined?(RubyVM::YJIT) ? RubyVM::YJIT.enabled? : false)
loop do
  spin
  sort(list)
end
