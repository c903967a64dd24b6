# Code made by eval in all its forms.
require_relative "../lib/truth_case"

class Evals
  def plain
    Truth.at
    eval("Truth.at; Truth.burn(0)")
  end

  def with_place
    Truth.at
    eval("Truth.at\n\nTruth.burn(1)", binding, "somewhere.rb", 70)
  end

  def with_binding
    Truth.at
    b = binding
    b.eval("[2].each do |k|\nTruth.at\nTruth.burn(k)\nend", "binding.rb", 10)
  end

  def instance
    Truth.at
    instance_eval("Truth.at\nTruth.burn(3)", "instance.rb", 20)
  end

  def instance_block
    Truth.at
    instance_eval do
      Truth.at
      Truth.burn(4)
    end
  end

  def klass
    Truth.at
    Evals.class_eval("Truth.at\nTruth.burn(5)", "class.rb", 30)
  end

  def klass_block
    Truth.at
    Evals.class_exec(6) do |k|
      Truth.at
      Truth.burn(k)
    end
  end

  def defines
    Truth.at
    Evals.class_eval("def made(k)\n  Truth.at\n  Truth.burn(k)\nend", "made.rb", 40) unless respond_to?(:made)
    made(7)
  end

  def nested
    Truth.at
    eval("Truth.at\neval(\"Truth.at\\nTruth.burn(8)\", binding, 'inner.rb', 5)", binding, "outer.rb", 3)
  end

  def compiled
    Truth.at
    RubyVM::InstructionSequence.compile("Truth.at\nTruth.burn(9)", "compiled.rb", "compiled.rb", 8).eval
  end

  def body
    Truth.at
    eval("class Evals::Body\n  Truth.at\n  Truth.burn(10)\n  class << self\n    Truth.burn(11)\n  end\nend\n" \
         "module Evals::Mod\n  Truth.burn(12)\nend", TOPLEVEL_BINDING, "body.rb", 1)
  end

  def structs
    Truth.at
    Class.new do
      Truth.at
      Truth.burn(13)
    end
  end
end

e = Evals.new
Case.expect(0, "Evals#plain", "Kernel#eval", "Evals#plain", "Truth.burn")
Case.expect(1, "Evals#with_place", "Kernel#eval", "Evals#with_place", "Truth.burn")
Case.expect(2, "Evals#with_binding", "Binding#eval", "Evals#with_binding", "Array#each", "block in Evals#with_binding", "Truth.burn")
Case.expect(3, "Evals#instance", "BasicObject#instance_eval", "Evals#instance", "Truth.burn")
Case.expect(4, "Evals#instance_block", "BasicObject#instance_eval", "block in Evals#instance_block", "Truth.burn")
Case.expect(5, "Evals#klass", "Module#class_eval", "Evals#klass", "Truth.burn")
Case.expect(6, "Evals#klass_block", "Module#class_exec", "block in Evals#klass_block", "Truth.burn")
Case.expect(7, "Evals#defines", "Evals#made", "Truth.burn")
Case.expect(8, "Evals#nested", "Kernel#eval", "Evals#nested", "Kernel#eval", "Evals#nested", "Truth.burn")
Case.expect(9, "Evals#compiled", "RubyVM::InstructionSequence#eval", "<compiled>", "Truth.burn")
Case.expect(10, "Evals#body", "Kernel#eval", "<main>", "<class:Body>", "Truth.burn")
Case.expect(11, "Evals#body", "Kernel#eval", "<main>", "<class:Body>", "singleton class", "Truth.burn")
Case.expect(12, "Evals#body", "Kernel#eval", "<main>", "<module:Mod>", "Truth.burn")
Case.expect(13, "Evals#structs", "Class#new", "Class#initialize", "block in Evals#structs", "Truth.burn")
Case.run do
  e.plain
  e.with_place
  e.with_binding
  e.instance
  e.instance_block
  e.klass
  e.klass_block
  e.defines
  e.nested
  e.compiled
  e.body
  e.structs
end
