# signals.rb DIR: trap handlers, and handlers in C that interrupt whatever runs (frames.so in DIR).
require "#{ARGV.fetch(0)}/frames"

def work(n) = n.zero? ? (1..40).map { |i| "#{i}".hash }.sum : [n].sum { |m| work(m - 1) }

seen = 0
trap(:USR1) { seen += work(seen % 9) }
trap(:USR2) { [1, 2].each { |n| work(n) } }
Frames.interrupt(3000, 700)
$stdout.sync = true
puts "ready"
n = 0
loop do
  n += 1
  Process.kill(n.odd? ? :USR1 : :USR2, $$) if (n % 4).zero?
  work(n % 21)
  Frames.by_caller(n, 20)
  GC.start(full_mark: false) if (n % 50).zero?
  IO.popen(["true"], &:read) if (n % 400).zero?
end
