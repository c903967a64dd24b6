# Stacks around what is kept and around the limits: they grow and shrink between 10 and some thousand frames.
def idle = (1..300).sum { |i| i }

def down(left, every, &last)
  return last ? last.call : idle if left <= 0
  return [left].each { |n| down(n - 2, every, &last) } if (left % every).zero?

  down(left - 1, every, &last)
end

def upper(n)
  idle
  n.zero? ? idle : n.odd? ? upper(n - 1) : [n].each { |m| upper(m - 1) }
end

$stdout.sync = true
puts "ready"
n = 0
DEPTHS = [10, 700, 1500, 2040, 2060, 3000, 1000, 5000, 100, 2048, 6500].freeze
loop do
  n += 1
  depth = DEPTHS[n % DEPTHS.size]
  down(depth, [8, 200, 5, 31][n % 4]) { 3.times { |i| upper((n + i) % 12) } }
  # Enough blocks that call from C for more than the native frames that are kept, or are recorded.
  down([600, 1500, 3000][n % 3], 3) { upper(n % 7) } if (n % 3).zero?
end
