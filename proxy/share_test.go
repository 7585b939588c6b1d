package proxy

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/proxy/shard"
)

// TestUserShare: one user's statements that take long leave the others connections to every shard.
func TestUserShare(t *testing.T) {
	t.Parallel()
	const sleepers, connections = 24, 20
	s := serve(t, 3, fakeOptions{Options: shard.Options{Max: connections, WaitTimeout: 300 * time.Millisecond}}, func(o *Options) { o.Users["hog"] = User{} })
	s.answer("SELECT city", fakeAnswer{columns: []string{"city"}})
	const slow = "SELECT email FROM people WHERE id > 0 LIMIT 1"
	var releases []func()
	for _, f := range s.shards {
		releases = append(releases, f.hold("SELECT email"))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// sleep begins statements of the user's; their errors come over the channel.
	var all sync.WaitGroup
	sleep := func(n int) (codes chan error) {
		codes = make(chan error, n)
		db := s.open("hog", "")
		for range n {
			all.Go(func() {
				_, err := rowsOf(ctx, db, slow)
				codes <- err
			})
		}
		return codes
	}
	held := func() (out shard.Held) { // on the first shard; -1 in use, if others have other numbers
		for id, pool := range s.p.pools[:3] {
			for _, h := range pool.Holders() {
				switch {
				case h.Name == "hog" && id == 0:
					out = h
				case h.Name == "hog" && h.InUse != out.InUse:
					out.InUse = -1
				}
			}
		}
		return out
	}
	codes := sleep(sleepers)
	const most = connections * 4 / 5
	until(t, "the user has his share", func() bool { return held().InUse == most && held().Waiting == sleepers-most })
	// The others are answered meanwhile, and wait for no connection.
	db := s.open("root", "")
	for range 4 {
		all.Go(func() {
			for id := range 50 {
				if _, err := rowsOf(t.Context(), db, fmt.Sprintf("SELECT city FROM people WHERE id = %d", id)); err != nil {
					t.Errorf("another user's statement: %v", err)
				}
			}
		})
	}
	for range sleepers - most {
		failed(t, slow, <-codes, 1226, fmt.Sprintf("User 'hog' has exceeded the 'max_shard_connections' resource (current value: %d)", most))
	}
	if n := held().InUse; n != most {
		t.Errorf("%d connections are the user's, want %d", n, most)
	}
	if log := fmt.Sprintf("user=hog shard=s0 held=%d of=%d", most, connections); strings.Count(s.log.String(), log) != 1 {
		t.Errorf("the log has no single %q:\n%s", log, &s.log)
	}
	if n := held().Refused; n != sleepers-most {
		t.Errorf("%v statements are counted as refused, want %d", n, sleepers-most)
	}
	for _, release := range releases {
		release()
	}
	all.Wait()
	until(t, "the statements have ended", func() bool { return held().InUse == 0 })

	// A bound of his own.
	s.p.SetUsers(map[string]User{"root": {}, "hog": {MaxShardConnections: 3}})
	for _, f := range s.shards {
		defer f.hold("SELECT email")()
	}
	codes = sleep(5)
	until(t, "the user has his bound", func() bool { return held().InUse == 3 && held().Waiting == 2 })
	for range 2 {
		failed(t, slow, <-codes, 1226, "(current value: 3)")
	}
}

// TestNamedLocksKeepRoom: sessions that have locks by name, or wait for one, leave
// the others half of a shard's connections.
func TestNamedLocksKeepRoom(t *testing.T) {
	t.Parallel()
	s := serve(t, 2, fakeOptions{Options: shard.Options{Max: 8}}, func(o *Options) { o.Users["another"] = User{} })
	s.answer("SELECT city", fakeAnswer{columns: []string{"city"}, rows: [][]any{{"x"}}})
	s.answer("SELECT RELEASE_ALL_LOCKS()", fakeAnswer{columns: []string{"#n"}, rows: [][]any{{1}}})
	s.answer("SELECT IS_USED_LOCK(", fakeAnswer{columns: []string{"#l"}, rows: [][]any{{ownThread{}}}})
	s.answer("SELECT GET_LOCK(", fakeAnswer{columns: []string{"#l"}, rows: [][]any{{1}}})
	holder := s.conn()
	answers(t, holder, "SELECT GET_LOCK('m', 0) AS l", "1")
	for _, f := range s.shards {
		defer f.hold("SELECT GET_LOCK('m'")()
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	codes := make(chan error, 7)
	for range cap(codes) {
		waiting := s.conn()
		go func() {
			_, err := rowsOf(ctx, waiting, "SELECT GET_LOCK('m', 60) AS l")
			codes <- err
		}()
	}
	// Two wait, and the others are told.
	for range 5 {
		failed(t, "GET_LOCK()", <-codes, 1040, "shard_connections")
	}
	c := s.conn()
	for range 20 {
		answers(t, c, "SELECT city FROM people", "x", "x")
	}
	// Another user has one yet.
	another := s.connOf("another", "")
	answers(t, another, "SELECT GET_LOCK('another', 0) AS l", "1")
	answers(t, another, "SELECT RELEASE_ALL_LOCKS() AS n", "1")
	cancel()
	for range 2 {
		<-codes
	}
	// What the two had is free again.
	for _, name := range []string{"a", "b"} {
		k := s.conn()
		until(t, "room for a lock", func() bool {
			rows, err := rowsOf(t.Context(), k, "SELECT GET_LOCK('"+name+"', 0) AS l")
			return err == nil && rows[0] == "1"
		})
	}
}
