# Methods that are defined, taken out of their class and bound to a new object for each call, as Sinatra does with its routes: each call
# has a method entry of its own.
require_relative "../lib/known"

def spin = 20.times { |i| i }

class Base
  attr_reader :routes

  def self.generate_method(name, &block)
    define_method(name, &block)
    method = instance_method(name)
    remove_method(name)
    (@routes ||= []) << method
  end

  def self.routes = @routes

  def call
    self.class.routes.each { |route| route.bind(self).call }
  end

  def call_directly
    self.class.routes.each { |route| route.bind_call(self) }
  end
end

APP = <<~'RUBY'
  class App_N < Base
    generate_method("GET /_N") {
      2.times { spin } }
    generate_method(:p_N) do
      Known.collect
    end
    def m_N = spin
    @routes << instance_method(:m_N)
  end
RUBY
MODULE = <<~'RUBY'

  module M_N
    def x_N
      2.times { spin }
    end
  end
RUBY

Known.expect("Base#call", "Array#each", "block in Base#call", "Method#call", "block in <class:App_N>:2", "Integer#times", "block (2 levels) in <class:App_N>:2")
Known.expect("block in Base#call_directly", "UnboundMethod#bind_call", "block in <class:App_N>:4", "Known.collect")
Known.expect("UnboundMethod#bind_call", "App_N#m_N:6", "Object#spin")
Known.expect("UnboundMethod#bind_call", "M_N#x_N:3", "Integer#times", "block in M_N#x_N:3")

Known.run do |n|
  Known.enter(n)
  app = Known.define(n, APP) && Object.const_get("App_#{n}")
  Known.define(n, MODULE)
  3.times do
    app.new.call
    app.new.call_directly
    5.times { Object.const_get("M_#{n}").instance_method("x_#{n}").bind_call(Object.new) }
  end
  Known.remove("App_#{n}", "M_#{n}")
  Known.leave(n)
end
