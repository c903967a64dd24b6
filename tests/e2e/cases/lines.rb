# The line that runs: chains and literals over several lines, one-line methods, long methods, many lines per method.
# The truth is Ruby's own caller_locations at the place; the numbers are stated here as well.
require_relative "../lib/truth_case"
Truth.rounds = 10_000

class Lines
  def one_line; Truth.burn(0); end
  def one_line_with_block; [1].each { |_| Truth.burn(1) }; end

  def chain
    [3, 1, 2]
      .map { |x| x + 1 }
      .select { |x| x > 1 }
      .each { |x| Truth.burn(2) if x == 2 }
      .reverse
  end

  def literals
    [
      1,
      Truth.burn(3),
      {
        a: 2,
        b: Truth.burn(4),
      },
      "text #{
        Truth.burn(5)
      }",
    ]
  end

  def arguments
    take(
      1,
      Truth.burn(6),
      key: 2
    )
  end

  def take(*)
    nil
  end

  def conditions(a = 1)
    if a == 2
      2
    elsif a == 1 &&
          Truth.burn(7).nil?
      case a
      when 0
        0
      when 1 then
        Truth.burn(8)
      end
    end
    while a < 2
      a += 1
      Truth.burn(9)
    end
  end

  def heredoc
    take(<<~ONE, <<~TWO, Truth.burn(10))
      one
    ONE
      two
    TWO
    Truth.burn(11)
  end

  def operators
    x = 1 +
        Truth.burn(12).to_i +
        2
    y = x ||
        3
    y ? Truth.burn(13)
      : 4
  end

  def self.assign
    @a ||=
      begin
        Truth.burn(14)
        nil
      end
  end

  def callers
    below(1,
          2)
  end

  def below(_a, _b)

    Truth.burn(15)

  end

  def rescued
    Integer("x")
  rescue ArgumentError
    1
  else
    2
  ensure
    Truth.burn(16)
  end
end

# Long methods: the place is behind some hundred instructions, and in the table's later blocks.
def long_source(name, before, place, after)
  lines = ["def #{name}", "x = 0"]
  before.times { |i| lines << "x += #{i}; x -= [x, 1].size" }
  lines << "Truth.burn(#{place})"
  after.times { |i| lines << "x += #{i}" }
  (lines << "end").join("\n")
end
eval(long_source("long_60", 60, 17, 100), TOPLEVEL_BINDING, "long_60.rb", 1000)
eval(long_source("long_300", 300, 18, 10), TOPLEVEL_BINDING, "long_300.rb", 1)
eval(long_source("long_3000", 3000, 19, 500), TOPLEVEL_BINDING, "long_3000.rb", 100_000)
eval((["def sparse"] + ["\n" * 300, "Truth.burn(20)", "\n" * 70_000, "Truth.burn(21)", "end"]).join("\n"), TOPLEVEL_BINDING, "sparse.rb", 5)

l = Lines.new
Case.facts[:lines] = {
  0 => 7, 1 => 8, 2 => 14, 3 => 21, 4 => 24, 5 => 27, 6 => 35, 7 => 48, 8 => 53, 9 => 58, 10 => 63, 11 => 68, 12 => 73,
  13 => 77, 14 => 84, 15 => 96, 16 => 107, 17 => 1062, 18 => 303, 19 => 103_002, 20 => 307, 21 => 70_309
}
Case.run do
  l.one_line
  l.one_line_with_block
  l.chain
  l.literals
  l.arguments
  l.conditions
  l.heredoc
  l.operators
  Lines.assign
  l.callers
  l.rescued
  long_60
  long_300
  long_3000
  sparse
end
