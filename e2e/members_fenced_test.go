package e2e

import (
	"syscall"
	"testing"

	"github.com/shunt-sql/shunt/ci/suite"
)

// TestMemberFencedEverywhere: a member that others have fenced on all shards joins anew, also
// where a table was altered meanwhile.
func TestMemberFencedEverywhere(t *testing.T) {
	suite.Long(t)
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{servers: f.own(t, 2), tables: []string{"people: {shard_key: id}"}, extra: "store: {shards: true}"})
		q := p.beside()
		q.run()
		one, two := p.db(), q.db()
		mustExec(t, one, "CREATE TABLE people (id BIGINT PRIMARY KEY, a INT)")
		mustExec(t, two, "INSERT INTO people VALUES (1, 1), (2, 2), (3, 3)")
		q.signal(syscall.SIGSTOP)
		for i := range p.servers {
			shard := p.shard(i)
			mustExec(t, shard, "UPDATE shunt_store.members SET fenced = 1 WHERE addr = ?", q.addr) // which any member may do
			eventually(t, "its connections are gone", func() bool {
				return len(mustRows(t, shard, "SELECT join_no FROM shunt_store.members WHERE addr = ?", q.addr)) == 0
			})
		}
		mustExec(t, one, "ALTER TABLE people ADD COLUMN b INT DEFAULT 7")
		q.signal(syscall.SIGCONT)
		eventually(t, "it has joined anew", func() bool {
			rows, err := rowsOf(t.Context(), two, "SELECT b FROM people WHERE id = 2")
			return err == nil && len(rows) == 1 && rows[0]["b"] == "7"
		})
		mustExec(t, two, "INSERT INTO people VALUES (4, 4, 4)")
		want(t, one, "SELECT b FROM people WHERE id = 4", "b", "4")
	})
}
