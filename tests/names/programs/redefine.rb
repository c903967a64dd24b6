# A method that is defined anew all the time, also while it runs: its name is always the same, its path and lines tell which it is.
require_relative "../lib/known"

def spin = 20.times { |i| i }

def replace = Known.define(Known.current, SECOND)

FIRST = <<~'RUBY'
  class Stable
    def work
      replace
      Known.collect
      10.times { spin }
    end
  end
RUBY
SECOND = <<~'RUBY'

  class Stable
    def work
      10.times { spin }
      Known.collect
    end
    def use = work
  end
RUBY

Known.expect("Stable#work:4", "Integer#times", "block in Stable#work:4", "Object#spin")
Known.expect("Stable#use:6", "Stable#work:3", "Integer#times", "block in Stable#work:3", "Object#spin")
Known.expect("Stable#work:2", "Object#replace", "Known.define", "Binding#eval", "<main>:1", "<class:Stable>:2")

Known.run do |n|
  Known.enter(n)
  Known.define(n, FIRST)
  Stable.new.work
  Stable.new.use
  Known.leave(n)
end
