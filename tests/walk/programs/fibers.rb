# A machine stack and a VM stack for each fiber, switched all the time, given back and taken again.
def work(n) = n.zero? ? Array.new(20) { |i| i * i }.sum : [n].sum { |m| work(m - 1) }

def generator(depth)
  Enumerator.new do |out|
    i = 0
    loop { out << (i += work(depth)) }
  end
end

def tree(depth)
  return work(3) if depth.zero?

  child = Fiber.new { Fiber.yield(tree(depth - 1)); tree(depth - 1) }
  child.resume.to_i + child.resume.to_i
end

def zipped(n)
  (1..n).each_slice(2).zip((1..n).each_cons(2), (1..n).lazy.map { |x| work(x % 3) }.select(&:positive?)).size
end

$stdout.sync = true
puts "ready"
generators = Array.new(12) { |i| generator(i) }
passing = Array.new(6) { |i| Fiber.new { |x| loop { x = Fiber.yield(x.to_i + work(i)) } } }
n = 0
loop do
  n += 1
  generators.each(&:next)
  generators[n % 12] = generator(n % 20) if (n % 7).zero?
  passing.each { |f| f.resume(n) }
  tree(n % 5)
  zipped(n % 13)
  abandoned = Fiber.new { work(5); Fiber.yield }
  abandoned.resume
end
