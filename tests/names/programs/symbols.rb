# Methods whose names are symbols made at run time, amid symbols that are collected.
require_relative "../lib/known"

def spin = 20.times { |i| i }

def made_up(n, count)
  Known.repeat(count).times { |k| "symbol #{k} of #{n}".to_sym.size }
end

TEXT = <<~'RUBY'
  class K_N
    define_method("d_N".to_sym) { |k| k.times { spin } }
    def method_missing(name, *) = name.to_s.start_with?("x") ? 5.times { spin } : super
    def respond_to_missing?(*) = true
    def c_N(name)
      public_send(name, 5)
      public_send("x#{name}".to_sym)
      Known.collect
    end
  end
RUBY

Known.expect("K_N#c_N:5", "Kernel#public_send", "block in <class:K_N>:1", "Integer#times", "block (2 levels) in <class:K_N>:1", "Object#spin")
Known.expect("Kernel#public_send", "block in name_it:3", "Integer#times", "block (2 levels) in name_it:3")
Known.expect("K_N#c_N:6", "Kernel#public_send", "K_N#method_missing:2", "Integer#times", "block in K_N#method_missing:2", "Object#spin")

# A singleton method with a name that no text has.
def name_it(object, n)
  made_up(n, 20)
  object.instance_eval(*Known.text(n, <<~'RUBY'))



    define_singleton_method("m_N".to_sym) { 5.times { spin } }
  RUBY
  object.public_send("m_#{n}".to_sym)
end

Known.run do |n|
  Known.enter(n)
  Known.define(n, TEXT)
  object = Object.const_get("K_#{n}").new
  object.public_send("c_#{n}", "d_#{n}")
  name_it(object, n)
  Known.remove("K_#{n}")
  Known.leave(n)
end
