# What happens to the recorder and to the program while it is recorded.
require "tmpdir"
require_relative "judge"
require_relative "recording"

module Names
  RATE = 4999
  PROGRAMS = File.expand_path("../programs", __dir__)

  # One program under test.
  class Subject
    attr_reader :dir, :program, :name

    def self.run(way, name, env: {})
      Dir.mktmpdir("rprof-names") do |dir|
        Program.run(way, "../names/programs/#{name}.rb", env: { "NAMES_LOG" => File.join(dir, "log") }.merge(env)) do |program|
          yield new(dir, name, program, program.wait_ready)
        end
      end
    end

    # The program that execs itself, by one Ruby after the other.
    def self.run_images(ways, turns)
      none = ways.flat_map { |way| way.env.keys }.to_h { |key| [key, nil] }
      images = ways.map { |way| [none.merge(way.env), way.command] }
      env = { "NAMES_IMAGES" => JSON.generate(images), "NAMES_TURNS" => turns.to_s }
      trees = ways.drop(1).map { |way| run(way, "exec", env: env, &:tree) }
      run(ways.first, "exec", env: env) do |subject|
        trees.each { |tree| subject.add_tree(tree) }
        yield subject
      end
    end

    def initialize(dir, name, program, ready)
      @dir = dir
      @name = name
      @program = program
      @ready = ready
      @trees = [Tree.new(ready)]
    end

    def pid = @program.pid

    def tree = @trees.first

    # What another Ruby shows that this program is going to be.
    def add_tree(tree) = @trees << tree

    attr_reader :ready

    # The stacks that the program's source names must be among those that Ruby showed.
    def account(report)
      missing = @ready["expected"].reject { |part| tree.shows?(part) }
      report.ok(missing.empty? && @ready["expected"].any?, "the program's own account is what its source states", missing.map { |part| part.join(" > ") })
    end

    def spans = Spans.new(File.join(@dir, "log"))

    # Tells programs/exec.rb that it may.
    def go = FileUtils.touch(File.join(@dir, "log.go"))

    # Goes on until the program has used so much CPU time, which is what samples are of.
    def let_work(seconds)
      start = Names.cpu_seconds(pid)
      Timeout.timeout(Recorded::HANGS) { sleep 0.005 until Names.cpu_seconds(pid) - start >= seconds }
    end

    # The samples of a recording for which the block is true.
    def judge(summary, file, &wanted)
      samples = Names.each_sample(file)
      samples = samples.lazy.select(&wanted) if wanted
      tally = Judge.new(@trees, spans, moves: @name == "compact").judge(samples)
      tally.lost = summary["lost"].values.sum
      tally
    end
  end

  module Conditions
    module_function

    # (a) The recorder runs. cpu: of the program, here and below.
    def running(subject, cpu:)
      recorded = Recorded.make(subject.dir, subject.pid, rate: RATE) do |recorder|
        subject.let_work(cpu)
        recorder.interrupt
      end
      subject.judge(*recorded)
    end

    # (b) It hardly gets to run.
    def starved(subject, cpu:)
      recorded = Recorded.make(subject.dir, subject.pid, rate: RATE) do |recorder|
        enough = Names.cpu_seconds(subject.pid) + cpu
        recorder.starve { Names.cpu_seconds(subject.pid) >= enough }
      end
      subject.judge(*recorded)
    end

    # (c) The program is killed while the recorder is stopped. Judged is what was sampled meanwhile.
    def killed(subject, cpu: 0.1)
      stopped_at = nil
      recorded = Recorded.make(subject.dir, subject.pid, rate: RATE) do |recorder|
        subject.let_work(0.1)
        stopped_at = recorder.stop
        subject.let_work(cpu)
        Process.kill(:KILL, subject.pid)
        Process.wait(subject.pid)
        subject.program.gone!
        recorder.go_on
      end
      subject.judge(*recorded) { |sample| sample["time_ns"] > stopped_at }
    end

    # (d) The recorder is stopped until the ring buffer is full, and then runs again. cpu: meanwhile.
    def full(subject, cpu:)
      recorded = Recorded.make(subject.dir, subject.pid, rate: RATE) do |recorder|
        subject.let_work(0.2)
        recorder.stop
        subject.let_work(cpu)
        recorder.go_on
        subject.let_work(0.5)
        recorder.interrupt
      end
      subject.judge(*recorded)
    end

    # (e) The program execs itself `turns` times. Returns what was found in all and of the last image.
    def exec(subject, turns:)
      recorded = Recorded.make(subject.dir, subject.pid, rate: RATE) do |recorder|
        subject.go
        Timeout.timeout(Recorded::HANGS) { sleep 0.01 until subject.spans.images > turns }
        subject.let_work(0.5)
        recorder.interrupt
      end
      spans = subject.spans
      [subject.judge(*recorded), subject.judge(*recorded) { |sample| spans.worked_last?(sample["time_ns"]) }]
    end
  end
end
