# Evaluates code for a while, then execs itself, by another Ruby if there are two, again and again. NAMES_IMAGES: the environment
# and the command of each; NAMES_TURNS: how often it execs, from when on the file NAMES_LOG.go is there.
require_relative "../lib/known"

CPU = 0.25 # seconds for each image
GO = "#{ENV.fetch('NAMES_LOG')}.go".freeze

def spin = 20.times { |i| i }

TEXT = <<~'RUBY'
  class K_N
    def m_N
      10.times { |i| spin }
      Known.collect
    end
    def c_N
      m_N; "5 of _N" =~ /\d/
      m_N
    end
  end
RUBY

Known.expect("K_N#c_N:6", "K_N#m_N:2", "Integer#times", "block in K_N#m_N:2", "Object#spin")

images = JSON.parse(ENV.fetch("NAMES_IMAGES"))
turns = ENV.fetch("NAMES_TURNS").to_i
limit = nil
Known.run do |n|
  Known.enter(n)
  Known.define(n, TEXT)
  Object.const_get("K_#{n}").new.public_send("c_#{n}")
  Known.remove("K_#{n}")
  Known.leave(n)
  used = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
  limit = used + CPU unless limit && File.exist?(GO)
  if used > limit && turns > 0
    Known.log(Known::LEAVING)
    env, command = images[turns % images.size]
    exec(env.merge("NAMES_FIRST" => (n + 1).to_s, "NAMES_TRACED" => "0", "NAMES_TURNS" => (turns - 1).to_s, "NAMES_IMAGES" => ENV["NAMES_IMAGES"],
                   "NAMES_LOG" => ENV["NAMES_LOG"]), *command, __FILE__)
  end
end
