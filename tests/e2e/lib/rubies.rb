# The Rubies under test (tests/rubies.list), and the extension built for each.
require "fileutils"
require "shellwords"

module Rubies
  ROOT = File.expand_path("../../..", __dir__)
  BUILD = ENV["O"] ? File.expand_path(ENV["O"], ROOT) : File.join(ROOT, "build")
  E2E = File.join(ROOT, "tests/e2e")

  # One way to run one Ruby: the command before a script's arguments, its environment, and where it finds our files.
  Way = Struct.new(:name, :version, :command, :env, :dir) do
    # The path of a file of tests/e2e as this Ruby sees it (in a chroot it is a copy).
    def path(relative)
      File.join(dir, relative)
    end

    def chroot?
      !env["TRUTH_CHROOT"].nil?
    end
  end

  # Of tests/rubies.list, in its order: {"3.1" => ["yjit"]}, what each can.
  LIST = File.readlines(File.join(ROOT, "tests/rubies.list")).grep_v(/\A#/).map(&:split).to_h { |version, _suite, *can| [version, can] }.freeze
  VERSIONS = LIST.keys.freeze
  FIRST = VERSIONS.first # for what is the same on each
  LIB = "usr/lib/x86_64-linux-gnu"

  class Missing < StandardError; end

  module_function

  # Each way to run each Ruby, by name. What is built for one is built when it is made: ways[name].call.
  def ways
    list = VERSIONS.flat_map do |version|
      [[version, -> { way(version) }], *([["#{version}-yjit", -> { way_yjit(version) }]] if LIST[version].include?("yjit")),
       *([["#{version}-chroot", -> { way_chroot(version) }]] unless installed?(version))]
    end
    list.to_h.merge("own" => -> { way_own })
  end

  def installed?(version) = File.executable?("/usr/bin/ruby#{version}")

  def root(version) = installed?(version) ? "" : File.join(ROOT, "build/rubies", version)

  # An unpacked one runs through its own dynamic loader: /proc/PID/exe is ld.so.
  def way(version)
    return Way.new(version, version, ["/usr/bin/ruby#{version}"], { "TRUTH_EXT" => ext(version) }, E2E) if installed?(version)
    there(version)
    tree = root(version)
    lib = File.join(tree, LIB)
    path = ["#{tree}/usr/lib/ruby/vendor_ruby", "#{tree}/usr/lib/ruby/#{version}.0", "#{lib}/ruby/#{version}.0", "#{lib}/ruby/vendor_ruby/#{version}.0"]
    Way.new(version, version, ["#{lib}/ld-linux-x86-64.so.2", "--library-path", lib, "#{tree}/usr/bin/ruby#{version}"],
            { "TRUTH_EXT" => ext(version), "RUBYLIB" => path.join(":"), "GEM_PATH" => "", "GEM_HOME" => "" }, E2E)
  end

  # Unpacked, or a reason why it can't be.
  def there(version)
    tree = root(version)
    complete = File.join(tree, ".complete")
    system(File.join(ROOT, "tests/rubies.sh"), "unpack", out: :err) unless File.exist?(complete)
    return if File.exist?(complete)
    raise Missing, "no Ruby #{version}: #{File.exist?("#{tree}.why") ? File.read("#{tree}.why").chomp : 'make rubies unpacks it'}"
  end

  # With its JIT, which compiles what is called for the third time (see Truth.learn).
  def way_yjit(version)
    plain = way(version)
    Way.new("#{version}-yjit", version, [*plain.command, "--yjit", "--yjit-call-threshold=3"], plain.env, E2E)
  end

  # A Ruby that somebody built by hand: E2E_RUBY=/path/to/ruby E2E_RUBY_ARGS="--yjit --yjit-call-threshold=3". nil: none is given.
  def way_own
    ruby = ENV["E2E_RUBY"] or return nil
    command = [File.expand_path(ruby), *ENV["E2E_RUBY_ARGS"].to_s.shellsplit]
    code = 'puts RbConfig::CONFIG.values_at("MAJOR", "MINOR").join("."), *RbConfig::CONFIG.values_at("rubyhdrdir", "rubyarchhdrdir")'
    version, *includes = IO.popen([*command, "-e", code], &:readlines).map(&:chomp)
    raise "E2E_RUBY=#{ruby}: it does not run" unless $?.success?
    dir = File.join(BUILD, "tests/ext-own#{File.dirname(command[0]).tr('/', '-')}")
    Way.new("own", version, command, { "TRUTH_EXT" => ext(version, dir, includes) }, E2E)
  end

  # An unpacked one in a chroot: no path that rprof could open as it stands in the maps.
  def way_chroot(version)
    there(version)
    tree = root(version)
    FileUtils.mkdir_p(File.join(tree, "tmp/e2e/ext"))
    %w[lib cases].each { |d| FileUtils.cp_r(File.join(E2E, d), File.join(tree, "tmp/e2e"), remove_destination: true) }
    FileUtils.cp(Dir[File.join(ext(version), "*.so")], File.join(tree, "tmp/e2e/ext"))
    Way.new("#{version}-chroot", version, ["chroot", tree, "/usr/bin/ruby#{version}"],
            { "TRUTH_EXT" => "/tmp/e2e/ext", "TRUTH_CHROOT" => tree }, "/tmp/e2e")
  end

  # Directory of the extensions for this version, built when a source is newer.
  def ext(version, dir = File.join(BUILD, "tests/ext-#{version}"), includes = headers(version))
    Dir[File.join(E2E, "ext/*.c")].each { |source| build(includes, source, File.join(dir, File.basename(source, ".c") + ".so")) }
    dir
  end

  # A shared object of one C file, with this version's headers, built when the source is newer.
  def compile(version, source, so, *flags)
    build(headers(version), source, so, *flags)
  end

  def headers(version)
    %w[usr/include usr/include/x86_64-linux-gnu].map { |dir| File.join(root(version), "/", dir, "ruby-#{version}.0") }
  end

  def build(includes, source, so, *flags)
    return if File.exist?(so) && File.mtime(so) > File.mtime(source)
    FileUtils.mkdir_p(File.dirname(so))
    command = [ENV.fetch("CC", "cc"), "-shared", "-fPIC", "-O2", "-g", "-fno-optimize-sibling-calls", "-Wall", "-Wextra",
               "-Werror", "-Wno-unused-parameter", *includes.flat_map { |i| ["-isystem", i] }, *flags,
               "-o", "#{so}.new", source, "-lgcc_s"]
    system(*command, exception: true)
    File.rename("#{so}.new", so)
  end
end
