# A stack in which a definition's number is a variable: both the program, which says what stacks it has, and the judge
# bring frames into this form.
#
# Definition 1234 is called m_1234 or K_1234 or the like, lies in f_1234.rb, and its text begins at line 12340. In this form
# it is m_N, K_N, f_N.rb, and line 0.
module Names
  NUMBER = /_(\d{4,})/
  LINES = 10 # of a definition, at most
  WORKING = 0 # numbers in the log
  LEAVING = 1
  Place = Struct.new(:name, :path, :line) do
    # In the text of a definition, rather than in the program's own file?
    def defined? = path.include?("_N")

    def to_s = "#{name} #{File.basename(path)}:#{line}"
  end

  module_function

  # frames: [name, path, line], root first. Returns the numbers that are in them and the places.
  def places(frames)
    numbers = []
    places = frames.map do |name, path, line|
      own = path.to_s[NUMBER, 1]
      Place.new(general(name, numbers), general(path.to_s, numbers), own ? line.to_i - own.to_i * LINES : line.to_i)
    end
    [numbers.uniq, places]
  end

  def general(text, numbers)
    text.gsub(NUMBER) do
      numbers << $1.to_i
      "_N"
    end
  end
end
