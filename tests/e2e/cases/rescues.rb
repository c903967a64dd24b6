# Rescue and ensure bodies inside of each other. Ruby 3.4 shows such a chain as one frame, with the line of the innermost body.
require_relative "../lib/truth_case"

class K
  def rescue_in_rescue
    Truth.at
    begin
      raise "a"
    rescue
      begin
        raise "b"
      rescue
        Truth.burn(0)
      end
    end
  end

  def ensure_in_rescue
    Truth.at
    begin
      raise "a"
    rescue
      begin
        raise "b"
      ensure
        Truth.burn(1)
      end
    end
  rescue
    1
  end

  def rescue_in_ensure
    Truth.at
    begin
      raise "a"
    ensure
      begin
        raise "b"
      rescue
        Truth.burn(2)
      end
    end
  rescue
    1
  end

  def three_deep
    Truth.at
    raise "a"
  rescue
    begin
      raise "b"
    ensure
      begin
        raise "c"
      rescue
        Truth.burn(3)
      end
    end
  end

  # The chain is not the leaf: a C function and its block stand in the innermost body.
  def through_c
    Truth.at
    begin
      raise "a"
    rescue
      begin
        raise "b"
      rescue
        [1].each do
          Truth.at
          Truth.burn(4)
        end
      end
    end
  end

  # A chain calls a method that has one as well.
  def calls
    Truth.at
    begin
      raise "a"
    rescue
      begin
        raise "b"
      rescue
        rescue_one(5)
      end
    end
  end

  def rescue_one(place)
    Truth.at
    raise "a"
  rescue
    Truth.burn(place)
  end

  # Between the two bodies stands a block: one frame for each of both chains.
  def block_between
    Truth.at
    begin
      raise "a"
    rescue
      begin
        raise "b"
      rescue
        [1].each do
          Truth.at
          begin
            raise "c"
          rescue
            begin
              raise "d"
            rescue
              Truth.burn(6)
            end
          end
        end
      end
    end
  end

  # Five bodies, and the method's own frame.
  def five_deep
    Truth.at
    raise "a"
  rescue
    begin
      raise "b"
    rescue
      begin
        raise "c"
      ensure
        begin
          raise "d"
        ensure
          begin
            raise "e"
          rescue
            Truth.burn(7)
          end
        end
      end
    end
  end
end

def unwound
  Truth.at
  yield
rescue
  1
end

def in_block
  Truth.at
  [1].each do
    Truth.at
    begin
      raise "a"
    rescue
      begin
        raise "b"
      ensure
        Truth.burn(8)
      end
    end
  end
end

def c_inside
  Truth.at
  begin
    raise "a"
  rescue
    begin
      raise "b"
    rescue
      Truth.rescue(9) { raise "c" }
    end
  end
end

# All of it in a chain of the file's own frame.
Case.expect(0, "K#rescue_in_rescue", "Truth.burn")
Case.expect(1, "K#ensure_in_rescue", "Truth.burn")
Case.expect(2, "K#rescue_in_ensure", "Truth.burn")
Case.expect(3, "Object#unwound", "block (2 levels) in <main>", "K#three_deep", "Truth.burn")
Case.expect(4, "K#through_c", "Array#each", "block in K#through_c", "Truth.burn")
Case.expect(5, "K#calls", "K#rescue_one", "Truth.burn")
Case.expect(6, "K#block_between", "Array#each", "block in K#block_between", "Truth.burn")
Case.expect(7, "Object#unwound", "block (2 levels) in <main>", "K#five_deep", "Truth.burn")
Case.expect(8, "Object#unwound", "block (2 levels) in <main>", "Object#in_block", "Array#each", "block in Object#in_block",
            "Truth.burn")
Case.expect(9, "Object#c_inside", "Truth.rescue")
Case.expect(10, "Truth.burn")
begin
  raise "a"
rescue
  begin
    raise "b"
  ensure
    begin
      raise "c"
    rescue
      Case.run do
        k = K.new
        k.rescue_in_rescue
        k.ensure_in_rescue
        k.rescue_in_ensure
        unwound { Truth.at; k.three_deep }
        k.through_c
        k.calls
        k.block_between
        unwound { Truth.at; k.five_deep }
        unwound { Truth.at; in_block }
        c_inside
        begin
          raise "a"
        rescue
          begin
            raise "b"
          rescue
            Truth.burn(10)
          end
        end
      end
    end
  end
end
