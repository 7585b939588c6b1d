package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
)

// TestNeedRestart: what a reload doesn't take over is named as in the file.
func TestNeedRestart(t *testing.T) {
	started := config.Default()
	started.Shards = []config.Shard{{Name: "s0", Addr: "a:1", User: "u", Password: "p"}, {Name: "s1", Addr: "b:1", User: "u"}}
	next := *started
	next.Shards = slices.Clone(started.Shards)
	next.Shards[0].Password = "other"
	next.Shards[0].Replicas = []config.Shard{{Name: "s0", Addr: "r:1"}}
	next.MaxReplicaLag = time.Minute
	next.Users = []config.User{{Name: "new"}}
	next.Timeouts.Wait = time.Minute
	next.MaxConnections = 7
	if got := needRestart(started, &next); len(got) > 0 {
		t.Errorf("%v", got)
	}
	next.HTTPToken, next.MinFreeDisk, next.GatherMaxRows, next.Listen = "secret", 1, 2, "x:1"
	next.Shards[1].Addr = "c:1"
	next.Maintenance.Workers = 9
	got := needRestart(started, &next)
	slices.Sort(got)
	if s := strings.Join(got, " "); s != "gather_max_rows http_token listen maintenance min_free_disk shards.s1" {
		t.Error(s)
	}
	next.Shards = next.Shards[:1]
	if got := needRestart(started, &next); !slices.Contains(got, "shards (2, now 1)") {
		t.Errorf("%v", got)
	}
}

// TestKeys: every field has the key that it is read from.
func TestKeys(t *testing.T) {
	for field, key := range map[string]string{"HTTPToken": "http_token", "HTTP": "http", "ShardConnections": "shard_connections", "DataDir": "data_dir", "GatherMaxBytes": "gather_max_bytes"} {
		if got := keyOf(field); got != key {
			t.Errorf("%s: %s, want %s", field, got, key)
		}
	}
}
