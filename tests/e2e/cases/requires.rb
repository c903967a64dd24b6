# A file being loaded and required, and an extension's Init_ that burns itself and calls Ruby.
require_relative "../lib/truth_case"
LOADED = File.expand_path("support/loaded.rb", __dir__)
INIT = File.join(ENV.fetch("TRUTH_EXT"), "truth_init.so")

class Requires
  def file
    Truth.at
    $LOADED_FEATURES.delete(LOADED)
    require LOADED
  end

  def loading
    Truth.at
    load LOADED
  end

  def relative
    Truth.at
    $LOADED_FEATURES.delete(LOADED)
    require_relative "support/loaded"
  end

  def extension
    Truth.at
    $LOADED_FEATURES.delete(INIT)
    require INIT
  end
end

def from_init
  Truth.at
  Truth.burn(4)
end

r = Requires.new
# Debian's rubygems replaces Kernel#require: two frames.
Case.expect(1, "Requires#file", "Kernel#require", "Kernel#require", "<top (required)>", "Truth.burn")
Case.expect(2, "Requires#loading", "Kernel#load", "<top (required)>", "Truth.burn")
Case.expect(3, "Requires#relative", "Kernel#require_relative", "<top (required)>", "Truth.burn")
Case.expect(0, "Requires#extension", "Kernel#require", "Kernel#require")
Case.expect(4, "Requires#extension", "Kernel#require", "Kernel#require", "Object#from_init", "Truth.burn")
Case.run do
  $place = 1
  r.file
  $place = 2
  r.loading
  $place = 3
  r.relative
  r.extension
end
