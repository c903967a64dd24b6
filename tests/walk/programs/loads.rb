# loads.rb DIR: code comes and goes while it runs. Two libraries in DIR (load_a.so, load_b.so) have the same code at
# the same offsets but for the size of a frame, and are mapped in turn, mostly at the same address.
require "fiddle"
require "tmpdir"
DIR = ARGV.fetch(0)

class Caller
  def initialize
    @callback = Class.new(Fiddle::Closure) { def call(n) = work(n) + 1; def work(n) = n.zero? ? spin : [n].sum { |m| work(m - 1) }; def spin = (1..200).sum }
                     .new(Fiddle::TYPE_INT, [Fiddle::TYPE_INT])
  end

  def through(library, n)
    handle = Fiddle.dlopen(library)
    function = Fiddle::Function.new(handle["through"], [Fiddle::TYPE_VOIDP, Fiddle::TYPE_INT, Fiddle::TYPE_INT], Fiddle::TYPE_INT)
    20.times { |i| function.call(@callback, n % 5, (n + i) % 6) }
    handle.close
  end
end

files = Array.new(20) do |i|
  path = File.join(Dir.tmpdir, "loaded_#{i}.rb")
  File.write(path, "def loaded_#{i}(n) = n.zero? ? 1 : [n].sum { |m| loaded_#{i}(m - 1) }\nloaded_#{i}(9)\n")
  path
end
libraries = %w[a b].map { |name| File.join(DIR, "load_#{name}.so") }
caller = Caller.new
$stdout.sync = true
puts "ready"
n = 0
loop do
  n += 1
  caller.through(libraries[n % 2], n)
  load files[n % 20] if (n % 3).zero?
  case n when 100 then require "socket" when 200 then require "psych" when 300 then require "digest/sha2" when 400 then require "bigdecimal" end
end
