package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestMembersDuties: one of several members follows each shard's binary log, and one keeps the virtual columns. When it is
// killed, another does, from where the log was read last: what is written on a shard is found, and values are right.
func TestMembersDuties(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{
			servers: f.own(t, 2, f.binlogs()...), tables: []string{"people: {shard_key: id}", "letters: {shard_key: id}"}, extra: "store: {shards: true}",
			maintenance: "{follow: binlog, delay: 100ms, reconcile_every: 0s, audit: 0}",
		})
		mustExec(t, p.db(), "CREATE TABLE people (id BIGINT PRIMARY KEY, email VARCHAR(50), KEY (email))")
		mustExec(t, p.db(), "CREATE TABLE letters (id BIGINT PRIMARY KEY, person BIGINT, KEY (person))")
		fill(t, p, "people", 40, func(id int) string { return fmt.Sprintf("(%d, 'p%d@x')", id, id) })
		p.createIndex(p.db(), "idx_email", "people(email)")
		p.settled(p.db())
		const of = "(SELECT COUNT(*) FROM letters l WHERE l.person = people.id)"
		mustExec(t, p.db(), "CREATE VIRTUAL COLUMN sent ON people AS "+of)
		q := p.beside()
		q.run()
		follows := func(m *process) (n int) {
			for _, r := range mustRows(t, m.db(), "SHOW SHARDS") {
				if r["Binary_log"] == "followed" {
					n++
				}
			}
			return n
		}
		keeps := func(m *process) bool {
			rows := mustRows(t, m.db(), "SHOW VIRTUAL COLUMNS")
			return len(rows) == 1 && rows[0]["Status"] == "ready"
		}
		eventually(t, "each log is followed, and the column kept", func() bool { return follows(p)+follows(q) >= 2 && (keeps(p) || keeps(q)) })
		has := func(m *process, name string, id, person int) {
			t.Helper()
			mustExec(t, m.shard(1), fmt.Sprintf("INSERT INTO people VALUES (%d, '%s')", id, name))
			eventually(t, name+" is found", func() bool {
				return indexed(t, m.db(), "SELECT id FROM people WHERE email = '"+name+"'", "s1") && missesNone(t, m.db(), "idx_email", "people")
			})
			mustExec(t, m.shard(0), fmt.Sprintf("INSERT INTO letters VALUES (%d, %d)", id, person))
			want(t, m.db(), fmt.Sprintf("SELECT sent FROM people WHERE id = %d", person), "sent", "1")
		}
		has(p, "a@x", 1001, 7)
		if n := follows(p) + follows(q); n != 2 {
			t.Errorf("%d logs of 2 shards are followed", n)
		}
		if keeps(p) == keeps(q) {
			t.Errorf("who keeps the column: both %v", keeps(p))
		}
		holders := func() (who map[string]string) {
			who = map[string]string{}
			for i := range p.servers {
				for _, r := range mustRows(t, onShard(t, p.servers[i], "shunt_store"), "SELECT name, holder FROM turns") {
					if strings.HasPrefix(r["name"], "duty ") {
						who[r["name"]] = r["holder"]
					}
				}
			}
			return who
		}
		if who := holders(); len(who) != 3 {
			t.Errorf("duties: %v", who)
		}
		eventually(t, "a place in each log is kept", func() bool {
			return len(mustRows(t, onShard(t, p.servers[0], "shunt_store"), "SELECT shard FROM places")) == 2
		})
		had := follows(p)
		p.kill()
		mustExec(t, q.shard(1), "INSERT INTO people VALUES (1002, 'c@x')")
		eventually(t, "the other follows, and keeps the column", func() bool { return follows(q) == 2 && keeps(q) })
		if n := strings.Count(q.log.String(), "following a shard's binary log from where it was read last"); n != had {
			t.Errorf("the other goes on with %d logs, of %d", n, had)
		}
		eventually(t, "what came meanwhile is found", func() bool {
			return indexed(t, q.db(), "SELECT id FROM people WHERE email = 'c@x'", "s1") && missesNone(t, q.db(), "idx_email", "people")
		})
		has(q, "b@x", 1003, 8)
		want(t, q.db(), "SELECT COUNT(*) AS n FROM people WHERE sent <> "+of, "n", "0")
	})
}
