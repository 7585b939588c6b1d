package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestAuditsOfManyReads: reads follow each other faster than audits ask for their
// values, which are no longer in any packet then. No row is missing, so none is found
// to be.
func TestAuditsOfManyReads(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 300, setup{maintenance: "{delay: 100ms, scan_duty: 0.5, reconcile_every: 24h, workers: 2, audit: 1}"})
		byEmail, err := c.PrepareContext(t.Context(), "SELECT id FROM people WHERE email = ?")
		if err != nil {
			t.Fatal(err)
		}
		defer byEmail.Close()
		audited := func() float64 {
			n, _ := p.metric("shunt_audits_total")
			return n
		}
		eventually(t, "200 reads are audited", func() bool {
			for i := range 300 {
				want(t, c, fmt.Sprintf("SELECT id FROM people WHERE email = 'p%d@x'", i), "id", fmt.Sprint(i))
				var id int
				if err := byEmail.QueryRowContext(t.Context(), fmt.Sprintf("p%d@x", i)).Scan(&id); err != nil || id != i {
					t.Fatalf("p%d@x: %d, %v", i, id, err)
				}
			}
			return audited() >= 200
		})
		if n, found := p.metric("shunt_audits_total", `outcome="miss"`); found && n > 0 || strings.Contains(p.log.String(), "MISS") {
			t.Errorf("%v misses:\n%s", n, p.log.String())
		}
	})
}

// TestMembersAudits: whoever of several reads by an entry that the store has lost finds that, says so, and mends it for all.
func TestMembersAudits(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 40, setup{
			servers: f.own(t, 2), extra: "store: {shards: true}",
			maintenance: "{delay: 100ms, scan_duty: 0.5, reconcile_every: 24h, workers: 2, audit: 1, follow: scan}",
		})
		q := p.beside()
		q.run()
		for _, s := range p.servers {
			mustExec(t, onShard(t, s, ""), "DELETE FROM shunt_store.entries")
		}
		found := func(db queryer) bool {
			rows, err := rowsOf(t.Context(), db, "SELECT id FROM people WHERE email = 'p7@x'")
			return err == nil && len(rows) == 1
		}
		missed := func() bool {
			n, _ := q.metric("shunt_audits_total", `outcome="miss"`)
			return n > 0
		}
		eventually(t, "the miss is seen", func() bool { found(q.db()); return missed() })
		if !strings.Contains(q.log.String(), "MISS") {
			t.Error("the log doesn't say so")
		}
		eventually(t, "the row is found again, by the other one, too", func() bool { return found(q.db()) && found(c) })
	})
}
