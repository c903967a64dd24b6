# Threads that hand work to each other through queues, mutexes, pipes and files.
require "json"
require "monitor"
require_relative "../lib/free"

class Shared
  include MonitorMixin

  def initialize
    super
    @mutex = Mutex.new
    @total = 0
  end

  def add(n)
    @mutex.synchronize { @total += n }
  end

  def monitored
    synchronize { @total.to_s.size }
  end
end

class Pool
  def initialize(shared)
    @shared = shared
    @jobs = Queue.new
    @done = Queue.new
    @threads = Array.new(3) { |i| Thread.new { serve(i) } }
  end

  def serve(_i)
    while (job = @jobs.pop)
      handle(job)
      @done << job
    end
  end

  def handle(job)
    text = JSON.generate("n" => job, "list" => [1, 2, { "a" => nil }] * 5)
    JSON.parse(text).each { |k, v| @shared.add(k.size + (v.is_a?(Array) ? v.size : 0)) }
    @shared.monitored
    read, write = IO.pipe
    write.puts(text)
    write.close
    read.each_line { |l| l.strip.size }
    read.close
    Process.getpgid(0)
  end

  def run(n)
    n.times { |i| @jobs << i }
    n.times { @done.pop }
  end
end

POOL = Pool.new(Shared.new)

def work
  POOL.run(12)
end

Free.run { work }
