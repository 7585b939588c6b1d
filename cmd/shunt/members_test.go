package main

import (
	"os"
	"testing"

	"github.com/shunt-sql/shunt/cluster"
	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/planner/catalog"
)

func TestToldAddr(t *testing.T) {
	t.Parallel()
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for listen, want := range map[string]string{
		"127.0.0.1:4000": name + ":4000", "localhost:4001": name + ":4001", ":4000": name + ":4000", "0.0.0.0:4000": name + ":4000", "[::]:4000": name + ":4000",
		"10.0.0.7:4000": "10.0.0.7:4000", "db.example:4000": "db.example:4000", "/run/shunt.sock": "/run/shunt.sock",
	} {
		if got := toldAddr(&config.Config{Listen: listen}); got != want {
			t.Errorf("%s is told as %s, want %s", listen, got, want)
		}
	}
}

func TestToldText(t *testing.T) {
	t.Parallel()
	name := func(id catalog.ShardID) string { return []string{"s0", "s1"}[id] }
	if got := toldText([]cluster.ToldOn{{Shard: 0, Epoch: 11, Now: 12}, {Shard: 1, Epoch: 3, Now: 3}}, name); got != "s0: 11 of 12, s1: 3 of 3" {
		t.Error(got)
	}
}
