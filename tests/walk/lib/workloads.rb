# What is recorded while each walk is made twice.
module Walk
  # What the programs call when they wait, allocate, switch, load and are interrupted.
  SYSCALLS = %w[write read futex mmap munmap mprotect madvise brk openat close rt_sigreturn kill clock_nanosleep ppoll sched_yield].freeze

  Workload = Struct.new(:ruby, :name, :arguments, :options) do
    def label = [ruby, *options, name, *arguments].join(" ")
  end

  WORKLOADS_31 = [
    ["stack", 30], ["stack", 300], ["stack", 1000], ["cext"], ["blocks"], ["matches"], ["exceptions"], ["fibers"], ["threads", 6],
    ["threads", 300], ["signals"], ["loads"], ["garbage"], ["deep"], ["mixed"]
  ].freeze
  WORKLOADS_33 = [
    ["stack", 300], ["cext"], ["blocks"], ["matches"], ["exceptions"], ["fibers"], ["threads", 6], ["garbage"], ["mixed"]
  ].freeze
  WORKLOADS_YJIT = [["mixed"], ["blocks"], ["exceptions"]].freeze

  module_function

  def workloads
    list = { "3.1" => WORKLOADS_31, "3.3" => WORKLOADS_33 }.flat_map do |version, programs|
      programs.map { |name, *arguments| Workload.new(version, name, arguments, []) }
    end
    # Debian 13's Ruby is built without YJIT.
    list + WORKLOADS_YJIT.map { |name, *arguments| Workload.new("3.1", name, arguments, ["--yjit"]) }
  end

  def yjit?(way) = system(way.env, *way.command, "--yjit", "-e", "exit RubyVM::YJIT.enabled?", err: File::NULL)

  def run_workload(workload, way, &block)
    file = [PROGRAMS, WORKLOADS].map { |dir| File.join(dir, "#{workload.name}.rb") }.find { |path| File.exist?(path) }
    arguments = %w[signals loads planted].include?(workload.name) ? [ext(way.version), *workload.arguments] : workload.arguments
    program(way.env, *way.command, *workload.options, file, *arguments, &block)
  end
end
