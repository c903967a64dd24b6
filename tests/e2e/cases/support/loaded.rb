Truth.at

Truth.burn($place)
