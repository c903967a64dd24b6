# Who makes this system call: every recorded event has the stack that the program printed for it, and there are as
# many as strace counts.
module SyscallCheck
  COUNT = 40
  CALLS = %w[openat getppid getpgid read nanosleep].freeze

  module_function

  def run(report, way)
    Dir.mktmpdir("syscalls") do |dir|
      File.chmod(0o755, dir)
      recording, program = record(way, dir)
      stacks = CALLS.to_h { |c| [c, recording.stacks("syscall:#{c}")] }
      from_places(report, program, stacks)
      from_ruby(report, program, stacks)
      leaves(report, stacks)
      nothing_else(report, recording)
      counts(report, way, dir, stacks)
    end
  end

  # Records a run of the program between "go" and "done". Calls at place 7 go on until the recorder is seen to work.
  def record(way, dir)
    file = File.join(dir, "calls.rprof")
    program = Program.new(way, "programs/syscalls.rb", [COUNT.to_s, "warm", dir], {})
    program.wait_ready
    err = File.join(dir, "err")
    rprof = spawn(Recorder::RPROF, "record", "-p", program.pid.to_s, "--syscall", CALLS.join(","), "-o", file, out: err, err: err)
    until warm?(file)
      raise Program::Failed, "rprof record ended: #{File.read(err)}" if Process.wait(rprof, Process::WNOHANG)
      sleep 0.1
    end
    program.say("go\n")
    Timeout.timeout(Recorder::HANGS) { sleep 0.05 until program.other_lines.any? { |l| l["done"] } }
    Process.kill(:INT, rprof)
    Timeout.timeout(Recorder::HANGS) { Process.wait(rprof) }
    raise Program::Failed, "rprof record: #{$?} #{File.read(err)}" unless $?.success?
    [Recording.new(Recorder.lines(file)), program]
  ensure
    program&.finish
  end

  # Not a wait for time to pass: the recording is read until it holds the calls that the program makes all along.
  def warm?(file)
    return false unless File.exist?(file)
    result = Recorder.rprof("export", file, "-f", "jsonl")
    result.status&.success? && result.out.include?("truth_sys_7")
  end

  def place_of(stack)
    stack["frames"].reverse_each { |f| return $1.to_i if f["name"] =~ /\Atruth_sys_(\d+)\z/ }
    nil
  end

  # Calls by the extension: the whole mixed stack is known.
  def from_places(report, program, stacks)
    all = stacks.values.flatten
    program.truths.each do |place, variants|
      next if place == 7
      found = all.select { |s| place_of(s) == place }
      total = found.sum { |s| s["samples"] }
      expected = place == 2 ? 3 : COUNT
      wrong = found.filter_map do |s|
        c = variants.map { |v| SyscallComparison.new(v, s) }
        c.any?(&:same?) && variants.any? { |v| v.tid == s["thread"]["tid"] } ? nil : c.first
      end
      report.ok(wrong.empty? && total == expected, "every call from place #{place} (#{variants[0].ruby.last['name']}) has its stack",
                ["#{total} events, #{expected} calls"] + wrong.first(2).flat_map(&:diff))
    end
  end

  # Calls by the interpreter: the Ruby part is known.
  def from_ruby(report, program, stacks)
    told = program.other_lines.select { |l| l["maker"] }
    told.group_by { |l| l.values_at("call", "tid") }.each do |(call, tid), lines|
      want = lines[0]["ruby"].map { |f| f.values_at("name", "path", "line") }
      tail = want.last[0]
      found = stacks[call].select { |s| s["thread"]["tid"] == tid && place_of(s).nil? }
      have = found.map { |s| Recording.ruby_frames(s).map { |f| f.values_at("name", "path", "line") } }.uniq
      total = found.sum { |s| s["samples"] }
      outcomes = found.map { |s| s["outcome"] }.uniq
      # A read may find nothing at first: then the interpreter polls and reads again.
      enough = call == "read" ? total >= lines.size : total == lines.size
      report.ok(have == [want] && enough && outcomes == ["exact"], "every #{call} of #{tail} has its stack and thread",
                ["#{total} events of #{lines.size}, outcomes #{outcomes}", "expected #{want}", *have.first(3).map { |h| "got      #{h}" }])
    end
  end

  def leaves(report, stacks)
    wrong = stacks.flat_map { |call, list| list.reject { |s| s["frames"].last["role"] == "syscall" && s["frames"].last["name"].include?(call) } }
    report.ok(wrong.empty?, "every stack leads to the call", wrong.first(3).map { |s| "#{s['trigger']}: #{s['frames'].last}" })
  end

  def nothing_else(report, recording)
    other = recording.lines.select { |l| l["type"] == "stack" }.map { |l| l["trigger"] }.uniq - CALLS.map { |c| "syscall:#{c}" }
    report.ok(other.empty? && recording.lost.zero?, "no CPU sample is taken unasked, no event lost", "#{other} lost #{recording.lost}")
  end

  # With one arena glibc's malloc never looks up the number of CPUs, which it does by openat() and only when threads collide.
  ENV["MALLOC_ARENA_MAX"] = "1"

  # The difference between a run with calls and one without, under strace, is what the calls are.
  def counts(report, way, dir, stacks)
    with = strace(way, dir, COUNT)
    without = strace(way, dir, 0)
    %w[openat getppid getpgid].each do |call|
      expected = with[call] - without[call]
      seen = stacks[call].reject { |s| place_of(s) == 7 }.sum { |s| s["samples"] }
      report.ok(seen == expected, "as many #{call} as strace -f -c counts", "#{seen} recorded, #{expected} by strace")
    end
  end

  def strace(way, dir, count)
    out = File.join(dir, "strace")
    system(way.env, "strace", "-f", "-c", "-e", "trace=openat,getppid,getpgid", "-o", out,
           *way.command, way.path("programs/syscalls.rb"), count.to_s, "nowarm", dir, in: "/dev/null", out: "/dev/null", exception: true)
    counted = Hash.new(0)
    File.readlines(out).each { |l| counted[$2] = $1.to_i if l =~ /\A\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)\s*\z/ }
    counted
  end

  # Above the place stand libc's syscall() and the kernel.
  class SyscallComparison < Comparison
    def allowed_above?(frame)
      super || frame["name"] == "syscall"
    end
  end
end

Checks.define("syscalls") { |report, way| SyscallCheck.run(report, way) }
