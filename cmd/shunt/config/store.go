package config

import "github.com/goccy/go-yaml/ast"

// Store is where virtual indexes, and what else is kept, lie. Zero: in data_dir.
type Store struct {
	// Shards: in schema shunt_store of the shards.
	Shards bool
	// Servers have the schema where it isn't the shards: in their place, the first for the first.
	Servers []Shard
}

// Shared reports whether several Shunts may have the store.
func (s Store) Shared() bool { return s.Shards || len(s.Servers) > 0 }

// readStore reads `local`, or a mapping.
func readStore(v value) (s Store) {
	if _, mapping := v.plain().(*ast.MappingNode); !mapping {
		if text, ok := v.text("local, or {shards: true}"); ok && text != "local" {
			v.errorf("%q is no store: expected local, {shards: true} or {servers: [...]}", text)
		}
		return s
	}
	seen := v.fields(storeKeys(&s)...)
	if seen["shards"] == seen["servers"] {
		v.errorf("expected either shards: true or servers")
	}
	return s
}

// readStoreServers reads the servers for the store.
func readStoreServers(v value) (servers []Shard) {
	names, addrs := unique{}, unique{}
	list := v.items("a list of servers", func(_ int, item value) {
		var s Shard
		seen := item.fields(storeServerKeys(&s, names, addrs)...)
		item.require(seen, "addr", "user")
		item.onePassword(seen)
		if s.Name == "" {
			s.Name = s.Addr
		}
		servers = append(servers, s)
	})
	if list && len(servers) == 0 {
		v.errorf("is empty: expected at least one server")
	}
	return servers
}
