# A small web shop, for `make demo`: a server on a socket and a client that keeps it busy, each in a thread.
#
#   ruby -Ibuild/demo examples/demo/shop.rb [SECONDS]
#
# It prints its pid when it answers requests, and runs until it is stopped or the time is over.

require "digest"
require "fastprice" # the C extension beside this file; `make demo` builds it
require "json"
require "socket"

class Product
  attr_reader :sku, :name, :cents

  def initialize(sku, name, cents)
    @sku = sku
    @name = name
    @cents = cents
  end

  def <=>(other)
    cents <=> other.cents
  end
  include Comparable
end

class Catalog
  WORDS = %w[amber birch copper denim ember flint granite hazel indigo jade].freeze

  def initialize(size)
    @products = Array.new(size) do |i|
      Product.new(format("SKU-%04d", i), WORDS.values_at(i % 10, i / 7 % 10).join(" "), 199 + i * 7919 % 9000)
    end
  end

  def [](index)
    @products[index % @products.size]
  end

  def search(term)
    @products.select { |product| product.name.match?(/\b#{term}/) }.sort
  end
end

class Cache
  def initialize(limit)
    @limit = limit
    @entries = {}
  end

  def fetch(key)
    digest = Digest::SHA256.hexdigest(key)
    @entries.shift if @entries.size > @limit
    @entries[digest] ||= yield
  end
end

class OrderSerializer
  def initialize(order)
    @order = order
  end

  def as_json
    { id: @order[:id], total: money(@order[:total]), lines: @order[:lines].map { |line| line_json(line) } }
  end

  def to_json(*)
    JSON.generate(as_json)
  end

  private

  def line_json((sku, cents))
    { sku: sku, price: money(cents), tags: sku.downcase.tr("-", " ").split }
  end

  def money(cents)
    format("%d.%02d EUR", *cents.divmod(100))
  end
end

class Template
  PATH = File.expand_path("page.html", __dir__)

  # Read again for each page, as in development mode.
  def render(values)
    File.read(PATH).gsub(/\{\{(\w+)\}\}/) { escape(values.fetch($1.to_sym)) }
  end

  private

  def escape(value)
    value.to_s.gsub(/[&<>"]/, "&" => "&amp;", "<" => "&lt;", ">" => "&gt;", '"' => "&quot;")
  end
end

class OrdersController
  def initialize(catalog)
    @catalog = catalog
  end

  def index(params)
    orders = (1..6).map { |i| build_order(params["page"].to_i * 6 + i) }
    "[#{orders.map { |order| OrderSerializer.new(order).to_json }.join(",")}]"
  end

  def create(params)
    order = build_order(params["id"].to_i)
    reparsed = JSON.parse(OrderSerializer.new(order).to_json)
    JSON.generate(reparsed.merge("fingerprint" => FastPrice.fingerprint(reparsed.to_s)))
  end

  private

  def build_order(id)
    lines = Array.new(8) { |i| @catalog[id * 31 + i] }.map { |product| [product.sku, product.cents] }
    { id: id, lines: lines, total: FastPrice.total(lines) { |_sku, cents| discounted(cents) } }
  end

  def discounted(cents)
    cents > 5_000 ? cents * 95 / 100 : cents
  end
end

class ProductsController
  def initialize(catalog, cache)
    @catalog = catalog
    @cache = cache
    @template = Template.new
  end

  def search(params)
    @cache.fetch(params["q"] + params["page"]) do
      found = @catalog.search(params["q"])
      rows = found.first(25).map { |product| "<li>#{product.name} #{product.cents}</li>" }
      @template.render(title: "Search for #{params["q"]}", count: found.size, rows: rows.join)
    end
  end
end

class Router
  def initialize
    @routes = []
  end

  def on(verb, pattern, &action)
    @routes << [verb, pattern, action]
  end

  def call(verb, target)
    path, query = target.split("?", 2)
    params = query.to_s.split("&").to_h { |pair| pair.split("=", 2) }
    @routes.each do |route_verb, pattern, action|
      return action.call(params) if verb == route_verb && path.match?(pattern)
    end
    raise KeyError, "no route for #{target}"
  end
end

# Times each request, like a middleware of Rack.
class RequestTimer
  def initialize(app)
    @app = app
    @nanoseconds = 0
  end

  def call(verb, target)
    started = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
    @app.call(verb, target)
  ensure
    @nanoseconds += Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond) - started
  end
end

class Server
  attr_reader :port

  def initialize(app)
    @app = app
    @socket = TCPServer.new("127.0.0.1", 0)
    @port = @socket.addr[1]
  end

  def run
    loop do
      connection = @socket.accept
      serve(connection)
    ensure
      connection&.close
    end
  end

  private

  def serve(connection)
    while (line = connection.gets)
      verb, target, = line.split
      body = @app.call(verb, target)
      connection.write("HTTP/1.1 200 OK\r\nContent-Length: #{body.bytesize}\r\n\r\n#{body}")
    end
  end
end

class LoadGenerator
  def initialize(port)
    @port = port
    @random = Random.new(1)
  end

  def run
    TCPSocket.open("127.0.0.1", @port) do |socket|
      (0..).each { |i| request(socket, *target(i)) }
    end
  end

  private

  def target(i)
    case i % 3
    when 0 then ["GET", "/orders?page=#{i % 100}"]
    when 1 then ["POST", "/orders?id=#{i % 1000}"]
    else ["GET", "/products?q=#{Catalog::WORDS[i % 10]}&page=#{@random.rand(12)}"]
    end
  end

  def request(socket, verb, target)
    socket.write("#{verb} #{target} HTTP/1.1\r\n")
    length = socket.gets("\r\n\r\n")[/Content-Length: (\d+)/, 1].to_i
    socket.read(length)
  end
end

def application
  catalog = Catalog.new(250)
  orders = OrdersController.new(catalog)
  products = ProductsController.new(catalog, Cache.new(50))
  router = Router.new
  router.on("GET", %r{\A/orders}) { |params| orders.index(params) }
  router.on("POST", %r{\A/orders}) { |params| orders.create(params) }
  router.on("GET", %r{\A/products}) { |params| products.search(params) }
  RequestTimer.new(router)
end

def start(name, &work)
  Thread.new(&work).tap do |thread|
    thread.name = name
    thread.report_on_exception = true
    thread.abort_on_exception = true
  end
end

server = Server.new(application)
server_thread = start("shop server") { server.run }
start("shop client") { LoadGenerator.new(server.port).run }

puts "pid #{Process.pid} serves orders on port #{server.port}"
$stdout.flush
begin
  trap("TERM") { exit }
  server_thread.join(ARGV.fetch(0, 3600).to_f)
rescue Interrupt
  exit
end
