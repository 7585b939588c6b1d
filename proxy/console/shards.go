package console

import (
	"strings"
	"time"
)

var shardsPage = &page{
	path: "/shards", title: "Shards and members", menu: "Shards", every: 2 * time.Second, data: shards,
	body: `
<h1>Shards and members</h1>
<section><h2>Shards</h2>{{template "table" .Data.Shards}}</section>
<section><h2>Members</h2><p class="lead">The Shunts that serve together.</p>{{template "table" .Data.Members}}</section>
`,
}

const showShards = "SHOW SHARDS"

func shards(v *visit) (any, error) {
	return map[string]any{
		"Shards": v.table("Shards", showShards, "",
			column{of: "Name", label: "Shard"}, column{of: "Addr", label: "Address"}, column{of: "State", label: "State", as: state}, column{of: "Role", label: "Role"},
			column{of: "Version", label: "Version"}, column{of: "Connections_in_use", label: "In use", number: true}, column{of: "Connections_idle", label: "Idle", number: true},
			column{of: "Lag", label: "Lag"}, column{of: "Pinned", label: "Pinned"}, column{of: "Error", label: "What it lacks", as: failure}),
		"Members": v.table("Members", "SHOW MEMBERS", "",
			column{of: "Member", label: "Member"}, column{of: "Addr", label: "Address"}, column{of: "State", label: "State", as: memberState}, column{of: "Since", label: "Since"},
			column{of: "Told", label: "Told"}, column{of: "Catalog", label: "Catalog", number: true}, column{of: "Connections", label: "Connections", number: true},
			column{of: "Open", label: "Open", number: true}, column{of: "Version", label: "Version"}),
	}, nil
}

// memberState is good where it is on all shards.
func memberState(value string, _ func(string) string) cell {
	c := cell{Text: value, Badge: "busy"}
	switch {
	case value == "alone" || value == "joined":
		c.Badge = "good"
	case strings.Contains(value, "absent") || strings.Contains(value, "fenced"):
		c.Badge = "bad"
	}
	return c
}
