# Stacks of all kinds of frames: says at each stop what this Ruby says of its own stack, and waits until the test has copied
# its memory.
$stdout.sync = true

def stop(name)
  puts "STOP\t#{name}"
  caller_locations(1).each { |l| puts "#{l.lineno}\t#{l.label}" }
  puts "END"
  exit!(0) if $stdin.gets.nil?
end

class Shop
  define_method(:made) { |text, &block| [text].each_with_index { |part, _| seek(part, &block) } }

  def seek(part, &block)
    return unless part =~ /(x)(y)?/

    part.gsub(/x/) { catch(:done) { send(:inner, &block) } }
  end

  def inner(&block) = [2, 1].min_by { |n| n == 2 ? (instance_exec(n, &block); 0) : n }

  def method_missing(name, *) = [name].map { |n| stop(n.to_s) }
  def respond_to_missing?(*) = true
end

def descend(n, &block) = n.zero? ? yield : [n].each { |m| descend(m - 1, &block) }

eval("Shop.new.made('axb') { missing }", binding, "/made/up.rb", 7)
descend(3) { stop("few") }
descend(250) { Shop.new.made("x") { stop("deep") } }
# So many blocks inside of blocks: a method stands many environments away.
1.times { 1.times { 1.times { 1.times { 1.times { [1].each { stop("nested") } } } } } }
Fiber.new { descend(20) { stop("fiber") } }.resume
Thread.new { descend(5) { Thread.main.object_id } }.join
stop("main")
