# Code that runs in between: finalizers, TracePoint, signal handlers; all of it inside at_exit.
require_relative "../lib/truth_case"

class Finalized
  def self.make
    o = new
    ObjectSpace.define_finalizer(o, method(:finalize))
    nil
  end

  def self.finalize(_id)
    Truth.at
    return if $done
    $done = true
    Truth.burn(0)
  end
end

class Traced
  def target
    1
  end

  def trace
    Truth.at
    tp = TracePoint.new(:call) do |t|
      Truth.at
      Truth.burn(1) if t.method_id == :target
    end
    tp.enable
    target
    tp.disable
  end

  def trace_c
    Truth.at
    tp = TracePoint.new(:c_call) do |t|
      Truth.at
      Truth.burn(2) if t.method_id == :gcd
    end
    tp.enable
    4.gcd(6)
    tp.disable
  end

  def trace_line
    Truth.at
    tp = TracePoint.new(:line) do |t|
      if t.lineno == 55 && t.path == __FILE__
        Truth.at
        Truth.burn(3)
      end
    end
    tp.enable
    a = 55
    tp.disable
    a
  end

  def signalled
    Truth.at
    Process.kill(:USR1, Process.pid)
    nil until $handled
  end
end

trap(:USR1) do
  Truth.at
  Truth.burn(4)
  $handled = true
end

def finalize_some
  Truth.at
  $done = false
  20.times { Finalized.make }
  GC.start until $done
end

t = Traced.new
at_exit_root = ["block in <main>", "Case.run", "block (2 levels) in <main>"]
Case.expect(0, "Object#finalize_some", "GC.start", "Method#call", "Finalized.finalize", "Truth.burn", root: at_exit_root)
Case.expect(1, "Traced#trace", "Traced#target", "block in Traced#trace", "Truth.burn", root: at_exit_root)
# The hook runs before the C function has a frame.
Case.expect(2, "Traced#trace_c", "block in Traced#trace_c", "Truth.burn", root: at_exit_root)
Case.expect(3, "Traced#trace_line", "block in Traced#trace_line", "Truth.burn", root: at_exit_root)
Case.expect(4, "Traced#signalled", "Process.kill", "block in <main>", "Truth.burn", root: at_exit_root)
at_exit do
  Case.run do
    $handled = false
    finalize_some
    t.trace
    t.trace_c
    t.trace_line
    t.signalled
  end
end
