# C functions that call C functions, and C that calls back into Ruby in the plainest ways.
require_relative "../lib/truth_case"

class Caller
  def c_to_c
    Truth.at
    Truth.call(Truth, :burn, 0)
  end

  def through_method_object
    Truth.at
    [1].each(&Truth.method(:burn))
  end

  def public_send_to_c
    Truth.at
    Truth.public_send(:burn_v, 2)
  end

  def yielding
    Truth.at
    Truth.yield(3) do |k|
      Truth.at
      Truth.burn(k)
    end
  end

  def called(k)
    Truth.at
    Truth.burn(k)
  end

  def c_to_ruby
    Truth.at
    Truth.call(self, :called, 4)
  end

  def c_to_c_to_ruby
    Truth.at
    Truth.call(Truth, :call, self, :called, 5)
  end

  def method_call
    Truth.at
    method(:called).call(6)
  end

  def bound
    Truth.at
    Caller.instance_method(:called).bind_call(self, 7)
  end

  def gvl
    Truth.at
    Truth.nogvl(8)
    Truth.nogvl_gvl do
      Truth.at
      Truth.burn(9)
    end
  end

  def protected_by_c
    Truth.at
    Truth.protect do
      Truth.at
      Truth.burn(10)
    end
  end
end

c = Caller.new
Case.expect(0, "Caller#c_to_c", "Truth.call", "Truth.burn")
Case.expect(1, "Caller#through_method_object", "Array#each", "Truth.burn")
Case.expect(2, "Caller#public_send_to_c", "Kernel#public_send", "Truth.burn_v")
Case.expect(3, "Caller#yielding", "Truth.yield", "block in Caller#yielding", "Truth.burn")
Case.expect(4, "Caller#c_to_ruby", "Truth.call", "Caller#called", "Truth.burn")
Case.expect(5, "Caller#c_to_c_to_ruby", "Truth.call", "Truth.call", "Caller#called", "Truth.burn")
Case.expect(6, "Caller#method_call", "Method#call", "Caller#called", "Truth.burn")
Case.expect(7, "Caller#bound", "UnboundMethod#bind_call", "Caller#called", "Truth.burn")
Case.expect(8, "Caller#gvl", "Truth.nogvl")
Case.expect(9, "Caller#gvl", "Truth.nogvl_gvl", "block in Caller#gvl", "Truth.burn")
Case.expect(10, "Caller#protected_by_c", "Truth.protect", "block in Caller#protected_by_c", "Truth.burn")
Case.run do
  c.c_to_c
  c.through_method_object
  c.public_send_to_c
  c.yielding
  c.c_to_ruby
  c.c_to_c_to_ruby
  c.method_call
  c.bound
  c.gvl
  c.protected_by_c
end
