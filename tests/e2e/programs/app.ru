require "json"
require "sinatra/base"

class App < Sinatra::Base
  set :environment, :production
  set :logging, false

  get "/list/:n" do
    content_type :json
    items = Array.new(params[:n].to_i) { |i| { id: i, name: "item #{i}" } }
    JSON.generate(items.sort_by { |item| item[:name] })
  end

  get "/slow" do
    sleep 0.005
    erb "<ul><% 50.times do |i| %><li><%= i %></li><% end %></ul>"
  end
end

run App
