# Garbage collection: the collector's own native frames above the whole Ruby stack that set it off. The mark and free
# functions of the extension's objects are the known places.
require_relative "../lib/truth_case"

KEEP = Truth::Collected.new
STRING = "x"

# GC.start is a method in Ruby; a finalizer is asked where it stands while it collects.
def gc_start_frame
  found = nil
  1000.times do
    ObjectSpace.define_finalizer(Object.new, proc { found ||= caller_locations(0).find { |l| l.label == "start" } })
  end
  GC.start until found
  { name: "GC.start", kind: "ruby", path: found.path, line: found.lineno }
end
GC_START = gc_start_frame

class Collecting
  def start
    Truth.at
    Truth.arm_collection(:mark, 0, GC_START) && GC.start
  end

  def allocate
    Truth.at
    Truth.arm_collection(:mark, 1, "Class#new") && (Object.new while Truth.armed?)
  end

  def in_block
    Truth.at
    [1].each do
      Truth.at
      Truth.arm_collection(:mark, 2, "String#*") && (STRING * 50 while Truth.armed?)
    end
  end

  def sweep
    Truth.at
    50.times { Truth::Collected.new }
    Truth.arm_collection(:free, 3, GC_START) && GC.start
  end
end

c = Collecting.new
Case.expect(0, "Collecting#start", "GC.start")
Case.expect(1, "Collecting#allocate", "Class#new")
Case.expect(2, "Collecting#in_block", "Array#each", "block in Collecting#in_block", "String#*")
Case.expect(3, "Collecting#sweep", "GC.start")
Case.facts[:gc_places] = [0, 1, 2, 3]
Case.run do
  c.start
  c.allocate
  c.in_block
  c.sweep
end
