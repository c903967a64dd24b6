# Makes system calls from known stacks on several threads, when told to on stdin. Each maker says what its stack is.
# Arguments: the number of calls of each maker (0: none); "nowarm" leaves out the calls before "go".
require "io/wait"
require_relative "../lib/truth_case"

COUNT = Integer(ARGV[0])
WARM = ARGV[1] != "nowarm"
DIR = ARGV[2]

class Maker
  # Each prints the Ruby part of the stack that its calls have: {maker:, tid:, call:, count:, ruby:}.
  def tell(call, count, *above)
    frames = Truth.ruby_frames(1).reverse
    above.each { |name| frames << frames.last.merge(name: name, kind: "cfunc", loop: nil) }
    Truth.puts(JSON.generate(maker: true, call: call, tid: Truth.gettid, count: count, ruby: frames))
  end

  def open_file(path)
    tell("openat", 1, "IO.open", "File#initialize"); File.open(path).close
  end

  def in_block(path)
    [1].each do
      tell("openat", 1, "IO.read"); IO.read(path)
    end
  end

  def parent
    Truth.getppid(0, COUNT)
  end

  def parent_in_block
    [1].each { Truth.getppid(1, COUNT) }
  end

  def ruby_parent
    tell("getppid", 1, "Process.ppid"); Process.ppid
  end

  def group
    tell("getpgid", 1, "Process.getpgid"); Process.getpgid(0)
  end

  def blocking(pipe)
    Truth.read(2, 3, pipe.fileno)
  end

  def ruby_read(pipe)
    tell("read", 1, "IO#sysread"); pipe.sysread(1)
  end

  def sleeping
    Truth.nanosleep(3, COUNT, 1000)
  end
end

maker = Maker.new
path = File.join(DIR, "some-file")
File.write(path, "x")
pipe, into_pipe = IO.pipe
second, into_second = IO.pipe
Truth.learn
# libc asks for the number of CPUs when threads allocate for the first time: have that behind us.
barrier = Queue.new
idle = Array.new(12) { Thread.new { "x" * 100_000; barrier.pop } }
idle.each { barrier << true }
idle.each(&:join)
Case.ready
if WARM
  Truth.getppid(7, 1) until $stdin.wait_readable(0.02)
end
$stdin.gets
threads = COUNT.zero? ? [] : [
  Thread.new { COUNT.times { maker.open_file(path) } },
  Thread.new { COUNT.times { maker.in_block(path) } },
  Thread.new { maker.parent; maker.parent_in_block },
  Thread.new { COUNT.times { maker.ruby_parent } },
  Thread.new { COUNT.times { maker.group } },
  Thread.new { maker.blocking(pipe) },
  Thread.new { 3.times { maker.ruby_read(second) } },
  Thread.new { maker.sleeping },
  Thread.new { Fiber.new { COUNT.times { maker.ruby_parent } }.resume },
]
3.times { into_pipe.syswrite("x"); into_second.syswrite("x"); Thread.pass } unless COUNT.zero?
threads.each(&:join)
Truth.puts(JSON.generate(done: true))
$stdin.gets
