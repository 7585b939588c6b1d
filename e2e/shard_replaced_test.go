package e2e

import (
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

		copyShard(t, servers[2], servers[0], p.schema)
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
		copyShard(t, servers[0], servers[2], p.schema)
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

// copyShard makes a schema of a server what it is on another one.
func copyShard(t *testing.T, to, from *throwaway.Server, schema string) {
	t.Helper()
	mustExec(t, onShard(t, to, ""), "DROP DATABASE IF EXISTS "+schema)
	mustExec(t, onShard(t, to, ""), "CREATE DATABASE "+schema)
	src, dst := onShard(t, from, schema), onShard(t, to, schema)
	for _, table := range mustRows(t, src, "SELECT TABLE_NAME AS name FROM information_schema.TABLES WHERE TABLE_SCHEMA = '"+schema+"'") {
		name := "`" + table["name"] + "`"
		mustExec(t, dst, mustRows(t, src, "SHOW CREATE TABLE "+name)[0]["Create Table"])
		var columns []string
		for _, c := range mustRows(t, src, "SHOW COLUMNS FROM "+name) {
			columns = append(columns, "`"+c["Field"]+"`")
		}
		for _, r := range mustRows(t, src, "SELECT CONCAT_WS(', ', QUOTE("+strings.Join(columns, "), QUOTE(")+")) AS v FROM "+name) {
			mustExec(t, dst, "INSERT INTO "+name+" ("+strings.Join(columns, ", ")+") VALUES ("+r["v"]+")")
		}
	}
}

// TestShardMoves: SIGHUP has a shard be another server, a replica that took over without the last changes, and the former
// one lives on. Sessions go on, and no statement reaches the former one.
func TestShardMoves(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 3)
		p, c := startPeople(t, f, 60, setup{servers: servers[:2], extra: "shard_timeout: 2s"})
		former, next := onShard(t, servers[0], p.schema), servers[2]
		id := mustRows(t, former, "SELECT MIN(id) AS id FROM people")[0]["id"]
		copyShard(t, next, servers[0], p.schema)
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
		want(t, onShard(t, next, p.schema), "SELECT email FROM people WHERE id = "+id, "email", "newer@x")
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
