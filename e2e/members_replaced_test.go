package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/ci/suite"
	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestMembersReplaced: a replica without the last changes takes over from a shard's server while members serve, and then
// one from the store's first, for which they are stopped. It is refused until the operator says so; then all members go on,
// and find by virtual index the rows that there are.
func TestMembersReplaced(t *testing.T) {
	suite.Long(t)
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 6, throwaway.ReplicationArgs(f.name)...)
		shards, store := servers[:3], servers[3]
		onReplica := func(s *throwaway.Server, statements ...string) {
			t.Helper()
			for _, sql := range statements {
				if f.name == throwaway.MariaDB {
					sql = strings.ReplaceAll(sql, "REPLICA", "SLAVE")
				}
				mustExec(t, onShard(t, s, ""), sql)
			}
		}
		replicate := func(s, from *throwaway.Server) *throwaway.Valve {
			t.Helper()
			for _, sql := range s.Replicates(from) {
				mustExec(t, onShard(t, s, ""), sql)
			}
			return valveTo(t, from)
		}
		shardReplica, storeReplica := servers[4], servers[5]
		shardValve, storeValve := replicate(shardReplica, shards[1]), replicate(storeReplica, store)
		p := start(t, f, setup{
			servers: shards, addrs: []string{shards[0].Addr(), shardValve.Addr(), shards[2].Addr()},
			tables: []string{"people: {shard_key: id}", "counted: {shard_key: id}"},
			extra:  fmt.Sprintf("shard_timeout: 30s\nstore: {servers: [{addr: '%s', user: %s, password: '%s'}]}", storeValve.Addr(), store.User, store.Password),
		})
		members := []*process{p, p.beside(), p.beside()}
		each := func(do func(m *process)) {
			for _, m := range members {
				do(m)
			}
		}
		for _, m := range members[1:] {
			m.run()
		}
		mustExec(t, p.db(), "CREATE TABLE people (id BIGINT PRIMARY KEY, email VARCHAR(50))")
		mustExec(t, p.db(), "CREATE TABLE counted (id INT PRIMARY KEY AUTO_INCREMENT, who VARCHAR(10))")
		insert := func(from, to int) {
			t.Helper()
			for i := from; i < to; i++ {
				mustExec(t, members[i%3].db(), fmt.Sprintf("INSERT INTO people VALUES (%d, 'p%d@x')", i, i))
			}
		}
		numbers := func() {
			t.Helper()
			each(func(m *process) { mustExec(t, m.db(), "INSERT INTO counted (who) VALUES ('x'), ('y'), ('z')") })
		}
		insert(0, 30)
		numbers()
		p.createIndex(p.db(), "idx_email", "people(email)")
		p.settled(p.db())
		// finds looks for all rows that the shards have, by any member.
		finds := func() {
			t.Helper()
			n := 0
			for i := range shards {
				for _, r := range mustRows(t, p.shard(i), "SELECT id, email FROM people") {
					n++
					each(func(m *process) {
						want(t, m.db(), "SELECT id FROM people WHERE email = '"+r["email"]+"'", "id", r["id"])
					})
				}
			}
			each(func(m *process) { want(t, m.db(), "SELECT COUNT(*) AS n FROM people", "n", fmt.Sprint(n)) })
		}
		// narrow waits until lookups go to one shard again, and has the index checked.
		narrow := func() {
			t.Helper()
			p.settled(p.db())
			each(func(m *process) {
				eventually(t, "lookups are narrow", func() bool {
					return len(routeOf(t, m.db(), "SELECT id FROM people WHERE email = 'p4@x'").shards) == 1
				})
			})
			for _, r := range mustRows(t, p.db(), "CHECK VIRTUAL INDEX idx_email ON people") {
				if r["Missing"] != "0" {
					t.Errorf("%v", r)
				}
			}
			finds()
		}
		caughtUp := func(s, from *throwaway.Server, query string) {
			t.Helper()
			eventually(t, "the replica has it all", func() bool {
				a, errA := rowsOf(t.Context(), onShard(t, s, ""), query)
				b, errB := rowsOf(t.Context(), onShard(t, from, ""), query)
				return errA == nil && errB == nil && slices.Equal(flat(a, "n"), flat(b, "n"))
			})
			onReplica(s, "STOP REPLICA")
		}
		replaced := func(name string) string {
			t.Helper()
			out, code := shunt(t, "replaced", "--config", p.config, name)
			if code != 0 {
				t.Errorf("status %d\n%s", code, out)
			}
			return out
		}
		const promoted = "another server than "

		caughtUp(shardReplica, shards[1], "SELECT CONCAT((SELECT epoch FROM shunt_store.epoch), ' ', COUNT(*), SUM(id)) AS n FROM "+p.schema+".people")
		// What the replica lacks: another key, whose predecessor's entry is removed, and rows.
		at := mustRows(t, p.shard(1), "SELECT id FROM people ORDER BY id")
		changed := at[0]["id"]
		mustExec(t, p.db(), "UPDATE people SET email = 'new@x' WHERE id = "+changed)
		insert(30, 40)
		numbers()
		p.settled(p.db())
		eventually(t, "the old key's entry is removed", func() bool {
			return strings.Contains(routeOf(t, p.db(), "SELECT id FROM people WHERE email = 'p"+changed+"@x'").reason, ": 0 shards of 3")
		})
		shards[1].Kill()
		onReplica(shardReplica, "RESET REPLICA ALL")
		shardValve.Lead(shardReplica.Addr())
		shardValve.Cut()
		p.servers = []*throwaway.Server{shards[0], shardReplica, shards[2]}
		for _, m := range members {
			m.servers = p.servers
		}
		eventually(t, "it isn't used", func() bool {
			_, err := rowsOf(t.Context(), p.db(), "SELECT id FROM people WHERE id = "+changed)
			return err != nil && strings.Contains(err.Error(), promoted)
		})
		members[1].kill() // which nobody waits for
		if out := replaced("s1"); !strings.Contains(out, "is in use as a shard, in life 2") {
			t.Error(out)
		}
		members[1].run()
		each(func(m *process) {
			eventually(t, "the shard serves", func() bool {
				_, err := rowsOf(t.Context(), m.db(), "SELECT id FROM people WHERE id = "+changed)
				return err == nil
			})
		})
		want(t, p.db(), "SELECT id FROM people WHERE email = 'p"+changed+"@x'", "id", changed)
		finds()
		numbers()
		narrow()

		caughtUp(storeReplica, store, "SELECT CONCAT(COUNT(*), ' ', COALESCE(SUM(epoch), 0)) AS n FROM shunt_store.entries")
		insert(40, 60)
		numbers()
		store.Kill()
		onReplica(storeReplica, "RESET REPLICA ALL")
		storeValve.Lead(storeReplica.Addr())
		storeValve.Cut()
		finds()
		if out, code := shunt(t, "replaced", "--config", p.config, storeValve.Addr()); code != 1 || !strings.Contains(out, "stop all of them: member ") {
			t.Errorf("status %d\n%s", code, out)
		}
		each(func(m *process) { m.stop() })
		p.refuses(promoted)
		if out := replaced(storeValve.Addr()); !strings.Contains(out, "in use as a server of the store, in life 2") {
			t.Error(out)
		}
		each((*process).run)
		finds()
		insert(60, 70)
		numbers()
		narrow()
	})
}

