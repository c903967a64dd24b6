# A program whose memory is a seed: it stands still in a stack of many kinds of frames, until its input ends.
module Shop
  class Order
    def self.open(&block) = new.each(&block)

    def each
      [1].each { |n| [n].map { yield n } }
    end

    define_method(:made) do |&block|
      block.call
    end

    def save
      raise "no"
    rescue StandardError
      begin
        yield
      ensure
        @saved = true
      end
    end

    alias store save
  end
end

thing = Object.new
def thing.wait
  Class.new { define_singleton_method(:anonymous) { |&b| b.call } }.anonymous do
    eval("puts 'ready'; $stdout.flush; $stdin.read")
  end
end

Thread.new { Thread.current.name = "a sleeper"; sleep }
Thread.pass until Thread.list.last.status == "sleep"
Shop::Order.open do
  Shop::Order.new.made { Shop::Order.new.store { thing.wait } }
end
