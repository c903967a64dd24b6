# Seeds of targets whose input no file has:  made.rb TARGET DIR
target, dir = ARGV

put = ->(name, bytes) { File.binwrite("#{dir}/#{name}", bytes) }

# fuzz_stitch.c: flags, sites, how many natives and interpreter frames, then sites, natives, interpreter frames.
PLAIN, ENTRY, LOOP, JIT = 0, 1, 2, 3
CODE, CFUNC, HIDDEN = 0, 1, 2
stack = lambda do |flags, sites, natives, interps, complete: false|
  [flags, sites.size | (complete ? 0x80 : 0), natives.size, interps.size].pack("C*") +
    sites.map { |pc, func| pc | func << 4 }.pack("C*") +
    natives.map { |pc, func, role, ruby| [pc | func << 4, role | (ruby ? 4 : 0)] }.flatten.pack("C*") +
    interps.map { |func, kind, ends| func << 4 | kind | (ends ? 4 : 0) }.pack("C*")
end

case target
when "stitch"
  # symbolizer/stitch.h, the stack at its top; leaf first.
  natives = [[1, 1, LOOP, true], [2, 2, ENTRY, true], [3, 3, PLAIN, true], [4, 4, PLAIN, true], [5, 5, PLAIN, true],
             [1, 1, LOOP, true], [2, 2, ENTRY, true], [6, 6, PLAIN, false]]
  interps = [[0, CODE, true], [4, CFUNC, false], [0, CODE, false], [0, CODE, true]]
  put.("learnt", stack.(0, [], natives, interps))
  put.("known", stack.(0, [[5, 5]], natives, interps, complete: true))
  put.("cut", stack.(1, [[5, 5]], natives[0, 5], interps))
  put.("pushing", stack.(0, [[5, 5]], natives.drop(2), interps))
  put.("popping", stack.(0, [[5, 5]], natives, interps.drop(1)))
  put.("other_stack", stack.(4, [], natives, interps))
  put.("jit", stack.(0, [[5, 5]], [[4, 4, PLAIN, true], [9, 0, JIT, false], [2, 2, ENTRY, true]],
                     [[4, CFUNC, false], [0, CODE, true]]))
  put.("hidden", stack.(0, [[5, 5]], natives, [[0, CODE, true], [0, HIDDEN, true], [0, CODE, true]]))
when "ruby_line"
  # fuzz_ruby_line.c: size, how many entries, their size, the succinct index, the entries.
  ranks = ->(list) { list.each_slice(9).map { |nine| nine.each_with_index.sum { |r, i| r << 7 * i } }.pack("Q<*") }
  lines = ->(list) { list.map { |line| [line, 0, 0].pack("L<3") }.join }
  put.("few", [10, 3, 0].pack("L<S<C") + ranks.([1, 1, 1, 2, 2, 2, 3, 3, 3, 3]) + lines.([7, 8, 7]))
  put.("one", [4, 1, 0].pack("L<S<C") + ranks.([1] * 4) + lines.([12]))
  block = [6, 0, 9 | 9 << 9].pack("L<x4Q<2")[0, 16] + [1, *[0] * 7].pack("Q<8")
  put.("block", [70, 7, 0].pack("L<S<C") + ranks.((0...54).map { |i| i / 9 + 1 }) + block + lines.((1..7).to_a))
when "overlay"
  piece = ->(addr, bytes) { [addr, bytes.bytesize].pack("Q<2") + bytes + "\0" * (-bytes.bytesize % 8) }
  put.("two", [0x1000, 4].pack("Q<S<") + piece.(0x1000, "abcdefgh") + piece.(0x1004, "ijklmnopqrs"))
  put.("wraps", [2**64 - 4, 8].pack("Q<S<") + piece.(2**64 - 16, "x" * 32))
