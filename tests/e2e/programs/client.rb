# Requests on several connections over a UNIX socket, until it is killed.
require "socket"

Array.new(6) do |i|
  Thread.new do
    loop do
      socket = UNIXSocket.new(ARGV[0])
      socket.write("GET #{i.even? ? '/list/300' : '/slow'} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
      socket.read
      socket.close
    end
  end
end.each(&:join)
