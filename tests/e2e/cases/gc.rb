# Garbage collection: the collector's own native frames above the whole Ruby stack that set it off. The mark and free
# functions of the extension's objects are the known places; which of the native frames is the one that entered the
# collector, the collector's own event tells (see gc_entered in ext/truth.c).
require_relative "../lib/truth_case"

KEEP = Truth::Collected.new
STRING = "x"
LARGE = 5_000_000 # words: more than what may be allocated before the collector is asked (RUBY_GC_MALLOC_LIMIT_MAX)
# So many that an array of them is neither within its object nor in the transient heap of 3.1, and no more than 3.3 hands
# over without an array of its own (vm_core.h, VM_ARGC_STACK_MAX, v3_3_4).
MANY = Array.new(RUBY_VERSION < "3.2" ? 10_000 : 100, 1).freeze

# The line of a method of GC that is written in Ruby: a finalizer is asked where it stands while it collects.
def line_of(label, collect)
  found = nil
  1000.times do
    ObjectSpace.define_finalizer(Object.new, proc { found ||= caller_locations(0).find { |l| l.label == label } })
  end
  collect.call until found
  { name: "GC.#{label}", kind: "ruby", path: found.path, line: found.lineno }
end
GC_START = line_of("start", -> { GC.start })
# Array.new is a function of its own since 3.3 (array.c, rb_ary_s_new).
NEW_ARRAY = RUBY_VERSION < "3.2" ? ["Class#new", "Array#initialize"] : ["Array.new"]
# In C since 3.3 (gc.c, Init_GC).
GC_COMPACT = RUBY_VERSION < "3.2" ? line_of("compact", -> { GC.compact }) : "GC.compact"

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

  # Memory of arrays, of a hash: from C functions, and from the interpreter's own instructions. What is allocated is not
  # freed: so the next collection is to mark at once, and not only to begin to. To make memory larger sets nothing off.
  def push(i = 0)
    Truth.at
    empty = Array.new(20_000_000 / MANY.size) { [] }
    GC.start
    Truth.arm_collection(:mark, 4, "Array#push") && (empty[i += 1].push(*MANY) while Truth.armed?)
  end

  def store(hash = {}, i = 0)
    Truth.at
    GC.start
    Truth.arm_collection(:mark, 5, "Hash#store") && (hash.store(i += 1, i) while Truth.armed?)
  end

  def aset(hash = {}, i = 0)
    Truth.at
    GC.start
    Truth.arm_collection(:mark, 6) && (hash[i += 1] = i while Truth.armed?)
  end

  # There is room for objects after a collection: it is the memory for the words that sets off the next one.
  def new_array
    Truth.at
    GC.start
    Truth.arm_collection(:mark, 7, *NEW_ARRAY) && (Array.new(LARGE) while Truth.armed?)
  end

  def interpolate(text = nil)
    Truth.at
    Truth.arm_collection(:mark, 8) && (text = "#{STRING}#{STRING}" while Truth.armed?) && text
  end

  def compact
    Truth.at
    Truth.arm_collection(:mark, 9, GC_COMPACT) && GC.compact
  end

  # Marking in steps, and sweeping in steps: each is one of an allocation.
  def step_of_marking
    Truth.at
    GC.start(immediate_mark: false, immediate_sweep: false)
    Truth.arm_collection(:mark, 10, "Class#new") && (Object.new while Truth.armed?)
  end

  def step_of_sweeping
    Truth.at
    Array.new(20_000) { Truth::Collected.new }
    GC.start(immediate_sweep: false)
    Truth.arm_collection(:free, 11, "Class#new") && (Truth::Collected.new while Truth.armed?)
  end

  # What was not swept is swept when the next collection is asked for.
  def rest_of_sweeping
    Truth.at
    Array.new(20_000) { Truth::Collected.new }
    GC.start(immediate_sweep: false)
    Truth.arm_collection(:free, 12, GC_START) && GC.start
  end

  def rest_of_marking
    Truth.at
    GC.start(immediate_mark: false, immediate_sweep: false)
    Truth.arm_collection(:mark, 13, GC_START) && GC.start
  end
end

HOWS = %i[str xmalloc gc_start gc data nogvl].freeze

class Extension
  HOWS.each_with_index do |how, i|
    class_eval <<~RUBY, __FILE__, __LINE__ + 1
      def #{how}
        Truth.at
        Truth.arm_collection(:mark, #{20 + i}, "Truth.collect") && Truth.collect(:#{how})
      end
    RUBY
  end
end

c = Collecting.new
Case.expect(0, "Collecting#start", "GC.start")
Case.expect(1, "Collecting#allocate", "Class#new")
Case.expect(2, "Collecting#in_block", "Array#each", "block in Collecting#in_block", "String#*")
Case.expect(3, "Collecting#sweep", "GC.start")
Case.expect(4, "Collecting#push", "Array#push")
Case.expect(5, "Collecting#store", "Hash#store")
Case.expect(6, "Collecting#aset")
Case.expect(7, "Collecting#new_array", *NEW_ARRAY)
Case.expect(8, "Collecting#interpolate")
Case.expect(9, "Collecting#compact", "GC.compact")
Case.expect(10, "Collecting#step_of_marking", "Class#new")
Case.expect(11, "Collecting#step_of_sweeping", "Class#new")
Case.expect(12, "Collecting#rest_of_sweeping", "GC.start")
Case.expect(13, "Collecting#rest_of_marking", "GC.start")
e = Extension.new
HOWS.each_with_index { |how, i| Case.expect(20 + i, "Extension##{how}", "Truth.collect") }
Case.facts[:gc_places] = [*0..13, *20...20 + HOWS.size]
Case.run do
  c.start
  c.allocate
  c.in_block
  c.sweep
  c.push
  c.store
  c.aset
  c.new_array
  c.interpolate
  c.compact
  c.step_of_marking
  c.step_of_sweeping
  c.rest_of_sweeping
  c.rest_of_marking
  e.str
  e.xmalloc
  e.gc_start
  e.gc
  e.data
  e.nogvl
end
