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

// TestShardMoves: SIGHUP has a shard be another server, a replica that took over without the last changes, and the former
// one lives on. Sessions go on, and no statement reaches the former one.
func TestShardMoves(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 3)
		p, c := startPeople(t, f, 60, setup{servers: servers[:2], extra: "shard_timeout: 2s"})
		former, next := onShard(t, servers[0], p.schema), servers[2]
		id := mustRows(t, former, "SELECT MIN(id) AS id FROM people")[0]["id"]
		to := onShard(t, next, "")
		mustExec(t, to, "CREATE DATABASE "+p.schema)
		to = onShard(t, next, p.schema)
		mustExec(t, to, people)
		for _, r := range mustRows(t, former, "SELECT id, email FROM people") {
			mustExec(t, to, fmt.Sprintf("INSERT INTO people (id, email) VALUES (%s, '%s')", r["id"], r["email"]))
		}
		mustExec(t, c, "UPDATE people SET email = 'new@x' WHERE id = "+id)
		p.settled(c)
		old := "SELECT id FROM people WHERE email = 'p" + id + "@x'"
		eventually(t, "the old key's entry is removed", func() bool { return strings.Contains(routeOf(t, c, old).reason, ": 0 shards of 2") })
		mustExec(t, c, "SET @mine = 7")

		nowhere := "nowhere.invalid:3306"
		p.reload(servers[0].Addr(), nowhere)
		if log := p.log.Tail(5); !strings.Contains(log, "reload: nothing was changed") || !strings.Contains(log, nowhere) {
			t.Errorf("it says\n%s", log)
		}
		want(t, c, "SELECT email FROM people WHERE id = "+id, "email", "new@x")
		p.reload(nowhere, next.Addr())
		eventually(t, "the new server is used", func() bool {
			rows, err := rowsOf(t.Context(), c, old)
			return err == nil && len(rows) == 1 && rows[0]["id"] == id
		})
		want(t, c, "SELECT @mine AS n", "n", "7")
		mustExec(t, c, "UPDATE people SET email = 'newer@x' WHERE id = "+id)
		want(t, former, "SELECT email FROM people WHERE id = "+id, "email", "new@x")
		want(t, to, "SELECT email FROM people WHERE id = "+id, "email", "newer@x")
		eventually(t, "it is scanned", func() bool { return strings.Contains(routeOf(t, c, old).reason, ": 0 shards of 2") })
		for _, r := range mustRows(t, c, "SHOW SHARDS") {
			if r["Name"] == "s0" && r["Addr"] != next.Addr() {
				t.Errorf("%v", r)
			}
		}
		p.servers = []*throwaway.Server{next, servers[1]}
		if strings.Contains(p.log.String(), "need a restart") {
			t.Error(p.log.String())
		}
	})
}
