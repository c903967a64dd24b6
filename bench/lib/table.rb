# The rows of a run: printed as they come, written as JSON, put into BENCHMARKS.md.
require "etc"
require "json"

module Bench
  class Table
    TITLES = { "walk" => "BPF time per sample", "stolen" => "Time stolen from the target per sample", "recorder" => "The recorder",
               "syscall" => "The system call trigger" }.freeze
    HEAD = format("%-68s %9s %19s %9s  %-12s %8s  %-13s %s", "", "median", "quartiles", "min", "unit", "yards", "aim", "").freeze

    attr_reader :rows

    def initialize(out)
      @out = out
      @rows = []
      @began = Time.now
      @load_before = load_average
    end

    def section(name)
      @out.puts(HEAD.rstrip) if @rows.empty?
      @out.puts("", TITLES.fetch(name).upcase)
    end

    # stats: Stats.of() a series in unit; yard: the yardstick of the same run, in the same unit; aim: at most this.
    def add(section, what, unit, stats, aim: nil, yard: nil, note: nil, **more)
      row = { "section" => section, "what" => what, "unit" => unit, **stats }
      row["yardsticks"] = stats["median"] / yard if yard
      row["aim"] = aim if aim
      row["met"] = stats["median"] <= aim if aim
      row["note"] = note if note
      more.each { |key, value| row[key.to_s] = value }
      @rows << row
      @out.puts(line(row))
    end

    def skip(section, what, why)
      @rows << { "section" => section, "what" => what, "skipped" => why }
      @out.puts(line(@rows.last))
    end

    def machine
      { "kernel" => Etc.uname[:release], "cpu" => File.read("/proc/cpuinfo")[/^model name\s*: (.*)/, 1], "cpus" => Etc.nprocessors,
        "memory_mb" => File.read("/proc/meminfo")[/MemTotal:\s+(\d+)/, 1].to_i / 1024,
        "ruby" => Bench.run(RUBY, "--version").strip, "rprof" => Bench.run(File.join(BUILD, "rprof"), "--version").strip,
        "commit" => commit, "date" => @began.utc.strftime("%Y-%m-%d %H:%M UTC"), "load_before" => @load_before }
    end

    def finish(path)
      facts = machine.merge("load_after" => load_average, "seconds" => (Time.now - @began).round)
      File.write(path, JSON.pretty_generate("machine" => facts, "rows" => @rows) << "\n")
      missed = @rows.count { |row| row["met"] == false }
      @out.puts("", Table.footer(facts))
      @out.puts("#{@rows.count { |row| row['met'] }} aims met, #{missed} missed. Written: #{path.delete_prefix("#{ROOT}/")}")
    end

    def self.footer(facts)
      format("%s, %d x %s, %d MB; %s; %s%s; load %s before, %s after; %d s", facts["kernel"], facts["cpus"], facts["cpu"],
             facts["memory_mb"], facts["ruby"][/ruby \S+/], facts["rprof"], facts["commit"] ? " (#{facts['commit']})" : "",
             facts["load_before"], facts["load_after"], facts["seconds"])
    end

    # The table of a run that was written, as Markdown.
    def self.markdown(run)
      text = +"#{run['machine']['date']}: #{footer(run['machine'])}.\n"
      run["rows"].group_by { |row| row["section"] }.each do |section, rows|
        text << "\n**#{TITLES.fetch(section)}**\n\n| | median | quartiles | min | unit | yardsticks | aim | |\n|---|--:|--:|--:|---|--:|--:|---|\n"
        rows.each { |row| text << "| #{cells(row).join(' | ')} |\n" }
      end
      text
    end

    # What moved between two runs by more than both runs' own spread, and by a twentieth at least; in yardsticks where there
    # are any, since the machine may have been another one.
    def self.compare(old, new)
      before = old["rows"].to_h { |row| [[row["section"], row["what"]], row] }
      new["rows"].filter_map do |row|
        was = before[[row["section"], row["what"]]]
        next unless was && was["median"] && row["median"] && was["unit"] == row["unit"]

        scales = [was, row].map { |r| r["yardsticks"] && r["median"].nonzero? ? r["yardsticks"] / r["median"] : 1.0 }
        scales = [1.0, 1.0] unless was["yardsticks"] && row["yardsticks"]
        low, mid, high = %w[q1 median q3].map { |key| row[key] * scales[1] }
        was_low, was_mid, was_high = %w[q1 median q3].map { |key| was[key] * scales[0] }
        next if (low <= was_high && high >= was_low) || was_mid.zero? || (mid / was_mid - 1).abs < 0.05

        format("%-68s %9s -> %9s  %-12s %+.0f %%", row["what"], number(was_mid), number(mid),
               row["yardsticks"] ? "yardsticks" : row["unit"], (mid / was_mid - 1) * 100)
      end
    end

    def self.cells(row)
      return [row["what"], "-", "", "", "", "", "", row["skipped"]] if row["skipped"]

      aim = row["aim"] && "≤ #{number(row['aim'])} #{row['met'] ? 'met' : '**missed**'}"
      spread = row["n"] > 1 ? "#{number(row['q1'])}–#{number(row['q3'])}" : ""
      [row["what"], number(row["median"]), spread, row["n"] > 1 ? number(row["min"]) : "", row["unit"],
       row["yardsticks"] && format("%.2f", row["yardsticks"]), aim, row["note"]].map(&:to_s)
    end

    def self.number(value)
      return value.round.to_s.gsub(/(?<=\d)(?=(\d{3})+$)/, " ") if value.abs >= 1000

      format(value.abs >= 100 ? "%.0f" : value.abs >= 10 ? "%.1f" : "%.2f", value)
    end

    private

    def line(row)
      what, median, spread, min, unit, yards, aim, note = Table.cells(row).map { |cell| cell.delete("*") }
      format("%-68s %9s %19s %9s  %-12s %8s  %-13s %s", what, median, spread, min, unit, yards, aim, note).rstrip
    end

    def load_average = File.read("/proc/loadavg")[/\S+/]

    def commit
      Bench.run("git", "-C", ROOT, "describe", "--always", "--dirty").strip
    rescue Failed, Errno::ENOENT
      nil
    end
  end
end
