package e2e

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// failOvers is disturb, and has each shard, in the course of a contest, fail over once.
func (h *hand) failOvers(duration time.Duration) func() {
	began := time.Now()
	order := h.rnd.Perm(len(h.replicas))
	return func() {
		if n := len(order); n > 0 && time.Since(began) > duration*time.Duration(len(h.replicas)-n+1)/time.Duration(len(h.replicas)+1) {
			h.failOver(order[0])
			order = order[1:]
			return
		}
		h.disturb()
	}
}

// failOver has a shard's server die, in the midst of the load, and its replica take over that lacks its last second. As
// docs/several.md has it, the members serve on, but where it is the store's first server: then they are stopped, and started
// behind it. Writers learn what is lost.
func (h *hand) failOver(k int) {
	began := time.Now()
	h.all.Lock()
	defer h.all.Unlock()
	h.alter.Lock() // what one shard forgets of a change of all is for people to mend
	defer h.alter.Unlock()
	replica := h.replicas[k]
	h.caughtUp(k)
	h.onReplica(k, "STOP REPLICA")
	time.Sleep(time.Second)
	for _, w := range h.ways {
		defer w.disturb()()
		w.away.Store(true)
	}
	h.forgotten.Store(true)
	h.p.servers[k].Kill()
	h.onReplica(k, "RESET REPLICA ALL")
	for _, v := range append([]*throwaway.Valve{h.around[k]}, h.valves[0][k], h.valves[1][k], h.valves[2][k]) {
		v.Lead(replica.Addr())
		v.Cut()
	}
	h.p.servers[k] = replica
	first := k == 0
	if first {
		for _, w := range h.ways {
			if code := w.stop(); code != 0 {
				h.fail("s%d has failed over: member %d: exit status %d", k, w.n, code)
			}
		}
	}
	lost := h.relearn(k, func() {
		if out, code := shunt(h.t, "replaced", "--config", h.p.config, fmt.Sprintf("s%d", k)); code != 0 {
			h.fail("shunt replaced: status %d\n%s", code, out)
		}
		if first {
			for _, w := range h.ways {
				h.launch(w)
			}
		}
	})
	for _, w := range h.ways {
		h.await(fmt.Sprintf("member %d serves behind the failover of s%d", w.n, k), func() bool { return h.serves(w) })
		w.away.Store(false)
	}
	h.done = append(h.done, fmt.Sprintf("s%d failed over, and lost %d rows: %s", k, lost, time.Since(began).Round(100*time.Millisecond)))
}

// onReplica runs a statement on a shard's replica, by the words of its kind.
func (h *hand) onReplica(k int, sql string) {
	if h.p.flavour == throwaway.MariaDB {
		sql = strings.ReplaceAll(sql, "REPLICA", "SLAVE")
	}
	mustExec(h.t, onShard(h.t, h.replicas[k], ""), sql)
}

// caughtUp waits until a shard's replica has what the shard has now.
func (h *hand) caughtUp(k int) {
	position, wait := "SELECT @@GLOBAL.gtid_executed AS at", "SELECT WAIT_FOR_EXECUTED_GTID_SET('%s', 120) AS late"
	if h.p.flavour == throwaway.MariaDB {
		position, wait = "SELECT @@GLOBAL.gtid_binlog_pos AS at", "SELECT MASTER_GTID_WAIT('%s', 120) AS late"
	}
	at := mustRows(h.t, h.shards[k], position)[0]["at"]
	if late := mustRows(h.t, onShard(h.t, h.replicas[k], ""), fmt.Sprintf(wait, at))[0]["late"]; late != "0" {
		h.fail("the replica of s%d doesn't follow: %s", k, mustRows(h.t, onShard(h.t, h.replicas[k], ""), "SHOW REPLICA STATUS"))
	}
}

// relearn has the writers know what the shards hold, where one of these has lost something, and says how much. They are
// still until the Shunts serve again.
func (n *contest) relearn(k int, serve func()) (lost int) {
	n.still.Lock()
	defer n.still.Unlock()
	n.deleteTwice(k)
	n.forgotten.Store(false)
	rows, _ := n.direct()
	for _, l := range n.ledgers {
		now := map[int]stored{}
		for id, c := range l.view() {
			if now[id] = rows[id]; c.stored != rows[id] {
				lost++
			}
		}
		l.settle(now)
	}
	n.relearnNumbers()
	serve()
	return lost
}

// relearnNumbers forgets what was acknowledged and is lost.
func (n *contest) relearnNumbers() {
	if n.numbered == nil {
		return
	}
	found := map[string]bool{}
	for _, db := range n.shards {
		rows, err := rowsOf(context.Background(), db, "SELECT k FROM "+n.p.schema+".counted")
		if err != nil {
			n.fail("read counted: %v", err)
		}
		for _, r := range rows {
			found[r["k"]] = true
		}
	}
	for k := range n.numbered.acknowledged {
		if !found[k] {
			delete(n.numbered.acknowledged, k)
		}
	}
}

// deleteTwice deletes from a shard the rows that others have, too: those whose DELETE it has lost, and that were
// inserted elsewhere then.
func (n *contest) deleteTwice(k int) {
	var ids []string
	for i, db := range n.shards {
		if i != k {
			ids = append(ids, flat(mustRows(n.t, db, "SELECT id FROM "+n.p.schema+".people"), "id")...)
		}
	}
	if len(ids) > 0 {
		mustExec(n.t, n.shards[k], "DELETE FROM "+n.p.schema+".people WHERE id IN ("+strings.Join(ids, ", ")+")")
	}
}
