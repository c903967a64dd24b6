# A busy program that says when it runs: {"ready":..}; then burns CPU until SIGUSR2, or for the number of seconds of CPU time given.
$stdout.sync = true
require "json"

def busy(n)
  n.zero? ? 1 : [n].map { |x| busy(x - 1) }.size
end

stop = false
trap(:USR2) { stop = true }
limit = ARGV[0]&.to_f
puts JSON.generate(ready: true, pid: Process.pid)
busy(10) until stop || (limit && Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) > limit)