// TestMembersServeReplaced: a replica without the last changes takes over from a shard that is a home, too, while members
// serve; then the former server comes back at the address that they have, and isn't used.
func TestMembersServeReplaced(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 3, throwaway.ReplicationArgs(f.name)...)
		former, replica := servers[1], servers[2]
		onReplica := func(sql string) {
			t.Helper()
			if f.name == throwaway.MariaDB {
				sql = strings.ReplaceAll(sql, "REPLICA", "SLAVE")
			}
			mustExec(t, onShard(t, replica, ""), sql)
		}
		for _, sql := range replica.Replicates(former) {
			mustExec(t, onShard(t, replica, ""), sql)
		}
		valve := valveTo(t, former)
		p := start(t, f, setup{
			servers: servers[:2], addrs: []string{servers[0].Addr(), valve.Addr()}, tables: []string{"people: {shard_key: id}"},
			extra: "shard_timeout: 30s\nstore: {shards: true}",
		})
		members := []*process{p, p.beside()}
		members[1].run()
		mustExec(t, p.db(), "CREATE TABLE people (id BIGINT PRIMARY KEY, email VARCHAR(50))")
		for i := range 20 {
			mustExec(t, members[i%2].db(), fmt.Sprintf("INSERT INTO people VALUES (%d, 'p%d@x')", i, i))
		}
		mustExec(t, p.db(), "CREATE VIRTUAL INDEX idx_email ON people (email) HOME s1")
		p.waitIndex(p.db(), "idx_email")
		p.settled(p.db())
		id := mustRows(t, p.shard(1), "SELECT id FROM people ORDER BY id LIMIT 1")[0]["id"]
		old := "SELECT id FROM people WHERE email = 'p" + id + "@x'"
		eventually(t, "the replica has it all", func() bool {
			rows, err := rowsOf(t.Context(), onShard(t, replica, ""), "SELECT COUNT(*) AS n FROM "+p.schema+".people")
			is := mustRows(t, p.shard(1), "SELECT COUNT(*) AS n FROM people")
			return err == nil && rows[0]["n"] == is[0]["n"]
		})
		onReplica("STOP REPLICA")
		mustExec(t, p.db(), "UPDATE people SET email = 'new@x' WHERE id = "+id)
		eventually(t, "the old key's entry is removed", func() bool {
			return strings.Contains(routeOf(t, p.db(), old).reason, ": 0 shards of 2")
		})
		former.Kill()
		valve.Lead(replica.Addr())
		valve.Cut()
		replaced := func() (string, int) { return shunt(t, "replaced", "--config", p.config, "s1") }
		onReplica("START REPLICA SQL_THREAD")
		eventually(t, "the replica applies what it has", func() bool {
			rows, err := rowsOf(t.Context(), onShard(t, replica, ""), "SHOW REPLICA STATUS")
			return err == nil && len(rows) == 1 && rows[0]["Replica_SQL_Running"]+rows[0]["Slave_SQL_Running"] == "Yes"
		})
		if out, code := replaced(); code != 1 || !strings.Contains(out, "still replicates from") {
			t.Errorf("status %d\n%s", code, out)
		}
		onReplica("STOP REPLICA")
		onReplica("RESET REPLICA ALL")
		for life := 2; life <= 3; life++ { // the second time it serves already
			if out, code := replaced(); code != 0 || !strings.Contains(out, fmt.Sprintf("is in use as a shard, in life %d", life)) || !strings.Contains(out, "is in use as a server of the store") {
				t.Fatalf("status %d\n%s", code, out)
			}
			for _, m := range members {
				eventually(t, "its rows are found", func() bool {
					rows, err := rowsOf(t.Context(), m.db(), old)
					return err == nil && len(rows) == 1 && rows[0]["id"] == id
				})
			}
		}
		for _, m := range members {
			eventually(t, "the index is built anew", func() bool {
				rows, err := rowsOf(t.Context(), m.db(), "EXPLAIN ROUTE "+old)
				return err == nil && len(rows) > 0 && len(routeOf(t, m.db(), old).shards) == 1
			})
			want(t, m.db(), old, "id", id)
		}

		ctx := t.Context()
		if err := former.Start(ctx); err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			mustExec(t, p.db(), fmt.Sprintf("INSERT INTO people VALUES (%d, 'later')", i+1000))
		}
		valve.Lead(former.Addr())
		valve.Cut()
		const refused = "another server has taken its place"
		for _, m := range members {
			eventually(t, "the former server isn't used", func() bool {
				rows, err := rowsOf(ctx, m.db(), "SELECT COUNT(*) AS n FROM people WHERE email = 'later'")
				if err == nil && rows[0]["n"] != "20" {
					t.Fatalf("%v", rows)
				}
				return err != nil && strings.Contains(err.Error(), refused)
			})
		}
		members[1].stop()
		members[1].refuses(refused)
		valve.Lead(replica.Addr())
		valve.Cut()
		members[1].run()
		found := func() {
			t.Helper()
			for _, m := range members {
				eventually(t, "all rows are found", func() bool {
					rows, err := rowsOf(ctx, m.db(), "SELECT COUNT(*) AS n FROM people WHERE email = 'later'")
					return err == nil && rows[0]["n"] == "20"
				})
			}
		}
		found()
		// The address that they have leads nowhere, and SIGHUP tells them the server's own.
		for _, m := range members {
			m.reload(valve.Addr(), replica.Addr())
		}
		valve.Close()
		found()
		for _, m := range members {
			eventually(t, "writes go on, to the home too", func() bool {
				_, err := m.db().ExecContext(ctx, "UPDATE people SET email = CONCAT(email, '2') WHERE id = 1000")
				return err == nil
			})
			eventually(t, "it is joined", func() bool {
				return !slices.ContainsFunc(mustRows(t, m.db(), "SHOW MEMBERS"), func(r row) bool { return r["State"] != "joined" && !strings.HasPrefix(r["State"], "behind") })
			})
		}
	})
}

