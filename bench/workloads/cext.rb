# A program that spends its time in C extensions, a few Ruby methods above main.
require "json"
require "zlib"
require "digest"

class Report
  def initialize(rows)
    @rows = rows
  end

  def to_h
    { "rows" => @rows.map { |row| cells(row) }, "sum" => @rows.sum { |row| row["value"] } }
  end

  def cells(row)
    row.sort_by { |key, _| key }.to_h { |key, value| [key, value.to_s.gsub(/[aeiou]/) { |c| c.upcase }] }
  end

  def pack
    text = JSON.generate(to_h)
    [Digest::SHA256.hexdigest(text), Zlib::Deflate.deflate(text, 6)]
  end
end

def rows(seed)
  Array.new(60) { |i| { "id" => i, "name" => "item number #{i * seed}", "value" => (i * seed) % 97, "tags" => %w[a b c] } }
end

def once(seed)
  digest, packed = Report.new(rows(seed)).pack
  JSON.parse(Zlib::Inflate.inflate(packed))["rows"].each { |row| digest << row["name"] }
  digest.size
end

$stdout.sync = true
puts "ready"
seed = 0
loop { once(seed += 1) }
