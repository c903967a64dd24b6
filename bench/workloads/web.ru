# A small web application: `puma -t 2:2 web.ru`.
require "sinatra/base"
require "json"

class App < Sinatra::Base
  set :environment, :production
  set :logging, false

  get "/items/:count" do
    content_type :json
    items = Array.new(params["count"].to_i.clamp(1, 500)) { |i| { id: i, name: "item #{i}", price: i * 1.25 } }
    JSON.generate(items: items.sort_by { |item| item[:name] }, total: items.sum { |item| item[:price] })
  end
end

run App
