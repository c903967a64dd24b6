# Leaf methods that are compiled and call nothing: YJIT of Ruby 3.1 writes the pc of a frame only before it calls something, so
# that until then there is what was left by the frame that had the place before. Here that is a C function's (none), another
# method's, and the method's own.
module Jit
  ROUNDS = 400_000

  class << self
    def leaf(rounds)
      i = 0
      i += 1 while i < rounds
      i
    end

    def behind_c(object)
      object.frozen?
      Process.pid
      leaf(ROUNDS)
    end

    def other(object)
      object.to_s
    end

    def behind_method(object)
      other(object)
      leaf(ROUNDS)
    end

    def in_block(object)
      [object].each { |o| behind_c(o) }
    end

    def run(object)
      behind_c(object)
      behind_method(object)
      in_block(object)
    end
  end
end

$stdout.sync = true
stop = false
trap(:USR2) { stop = true }
pass = 0
until stop
  Jit.run(:x)
  pass += 1
  puts "{\"ready\":true,\"pid\":#{Process.pid}}" if pass == 20
end
