# Collects garbage all the time, then execs another Ruby program, again and again. Argument: how many more times.
$stdout.sync = true
left = Integer(ARGV[0])

def before_exec
  Array.new(20_000) { |i| "before #{i}" }.map(&:upcase).size
end

puts "ready" if ARGV[1]
limit = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) + 0.7
before_exec while Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) < limit
exec(RbConfig.ruby, "-e", <<~RUBY, left.to_s) if left.zero?
  def after_exec(n)
    n.zero? ? [1].map { |x| x } : [n].map { after_exec(n - 1) }
  end
  after_exec(8) while true
RUBY
exec(RbConfig.ruby, __FILE__, (left - 1).to_s)
