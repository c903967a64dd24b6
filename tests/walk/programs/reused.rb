# Code whose memory is used again: "old" makes it old before a full collection frees it, "marked" runs it while a large heap is
# marked step by step, and runs other code in its place behind the sweep.
$n = 0
def make
  n = ($n += 1)
  type = Module.new
  type.module_eval("def self.run_#{n}(k) = k.times { |i| x = [i] * 3; x.map { |y| y.to_s } }\n" \
                   "def self.spin_#{n}(k) i = 0; while i < k; i += 1; end; end", "f#{n}.rb", n)
  [type, n]
end

def spin(k)
  type, n = make
  type.send("spin_#{n}", k)
  nil
end

$stdout.sync = true
case ARGV.fetch(0)
when "old"
  puts "ready"
  loop do
    made = Array.new(50) { make }
    6.times do
      GC.start(full_mark: false)
      made.each { |type, n| type.send("run_#{n}", 200) }
    end
    made = nil
    GC.start
  end
when "marked"
  big = Array.new(600_000) { |i| [i.to_s] }
  puts "ready"
  loop do
    GC.start(full_mark: true, immediate_mark: false, immediate_sweep: false)
    count = GC.count
    150.times { spin(40_000) if GC.latest_gc_info(:state) == :marking }
    "x" * 30 while GC.latest_gc_info(:state) == :marking && GC.count == count
    400.times { spin(10_000) if GC.count == count }
  end
end
