hit("<top (required)>")
[1].each { hit("block in <top (required)>") }
