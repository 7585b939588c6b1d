package e2e

import (
	"fmt"
	"testing"
)

// TestMembersJobsTakenOver: what a member's writes have left to be done is done by another when that member is killed.
// No reconciliation and no audit would do it in their place.
func TestMembersJobsTakenOver(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{
			servers: f.own(t, 2), tables: []string{"people: {shard_key: id}"}, extra: "store: {shards: true}",
			maintenance: "{delay: 5s, scan_duty: 0.5, reconcile_every: 24h, workers: 2, audit: 0}",
		})
		q := p.beside()
		q.run()
		mustExec(t, p.db(), "CREATE TABLE people (id BIGINT PRIMARY KEY, email VARCHAR(50))")
		const rows = 40
		fill(t, p, "people", rows, func(id int) string { return fmt.Sprintf("(%d, 'p%d@x')", id, id) })
		p.createIndex(p.db(), "idx_email", "people(email)")
		p.settled(p.db())
		entries := func() (n int) {
			for i := range p.servers {
				n += len(mustRows(t, onShard(t, p.servers[i], "shunt_store"), "SELECT 1 AS n FROM entries"))
			}
			return n
		}
		for i := range rows {
			mustExec(t, p.db(), fmt.Sprintf("UPDATE people SET email = 'q%d@x' WHERE id = %[1]d", i+1))
		}
		// What is gathered for a second, and isn't in the store yet, would be lost with the member.
		eventually(t, "the other knows of each shard's job", func() bool {
			return len(mustRows(t, q.db(), "SHOW MAINTENANCE JOBS")) == len(p.servers)
		})
		p.kill()
		if n := entries(); n <= rows {
			t.Errorf("%d entries as it was killed: none is stale", n)
		}
		eventually(t, "no entry is stale", func() bool { return entries() == rows })
		q.settled(q.db())
		want(t, q.db(), "SELECT id FROM people WHERE email = 'q7@x'", "id", "7")
	})
}
