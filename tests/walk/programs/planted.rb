# planted.rb DIR HOW: nothing but what one check of the fast walk is there for (frames.so in DIR).
require "#{ARGV.fetch(0)}/frames"

def spin = Frames.spin(300)
def lines(n)
  spin if n == 0
  spin if n == 1
  spin if n == 2
end

$stdout.sync = true
puts "ready"
n = 0
case ARGV.fetch(1)
when "return-address" then loop { Frames.by_caller(n += 1, 300) }
when "frame-pointer" then loop { Frames.by_frame_pointer(n += 1, 300) }
when "frame" then loop { lines((n += 1) % 3) }
end
