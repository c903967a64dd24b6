# What is recorded while each walk is made twice.
module Walk
  # What the programs call when they wait, allocate, switch, load and are interrupted.
  SYSCALLS = %w[write read futex mmap munmap mprotect madvise brk openat close rt_sigreturn kill clock_nanosleep ppoll sched_yield].freeze

  Workload = Struct.new(:ruby, :name, :arguments, :options) do
    def label = [ruby, *options, name, *arguments].join(" ")
  end

  # On each Ruby.
  PROGRAM_LIST = [["stack", 300], ["cext"], ["blocks"], ["matches"], ["exceptions"], ["fibers"], ["threads", 6], ["garbage"], ["mixed"]].freeze
  # Where the release makes no difference.
  ONCE = [["stack", 30], ["stack", 1000], ["threads", 300], ["signals"], ["loads"], ["deep"]].freeze
  YJIT = [["mixed"], ["blocks"], ["exceptions"]].freeze

  module_function

  def workloads
    Rubies::LIST.flat_map do |version, can|
      programs = version == Rubies::FIRST ? PROGRAM_LIST + ONCE : PROGRAM_LIST
      programs.map { |name, *arguments| Workload.new(version, name, arguments, []) } +
        (can.include?("yjit") ? YJIT.map { |name, *arguments| Workload.new(version, name, arguments, ["--yjit"]) } : [])
    end
  end

  def run_workload(workload, way, &block)
    file = [PROGRAMS, WORKLOADS].map { |dir| File.join(dir, "#{workload.name}.rb") }.find { |path| File.exist?(path) }
    arguments = %w[signals loads planted].include?(workload.name) ? [ext(way.version), *workload.arguments] : workload.arguments
    program(way.env, *way.command, *workload.options, file, *arguments, &block)
  end
end
