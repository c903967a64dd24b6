# Exceptions in flight: rescue, ensure while unwinding, hooks of exceptions, throw, rescue and ensure in C.
require_relative "../lib/truth_case"

class Oops < StandardError
  def initialize(k = nil)
    Truth.at
    Truth.burn(k) if k
    super("oops")
  end

  def message
    Truth.at
    Truth.burn(3)
    "message"
  end

  def exception(*)
    Truth.at
    Truth.burn(4)
    super
  end
end

def raising
  Truth.at
  raise RuntimeError, "x"
end

def rescuing
  Truth.at
  begin
    raising
  rescue RuntimeError
    Truth.burn(0)
  end
end

def ensuring
  Truth.at
  begin
    raising
  ensure
    Truth.burn(1)
  end
end

def rescue_ensuring
  Truth.at
  ensuring
rescue RuntimeError
  1
end

def initializing
  Truth.at
  raise Oops.new(2)
rescue Oops => e
  e.message
end

def through_c
  Truth.at
  [1].each do
    Truth.at
    begin
      [2].map { raising }
    ensure
      Truth.burn(5)
    end
  end
rescue
  [3].each do
    Truth.at
    Truth.burn(6)
  end
end

def matched
  Truth.at
  matcher = Module.new do
    def self.===(e)
      Truth.at
      Truth.burn(7)
      true
    end
  end
  begin
    raising
  rescue matcher
    1
  end
end

def thrown
  Truth.at
  catch(:done) do
    Truth.at
    begin
      throw :done
    ensure
      Truth.burn(8)
    end
  end
  Truth.burn(9)
end

def in_c
  Truth.at
  Truth.rescue(10) { raising }
  begin
    Truth.ensure(11) { raising }
  rescue
    1
  end
  Truth.protect { raising }
  Truth.burn(12)
end

def breaking
  Truth.at
  [1].each do
    begin
      break
    ensure
      Truth.burn(13)
    end
  end
end

def retrying
  Truth.at
  tries = 0
  begin
    tries += 1
    raise "x" if tries < 3
    Truth.burn(14)
  rescue
    retry
  end
end

Case.expect(0, "Object#rescuing", "Truth.burn")
Case.expect(1, "Object#rescue_ensuring", "Object#ensuring", "Truth.burn")
Case.expect(2, "Object#initializing", "Class#new", "Oops#initialize", "Truth.burn")
Case.expect(3, "Object#initializing", "Oops#message", "Truth.burn")
Case.expect(4, "Object#initializing", "Kernel#raise", "Oops#exception", "Truth.burn")
Case.expect(5, "Object#through_c", "Array#each", "block in Object#through_c", "Truth.burn")
Case.expect(6, "Object#through_c", "Array#each", "block in Object#through_c", "Truth.burn")
Case.expect(7, "Object#matched", "===", "Truth.burn")
Case.expect(8, "Object#thrown", "Kernel#catch", "block in Object#thrown", "Truth.burn")
Case.expect(9, "Object#thrown", "Truth.burn")
Case.expect(10, "Object#in_c", "Truth.rescue")
Case.expect(11, "Object#in_c", "Truth.ensure")
Case.expect(12, "Object#in_c", "Truth.burn")
Case.expect(13, "Object#breaking", "Array#each", "block in Object#breaking", "Truth.burn")
Case.expect(14, "Object#retrying", "Truth.burn")
Case.run do
  rescuing
  rescue_ensuring
  initializing
  through_c
  matched
  thrown
  in_c
  breaking
  retrying
end
