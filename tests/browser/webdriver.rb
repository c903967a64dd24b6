# Just enough of the WebDriver protocol for these tests, with Ruby's own library alone.
require "json"
require "net/http"
require "tmpdir"
require "fileutils"

class WebDriver
  ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
  KEYS = { enter: "\uE007", escape: "\uE00C", backspace: "\uE003", left: "\uE012", up: "\uE013", right: "\uE014",
           down: "\uE015", home: "\uE011", end: "\uE010", tab: "\uE004", space: " " }.freeze

  class Error < StandardError; end

  # chromedriver says on which port it listens: nothing is guessed and nothing is waited for by the clock.
  def initialize(width: 1440, height: 900, dark: false, reduced_motion: true)
    @profile = Dir.mktmpdir("rprof-browser-")
    @out = IO.popen(["chromedriver", "--port=0"], err: [:child, :out])
    line = ""
    line = @out.gets or raise Error, "chromedriver ended" until line =~ /started successfully on port (\d+)/
    @http = Net::HTTP.new("127.0.0.1", $1.to_i)
    @http.read_timeout = 180
    @drain = Thread.new { @out.each_line { nil } }
    flags = %w[--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
               --disable-component-update --disable-sync --hide-scrollbars --force-device-scale-factor=1]
    flags << "--window-size=#{width},#{height}" << "--user-data-dir=#{@profile}"
    flags << "--force-prefers-reduced-motion" if reduced_motion
    capabilities = { browserName: "chrome", "goog:chromeOptions": { args: flags },
                     "goog:loggingPrefs": { browser: "ALL" } }
    @session = request(:post, "/session", capabilities: { alwaysMatch: capabilities })["sessionId"]
    colour_scheme(dark ? "dark" : "light")
  end

  def request(method, path, body = nil)
    request = (method == :post ? Net::HTTP::Post : method == :get ? Net::HTTP::Get : Net::HTTP::Delete).new(path)
    if method == :post
      request["Content-Type"] = "application/json"
      request.body = JSON.generate(body || {})
    end
    value = JSON.parse(@http.request(request).body)["value"]
    raise Error, "#{path}: #{value["error"]}: #{value["message"]}" if value.is_a?(Hash) && value["error"]
    value
  end

  def post(path, body = {}) = request(:post, "/session/#{@session}#{path}", body)
  def get(path) = request(:get, "/session/#{@session}#{path}")

  def colour_scheme(name)
    post("/goog/cdp/execute", cmd: "Emulation.setEmulatedMedia",
         params: { features: [{ name: "prefers-color-scheme", value: name }] })
  end

  # A new document each time, also when only what follows the # differs.
  def open(url)
    post("/url", url: "about:blank")
    post("/url", url: url)
  end

  def run(script, *args) = post("/execute/sync", script: script, args: args)
  def run_async(script, *args) = post("/execute/async", script: script, args: args)
  # Two frames: what was asked to be painted is painted.
  def settle = run_async("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
  def find(css) = post("/element", using: "css selector", value: css)[ELEMENT]
  def click(css) = post("/element/#{find(css)}/click")
  def text(css) = run("return document.querySelector(arguments[0]).textContent", css)
  def value(css) = run("return document.querySelector(arguments[0]).value", css)

  def keys(*list)
    actions = list.flat_map do |key|
      value = KEYS.fetch(key, key)
      [{ type: "keyDown", value: value }, { type: "keyUp", value: value }]
    end
    post("/actions", actions: [{ type: "key", id: "keyboard", actions: actions }])
    settle
  end

  def mouse(x, y, click: false)
    actions = [{ type: "pointerMove", duration: 0, x: x.round, y: y.round }]
    actions += [{ type: "pointerDown", button: 0 }, { type: "pointerUp", button: 0 }] if click
    post("/actions", actions: [{ type: "pointer", id: "mouse", parameters: { pointerType: "mouse" }, actions: actions }])
    settle
  end

  def select(css, value)
    run("const s = document.querySelector(arguments[0]); s.value = arguments[1]; s.dispatchEvent(new Event('change'))", css, value)
    settle
  end

  # What the console said since the last call.
  def console = post("/se/log", type: "browser")

  def screenshot(path)
    settle
    FileUtils.mkdir_p(File.dirname(path))
    File.binwrite(path, get("/screenshot").unpack1("m"))
  end

  def close
    request(:delete, "/session/#{@session}")
  ensure
    Process.kill(:TERM, @out.pid)
    @drain.join(10)
    @out.close
    FileUtils.remove_entry(@profile, true)
  end
end
