package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestNeverMissOutages has the writers and readers of TestNeverMiss work while
// shards are killed, stopped, frozen and cut off, and the proxy is killed beside
// that. What a statement that got no answer has done is seen once its shard's
// connections of before are gone.
func TestNeverMissOutages(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		duration := contestTime(t, 20*time.Second, 8*time.Second)
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d, %s", seed, duration)
		servers := f.own(t, 3)
		// An account of its own tells the proxy's connections.
		for _, s := range servers {
			db := onShard(t, s, "")
			mustExec(t, db, "CREATE USER 'nm'@'%' IDENTIFIED BY 'pw'")
			mustExec(t, db, "GRANT ALL ON *.* TO 'nm'@'%'")
		}
		n := &contest{t: t, account: "nm", outages: true, tolerated: []uint16{
			1429, 1430, // a shard that can't be reached, or was lost
			1180,                         // a transaction that has lost one
			1040, 1053, 1077, 1079, 1927, // a server that stops
		}}
		o := &outageMaker{contest: n, rnd: rand.New(rand.NewPCG(seed, 6000))}
		addrs := make([]string, len(servers))
		for i, s := range servers {
			v := valveTo(t, s)
			o.valves, addrs[i] = append(o.valves, v), v.Addr()
		}
		n.p = start(t, f, setup{
			servers: servers, addrs: addrs, user: "nm", password: "pw", extra: "shard_timeout: 2s",
			tables:      []string{"people: {shard_key: tenant}", "templates: {shard_key: tenant}"},
			maintenance: contestMaintenance,
		})
		n.prepare()
		n.ended = func() {
			for k := range servers {
				n.endedOn(k, o.valves[k])
			}
		}
		n.run(seed, duration, time.Second, o.disturb)
		n.allServe()
		n.verify()
		t.Logf("%d reads, %d writes, %d transactions, %d kills, outages %v", n.reads.Load(), n.writes.Load(), n.transactions.Load(), n.kills.Load(), o.done)
	})
}

// allServe waits until the proxy reads from all shards.
func (n *contest) allServe() {
	n.t.Helper()
	eventually(n.t, "all shards serve", func() bool {
		for i := range n.p.servers {
			if shardState(n.t, n.db, fmt.Sprintf("s%d", i)) != "up" {
				return false
			}
		}
		_, err := rowsOf(n.t.Context(), n.db, "SELECT COUNT(*) FROM people")
		return err == nil
	})
}

// outageMaker makes shards fail.
type outageMaker struct {
	*contest
	rnd    *rand.Rand
	valves []*throwaway.Valve
	done   []string
}

func (o *outageMaker) disturb() {
	i := o.rnd.IntN(len(o.valves))
	s, v := o.p.servers[i], o.valves[i]
	up, settled := o.unsettled()
	again := func() {
		if err := s.Start(context.Background()); err != nil {
			o.fail("start s%d: %v", i, err)
		}
	}
	lasts := time.Duration(o.rnd.IntN(3500)) * time.Millisecond
	kind := o.rnd.IntN(7)
	o.done = append(o.done, fmt.Sprintf("s%d:%d", i, kind))
	switch kind {
	case 0: // the machine of a server dies
		s.Kill()
		again()
	case 1:
		s.Shutdown()
		again()
	case 2:
		s.Pause()
		time.Sleep(lasts)
		s.Resume()
	case 3:
		for range 10 {
			v.Cut()
			time.Sleep(time.Duration(o.rnd.IntN(100)) * time.Millisecond)
		}
	case 4:
		v.Shut()
		time.Sleep(lasts)
		v.Open()
	case 5: // all of them at once
		for _, v := range o.valves {
			v.Cut()
		}
	case 6: // the proxy dies, and is back before the server is
		s.Pause()
		o.p.kill()
		o.kills.Add(1)
		go func() {
			time.Sleep(lasts)
			s.Resume()
		}()
		if err := o.p.launch(); err != nil {
			o.fail("restart: %v", err)
		}
	}
	close(up)
	// Whatever was under way ends, so that its outcome can be seen.
	for k := range o.valves {
		if k == i || kind == 5 || kind == 6 {
			o.endAll(k)
		}
	}
	close(settled)
}

// unsettled begins what the proxy may not survive: up is to be closed when it serves, settled when all that was under way
// is over.
func (o *outageMaker) unsettled() (up, settled chan struct{}) {
	up, settled = make(chan struct{}), make(chan struct{})
	o.mu.Lock()
	defer o.mu.Unlock()
	o.up, o.settled = up, settled
	return up, settled
}

// endAll ends what is under way on a shard.
func (o *outageMaker) endAll(k int) {
	o.valves[k].Cut()
	o.endedOn(k, o.valves[k])
}

// killed kills the proxy, and starts it again behind what is done meanwhile.
func (o *outageMaker) killed(meanwhile func()) {
	up, settled := o.unsettled()
	o.p.kill()
	o.kills.Add(1)
	meanwhile()
	if err := o.p.launch(); err != nil {
		o.fail("restart: %v", err)
	}
	close(up)
	for k := range o.valves {
		o.endAll(k)
	}
	close(settled)
}
