# threads.rb NUMBER: that many threads, of which some work, some wait, some end and begin again. Each has a stack of
# its own depth. (The machine stacks of Ruby 3.1's threads begin 1 MiB below their ends.)
NUMBER = ARGV.fetch(0).to_i
LOCK = Mutex.new
JOBS = Queue.new
DONE = Queue.new

def work(n)
  return (1..30).sum { |i| i.to_s.size } if n.zero?

  (n % 4).zero? ? [n].each { |m| work(m - 1) } : work(n - 1)
end

def serve(id)
  while (job = JOBS.pop)
    work((id + job) % 40)
    LOCK.synchronize { work(job % 3) }
    DONE << id
    Thread.pass if (job % 3).zero?
  end
end

def descend(n, id) = n.zero? ? serve(id) : n.odd? ? descend(n - 1, id) : [n].each { |m| descend(m - 1, id) }

threads = Array.new(NUMBER) { |id| Thread.new { descend(id % 60, id) } }
$stdout.sync = true
puts "ready"
n = 0
loop do
  n += 1
  NUMBER.times { |i| JOBS << n + i }
  NUMBER.times { DONE.pop }
  next if (n % 5).nonzero?

  Thread.new { work(n % 50) }.join
  Thread.new { Thread.new { work(n % 9) }.value }.join
end
