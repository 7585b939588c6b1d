package e2e

import (
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestMembersRefused: what one of several Shunts can't do for all is refused.
func TestMembersRefused(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{servers: f.own(t, 2), extra: "store: {shards: true}"})
		_, err := p.db().ExecContext(t.Context(), "FLUSH TABLES WITH READ LOCK")
		wantError(t, err, 1235, "several Shunts")
	})
}

// TestMemberTakesShardOut: a shard is taken out by a member that serves alone, and by none beside
// another, which would go on with it.
func TestMemberTakesShardOut(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 3)
		p := start(t, f, setup{servers: servers[:2], extra: "store: {shards: true}"})
		mustExec(t, p.db(), "CREATE TABLE people (id BIGINT PRIMARY KEY, email VARCHAR(50))")
		p.stop()
		p.servers = servers
		line := "- {name: s2, addr: '" + servers[2].Addr() + "', user: " + servers[2].User + ", password: '" + servers[2].Password + "'}\n"
		p.edit("schemas:", line+"schemas:")
		p.run()
		p.joined(p.db(), "s2")
		q := p.beside()
		eventually(t, "another may serve with it", func() bool { return q.launch() == nil })
		p.reload(line, "")
		if text := p.log.Tail(5); !strings.Contains(text, "they have shards s0, s1, s2, and this configuration has shards s0, s1; stop all others") {
			t.Errorf("beside another: %s", text)
		}
		mustExec(t, q.db(), "INSERT INTO people VALUES (1, 'a@x')")
		mustExec(t, q.db(), "CREATE VIRTUAL INDEX idx_email ON people (email) HOME s2")
		q.stop()
		before := strings.Count(p.log.String(), "nothing was changed but")
		p.signal(syscall.SIGHUP)
		eventually(t, "one with a virtual index stays", func() bool { return strings.Count(p.log.String(), "nothing was changed but") > before })
		if text := p.log.Tail(5); !strings.Contains(text, "lacks server s2 of the store, which has virtual indexes") {
			t.Errorf("with a virtual index: %s", text)
		}
		mustExec(t, p.db(), "REBUILD VIRTUAL INDEX idx_email ON people HOME s1")
		onHome(t, p.db(), "idx_email", "s1")
		before = strings.Count(p.log.String(), "serves no more")
		eventuallyEach(t, time.Second, "it is taken out", func() bool {
			p.signal(syscall.SIGHUP) // refused while it still has what is being removed behind REBUILD
			return strings.Count(p.log.String(), "serves no more") > before
		})
		q.run() // with the shard, which it is to be given once more
		eventually(t, "it says whom it waits for", func() bool {
			state, why := stateOf(t, q.db(), "s2")
			return state == "joining" && strings.Contains(why, "isn't in the configuration of member") && strings.Contains(why, port(p))
		})
		want(t, p.db(), "SELECT COUNT(*) AS n FROM people", "n", "1")
		p.servers = servers[:2]
	})
}

// TestMembersAtOnce: Shunts that start at once, over a store that isn't there yet, serve together.
func TestMembersAtOnce(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 2)
		p := start(t, f, setup{servers: servers, extra: "store: {shards: true}"})
		members := []*process{p, p.beside(), p.beside()}
		p.stop()
		for range 2 {
			for _, s := range servers {
				mustExec(t, onShard(t, s, ""), "DROP DATABASE shunt_store")
			}
			var all sync.WaitGroup
			errs := make([]error, len(members))
			for i, m := range members {
				all.Go(func() { errs[i] = m.launch() })
			}
			all.Wait()
			for i, err := range errs {
				if err != nil {
					t.Fatalf("member %d: %v", i, err)
				}
			}
			for i, m := range members {
				if rows := mustRows(t, m.db(), "SHOW MEMBERS"); len(rows) != len(members) {
					t.Errorf("member %d knows %v", i, rows)
				}
			}
			for _, m := range members {
				m.stop()
			}
		}
	})
}
