# Makes system calls as fast as the machine can, when told to. On stdin: "go COUNT" (0: until the next line). Until then it calls
# getpgid now and then, so that a recorder can be seen to work. Says how many getppid it made.
require "io/wait"
require_relative "../lib/truth_case"

CHUNK = 20_000
Truth.getppid(0, 1)
Case.ready
Process.getpgid(0) until $stdin.wait_readable(0.02)
count = Integer($stdin.gets.split[1])
# Before whoever shares the processor; threads inherit it.
Process.setpriority(Process::PRIO_PROCESS, 0, -20)
go = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
Truth.puts(JSON.generate(storm: go))
made = 0
if count.zero?
  # Threads that wake one another (futex) beside one that never sleeps.
  ping, pong = Queue.new, Queue.new
  Thread.new { pong << 1 while ping.pop }
  Thread.new { loop { ping << 1; pong.pop } }
  Truth.getppid(0, CHUNK) until $stdin.wait_readable(0)
else
  while made < count
    Truth.getppid(0, CHUNK)
    made += CHUNK
  end
end
Truth.puts(JSON.generate(made: made))
$stdin.gets
