package config

import "time"

// minReplicaLag is the least max_replica_lag: replicas are asked a few times within
// it how far they are.
const minReplicaLag = 100 * time.Millisecond

// readReplicas reads the replicas of a shard, whose account they share unless they
// have their own.
func readReplicas(v value, of Shard, addrs unique) []Shard {
	var replicas []Shard
	list := v.items("a list like [{addr: 127.0.0.1:3411}]", func(_ int, item value) {
		r := Shard{Name: of.Name, User: of.User, Password: of.Password, TLS: of.TLS}
		seen := item.fields(serverKeys(&r, "the replica's account", addrs)...)
		item.require(seen, "addr")
		item.onePassword(seen)
		if seen["user"] && !seen["password"] && !seen["password_file"] {
			item.errorf("has a user without a password: expected both, or neither for the shard's account")
		}
		replicas = append(replicas, r)
	})
	if list && len(replicas) == 0 {
		v.errorf("is empty: expected a list like [{addr: 127.0.0.1:3411}], or no such key")
	}
	return replicas
}
