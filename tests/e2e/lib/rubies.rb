# The Rubies under test, and the extension built for each.
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

  module_function

  def tree
    File.join(BUILD, "rubies/3.3")
  end

  def lib_dir
    "usr/lib/x86_64-linux-gnu"
  end

  def ways(version)
    version == "3.1" ? [way_31] : [way_33]
  end

  def way_31
    Way.new("3.1", "3.1", ["/usr/bin/ruby"], { "TRUTH_EXT" => ext("3.1") }, E2E)
  end

  # With its JIT, which compiles what is called for the third time (see Truth.learn).
  def way_31_yjit
    Way.new("3.1-yjit", "3.1", ["/usr/bin/ruby", "--yjit", "--yjit-call-threshold=3"], { "TRUTH_EXT" => ext("3.1") }, E2E)
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

  # Debian 13's Ruby through its own dynamic loader: /proc/PID/exe is ld.so.
  def way_33
    system(File.join(ROOT, "tests/rubies.sh"), "3.3", tree, exception: true)
    lib = File.join(tree, lib_dir)
    path = ["#{tree}/usr/lib/ruby/vendor_ruby", "#{tree}/usr/lib/ruby/3.3.0", "#{lib}/ruby/3.3.0", "#{lib}/ruby/vendor_ruby/3.3.0"]
    Way.new("3.3", "3.3", ["#{lib}/ld-linux-x86-64.so.2", "--library-path", lib, "#{tree}/usr/bin/ruby3.3"],
            { "TRUTH_EXT" => ext("3.3"), "RUBYLIB" => path.join(":"), "GEM_PATH" => "", "GEM_HOME" => "" }, E2E)
  end

  # The same Ruby in a chroot: no path that rprof could open as it stands in the maps.
  def way_33_chroot
    way_33
    FileUtils.mkdir_p(File.join(tree, "tmp/e2e/ext"))
    %w[lib cases].each { |d| FileUtils.cp_r(File.join(E2E, d), File.join(tree, "tmp/e2e"), remove_destination: true) }
    FileUtils.cp(Dir[File.join(ext("3.3"), "*.so")], File.join(tree, "tmp/e2e/ext"))
    Way.new("3.3-chroot", "3.3", ["chroot", tree, "/usr/bin/ruby3.3"],
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
    prefix = version == "3.1" ? "" : tree
    include = version == "3.1" ? "ruby-3.1.0" : "ruby-3.3.0"
    ["#{prefix}/usr/include/#{include}", "#{prefix}/usr/include/x86_64-linux-gnu/#{include}"]
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
