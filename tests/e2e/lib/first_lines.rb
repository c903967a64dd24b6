# Where the functions of a file begin, as Ruby says of its instruction sequences. (rb_profile_frame_first_lineno tells of a
# block in a method where the method begins.)
module FirstLines
  PART = /\A(?:(?:rescue|ensure) in )+/.freeze # of the function whose label follows

  @files = {}
  @known = {}
  class << self
    # Of the function with this label that has the line. nil: not known (evaluated code, a file as a whole, or not read).
    def of(path, label, line)
      @known.fetch([path, label, line]) do |key|
        name = label.sub(PART, "")
        found = @files.fetch(path, []).filter_map { |other, first, last| first if other == name && line.between?(first, last) }.uniq
        @known[key] = found.size == 1 ? found[0] : nil
      end
    end

    # Reads the program's own files. Not before it is asked to: a program may count the files that it opens.
    def read
      ours = $LOADED_FEATURES.select { |f| f.start_with?(File.dirname(__dir__)) && f.end_with?(".rb") }
      [$0, *ours].each { |path| @files[path] = below(RubyVM::InstructionSequence.compile_file(path)) }
      @known.clear
    end

    private

    # [label, first line, last line]
    def below(sequence)
      children = sequence.enum_for(:each_child).to_a
      children.map { |c| [c.label, c.first_lineno, c.to_a[4][:code_location][2]] } + children.flat_map { |c| below(c) }
    end
  end
end
