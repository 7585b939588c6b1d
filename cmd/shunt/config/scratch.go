package config

// readScratch reads the server for the copies that gathered queries need.
func readScratch(v value) *Shard {
	s := &Shard{Name: "scratch"}
	seen := v.fields(
		field{"addr", func(v value) { s.Addr = v.address("") }},
		field{"user", func(v value) { s.User = v.nonEmpty("the server's account") }},
		field{"password", func(v value) { s.Password, _ = v.text("the account's password") }},
		field{"password_file", func(v value) { s.Password = readPassword(v) }},
		field{"tls", func(v value) { s.TLS = readShardTLS(v) }},
	)
	v.require(seen, "addr", "user")
	return s
}
