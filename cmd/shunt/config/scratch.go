package config

// readScratch reads the server for the copies that gathered queries need.
func readScratch(v value) *Shard {
	s := &Shard{Name: "scratch"}
	seen := v.fields(serverKeys(s, "the server's account", unique{})...)
	v.require(seen, "addr", "user")
	v.onePassword(seen)
	return s
}
