# Where puma, sinatra or wrk are missing: a server with a pool of threads, and its client in a child.
require "socket"
require "json"

server = TCPServer.new("127.0.0.1", 0)
port = server.addr[1]
queue = Queue.new
client = fork do
  server.close
  loop do
    socket = TCPSocket.new("127.0.0.1", port)
    socket.write("GET /items/100\r\n")
    socket.read
    socket.close
  end
end
at_exit { Process.kill(:KILL, client) if Process.pid != client }
trap(:TERM) { exit }

def answer(socket)
  count = socket.gets[/\d+/].to_i
  items = Array.new(count) { |i| { id: i, name: "item #{i}", price: i * 1.25 } }
  socket.write(JSON.generate(items: items.sort_by { |item| item[:name] }))
ensure
  socket.close
end

2.times { Thread.new { loop { answer(queue.pop) } } }
$stdout.sync = true
puts "ready"
loop { queue << server.accept }