// TestMembersShardPutBack: a shard is restored from a backup on its own server. A member that joins it
// notices, and finds rows whose entries had been removed.
func TestMembersShardPutBack(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 2)
		p := start(t, f, setup{servers: servers, tables: []string{"people: {shard_key: id}"}, extra: "store: {shards: true}"})
		mustExec(t, p.db(), "CREATE TABLE people (id BIGINT PRIMARY KEY, email VARCHAR(50))")
		mustExec(t, p.db(), "INSERT INTO people VALUES (1, 'p1@x'), (2, 'p2@x'), (3, 'p3@x'), (4, 'p4@x'), (5, 'p5@x'), (6, 'p6@x')")
		p.createIndex(p.db(), "idx_email", "people(email)")
		p.settled(p.db())
		id := mustRows(t, p.shard(1), "SELECT id FROM people LIMIT 1")[0]["id"]
		epoch := mustRows(t, p.shard(1), "SELECT epoch AS n FROM shunt_store.epoch")[0]["n"]
		mustExec(t, p.db(), "UPDATE people SET email = 'new@x' WHERE id = "+id)
		old := "SELECT id FROM people WHERE email = 'p" + id + "@x'"
		eventually(t, "the old key's entry is removed", func() bool {
			return strings.Contains(routeOf(t, p.db(), old).reason, ": 0 shards of 2")
		})
		// Once while nobody serves, and once behind a member's back.
		for n, stopped := range []bool{true, false} {
			if stopped {
				p.stop()
			}
			mustExec(t, p.shard(1), "UPDATE people SET email = 'p"+id+"@x' WHERE id = "+id)
			mustExec(t, p.shard(1), "UPDATE shunt_store.epoch SET epoch = "+epoch)
			if stopped {
				p.run()
				want(t, p.db(), old, "id", id)
			}
			eventually(t, "it is noticed", func() bool { return strings.Count(p.log.String(), "has forgotten epochs") == n+1 })
			eventually(t, "it is found", func() bool {
				rows, err := rowsOf(t.Context(), p.db(), old)
				return err == nil && len(rows) == 1
			})
			p.settled(p.db())
			eventually(t, "the shard is scanned", func() bool { return len(routeOf(t, p.db(), old).shards) == 1 })
			mustExec(t, p.db(), "UPDATE people SET email = 'newer@x' WHERE id = "+id)
			eventually(t, "the old key's entry is removed", func() bool {
				return strings.Contains(routeOf(t, p.db(), old).reason, ": 0 shards of 2")
			})
		}
	})
}
