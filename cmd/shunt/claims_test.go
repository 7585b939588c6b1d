package main

import (
	"context"
	"fmt"
	"math"
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
	asked := 0
	s, conn := lockServer(t, func(query string) [][]any {
		if !strings.Contains(query, "IS_USED_LOCK") {
			return nil
		}
		if asked++; asked == 1 {
			time.Sleep(leftoverTime)
		}
		if asked <= 3 {
			return [][]any{{[]byte("9")}}
		}
		return [][]any{{nil}}
	})
	if other, err := s.held(t.Context(), conn); other != nil || err != nil {
		t.Errorf("held by %v, %v", other, err)
	}
}

// TestHeldByOneOfOurs: a connection of ours that is cut, and came to its server from another
// port than it left by, is ended, not taken for another Shunt's, although the server tells in
// whole seconds only that it was there before the connection.
func TestHeldByOneOfOurs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		opened time.Duration // ago
		before float64       // by how many seconds it says that it was opened before the server was there
		tells  bool
		ours   bool
	}{
		"a server that has just started":                {500 * time.Millisecond, 0, true, true},
		"opened as soon as the server was there":        {time.Minute, 1, true, true},
		"of before the server's start":                  {time.Minute, 10, true, false},
		"a server that doesn't tell for how long it is": {time.Second, 0, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killed, opened := false, time.Now().Add(-c.opened)
			s, conn := lockServer(t, func(query string) [][]any {
				switch {
				case strings.HasPrefix(query, "KILL 9"):
					killed = true
				case strings.Contains(query, "IS_USED_LOCK") && killed:
					return [][]any{{nil}}
				case strings.Contains(query, "IS_USED_LOCK"):
					return [][]any{{[]byte("9")}}
				case strings.Contains(query, "PROCESSLIST"):
					return [][]any{{[]byte("9"), []byte("app"), []byte("192.0.2.1:4711"), nil, []byte("Sleep"), []byte("0"), []byte(""), nil}}
				case strings.Contains(query, "Uptime") && c.tells:
					uptime := math.Floor(time.Since(opened).Seconds()) - c.before
					return [][]any{{[]byte("Uptime"), fmt.Append(nil, uptime)}}
				}
				return nil
			})
			s.mine[9] = ownConn{opened: opened, port: "4712"}
			other, err := s.held(t.Context(), conn)
			if err != nil || (other == nil) != c.ours || killed != c.ours {
				t.Errorf("held by %v, %v; killed: %t", other, err, killed)
			}
		})
	}
}

// lockServer is a claim without locks, and a connection to a server with these answers.
func lockServer(t *testing.T, answer func(query string) [][]any) (*claim, *shard.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-served })
	go func() {
		defer close(served)
		if nc, err := l.Accept(); err == nil {
			serveAnswers(nc, answer)
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
	return &claim{of: &claims{store: store}, name: "s0", locks: &[]string{"shunt-serves-shop"}, mine: map[uint32]ownConn{}}, conn
}

// serveAnswers serves a connection; what has no rows for an answer is answered by OK.
func serveAnswers(nc net.Conn, answer func(query string) [][]any) {
	c, err := wire.Accept(context.Background(), nc, wire.Options{
		ServerVersion: "8.4.0-fake", ConnectionID: 10,
		Users: func(string) (wire.Credential, bool) { return wire.Credential{}, true },
	})
	if err != nil {
		return
	}
	defer c.Close()
	err = c.WriteOK(wire.OK{Status: mysql.SERVER_STATUS_AUTOCOMMIT})
	for err == nil {
		var query []byte
		if _, query, err = c.ReadCommand(); err != nil {
			return
		}
		if rows := answer(string(query)); rows != nil {
			err = c.WriteResult(make([]wire.Column, len(rows[0])), rows, mysql.SERVER_STATUS_AUTOCOMMIT, 0)
		} else {
			err = c.WriteOK(wire.OK{Status: mysql.SERVER_STATUS_AUTOCOMMIT})
		}
	}
}
