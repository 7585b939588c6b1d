package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestReplacedServer: a shard's address leads to another server, a replica that took
// over without the last changes. It has rows again whose index entries are gone.
func TestReplacedServer(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 3)
		valves, addrs := make([]*throwaway.Valve, 2), make([]string, 2)
		for i := range valves {
			v := valveTo(t, servers[i])
			valves[i], addrs[i] = v, v.Addr()
		}
		p, c := startPeople(t, f, 60, setup{servers: servers[:2], addrs: addrs, extra: "shard_timeout: 2s"})
		at := []string{}
		for _, r := range mustRows(t, p.shard(0), "SELECT id FROM people") {
			at = append(at, r["id"])
		}
		// copyTo makes a server what s0 is now.
		copyTo := func(s *throwaway.Server, from *throwaway.Server) {
			t.Helper()
			to := onShard(t, s, "")
			mustExec(t, to, "DROP DATABASE IF EXISTS "+p.schema)
			mustExec(t, to, "CREATE DATABASE "+p.schema)
			to = onShard(t, s, p.schema)
			mustExec(t, to, people)
			var values []string
			for _, r := range mustRows(t, onShard(t, from, p.schema), "SELECT id, email FROM people") {
				values = append(values, fmt.Sprintf("(%s, '%s')", r["id"], r["email"]))
			}
			mustExec(t, to, "INSERT INTO people (id, email) VALUES "+strings.Join(values, ", "))
		}
		gone := func(email string) {
			t.Helper()
			p.settled(c)
			eventually(t, "the entry of "+email+" is gone", func() bool {
				return strings.Contains(routeOf(t, c, "SELECT id FROM people WHERE email = '"+email+"'").reason, ": 0 shards of 2")
			})
		}
		back := func(email, id string) {
			t.Helper()
			eventually(t, "s0 serves", func() bool {
				_, err := rowsOf(t.Context(), p.db(), "SELECT id FROM people WHERE id = "+id)
				return err == nil
			})
			want(t, p.db(), "SELECT id FROM people WHERE email = '"+email+"'", "id", id)
		}

		copyTo(servers[2], servers[0])
		mustExec(t, c, "UPDATE people SET email = 'new@x' WHERE id = "+at[0])
		gone("p" + at[0] + "@x")
		if f.name == throwaway.MySQL {
			// The old one dies.
			valves[0].Lead(servers[2].Addr())
			valves[0].Cut()
		} else {
			// The old one lives on: connections to it must not be used beside those to
			// the new one.
			valves[0].Lead(servers[2].Addr())
			for range 20 { // one of them is new
				go func() { _, _ = rowsOf(t.Context(), p.db(), "SELECT SLEEP(1) FROM people WHERE id = "+at[0]) }()
			}
			eventually(t, "the new server is noticed", func() bool { return strings.Contains(p.log.String(), "another server than before") })
		}
		back("p"+at[0]+"@x", at[0])
		want(t, p.db(), "SELECT id FROM people WHERE email = 'new@x'", "id")
		// It is scanned, and lookups are narrow again.
		c = p.conn()
		gone("nobody@x")
		if n := strings.Count(p.log.String(), "another server than before"); n != 1 {
			t.Errorf("it is told %d times", n)
		}

		// The same while Shunt is down.
		copyTo(servers[0], servers[2])
		mustExec(t, c, "UPDATE people SET email = 'newer@x' WHERE id = "+at[1])
		gone("p" + at[1] + "@x")
		p.stop()
		valves[0].Lead(servers[0].Addr())
		p.run()
		c = p.conn()
		back("p"+at[1]+"@x", at[1])
		gone("nobody@x")
	})
}
