# stack.rb DEPTH [EXTENSION]: DEPTH Ruby frames, each tenth of them in a block that a C function calls, and then
# - without EXTENSION, one Ruby loop that walks through more memory than the caches hold;
# - with it (gap.so), whatever standard input asks for: "spin MS FILE" or "calls N PAUSE_NS FILE". Each is answered
#   by a line.
require ARGV[1] if ARGV[1]

def leaf
  if ARGV[1]
    while (line = $stdin.gets)
      verb, *words = line.split
      if verb == "spin"
        Gap.spin(words[0].to_i, words[1])
      else
        File.write(words[2], Gap.calls(words[0].to_i, words[1].to_i).join("\n"))
      end
      puts "done"
    end
  else
    array = Array.new(2_000_000) { |i| (i * 7919) % 2_000_000 }
    at = 0
    at = array[at] ^ 1 while true
  end
end

def descend(left)
  return ready if left <= 0
  return [left].each { |n| descend(n - 2) } if (left % 10).zero?

  descend(left - 1)
end

def ready
  $stdout.sync = true
  puts "ready"
  leaf
end

descend(ARGV[0].to_i - 3)
