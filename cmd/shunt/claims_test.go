package main

import (
	"bytes"
	"context"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/wire"
	"github.com/shunt-sql/shunt/storage"
)

func TestLockNames(t *testing.T) {
	t.Parallel()
	of := func(schemas ...string) []string {
		cfg := &config.Config{}
		for _, s := range schemas {
			cfg.Schemas = append(cfg.Schemas, config.Schema{Name: s})
		}
		return lockNames(cfg)
	}
	if got := of("shop", "Blog", "SHOP"); !slices.Equal(got, []string{"shunt-serves-blog", "shunt-serves-shop"}) {
		t.Error(got)
	}
	if got := of(); len(got) != 1 || slices.Contains(of("*"), got[0]) {
		t.Error(got)
	}
	seen := map[string]bool{}
	for _, schema := range []string{strings.Repeat("a", 51), strings.Repeat("a", 52), strings.Repeat("a", 64), "läden", "it's", "a b", "*", "#"} {
		got := of(schema)[0]
		if len(got) > maxLock || strings.ContainsAny(strings.TrimPrefix(got, lockPrefix), "' ä*") || seen[got] {
			t.Errorf("%s: %s", schema, got)
		}
		seen[got] = true
	}
}

// TestHeldByOneThatEnds: a lock of a connection that its server lists no more is waited for,
// also where the network holds back the answer that tells of it.
func TestHeldByOneThatEnds(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-served })
	go func() {
		defer close(served)
		if nc, err := l.Accept(); err == nil {
			endingHolder(nc, 3)
		}
	}()
	store, err := storage.Open(storage.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	conn, err := shard.Dial(t.Context(), shard.Config{Name: "s0", Addr: l.Addr().String(), User: "app"}, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	s := &claim{of: &claims{store: store}, name: "s0", locks: &[]string{"shunt-serves-shop"}}
	if other, err := s.held(t.Context(), conn); other != nil || err != nil {
		t.Errorf("held by %v, %v", other, err)
	}
}

// endingHolder serves a connection whose first answer is late, and which is told so many
// times that a connection which isn't listed has the lock.
func endingHolder(nc net.Conn, times int) {
	c, err := wire.Accept(context.Background(), nc, wire.Options{
		ServerVersion: "8.4.0-fake", ConnectionID: 10,
		Users: func(string) (wire.Credential, bool) { return wire.Credential{}, true },
	})
	if err != nil {
		return
	}
	defer c.Close()
	err = c.WriteOK(wire.OK{Status: mysql.SERVER_STATUS_AUTOCOMMIT})
	for late := leftoverTime; err == nil; {
		var query []byte
		if _, query, err = c.ReadCommand(); err != nil {
			return
		}
		var rows [][]any
		if bytes.Contains(query, []byte("IS_USED_LOCK")) {
			time.Sleep(late)
			late = 0
			if rows = [][]any{{nil}}; times > 0 {
				rows = [][]any{{[]byte("9")}}
			}
			times--
		}
		err = c.WriteResult([]wire.Column{{Name: "a"}}, rows, mysql.SERVER_STATUS_AUTOCOMMIT, 0)
	}
}
