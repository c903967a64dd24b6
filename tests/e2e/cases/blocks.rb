# Blocks from C, blocks written in C, define_method, procs of all kinds.
require_relative "../lib/truth_case"

class Blocks
  def two_levels
    Truth.at
    [1].each do
      Truth.at
      1.times do
        Truth.at
        Truth.burn(0)
      end
    end
  end

  define_method(:defined) do
    Truth.at
    Truth.burn(1)
  end

  define_method(:with_block) do |k, &block|
    Truth.at
    block.call(k)
  end

  def call_defined
    Truth.at
    with_block(2) do |k|
      Truth.at
      Truth.burn(k)
    end
  end

  def c_block
    Truth.at
    Truth.c_block([1], :each, 3)
  end

  def c_block_over_ruby
    Truth.at
    Truth.c_block(self, :each, 4)
  end

  def each
    Truth.at
    yield 1
  end

  def c_block_calls
    Truth.at
    callee = lambda do |_|
      Truth.at
      Truth.burn(5)
    end
    Truth.c_block_calls([1], :each, callee)
  end

  def exec
    Truth.at
    instance_exec(6) do |k|
      Truth.at
      Truth.burn(k)
    end
  end

  def burning
    Truth.at
    Truth.burn(7)
  end

  def symbol
    Truth.at
    [self].each(&:burning)
  end

  def method_block
    Truth.at
    [8].each(&method(:burn_at))
  end

  def burn_at(k)
    Truth.at
    Truth.burn(k)
  end

  def composed
    Truth.at
    (method(:burn_at) << ->(x) { x }).call(9)
  end

  def optional(k = (Truth.at; Truth.burn(10)), key: (Truth.burn(11)))
    k
  end

  def inject
    Truth.at
    [1, 2].inject do |_, k|
      Truth.at
      Truth.burn(12)
    end
  end

  def nested_each
    Truth.at
    { 1 => 2 }.each do |_, v|
      Truth.at
      (1..1).each_with_index do |x, i|
        Truth.at
        [3].each_slice(1) do |a|
          Truth.at
          Truth.burn(13)
        end
      end
    end
  end


  def yield_through
    Truth.at
    inner do
      Truth.at
      Truth.burn(14)
    end
  end

  def inner(&block)
    Truth.at
    innermost(&block)
  end

  def innermost
    Truth.at
    yield
  end

  def numbered
    Truth.at
    [15].each { Truth.burn(_1) }
  end
end

b = Blocks.new
Case.expect(0, "Blocks#two_levels", "Array#each", "block in Blocks#two_levels", "Integer#times",
            "block (2 levels) in Blocks#two_levels", "Truth.burn")
Case.expect(1, "block in <class:Blocks>", "Truth.burn")
Case.expect(2, "Blocks#call_defined", "block in <class:Blocks>", "block in Blocks#call_defined", "Truth.burn")
Case.expect(3, "Blocks#c_block", "Truth.c_block", "Array#each")
Case.expect(4, "Blocks#c_block_over_ruby", "Truth.c_block", "Blocks#each")
Case.expect(5, "Blocks#c_block_calls", "Truth.c_block_calls", "Array#each", "block in Blocks#c_block_calls", "Truth.burn")
Case.expect(6, "Blocks#exec", "BasicObject#instance_exec", "block in Blocks#exec", "Truth.burn")
Case.expect(7, "Blocks#symbol", "Array#each", "Blocks#burning", "Truth.burn")
Case.expect(8, "Blocks#method_block", "Array#each", "Blocks#burn_at", "Truth.burn")
Case.expect(9, "Blocks#composed", "Blocks#burn_at", "Truth.burn")
Case.expect(10, "Blocks#optional", "Truth.burn")
Case.expect(11, "Blocks#optional", "Truth.burn")
Case.expect(12, "Blocks#inject", "Enumerable#inject", "Array#each", "block in Blocks#inject", "Truth.burn")
Case.expect(13, "Blocks#nested_each", "Hash#each", "block in Blocks#nested_each", "Enumerable#each_with_index", "Range#each",
            "block (2 levels) in Blocks#nested_each", "Enumerable#each_slice", "Array#each",
            "block (3 levels) in Blocks#nested_each", "Truth.burn")
Case.expect(14, "Blocks#yield_through", "Blocks#inner", "Blocks#innermost", "block in Blocks#yield_through", "Truth.burn")
Case.expect(15, "Blocks#numbered", "Array#each", "block in Blocks#numbered", "Truth.burn")
Case.run do
  b.two_levels
  b.defined
  b.call_defined
  b.c_block
  b.c_block_over_ruby
  b.c_block_calls
  b.exec
  b.symbol
  b.method_block
  b.composed
  b.optional
  b.inject
  b.nested_each
  b.yield_through
  b.numbered
end
