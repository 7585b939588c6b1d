package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/ci/suite"
	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestNeverMissMembersShardAdded is TestNeverMissMembers while a shard is added: the Shunts are restarted with it in their
// configuration, one after the other, and killed, stopped, fenced and cut off from shards meanwhile, and while one of them
// adds it. Others read a reference table beside sharded ones, and write it.
func TestNeverMissMembersShardAdded(t *testing.T) {
	suite.Long(t)
	eachFlavour(t, func(t *testing.T, f *flavour) {
		seed := uint64(envInt(t, "SHUNT_E2E_SEED", int(time.Now().UnixNano())))
		t.Logf("seed %d", seed)
		servers := f.own(t, 3)
		for _, s := range servers {
			db := onShard(t, s, "")
			mustExec(t, db, "CREATE USER 'nm'@'%' IDENTIFIED BY 'pw'")
			mustExec(t, db, "GRANT ALL ON *.* TO 'nm'@'%'")
		}
		n := &contest{
			t: t, account: "nm", outages: true, answerTime: changeTime,
			tolerated: []uint16{1180}, excused: []uint16{1429, 1430, 1040},
		}
		all := &hands{contest: n, adding: true, valves: make([][]*throwaway.Valve, 3)}
		h := &hand{hands: all, rnd: rand.New(rand.NewPCG(seed, 8000))}
		for m := range h.valves { // not to the shard that is added
			h.valves[m] = []*throwaway.Valve{valveTo(t, servers[0]), valveTo(t, servers[1])}
		}
		addrs := []string{h.valves[0][0].Addr(), h.valves[0][1].Addr()}
		n.p = start(t, f, setup{
			servers: servers[:2:2], addrs: addrs, user: "nm", password: "pw", extra: "store: {shards: true}\nshard_timeout: 2s\ndrain_timeout: 5s",
			tables: []string{
				"people: {shard_key: tenant}", "templates: {shard_key: tenant}", "probes: {shard_key: id}", "plans: {placement: reference}",
			},
			maintenance: "{delay: 50ms, scan_duty: 1, reconcile_every: 10s, workers: 2, audit: 0}",
		})
		n.prepare()
		for _, valves := range h.valves[1:] {
			q := n.p.beside()
			for k, addr := range addrs {
				q.edit(addr, valves[k].Addr())
			}
			q.run()
			n.ways = append(n.ways, n.wayBy(q))
		}
		mustExec(t, n.db, "CREATE TABLE probes (id BIGINT PRIMARY KEY, v0 BIGINT, v1 BIGINT, v2 BIGINT)")
		n.p.createIndex(n.db, "idx_v0", "probes (v0)")
		mustExec(t, n.db, "CREATE TABLE plans (id INT PRIMARY KEY, name VARCHAR(40), changes INT NOT NULL DEFAULT 0)")
		mustExec(t, n.db, "INSERT INTO plans (id, name) VALUES "+rowsFor(2000, func(i int) string { return fmt.Sprintf("(%d, 'plan %d')", i-1, i) }))
		n.ended = func() {
			for k := range n.shards {
				n.endedOn(k, h.valves[0][k], h.valves[1][k], h.valves[2][k])
			}
		}
		added := 0
		next := func() {
			if added == len(n.ways) {
				return
			}
			w := n.ways[added]
			w.hand.Lock()
			defer w.hand.Unlock()
			end := w.disturb()
			defer end()
			w.addShard(servers[2])
			h.shutDown(w)
			h.await(fmt.Sprintf("member %d serves with the shard in its configuration", w.n), func() bool { return h.serves(w) })
			w.away.Store(false)
			added++
		}
		disturbs := func() {
			if h.rnd.IntN(3) == 0 {
				next()
			} else {
				h.disturb()
			}
		}
		plans := func(ctx context.Context) { n.plans(ctx, rand.New(rand.NewPCG(seed, 7000))) }
		n.run(seed, contestTime(t, 40*time.Second, 30*time.Second), 200*time.Millisecond, disturbs, plans, plans)
		for added < len(n.ways) {
			next()
		}
		n.run(seed+1, 20*time.Second, time.Second, func() {}, plans, plans)
		for _, w := range n.ways {
			w.joined(w.db, "s2")
		}
		t.Logf("%d reads, %d of them by another Shunt than wrote, %d writes, %d transactions, %d kills, %v",
			n.reads.Load(), n.crossed.Load(), n.writes.Load(), n.transactions.Load(), n.kills.Load(), h.done)
		h.settles()
		n.verify()
		n.p.sameCopies(0, 1, "plans")
		n.p.sameCopies(0, 2, "plans")
	})
}
