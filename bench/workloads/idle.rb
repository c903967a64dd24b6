# Does nothing: what the sampler's filter costs alone.
$stdout.sync = true
puts "ready"
sleep
