# A program under test, and what it said.
require "json"
require "tempfile"
require "timeout"
require "tmpdir"
require_relative "judge"
require_relative "rubies"

class Program
  HANGS = 600 # seconds; a time limit is for what never ends, not to measure

  class Failed < StandardError; end

  attr_reader :pid, :ready, :expectations, :way

  # Starts script (relative to tests/e2e) on a Ruby.
  def self.run(way, script, *args, env: {})
    program = new(way, script, args, env)
    begin
      yield program
    ensure
      program.finish
    end
  end

  def initialize(way, script, args, env)
    @way = way
    @said = []
    @expectations = {}
    @lock = Mutex.new
    @ready_queue = Queue.new
    @errors = Tempfile.create("truth-err")
    reader, writer = IO.pipe
    stdin, @to_program = IO.pipe
    @pid = spawn(way.env.merge(env), *way.command, way.path(script), *args, in: stdin, out: writer, err: @errors.path)
    writer.close
    stdin.close
    @thread = Thread.new { read(reader) }
  end

  # Waits until the program has been at all places once. A time limit only for a program that hangs.
  def wait_ready
    @ready = Timeout.timeout(HANGS) { @ready_queue.pop }
    raise Failed, "the program ended early: #{File.read(@errors.path)[0, 1500]}" if @ready.nil?
    @ready
  end

  def say(text)
    @to_program.write(text)
    @to_program.flush
  end

  # Distinct truths: {place => [Expected, ...]}
  def truths
    wait_ready unless @ready
    said = @lock.synchronize { @said.dup }
    distinct = said.uniq { |s| [s["place"], s["tid"], s["ruby"].map { |f| f.values_at("name", "path", "line") }, s["native"].map { |f| f["pc"] }[0..-2]] }
    distinct.map { |s| Expected.new(s, @ready["loop"]) }.group_by(&:place)
  end

  def other_lines
    @lock.synchronize { (@other ||= []).dup }
  end

  def stop
    Process.kill(:USR2, @pid)
    Timeout.timeout(HANGS) { Process.wait(@pid) }
    @gone = true
    @thread.join
  end

  def gone!
    @gone = true
  end

  def finish
    return if @gone
    Process.kill(:KILL, @pid)
    Process.wait(@pid)
    @thread.join(5)
  rescue Errno::ESRCH, Errno::ECHILD
    nil
  ensure
    File.unlink(@errors.path) if File.exist?(@errors.path)
    @to_program.close unless @to_program.closed?
  end

  private

  def read(reader)
    reader.each_line do |line|
      said = JSON.parse(line)
      @lock.synchronize do
        if said["place"] then @said << said
        elsif said["expect"] then @expectations[said["expect"]] = said["names"]
        else (@other ||= []) << said
        end
      end
      @ready_queue << said if said["ready"]
    end
    @ready_queue << nil
  end
end

# Runs rprof and reads what it wrote.
module Recorder
  HANGS = Program::HANGS
  RPROF = ENV["RPROF"] || File.join(Rubies::BUILD, "rprof")
  Result = Struct.new(:status, :out, :err)

  module_function

  def rprof(*args, **options)
    out_r, out_w = IO.pipe
    err_r, err_w = IO.pipe
    pid = spawn(RPROF, *args, { out: out_w, err: err_w, in: "/dev/null" }.merge(options))
    out_w.close
    err_w.close
    out = Thread.new { out_r.read }
    err = Thread.new { err_r.read }
    _, status = Timeout.timeout(HANGS) { Process.wait2(pid) }
    pid = nil
    Result.new(status, out.value, err.value)
  rescue Timeout::Error
    Process.kill(:KILL, pid)
    Process.wait(pid)
    Result.new(nil, "", "rprof #{args.join(' ')}: no end within #{HANGS} seconds")
  end

  # Records, exports and reads it. How long: until the process has used so many seconds of processor, which is what samples are of, or
  # until the block says so of the recording's file. What else the machine does makes no difference to what is seen.
  def record(pid, rate: 499, cpu: 1.5, options: [], export: [], &enough)
    Dir.mktmpdir("rprof-e2e") do |dir|
      file = File.join(dir, "case.rprof")
      run_until(file, "-p", pid.to_s, "-F", rate.to_s, *options) do |begun|
        limit = begun ? cpu_seconds(pid) + cpu : 0
        enough ? -> { sleep(0.3) && enough.call(file) } : -> { cpu_seconds(pid) >= limit }
      end
      return Recording.new(lines(file, *export))
    end
  end

  # rprof record, interrupted when it is enough. The block is called once samples are taken, and gives what is asked then.
  def run_until(file, *args)
    err_r, err_w = IO.pipe
    rprof = spawn(RPROF, "record", "-o", file, *args, in: "/dev/null", out: "/dev/null", err: err_w)
    err_w.close
    ended = Process.detach(rprof)
    said = +""
    begun = Queue.new
    # The recorder shows its progress as soon as it samples.
    reader = Thread.new do
      err_r.each_line do |line|
        said << line if said.size < 4000
        begun << true if line.include?(" samples ")
      end
      begun << false
    end
    Timeout.timeout(HANGS) do
      enough = yield begun.pop
      sleep 0.02 until !ended.alive? || enough.call
      Process.kill(:INT, rprof) if ended.alive?
      ended.join
    end
    reader.join
    raise Program::Failed, "rprof record: #{ended.value} #{said}" unless ended.value.success?
  ensure
    if ended&.alive?
      Process.kill(:KILL, rprof)
      ended.join
    end
  end

  # Of all threads, also those that have ended.
  def cpu_seconds(pid)
    File.read("/proc/#{pid}/stat")[/.*\) (.*)/, 1].split.values_at(11, 12).sum(&:to_i) / 100.0
  end

  # The stacks in a recording that is still written.
  def stacks_so_far(file)
    result = rprof("export", file, "-f", "jsonl") if File.exist?(file)
    return [] unless result&.status&.success?
    Recording.new(result.out.each_line.map { |l| JSON.parse(l) }).stacks
  end

  def lines(file, *options)
    result = rprof("export", file, "-f", "jsonl", *options)
    raise Program::Failed, "rprof export: #{result.status} #{result.err}" unless result.status&.success?
    result.out.each_line.map { |l| JSON.parse(l) }
  end
end

# The lines of an export.
class Recording
  attr_reader :lines

  def initialize(lines)
    @lines = lines
  end

  def stacks(trigger = "cpu")
    @lines.select { |l| l["type"] == "stack" && l["trigger"] == trigger }
  end

  def lost
    @lines.select { |l| l["type"] == "loss" }.sum { |l| l["count"].to_i }
  end

  RUBY_KINDS = %w[ruby jit cfunc].freeze

  def self.ruby_frames(stack)
    stack["frames"].select { |f| RUBY_KINDS.include?(f["kind"]) }
  end

  def self.native_frames(stack)
    stack["frames"].select { |f| f["kind"] == "native" && !f["inlined"] }
  end
end