when "ruby_names"
  # world.h: a capture of code of 3.1 whose label is as long as it likes, and a frame that runs it. The offsets are
  # those of ruby_layout.c: type, code, path, label, first line, lines and their index; size, number of lines.
  piece = ->(addr, bytes) { [addr, bytes.bytesize].pack("Q<2") + bytes + "\0" * (-bytes.bytesize % 8) }
  endless = 4 << 44
  release = 3 << 16 | 1 << 8 | 2
  code = lambda do |label, lines|
    body = ("\0" * 184).b
    { 0 => 1, 8 => 0x40000, 64 => label, 80 => label, 88 => 7 << 1 | 1, 120 => lines, 144 => lines }.each do |at, word|
      body[at, 8] = [word].pack("Q<")
    end
    body[4, 4] = [600].pack("L<")
    body[136, 4] = [lines == 0 ? 0 : 9].pack("L<")
    pieces = piece.(0x10000, [0x1a | 7 << 12, 0, 0x20000, 0, 0].pack("Q<5")) + piece.(0x20000, body) +
             piece.(0x30000, [5 | 1 << 13, 0, 1 << 20, endless, 0].pack("Q<5"))
    [release, *[0] * 7].pack("Q<8") + [1, 0, pieces.bytesize, 0, 0, 0].pack("CCS<L<3") + [0x10000, 1, 8].pack("Q<3") + pieces +
      [0, 0, 0, 0, 1, 8].pack("CCS<L<Q<Q<") + [0x40008, 0x10000, 0].pack("Q<3") + [0x11110001, 0].pack("L<2")
  end
  put.("long_label", code.(0x30000, 0))
  put.("endless_lines", code.(0x30000, endless))
  # A context whose frames go on for ever: vm_stack, vm_stack_size, cfp.
  context = piece.(0x50000, [endless, 1 << 16, endless].pack("Q<3").ljust(512, "\0"))
  # Lists of ractors and threads without an end: each word points to one like itself.
  size = 64 + 256 * 8
  word = endless + -endless % size + size - 1024
  put.("endless_threads", [release, word, 0, 0, 0, 0, 0, 0].pack("Q<8") + [word].pack("Q<") * 256)
  put.("endless_frames", [release, 0, 0, 0, 0, 0, 0x50000, context.bytesize].pack("Q<8") + context)
when "recording"
  # rows.h: the table, then each column's kind of value and the value.
  value = lambda do |v|
    case v
    when nil then [0].pack("C")
    when :id then [6].pack("C")
    when 0..255 then [1, v].pack("C2")
    when Integer then [2, v].pack("Cq<")
    when Float then [3, v].pack("CE")
    else [4, v.bytesize].pack("C2") + v.b
    end
  end
  rows = ->(*list) { list.map { |table, *columns| [table].pack("C") + columns.map(&value).join }.join }
  process = [1, :id, 42, 99, "ruby", "ruby app.rb", "ruby", "ruby 3.1.2"]
  threads = [[2, :id, 1, 43, "worker", "main"], [2, :id, 1, 44, "ruby", nil]]
  triggers = [[3, :id, "cpu", "ns"], [3, :id, "syscall:openat", "calls"]]
  functions = [[4, :id, 1, nil, "Foo#bar", "Foo", "/srv/app.rb", nil, nil, 4, nil],
               [4, :id, 1, nil, "block in <main>", nil, "/srv/app.rb", nil, nil, 9, "Foo#made"],
               [4, :id, 1, nil, "block in <main>", nil, "/srv/app.rb", nil, nil, 12, nil],
               [4, :id, 1, nil, "block in <main>", nil, "/lib/app.rb", nil, nil, 12, nil],
               [4, :id, 4, 1, "rb_vm_exec", nil, nil, "/lib/libruby.so", "00ff", nil, nil],
               [4, :id, 5, nil, "</script>;\e[1m 12", nil, nil, "[kernel]", nil, nil, nil]]
  frames = (1..6).map { |n| [5, :id, n, n * 3, 0, 0, 4096 + n, 4096] }
  stacks = [[6, :id, nil, 1], [6, :id, 1, 2], [6, :id, 1, 3], [6, :id, 2, 4], [6, :id, 4, 5], [6, :id, 4, 6]]
  samples = (1..6).map { |n| [7, :id, 1000 * n, n % 2 + 1, n, n % 2 + 1, 10_101_010, n % 5, n * 3 % 20] }
  meta = [[0, "rate_hz", "99"], [0, "duration_ns", "1000000000"], [8, "ring-buffer-full", 3]]
  put.("rows", rows.(*meta, process, *threads, *triggers, *functions, *frames, *stacks, *samples))
  put.("odd", rows.(process, *threads, [3, :id, "cpu\u0085", "n\xff\"s"], [4, :id, 255, 255, "\xf0\x9f", nil, "", 2.5, nil, 1, ""],
                    [5, :id, 1, 2**32 - 1, 65_535, 2**63 - 1, -1, 0], [6, :id, nil, 1],
                    [7, :id, 2**63 - 1, 1, 1, 1, 2**63 - 1, 255, 255], [7, :id, 0, 1, nil, 1, 2**63 - 1, 1, 0]))
else
  abort "made.rb: no seeds are made for #{target}"
end
