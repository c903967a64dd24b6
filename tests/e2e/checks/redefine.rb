# A program that redefines and frees code all the time: a frame's name, path and line are of one definition, and of the
# one that ran at that time.
Checks.define("redefine") do |report, way|
  Program.run(way, "programs/redefine.rb") do |program|
    program.wait_ready
    recording = Recorder.record(program.pid, rate: 997, cpu: 4, export: ["--samples"])
    program.stop
    spans = program.other_lines.select { |l| l["span"] }.to_h { |l| [l["span"], l["ns"]] }
    samples = recording.lines.select { |l| l["type"] == "sample" }
    frames = samples.flat_map { |s| Recording.ruby_frames(s).select { |f| f["name"] =~ /gen_\d+|Gen\d+/ }.map { |f| [s, f] } }
    torn = frames.reject do |_, f|
      n = f["name"][/(?:gen_|Gen)(\d+)/, 1]
      f["kind"] == "cfunc" || (n && f["path"] == "gen_#{n}.rb" && (n.to_i * 10..n.to_i * 10 + 5).cover?(f["line"]) && (f["owner"].nil? || f["owner"] == "Gen#{n}"))
    end
    seen = frames.map { |_, f| f["name"][/\d+/] }.uniq.size
    report.ok(seen >= 100, "many definitions are seen", "#{seen} of #{spans.size}, #{samples.size} samples")
    report.ok(torn.empty?, "a name, its path, its line and its owner are of the same definition", torn.first(5).map { |_, f| f.inspect })
    stale = frames.reject do |s, f|
      n = f["name"][/\d+/].to_i
      span = spans[n]
      span.nil? ? true : s["time_ns"].between?(span[0], span[1])
    end
    report.ok(stale.empty?, "every name is the one that was defined at that time",
              stale.first(5).map { |s, f| "#{f['name']} at #{s['time_ns']}, defined #{spans[f['name'][/\d+/].to_i]}" } << "#{stale.size} of #{frames.size}")
    late = samples.count { |s| s["reason"] == "late-name" }
    report.ok(late.zero?, "every name comes with its sample", "#{late} of #{samples.size}")
  end
end
