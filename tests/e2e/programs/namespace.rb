# Two threads with names, each in a method of its own. Told to by a line, a third one loads an extension and works in it.
$stdout.sync = true
require "json"

def left
  loop { [1].each { |n| n + 1 } }
end

def right
  loop { [1].map { |n| n - 1 } }
end

def late
  require File.join(ENV.fetch("TRUTH_EXT"), "truth")
  loop { Truth.yield { [1].each { |n| n * 1 } } }
end

threads = %w[left right].map { |name| Thread.new { send(name) }.tap { |t| t.name = name } }
sleep 0.01 until threads.all?(&:native_thread_id)
puts JSON.generate(ready: true, pid: Process.pid, tids: threads.to_h { |t| [t.native_thread_id, t.name] })
$stdin.gets
late
