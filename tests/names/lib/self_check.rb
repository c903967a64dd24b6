# Checks a program and the judge without rprof: the program's later passes show no stack that the first ones did not, its account
# is what its source states, and the judge accepts each of these stacks and notices each small wrong.
require_relative "conditions"

module Names
  class SelfCheck
    PASSES = 6
    N = 4711

    # Definition N ran from 100 to 200.
    module Always
      module_function

      def running?(n, time) = n == N && time.between?(100, 200)
      def worked?(_) = true
    end

    def initialize(report, way, name)
      @report = report
      @way = way
      @name = name
    end

    def run
      Subject.run(@way, @name, env: { "NAMES_TRACED" => PASSES.to_s, "NAMES_IMAGES" => "[]", "NAMES_TURNS" => "0" }) do |subject|
        subject.account(@report)
        more = subject.ready["more"].map { |row| row.map { |i| Place.new(*subject.ready["places"][i]) }.join(" > ") }
        @report.ok(more.empty?, "later passes have the stacks of the first", more)
        judge_judge(subject.tree)
        subject.program.stop
      end
    end

    private

    def judge_judge(tree)
      judge = Judge.new([tree], Always)
      refused = tree.rows.filter_map { |row| judge.verdict(sample(row)).then { |kind, what, _| "#{kind} #{what}: #{row.join(' > ')}" if kind } }
      @report.ok(refused.empty?, "the judge accepts all #{tree.rows.size} stacks", refused)
      unnoticed = []
      count = 0
      tree.rows.each do |row|
        wrongs(row).each do |expected, what, wrong|
          count += 1
          kind, = judge.verdict(wrong)
          unnoticed << "#{what} is #{kind.inspect}: #{row.join(' > ')}" unless kind == expected
        end
      end
      @report.ok(unnoticed.empty? && count >= tree.rows.size, "the judge notices each of #{count} small wrongs", unnoticed)
    end

    BELOW = [["<main>", "x.rb", 1], ["Known.run", "known.rb", 1], ["Known.go_on", "known.rb", 1]].freeze

    # The line of an export of such a stack of definition N.
    def sample(row, n = N)
      frames = BELOW + row.map do |place|
        [place.name.gsub("_N", "_#{n}"), place.path.gsub("_N", "_#{n}"), place.line + (place.defined? ? n * LINES : 0)]
      end
      { "time_ns" => 150, "outcome" => "exact", "reason" => nil, "trigger" => "cpu",
        "frames" => frames.map { |name, path, line| { "kind" => "ruby", "name" => name, "path" => path, "line" => line, "owner" => nil } } }
    end

    # [the verdict that it must get, what is wrong, the sample]
    def wrongs(row)
      list = [[:late, "a stack that says so", sample(row).merge("outcome" => "transient", "reason" => "late-name")]]
      of_n = row.each_index.select { |i| row[i].to_s.include?("_N") }
      if of_n.any?
        list << [:wrong, "another definition", sample(row, N + 1)] << [:wrong, "another time", sample(row).merge("time_ns" => 99)] <<
          [:wrong, "another time", sample(row).merge("time_ns" => 201)]
      end
      row.each_index do |i|
        list << [:late, "a missing name", change(row, i, "name" => "(code freed before it was read)", "path" => nil, "line" => nil)]
        list << [:wrong, "an owner", change(row, i, "owner" => "Other")]
        list << [:wrong, "a name", change(row, i, "name" => "Other#name")]
        list << [:wrong, "a path", change(row, i, "path" => "other.rb")] unless row[i].path.start_with?("<internal")
        list << [:wrong, "a line far away", change(row, i, "line" => 1_000_000)] if i < row.size - 1
      end
      list + (of_n.size > 1 ? of_n.flat_map { |i| mixed(row, i) } : [])
    end

    # One frame of another definition among those of N.
    def mixed(row, i)
      %w[name path].filter_map do |key|
        text = sample(row)["frames"][BELOW.size + i][key]
        [:wrong, "a #{key} of another definition", change(row, i, key => text.gsub("_#{N}", "_#{N + 1}"))] if text.include?("_#{N}")
      end
    end

    def change(row, i, values)
      sample(row).tap { |s| s["frames"][BELOW.size + i].update(values) }
    end
  end
end
