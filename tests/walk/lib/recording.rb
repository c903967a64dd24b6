# A program that says "ready" and then works for ever, and what `rprof record --json` says about it.
require "json"
require "open3"
require "tmpdir"
require "timeout"
require_relative "../../e2e/lib/rubies"

module Walk
  ROOT = Rubies::ROOT
  PROGRAMS = File.join(ROOT, "tests/walk/programs")
  WORKLOADS = File.join(ROOT, "bench/workloads")
  SCRATCH = Dir.mktmpdir("rprof-walk")
  at_exit { FileUtils.rm_rf(SCRATCH) }

  class Failed < StandardError; end

  module_function

  # The extensions of tests/walk/ext, for a version of Ruby.
  def ext(version)
    dir = File.join(Rubies::BUILD, "tests/walk-#{version}")
    { "frames" => %w[frames.c], "load_a" => %w[load.c -DFRAME_SIZE=512], "load_b" => %w[load.c -DFRAME_SIZE=1024] }
      .each { |name, (source, *flags)| Rubies.compile(version, File.join(ROOT, "tests/walk/ext", source), File.join(dir, "#{name}.so"), *flags) }
    dir
  end

  # Starts the program, yields its process id, and kills it.
  def program(env, *command)
    said, out = IO.pipe
    errors = File.join(SCRATCH, "errors-#{Thread.current.object_id}")
    pid = spawn({ "TMPDIR" => SCRATCH }.merge(env), *command.map(&:to_s), in: "/dev/null", out: out, err: errors)
    out.close
    # A limit for a program that hangs, no more.
    raise Failed, "the program ended early: #{File.read(errors)[0, 800]}" unless Timeout.timeout(600) { said.gets } == "ready\n"

    yield pid
  ensure
    if pid
      Process.kill(:KILL, pid)
      Process.wait(pid)
    end
    [said, out].each { |io| io.close unless io.closed? }
  end

  # The summary of one recording.
  def record(rprof, pid, rate:, seconds:, syscalls: nil, env: {})
    file = File.join(SCRATCH, "#{pid}.rprof")
    options = syscalls ? ["--syscall", syscalls.join(",")] : []
    out, err, status = Open3.capture3(env, rprof, "record", "-q", "--json", "-p", pid.to_s, "-F", rate.to_s, "-d", "#{(seconds * 1000).to_i}ms",
                                      "-o", file, *options)
    raise Failed, "rprof record: #{status} #{err}" unless status.success?

    JSON.parse(out)
  ensure
    FileUtils.rm_f(file)
  end

  # Records, longer each time, until a summary is enough: how much a second yields is the machine's affair. Yields the
  # summaries; returns the last.
  def record_with(rprof, pid, seconds:, **options)
    6.times do |i|
      summary = record(rprof, pid, seconds: seconds << i, **options)
      return summary if yield summary
    end
    raise Failed, "too few samples, however long"
  end

  # The same for summaries that are enough together. Yields and returns sums.
  def record_until(rprof, pid, **options)
    sums = Hash.new(0)
    record_with(rprof, pid, **options) do |summary|
      summary.each { |key, value| sums[key] += value if value.is_a?(Integer) }
      yield sums
    end
    sums
  end
end
