# $~ and $_: where a method entry stands otherwise, an object comes to hold what the last match was.
TEXT = ("the quick brown fox jumps over 13 lazy dogs; " * 8).freeze

def upcase(text)
  text.gsub(/[aeiou]\w/) { $~[0].upcase.gsub(/(?<c>[A-Z])/) { $~[:c].succ } }
end

def numbers(text)
  text.scan(/\d+|fox/) { |word| [word].each { |w| w =~ /x/ ? $`.size : $&.to_s.size } }
  text.each_line(";") { |line| ($_ = line) && line[/o(.)/] && $1.then { |c| c =~ /\w/ } }
end

def words(text, left)
  text =~ /quick/ && left.positive? ? text.split(/\W+/).map { |w| w.sub(/^./) { $~.to_s.upcase } } : text.tr("a-y", "b-z")
end

define_method(:nested) do |n|
  TEXT =~ /dogs/
  n.zero? ? $~.begin(0) : [n].sum { |m| m.to_s =~ /\d/ ? nested(n - 1) + $~.end(0) : 0 }
end

$stdout.sync = true
puts "ready"
n = 0
loop do
  n += 1
  upcase(TEXT)
  numbers(TEXT)
  words(TEXT, n & 1)
  nested(n % 12)
  case TEXT when /cat/ then 1 when /(?<=lazy )d/ then $'.size end
end
