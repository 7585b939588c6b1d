package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/ci/suite"
)

// TestMembersRollingRestart: three Shunts with one store are restarted one after the other. A pool of connections that
// a balancer spreads over those that accept them sees nothing of it. It runs beside no other test: see
// TestRollingRestart.
func TestMembersRollingRestart(t *testing.T) {
	suite.Long(t)
	oneFlavourAlone(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{servers: f.own(t, 3), tables: []string{"account: {shard_key: id}"}, extra: "store: {shards: true}\ndrain_timeout: 20s"})
		const rows = 40
		mustExec(t, p.db(), "CREATE TABLE account (id INT PRIMARY KEY, n INT NOT NULL)")
		mustExec(t, p.db(), "INSERT INTO account VALUES "+rowsFor(rows, func(i int) string { return fmt.Sprintf("(%d, 0)", i-1) }))
		p.createIndex(p.db(), "idx_n", "account (n)")
		members := []*process{p, p.beside(), p.beside()}
		for _, m := range members[1:] {
			m.run()
		}
		l := rollingLoad(t, p.schema, rows, members[0].addr, members[1].addr, members[2].addr)
		for range 2 {
			for n, m := range members {
				l.goesOn()
				began := time.Now()
				if code := m.stop(); code != 0 {
					t.Errorf("member %d: exit status %d", n, code)
				}
				drained := time.Now()
				m.run()
				t.Logf("member %d: drained in %v, served again %v later", n, drained.Sub(began).Round(time.Millisecond), time.Since(drained).Round(time.Millisecond))
			}
		}
		l.end()
		t.Logf("%d statements and transactions, %d failed, over 6 restarts", l.done.Load(), l.failed.Load())
		db := p.db()
		eventually(t, "who has left is gone", func() bool {
			rows := mustRows(t, db, "SHOW MEMBERS")
			for _, r := range rows {
				if !strings.HasPrefix(r["State"], "joined") && !strings.HasPrefix(r["State"], "behind") {
					return false
				}
			}
			return len(rows) == len(members)
		})
		p.settled(db)
	})
}
