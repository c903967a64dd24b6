# The collector at work all the time: minor, major and compacting, finalizers, methods and classes that are freed.
def allocate(n) = n.zero? ? Array.new(50) { |i| "text #{i}" * 3 } : [n].flat_map { |m| allocate(m - 1) }

def forget(n)
  type = Class.new { n.times { |i| define_method("m#{i}") { |x = i| [x].each { |y| y.to_s } } } }
  it = type.new
  n.times { |i| it.send("m#{i}") }
  ObjectSpace.define_finalizer(it, proc { (1..20).sum })
  eval("def it.single(x) = [x].map { |y| y + #{n} }")
  it.single(n)
end

$stdout.sync = true
puts "ready"
n = 0
kept = []
loop do
  n += 1
  kept[n % 50] = allocate(n % 20)
  forget(n % 10)
  GC.start(full_mark: (n % 30).zero?, immediate_sweep: n.odd?) if (n % 10).zero?
  GC.compact if (n % 200).zero? && GC.respond_to?(:compact)
  GC.stress = (n % 300) < 2
end
