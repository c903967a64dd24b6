# A program in a PID namespace of its own, as in a container, recorded from the namespace that holds all others, from one between, and
# from its own. Each gives its process and its threads other numbers.
module NamespaceCheck
  UNSHARE = %w[unshare -pfm --mount-proc --kill-child].freeze
  PLACES = ["outside of all", "one between", "its own"].freeze
  ENOUGH = 100 # samples of each thread

  module_function

  def run(report, way)
    return report.skip("a process in another PID namespace", "no namespace can be made here") unless system(*UNSHARE, "true", err: "/dev/null")
    nested = way.dup.tap { |w| w.command = UNSHARE + UNSHARE + way.command }
    PLACES.each_index do |place|
      Program.run(nested, "programs/namespace.rb") do |program|
        facts = program.wait_ready
        between = child_of(program.pid)
        ruby = child_of(between)
        threads = numbers(ruby).to_h { |tids| [tids[place], facts["tids"][tids.last.to_s]] }.compact
        # unshare itself stays in the outer of two namespaces of processes, and has the inner one of mounts.
        into = [[], %W[nsenter --pid=/proc/#{between}/ns/pid --mount=/proc/#{program.pid}/ns/mnt], %W[nsenter -t #{ruby} -p -m]]
        judge(report, PLACES[place], record(program, into[place], status_numbers("/proc/#{ruby}/status")[place]), threads)
        strange_proc(report, between, ruby) if place.zero?
      end
    end
  end

  # An rprof to which /proc shows other numbers than the kernel takes from it.
  def strange_proc(report, between, ruby)
    { "inner" => [%W[nsenter -t #{between} -p -m], 1], "outer" => [%W[nsenter -t #{ruby} -p], ruby] }.each do |which, (into, pid)|
      _, err, status = Open3.capture3(*into, Recorder::RPROF, "record", "-p", pid.to_s, "-d", "1s", "-o", "/tmp/never.rprof")
      report.ok(status.exitstatus == 1 && err.match?(/\Arprof: .*PID namespace/) && !File.exist?("/tmp/never.rprof"),
                "/proc of an #{which} namespace is refused with a sentence", "#{status} #{err}")
    end
  end

  def child_of(pid)
    File.read("/proc/#{pid}/task/#{pid}/children").to_i
  end

  # Of each thread: its numbers, outermost namespace first.
  def numbers(pid)
    Dir["/proc/#{pid}/task/*/status"].map { |file| status_numbers(file) }
  end

  def status_numbers(file)
    File.read(file)[/^NSpid:(.*)/, 1].split.map(&:to_i)
  end

  # Until all that is expected has been seen, or in vain.
  def record(program, through, pid)
    Dir.mktmpdir("namespace") do |dir|
      file = File.join(dir, "x.rprof")
      err = File.join(dir, "err")
      started = spawn(*through, Recorder::RPROF, "record", "-p", pid.to_s, "-F", "499", "-o", file, in: "/dev/null", out: err, err: err)
      ended = Process.detach(started)
      wait(ended, file) { |stacks| %w[left right].all? { |name| FreeCheck.sum(of_thread(stacks, name)) >= ENOUGH } }
      program.say("go\n")
      wait(ended, file) { |stacks| FreeCheck.sum(late(stacks)) >= ENOUGH }
      Process.kill(:INT, through.empty? ? started : child_of(started)) if ended.alive?
      raise Program::Failed, "rprof record: #{ended.value} #{File.read(err)}" unless ended.value.success?
      return Recorder.lines(file)
    end
  end

  # The time limit is for a condition that never comes true: what is missing then is told by the judge.
  def wait(ended, file)
    Timeout.timeout(Recorder::HANGS) do
      while ended.alive?
        result = Recorder.rprof("export", file, "-f", "jsonl") if File.exist?(file)
        return if result&.status&.success? && yield(result.out.each_line.map { |l| JSON.parse(l) }.select { |l| l["type"] == "stack" })
        sleep 0.2
      end
    end
  rescue Timeout::Error
    nil
  end

  def of_thread(stacks, name)
    stacks.select { |s| s["thread"]["name"] == name }
  end

  # Whole stacks through the extension that was loaded while recording.
  def late(stacks)
    stacks.select do |s|
      native = Recording.native_frames(s)
      native.first&.fetch("name") == "_start" && native.any? { |f| f["name"] == "truth_yield" && f["library"].end_with?("truth.so") }
    end
  end

  def judge(report, place, lines, threads)
    stacks = lines.select { |l| l["type"] == "stack" }
    threads.each do |tid, name|
      mine = of_thread(stacks, name)
      report.ok(FreeCheck.sum(mine) >= ENOUGH && mine.all? { |s| s["thread"]["tid"] == tid }, "from #{place}: thread #{name} has its number and its samples",
                "#{FreeCheck.sum(mine)} samples, tids #{mine.map { |s| s['thread']['tid'] }.uniq}, #{tid} expected")
      wrong = mine.reject do |s|
        own = Recording.ruby_frames(s).map { |f| f["name"] } & %w[Object#left Object#right Object#late]
        own == ["Object##{name}"]
      end
      report.ok(wrong.empty?, "from #{place}: the stacks of thread #{name} are its own", wrong.first(3).map { |s| FreeCheck.describe(s) })
    end
    report.ok(FreeCheck.sum(late(stacks)) >= ENOUGH, "from #{place}: code that is mapped while recording is unwound",
              ["#{FreeCheck.sum(late(stacks))} samples", stacks.map { |s| s.values_at("outcome", "reason") }.tally.to_s])
  end
end

require "open3"
Checks.define("namespace") { |report, way| NamespaceCheck.run(report, way) }
