# What goes wrong: one sentence, its exit status, nothing created before the target is known; and recordings that end early.
module ErrorChecks
  module_function

  # One sentence on stderr, the status, no output file (unless keep names one that was there).
  def refused(report, what, status, *args, file: nil, match: nil, result: nil)
    result ||= Recorder.rprof(*args)
    problems = []
    problems << "exit status #{result.status&.exitstatus.inspect} instead of #{status}" if result.status&.exitstatus != status
    first = result.err.lines.first.to_s
    problems << "no sentence: #{result.err.inspect}" unless first =~ /\Arprof: \S.{8,}/
    problems << "more than a sentence and a hint: #{result.err}" if result.err.lines.size > 2
    problems << "#{match.inspect} is not in: #{result.err}" if match && result.err !~ match
    problems << "#{file} was created" if file && File.exist?(file)
    report.ok(problems.empty?, what, problems)
  end

  def with_program(way, *args)
    Program.run(way, "programs/idle.rb", *args) do |program|
      program.wait_ready
      yield program
    end
  end

  def targets(report, dir)
    file = File.join(dir, "none.rprof")
    gone = spawn("true")
    Process.wait(gone)
    refused(report, "no such process", 3, "record", "-p", gone.to_s, "-d", "1s", "-o", file, file: file, match: /#{gone}/)
    sleeper = spawn("sleep", "1000")
    begin
      refused(report, "a process that is not Ruby", 4, "record", "-p", sleeper.to_s, "-d", "1s", "-o", file, file: file, match: /[Rr]uby/)
      refused(report, "info on a process that is not Ruby", 4, "info", sleeper.to_s)
    ensure
      Process.kill(:KILL, sleeper)
      Process.wait(sleeper)
    end
    refused(report, "info on no process", 3, "info", gone.to_s)
  end

  def usage(report, dir, pid)
    file = File.join(dir, "usage.rprof")
    { "rate 0" => %w[-F 0], "a negative rate" => %w[-F -5], "an absurd rate" => %w[-F 1000000000], "a rate that is no number" => %w[-F fast],
      "a duration that is none" => %w[-d soon], "duration 0" => %w[-d 0], "an unknown system call" => %w[--syscall opennat],
      "an unknown option" => %w[--frobnicate], "a process id that is none" => %w[-p ruby], "process id 0" => %w[-p 0] }.each do |what, args|
      refused(report, what, 2, "record", "-p", pid.to_s, "-o", file, *(args.include?("-d") ? [] : %w[-d 1s]), *args, file: file)
    end
    refused(report, "record without a process", 2, "record", "-d", "1s", "-o", file, file: file)
    refused(report, "an unknown format", 2, "export", "-f", "xml", file)
  end

  def outputs(report, dir, pid)
    refused(report, "a directory that isn't there", 8, "record", "-p", pid.to_s, "-d", "1s", "-o", File.join(dir, "no/such/x.rprof"))
    refused(report, "an output that is a directory", 8, "record", "-p", pid.to_s, "-d", "1s", "-o", dir)
    other = File.join(dir, "precious.txt")
    File.write(other, "precious\n" * 100)
    refused(report, "a file that is no recording is not overwritten", 8, "record", "-p", pid.to_s, "-d", "1s", "-o", other)
    report.ok(File.read(other) == "precious\n" * 100, "that file is as it was")
  end

  # Not root: the sentence names the capability or the sysctl.
  def permission(report, dir, way)
    binary = File.join(dir, "rprof")
    FileUtils.cp(Recorder::RPROF, binary)
    File.chmod(0o755, dir, binary)
    nobody = File.join(dir, "nobody")
    Dir.mkdir(nobody)
    File.chown(65_534, 65_534, nobody)
    as_nobody = %w[setpriv --reuid 65534 --regid 65534 --clear-groups --]
    ruby = spawn(*as_nobody, "/usr/bin/ruby", "-e", "$stdout.sync = true; puts 1; loop {}", out: (pipe = IO.pipe)[1])
    pipe[0].gets
    file = File.join(nobody, "x.rprof")
    out = File.join(dir, "out")
    err = File.join(dir, "err")
    pid = spawn(*as_nobody, binary, "record", "-p", ruby.to_s, "-d", "1s", "-o", file, out: out, err: err)
    _, status = Process.wait2(pid)
    result = Recorder::Result.new(status, "", File.read(err))
    refused(report, "without permission", 6, result: result, file: file, match: /CAP_[A-Z]+|kernel\.[a-z_]+/)
  ensure
    Process.kill(:KILL, ruby) && Process.wait(ruby) if ruby
  end

  def files(report, dir, good)
    text = File.join(dir, "text.rprof")
    File.write(text, "no recording at all\n" * 1000)
    empty = File.join(dir, "empty.rprof")
    File.write(empty, "")
    cut = File.join(dir, "cut.rprof")
    File.binwrite(cut, File.binread(good)[0, File.size(good) / 2])
    random = File.join(dir, "random.rprof")
    bytes = File.binread(good)
    File.binwrite(random, bytes[0, 4096] + Random.new(1).bytes(bytes.size - 4096))
    [%w[report], %w[export -f jsonl], %w[export -f folded], ["flamegraph", "-o", File.join(dir, "x.html")]].each do |command|
      refused(report, "#{command[0]} #{command[2]} of a text file", 10, *command, text)
      refused(report, "#{command[0]} #{command[2]} of an empty file", 10, *command, empty)
      refused(report, "#{command[0]} #{command[2]} of half a recording", 10, *command, cut)
      refused(report, "#{command[0]} #{command[2]} of a damaged recording", 10, *command, random)
    end
    report.ok(!File.exist?(File.join(dir, "x.html")), "no flame graph is made of them")
  end

  # A recording that ends by itself, by ^C, by the process's exit: its samples and its summary.
  def complete(report, what, file, result, least: 50)
    lines = Recorder.lines(file)
    samples = lines.select { |l| l["type"] == "stack" }.sum { |l| l["samples"] }
    left = Dir["#{file}-*"]
    problems = []
    problems << "status #{result.status.inspect}: #{result.err}" unless result.status&.success?
    problems << "#{samples} samples" if samples < least
    problems << "left beside it: #{left}" if left.any?
    %w[sample thread exact transient truncated lost CPU].each { |w| problems << "the summary lacks '#{w}'" unless (result.err + result.out).include?(w) }
    problems << "the summary doesn't name the file" unless (result.err + result.out).include?(file)
    problems << "the summary names no next command" unless (result.err + result.out) =~ /rprof (report|flamegraph) /
    report.ok(problems.empty?, what, problems.empty? ? [] : problems << result.err)
  end

  def start(dir, pid, file, *args)
    err = File.join(dir, "#{File.basename(file)}.err")
    [spawn(Recorder::RPROF, "record", "-p", pid.to_s, "-F", "499", "-o", file, *args, out: err, err: err), err]
  end

  # Until the recording, read while it is written, holds so many samples.
  def wait_samples(file, count)
    Timeout.timeout(Recorder::HANGS) do
      loop do
        if File.exist?(file)
          result = Recorder.rprof("export", file, "-f", "jsonl")
          stacks = result.status&.success? ? result.out.each_line.map { |l| JSON.parse(l) }.select { |l| l["type"] == "stack" } : []
          return if stacks.sum { |s| s["samples"] } >= count
        end
        sleep 0.1
      end
    end
  end

  def endings(report, dir, way)
    with_program(way) do |program|
      file = File.join(dir, "interrupted.rprof")
      rprof, err = start(dir, program.pid, file)
      wait_samples(file, 300)
      Process.kill(:INT, rprof)
      _, status = Process.wait2(rprof)
      complete(report, "^C ends a recording well", file, Recorder::Result.new(status, "", File.read(err)), least: 300)

      file = File.join(dir, "killed.rprof")
      rprof, = start(dir, program.pid, file)
      wait_samples(file, 900)
      killed_at = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
      Process.kill(:KILL, rprof)
      Process.wait(rprof)
      lines = Recorder.lines(file, "--samples")
      last = lines.filter_map { |l| l["time_ns"] }.max
      report.ok(last && killed_at - last < 2_000_000_000, "a recorder killed by SIGKILL leaves all but the last second",
                "the last sample is #{last && (killed_at - last) / 1e9} s older than the kill")
      report.ok(lines.count { |l| l["time_ns"] } >= 900, "and what was seen in the file before is still there")
    end
    Program.run(way, "programs/idle.rb", "2.5") do |program|
      program.wait_ready
      file = File.join(dir, "exited.rprof")
      result = Recorder.rprof("record", "-p", program.pid.to_s, "-F", "499", "-d", "60s", "-o", file)
      Process.wait(program.pid)
      program.gone!
      complete(report, "the process's exit ends a recording well", file, result)
    end
  end

  def two_processes(report, dir, way)
    with_program(way) do |one|
      with_program(way) do |two|
        [["-p", "#{one.pid},#{two.pid}"], ["-p", one.pid.to_s, "-p", two.pid.to_s]].each do |pids|
          file = File.join(dir, "two.rprof")
          result = Recorder.rprof("record", *pids, "-F", "499", "-d", "1s", "-o", file)
          pids_seen = result.status&.success? ? Recorder.lines(file).select { |l| l["type"] == "stack" }.map { |l| l["process"]["pid"] }.uniq : []
          report.ok(pids_seen.sort == [one.pid, two.pid].sort, "two processes by #{pids.join(' ')}".gsub(/\d+/, "PID"), "#{pids_seen} #{result.err}")
        end
      end
    end
  end

  # A small tmpfs fills up while the recording goes on.
  def disk_full(report, dir, way)
    mount = File.join(dir, "small")
    Dir.mkdir(mount)
    unless system("mount", "-t", "tmpfs", "-o", "size=3m", "none", mount, err: "/dev/null")
      return report.skip("a disk that fills up", "no tmpfs can be mounted here")
    end
    begin
      Program.run(way, "programs/redefine.rb") do |program|
        program.wait_ready
        file = File.join(mount, "full.rprof")
        result = Recorder.rprof("record", "-p", program.pid.to_s, "-F", "4999", "-d", "60s", "-o", file)
        report.ok(result.status&.exitstatus == 9 && result.err.match?(/rprof: .*(disk|space|full)/i), "a disk that fills up: status 9 and a sentence",
                  "#{result.status} #{result.err.lines.last(4).join}")
        export = Recorder.rprof("export", file, "-f", "jsonl")
        samples = export.out.each_line.map { |l| JSON.parse(l) }.select { |l| l["type"] == "stack" }.sum { |l| l["samples"] } if export.status&.success?
        report.ok(samples.to_i.positive?, "what was recorded before the disk was full can be read", "#{samples.inspect} #{export.err}")
      end
    ensure
      system("umount", "-l", mount)
    end
  end
end

Checks.define("errors", rubies: [Rubies::FIRST]) do |report, way|
  Dir.mktmpdir("errors") do |dir|
    ErrorChecks.targets(report, dir)
    ErrorChecks.with_program(way) do |program|
      ErrorChecks.usage(report, dir, program.pid)
      ErrorChecks.outputs(report, dir, program.pid)
      good = File.join(dir, "good.rprof")
      result = Recorder.rprof("record", "-p", program.pid.to_s, "-F", "4999", "-d", "1s", "-o", good)
      ErrorChecks.complete(report, "a recording of a second", good, result, least: 1)
      ErrorChecks.files(report, dir, good)
    end
    ErrorChecks.permission(report, dir, way)
  end
end

Checks.define("endings") do |report, way|
  Dir.mktmpdir("endings") do |dir|
    ErrorChecks.endings(report, dir, way)
    ErrorChecks.two_processes(report, dir, way)
    ErrorChecks.disk_full(report, dir, way) if way.name == Rubies::FIRST
  end
end
