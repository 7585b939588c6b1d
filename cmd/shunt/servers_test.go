package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
)

// TestServers: an address that leads to another shard's server is refused, one
// that leads to a new server isn't.
func TestServers(t *testing.T) {
	dir := t.TempDir()
	cfg := &config.Config{DataDir: dir, Shards: []config.Shard{{Name: "s0"}, {Name: "s1"}}}
	life := func(t *testing.T) *servers {
		t.Helper()
		s, err := knownServers(cfg, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	is := func(t *testing.T, s *servers, name, id, want string) {
		t.Helper()
		err := s.judge(name, server{id: id, version: "9.7", addr: "db:3306"}, func() {}, func() {})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s is %s: %v, want %q", name, id, err, want)
		}
	}
	first := life(t)
	is(t, first, "s0", "A", "")
	is(t, first, "s1", "A", "this is the server of shard s0 (db:3306)")
	is(t, first, "s1", "B", "")
	is(t, first, "s1", "B", "")
	if err := first.judge("s1", server{id: "B", version: "10.11-MariaDB", mariaDB: true}, func() {}, func() {}); err == nil || !strings.Contains(err.Error(), "expected all MySQL or all MariaDB") {
		t.Errorf("MariaDB beside MySQL: %v", err)
	}

	t.Run("exchanged", func(t *testing.T) {
		s := life(t)
		is(t, s, "s0", "B", "this is the server that was shard s1")
		is(t, s, "s1", "A", "this is the server that was shard s0")
	})
	t.Run("one server twice", func(t *testing.T) {
		s := life(t)
		is(t, s, "s1", "A", "this is the server that was shard s0")
		is(t, s, "s0", "A", "")
		is(t, s, "s1", "A", "this is the server of shard s0")
	})
	t.Run("taken over", func(t *testing.T) {
		s := life(t)
		is(t, s, "s1", "C", "") // a replica of B
		is(t, s, "s0", "B", "") // which is free, and has been filled anew
		is(t, s, "s1", "C", "")
		is(t, life(t), "s0", "C", "this is the server that was shard s1")
	})
	t.Run("removed by hand", func(t *testing.T) {
		if err := os.Remove(filepath.Join(dir, serversFile)); err != nil {
			t.Fatal(err)
		}
		s := life(t)
		is(t, s, "s0", "C", "")
		is(t, s, "s1", "B", "")
	})
}
