# The check of tests/e2e/cases/NAME.rb: every sample taken at a place equals what the program says of that place.
require_relative "program"

class CaseCheck
  MIN_SAMPLES = 3 # a place that was seen less often is recorded again, longer
  RATE = Hash.new(1997).merge("deep" => 199) # Hz; thousands of frames in each sample are as good as many samples

  def initialize(way, name, report)
    @way = way
    @name = name
    @report = report
  end

  # recording: nil to check the program by itself.
  def run(record: true)
    Program.run(@way, "cases/#{@name}.rb") do |program|
      facts = program.wait_ready
      recording = record && record_all(program, facts)
      program.stop
      truths = program.truths
      agree(program, truths, facts)
      judge_judge(truths) unless recording
      next unless recording
      places(recording, truths, facts)
      @report.ok(recording.lost.zero?, "no sample is lost", "#{recording.lost} lost")
      ruby_part(recording, facts) if facts["ruby_part"]
      thread_names(recording, facts) if facts["thread_names"]
      debug_info(recording, facts["debug_info"]) if facts["debug_info"]
      functions(recording, facts["functions"], program.expectations) if facts["functions"]
    end
  rescue Program::Failed, Expected::Wrong, Timeout::Error => e
    @report.ok(false, "the program and rprof run", e.message)
  end

  private

  def place_of(stack)
    stack["frames"].reverse_each do |f|
      return $1.to_i if f["kind"] == "native" && f["name"] =~ /\Atruth_spin_(\d+)\z/
    end
    nil
  end

  def record_all(program, facts)
    recording = nil
    [0.5, 2, 6, 15].each do |cpu|
      recording = Recorder.record(program.pid, rate: RATE[@name], cpu: cpu)
      seen = Hash.new(0)
      recording.stacks.each { |s| seen[place_of(s)] += s["samples"] }
      break if program.truths.keys.all? { |k| seen[k] >= MIN_SAMPLES } && !facts["ruby_part"] || seen.values.sum > 4000
      break if facts["ruby_part"] && seen.values.sum >= 100
    end
    recording
  end

  # The program's own account against the names that its source states.
  def agree(program, truths, facts)
    problems = []
    (program.expectations.keys - truths.keys).each { |k| problems << "place #{k} was never reached" }
    truths.each do |place, variants|
      variants.each do |expected|
        shown = expected.ruby.reject { |f| f["under_rescue"] }
        want = program.expectations[place]
        have = shown.map { |f| f["name"] }
        problems << "place #{place}: stated #{want}" << "  Ruby says #{have}" if want && want != have
        line = facts["lines"] && facts["lines"][place.to_s]
        problems << "place #{place}: line #{line} stated, Ruby says #{shown.last['line']}" if line && line != shown.last["line"]
        collects = (facts["gc_places"] || []).include?(place)
        problems << "place #{place}: collecting is #{collects}, the collector says #{!collects}" if collects != !expected.gc_entry.nil?
        least = facts["at_least_native"]
        count = expected.entries.count { |e| !e.ruby? } + expected.loop_pcs.size
        problems << "place #{place}: only #{count} native frames" if least && count < least
      end
    end
    @report.ok(problems.empty?, "the program's own account is what its source states", problems)
  end

  # A perfect recording is accepted, and each small wrong is noticed.
  def judge_judge(truths)
    problems = truths.values.flatten.flat_map do |expected|
      perfect = Perfect.stack(expected)
      found = Comparison.new(expected, perfect)
      next ["place #{expected.place}: a perfect stack is refused", *found.diff] unless found.same?
      Perfect.wrongs(perfect).filter_map { |what, stack| "place #{expected.place}: #{what} goes unnoticed" if Comparison.new(expected, stack).same? }
    end
    @report.ok(problems.empty?, "the judge accepts a perfect recording and no other", problems) if truths.any?
  end

  def places(recording, truths, facts)
    by_place = recording.stacks.group_by { |s| place_of(s) }
    truths.sort.each do |place, variants|
      stacks = by_place[place] || []
      total = stacks.sum { |s| s["samples"] }
      label = variants.first.ruby.last(2).map { |f| f["name"] }.join(" > ")
      wrong = stacks.filter_map { |s| compare(s, variants) }
      bad = wrong.sum { |s, _| s["samples"] }
      details = wrong.sort_by { |s, _| -s["samples"] }.first(2).flat_map { |_, c| c.diff }
      details.unshift("#{bad} of #{total} samples differ") if bad.positive?
      details << "only #{total} samples" if total < MIN_SAMPLES
      @report.ok(bad.zero? && total >= MIN_SAMPLES, "every sample at place #{place} (#{label}) equals the truth", details)
    end
  end

  # nil when the stack equals one of the variants, else [stack, the nearest comparison].
  def compare(stack, variants)
    mine = variants.select { |v| v.tid == stack["thread"]["tid"] }
    return [stack, Nobody.new("thread #{stack['thread']['tid']} was never at this place")] if mine.empty?
    tries = mine.map { |v| Comparison.new(v, stack) }
    best = tries.find(&:same?) || tries.max_by(&:equal_frames)
    best.same? ? nil : [stack, best]
  end

  Nobody = Struct.new(:message) do
    def diff
      [message]
    end
  end

  # A leaf without CFI: the Ruby part is whole while the native part says that it is cut.
  def ruby_part(recording, facts)
    stacks = recording.stacks.select { |s| Recording.native_frames(s).any? { |f| facts["libraries"].any? { |l| f["library"].to_s.include?(l) } } }
    total = stacks.sum { |s| s["samples"] }
    wrong = stacks.reject { |s| Recording.ruby_frames(s).map { |f| f["name"] } == facts["ruby_part"] }
    @report.ok(total >= 50, "samples in #{facts['libraries'].join}", "#{total} samples")
    @report.ok(wrong.empty?, "every sample in #{facts['libraries'].join} has the whole Ruby stack",
               wrong.first(2).flat_map { |s| ["#{s['samples']} samples, #{s['outcome']} #{s['reason']}: #{Recording.ruby_frames(s).map { |f| f['name'] }}"] })
    exact = stacks.select { |s| s["outcome"] == "exact" }
    unmarked = stacks.reject { |s| s["outcome"] == "exact" || s["reason"] == "no-cfi" }
    lying = exact.reject { |s| Recording.native_frames(s).first["name"] == "_start" }
    @report.ok(unmarked.empty? && lying.empty?, "a native part that is cut is marked no-cfi",
               (unmarked + lying).first(3).map { |s| "#{s['samples']} #{s['outcome']} #{s['reason']} #{Recording.native_frames(s).map { |f| f['name'] }}" })
  end

  # Where a library has debug information: source lines, and the function that was inlined.
  def debug_info(recording, place)
    wrong = recording.stacks.select { |s| place_of(s) == place }.reject do |s|
      at = s["frames"].index { |f| f["name"] == "chain_big" }
      inlined = at && s["frames"][at + 1]
      ours = s["frames"].select { |f| f["name"].to_s.start_with?("chain_") }
      inlined && inlined["name"] == "chain_inlined" && inlined["inlined"] && ours.size == 5 &&
        ours.all? { |f| f["path"].to_s.end_with?("ext/truth.c") && source_line(f).include?("chain_") && f["role"] == "ext" }
    end
    @report.ok(wrong.empty?, "inlined functions and source lines are told where debug information is",
               wrong.first(1).flat_map { |s| s["frames"].last(8).map(&:inspect) })
  end

  def source_line(frame)
    @source ||= File.readlines(File.join(Rubies::E2E, "ext/truth.c"))
    # chain_leaf's line is its call of the place
    frame["name"] == "chain_leaf" ? "chain_ #{@source[frame['line'].to_i - 1][/spin/]}" : @source[frame["line"].to_i - 1].to_s
  end

  # [first line, method] of the Ruby frames of each place, but for those that all share and the one that burns.
  def functions(recording, places, expectations)
    wrong = recording.stacks.filter_map do |s|
      want = places[place_of(s).to_s]
      next if want.nil?
      have = Recording.ruby_frames(s)[(expectations[place_of(s)].size - want.size - 1)..].first(want.size).map { |f| f.values_at("first_line", "method") }
      "place #{place_of(s)}: #{have}, #{want} expected" if have != want
    end
    @report.ok(wrong.empty?, "blocks have their own first lines, and those that are methods the method's name", wrong.uniq.first(5))
  end

  def thread_names(recording, facts)
    facts["thread_names"].each do |place, name|
      names = recording.stacks.select { |s| place_of(s) == place.to_i }.map { |s| s["thread"]["name"] }.uniq
      @report.ok(names == [name], "the thread of place #{place} has its Ruby name", "#{names}, #{name} expected")
    end
  end
end
