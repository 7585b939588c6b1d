package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestNeverMissShardAdded has the writers and readers of TestNeverMiss work while a shard is added, and
// then an empty server takes its place. Others read reference tables beside sharded ones, and write
// them: no statement misses a row, nor fails that the shards of before could answer.
func TestNeverMissShardAdded(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		servers := f.own(t, 4)
		for _, s := range servers {
			db := onShard(t, s, "")
			mustExec(t, db, "CREATE USER 'nm'@'%' IDENTIFIED BY 'pw'")
			mustExec(t, db, "GRANT ALL ON *.* TO 'nm'@'%'")
		}
		n := &contest{t: t, account: "nm"}
		n.p = start(t, f, setup{
			servers: servers[:2:2], user: "nm", password: "pw",
			tables:      []string{"people: {shard_key: tenant}", "templates: {shard_key: tenant}", "plans: {placement: reference}"},
			maintenance: contestMaintenance,
		})
		n.prepare()
		mustExec(t, n.db, "CREATE TABLE plans (id INT PRIMARY KEY, name VARCHAR(40), changes INT NOT NULL DEFAULT 0)")
		mustExec(t, n.db, "INSERT INTO plans (id, name) VALUES "+rowsFor(2000, func(i int) string { return fmt.Sprintf("(%d, 'plan %d')", i-1, i) }))

		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{}, 4)
		for r := range cap(done) {
			go func() {
				defer func() { done <- struct{}{} }()
				n.plans(ctx, rand.New(rand.NewPCG(seed, uint64(7000+r))))
			}()
		}
		emptied := false
		joined := func() bool {
			// A kill between two COMMITs leaves copies of which nobody can tell which is right: the
			// operator chooses that of s0, where COMMIT goes first. Once: a second DELETE would be in
			// the way of who fills that copy.
			_, why := stateOf(t, n.db, "s1")
			differ := strings.Contains(why, "its copies of "+n.p.schema+".plans differ")
			if differ && !emptied {
				_, err := rowsOf(t.Context(), n.db, "/* shunt: shard=s1 */ DELETE FROM plans")
				emptied = err == nil
			}
			emptied = emptied && differ
			state, _ := stateOf(t, n.db, "s2")
			return state == "up"
		}
		steps := []func(){
			func() { n.p.addShard(servers[2]); n.restart() },
			func() { eventually(t, "the shard serves", joined) },
			func() {
				n.p.editConfig(servers[2].Addr(), servers[3].Addr())
				n.p.servers = []*throwaway.Server{servers[0], servers[1], servers[3]}
				n.restart()
			},
			func() { eventually(t, "the server in its place serves", joined) },
		}
		// The writers and readers go on in rounds, at least until all is done.
		for len(steps) > 0 {
			n.run(seed+uint64(len(steps)), 10*time.Second, time.Second, func() {
				if len(steps) > 0 {
					steps[0]()
					steps = steps[1:]
				}
			})
		}
		stop()
		for range cap(done) {
			<-done
		}
		n.verify()
		n.p.sameCopies(0, 1, "plans")
		n.p.sameCopies(0, 2, "plans")
		t.Logf("%d reads, %d writes, %d transactions, %d kills", n.reads.Load(), n.writes.Load(), n.transactions.Load(), n.kills.Load())
	})
}

// plans reads and writes a reference table, alone and beside another, whose rows are known.
func (n *contest) plans(ctx context.Context, rnd *rand.Rand) {
	const all = writers * tenantsPerOwner * emailsPerWriter
	for ctx.Err() == nil {
		query, rows := "", 1
		tenant, id := rnd.IntN(writers*tenantsPerOwner), rnd.IntN(2000)
		switch rnd.IntN(6) {
		case 0:
			query = fmt.Sprintf("SELECT t.id, p.name FROM templates t JOIN plans p ON p.id = t.tenant WHERE t.tenant = %d", tenant)
			rows = emailsPerWriter
		case 1:
			query = "SELECT t.id, p.name FROM templates t JOIN plans p ON p.id = t.id"
			rows = all
		case 2:
			query, rows = "SELECT id FROM plans", 2000
		case 3:
			query, rows = fmt.Sprintf("UPDATE plans SET changes = changes + 1 WHERE id = %d", id), 0
		case 4:
			query, rows = fmt.Sprintf("REPLACE INTO plans (id, name, changes) VALUES (%d, 'plan', %d)", id, rnd.IntN(1000)), 0
		case 5:
			query, rows = "SELECT COUNT(*) FROM templates", 1
		}
		by := n.pick(rnd)
		got, err := rowsOf(context.WithoutCancel(ctx), by.db, query)
		switch {
		case err != nil:
			n.readFailed(context.WithoutCancel(ctx), by, query, err)
		case len(got) != rows:
			n.fail("%s: %d rows instead of %d", query, len(got), rows)
		}
		if rows != 0 {
			n.reads.Add(1)
		}
	}
}
