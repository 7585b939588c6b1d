package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/ci/suite"
)

// TestNeverMissCluster has the writers and readers of TestNeverMiss go by two Shunts whose store is a cluster of three
// nodes, which are killed, and stand still, one at a time: mostly the one in use.
func TestNeverMissCluster(t *testing.T) {
	suite.Long(t)
	eachFlavour(t, func(t *testing.T, f *flavour) {
		duration := contestTime(t, 25*time.Second, 25*time.Second)
		seed := uint64(envInt(t, "SHUNT_E2E_SEED", int(time.Now().UnixNano())))
		t.Logf("seed %d, %s", seed, duration)
		home := f.cluster(t)
		s := home.servers
		n := &contest{
			t: t, account: "nm", answerTime: changeTime, outages: true,
			excused: []uint16{1429, 1430},
		}
		shards := f.own(t, 2)
		for _, s := range shards {
			db := onShard(t, s, "")
			mustExec(t, db, "CREATE USER 'nm'@'%' IDENTIFIED BY 'pw'")
			mustExec(t, db, "GRANT ALL ON *.* TO 'nm'@'%'")
		}
		n.p = start(t, f, setup{
			servers: shards, user: "nm", password: "pw",
			tables: []string{"people: {shard_key: tenant}", "templates: {shard_key: tenant}", "probes: {shard_key: id}"},
			extra: fmt.Sprintf("store: {servers: [{name: h1, addr: '%s', nodes: ['%s', '%s'], user: %s, password: '%s'}]}",
				s[0].Addr(), s[1].Addr(), s[2].Addr(), s[0].User, s[0].Password),
			maintenance: "{delay: 50ms, scan_duty: 1, reconcile_every: 10s, workers: 2, audit: 0}",
		})
		n.prepare()
		q := n.p.beside()
		q.run()
		n.ways = append(n.ways, n.wayBy(q))
		mustExec(t, n.db, "CREATE TABLE probes (id BIGINT PRIMARY KEY, v BIGINT)")
		n.p.createIndex(n.db, "idx_v", "probes (v)")
		probes, outages := 0, []string{}
		written := func() bool {
			for _, w := range n.ways {
				probes++
				if _, err := w.db.ExecContext(t.Context(), fmt.Sprintf("INSERT INTO probes VALUES (%d, %[1]d)", probes)); err != nil {
					return false
				}
			}
			return true
		}
		s[0].Kill()
		if out, code := shunt(t, "check", "--config", n.p.config); code != 0 || !strings.Contains(out, "store: server at "+s[0].Addr()) {
			t.Errorf("check without one node: status %d\n%s", code, out)
		}
		if err := home.back(t, 0); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the node is back", func() bool { return home.whole(t) })
		eventually(t, "new entries are made with it", written)
		rnd := rand.New(rand.NewPCG(seed, 8000))
		n.run(seed, duration, time.Second, func() {
			for _, w := range n.ways {
				defer w.disturb()()
			}
			i, what := home.primary(t), "in use "
			if rnd.IntN(4) == 0 {
				i, what = (i+1+rnd.IntN(2))%3, "other "
			}
			began := time.Now()
			if kills := rnd.IntN(3) > 0; kills {
				what += "killed"
				s[i].Kill()
			} else {
				what += "stopped"
				s[i].Pause()
			}
			returned := false
			back := func() {
				returned = true
				if err := home.back(t, i); err != nil {
					n.fail("node %d: %v", i, err)
				}
			}
			eventually(t, "new entries are made without "+what, func() bool {
				switch lasts := time.Since(began); {
				case lasts > time.Minute && !returned && !home.usable(t):
					what += ", and no other node took writes for a minute: it is back"
					back()
				case lasts > 20*time.Second:
					home.bootstrapped(t)
				}
				return written() && (returned || home.missed(t))
			})
			what += fmt.Sprintf(", others go on after %s", time.Since(began).Round(100*time.Millisecond))
			if !returned {
				back()
			}
			eventually(t, "the node is back", func() bool { return home.whole(t) })
			eventually(t, "new entries are made with it", written)
			outages = append(outages, what)
		})
		t.Logf("%d reads, %d of them by another Shunt than wrote, %d writes, %d transactions, %q",
			n.reads.Load(), n.crossed.Load(), n.writes.Load(), n.transactions.Load(), outages)
		n.p.settled(n.db)
		n.verify()
	})
}
