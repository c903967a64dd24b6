# Stacks that end early: raise, ensure, retry, throw, break and return out of blocks, at many depths.
class Stop < StandardError; end

def dive(n, how, &block)
  return block.call(how) if n.zero?

  begin
    n.even? ? dive(n - 1, how, &block) : [n].each { |_| dive(n - 1, how, &block) }
  rescue Stop => e
    raise if (n % 5).nonzero?

    e.backtrace_locations&.first&.lineno
    n > 10 ? raise(e) : n
  ensure
    n.times { |i| i + 1 }
  end
end

def tries(left)
  attempts = 0
  begin
    attempts += 1
    Integer("x" * attempts) if attempts < left
    attempts
  rescue ArgumentError
    retry
  end
end

def jumps(depth)
  catch(:out) { dive(depth, :throw) { throw :out, depth } }
  dive(depth, :raise) { raise Stop, "at #{depth}" }
rescue Stop
  [1, 2, 3].each { |i| return i if i == 2 }
end

def breaks(n)
  (1..n).each { |i| (1..i).map { |j| break j if j > 3 } }
  loop { raise StopIteration }
  proc { |x| next x + 1 }.call(n)
end

def overflow(n = 0) = n > 200 ? (return n) : overflow(n + 1)

$stdout.sync = true
puts "ready"
n = 0
loop do
  n += 1
  jumps(n % 37)
  tries(n % 6)
  breaks(n % 11)
  overflow
end
