package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/ci/suite"
	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestNeverMissMembers has the writers and readers of TestNeverMiss go by three Shunts that share their store, and
// looks for each acknowledged write by another one than it went by. Meanwhile Shunts are killed, stand still, are
// fenced and cut off from shards, and the table and its indexes are altered by any of them. What a statement
// that got no answer has done is seen once its connections are gone from the shards.
//
// From two minutes on there is time for more: a Shunt is killed each 20 s whatever is done to the others, one stands
// still for 10 s and one for a minute, and shards, which are homes, too, fail over to replicas that lack their last second.
//
// What a Shunt that was killed has added for statements that it never sent is stale until a reconciliation. There
// are no audits, which would mend what was missed.
//
// In short tests it has two minutes, on one server, and shards have longer to answer: other tests share the machine.
func TestNeverMissMembers(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		neverMissMembers(t, f, contestTime(t, 30*time.Second, 2*time.Minute), nil)
	})
}

// neverMissMembers has the Shunts' store on the shards, or on a cluster's nodes.
func neverMissMembers(t *testing.T, f *flavour, duration time.Duration, store *nodes) {
	seed := uint64(envInt(t, "SHUNT_E2E_SEED", int(time.Now().UnixNano())))
	t.Logf("seed %d, %s", seed, duration)
	long := duration >= 2*time.Minute
	var servers, replicas []*throwaway.Server
	if long {
		six := f.own(t, 6, throwaway.ReplicationArgs(f.name)...)
		servers, replicas = six[:3:3], six[3:]
	} else {
		servers = f.own(t, 3)
	}
	for _, s := range servers {
		db := onShard(t, s, "")
		mustExec(t, db, "CREATE USER 'nm'@'%' IDENTIFIED BY 'pw'")
		mustExec(t, db, "GRANT ALL ON *.* TO 'nm'@'%'")
	}
	for k, s := range replicas {
		for _, sql := range s.Replicates(servers[k]) {
			mustExec(t, onShard(t, s, ""), sql)
		}
	}
	n := &contest{
		t: t, account: "nm", outages: true, answerTime: changeTime,
		tolerated: []uint16{1146, 1412, 1180, 1932, 1033}, // the table is being altered: see TestNeverMissDDL
		excused:   []uint16{1429, 1430, 1040},
	}
	all := &hands{contest: n, valves: make([][]*throwaway.Valve, 3), replicas: replicas, store: store}
	h := &hand{hands: all, rnd: rand.New(rand.NewPCG(seed, 8000))}
	for m := range h.valves {
		for _, s := range servers {
			h.valves[m] = append(h.valves[m], valveTo(t, s))
		}
	}
	homes, stored := []string{"s0", "s1", "s2"}, "store: {shards: true}"
	if store != nil {
		for m := range h.valves {
			for _, s := range store.servers {
				h.valves[m] = append(h.valves[m], valveTo(t, s))
			}
		}
		v, s := h.valves[0][len(servers):], store.servers[0]
		homes, stored = []string{"h1"}, fmt.Sprintf("store: {servers: [{name: h1, addr: '%s', nodes: ['%s', '%s'], user: %s, password: '%s'}]}",
			v[0].Addr(), v[1].Addr(), v[2].Addr(), s.User, s.Password)
	}
	addrs := func(m int) (list []string) {
		for _, v := range h.valves[m] {
			list = append(list, v.Addr())
		}
		return list
	}
	n.p = start(t, f, setup{
		servers: servers, addrs: addrs(0)[:len(servers)], user: "nm", password: "pw", extra: stored + "\ndrain_timeout: 5s\nshard_timeout: " + suite.Size("10s", "2s"),
		tables: []string{
			"people: {shard_key: tenant}", "people2: {shard_key: tenant}", "templates: {shard_key: tenant}", "counted: {shard_key: tenant}", "probes: {shard_key: id}",
		},
		maintenance: "{delay: 50ms, scan_duty: 1, reconcile_every: 10s, workers: 2, audit: 0}",
	})
	n.prepare()
	for k, s := range servers { // who looks at a shard finds the one in use
		h.around = append(h.around, valveTo(t, s))
		n.shards[k] = open(t, h.around[k].Addr(), s.User, s.Password, "")
	}
	for m := range h.valves[1:] {
		q := n.p.beside()
		for k, addr := range addrs(m + 1) {
			q.edit(h.valves[0][k].Addr(), addr)
		}
		q.run()
		n.ways = append(n.ways, n.wayBy(q))
	}
	t.Cleanup(func() { // while they serve
		for _, w := range n.ways {
			if !t.Failed() {
				break
			}
			for _, query := range []string{"SHOW MEMBERS", "SHOW VIRTUAL INDEXES", "SHOW MAINTENANCE JOBS"} {
				rows, err := rowsOf(context.Background(), w.db, query)
				t.Logf("member %d, %s: %v %v", w.n, query, rows, err)
			}
		}
	})
	mustExec(t, n.db, "CREATE TABLE counted (id BIGINT NOT NULL AUTO_INCREMENT, tenant BIGINT NOT NULL, k VARCHAR(40) NOT NULL, PRIMARY KEY (tenant, id), KEY (id), KEY (k))")
	mustExec(t, n.db, "CREATE TABLE probes (id BIGINT PRIMARY KEY, v0 BIGINT, v1 BIGINT, v2 BIGINT)")
	for k, home := range homes {
		n.p.createIndex(n.db, fmt.Sprintf("idx_v%d", k), fmt.Sprintf("probes (v%d) HOME %s", k, home))
	}
	n.numbered = &numbered{acknowledged: map[string]bool{}}
	n.ended = func() {
		for k := range servers {
			n.endedOn(k, h.valves[0][k], h.valves[1][k], h.valves[2][k])
		}
	}
	if store != nil {
		h.checkWithoutNode()
	}
	d := &changer{contest: n, rnd: rand.New(rand.NewPCG(seed, 5000)), stops: &h.stops, homes: homes}
	killer := &hand{hands: all, rnd: rand.New(rand.NewPCG(seed, 9000))}
	disturb := h.disturb
	if long {
		disturb = h.failOvers(duration)
	}
	if store != nil {
		others := disturb
		disturb = func() {
			if h.rnd.IntN(3) == 0 {
				h.nodeAway()
			} else {
				others()
			}
		}
	}
	if f.name == throwaway.MariaDB {
		d.algorithm = ", ALGORITHM=COPY" // see TestNeverMissDDL
	}
	n.run(seed, duration, 500*time.Millisecond, disturb, func(ctx context.Context) {
		for ctx.Err() == nil {
			all.alter.Lock()
			d.change()
			all.alter.Unlock()
		}
	}, func(ctx context.Context) {
		if long {
			killer.killsEach(ctx, 20*time.Second)
		}
	})
	t.Logf("%d reads, %d of them by another Shunt than wrote, %d writes, %d transactions, %d ids, %d changes, %d kills, %v",
		n.reads.Load(), n.crossed.Load(), n.writes.Load(), n.transactions.Load(), len(n.numbered.acknowledged), d.done, n.kills.Load(), append(h.done, killer.done...))
	t.Logf("sent again: %q", d.again)
	h.settles()
	n.verify()
	n.verifyNumbers()
	n.sameDefinitions("people", "counted")
}

// hands disturb three Shunts.
type hands struct {
	*contest
	// valves are each member's, to each shard, and to each node that the store is on; around are those of who looks at a shard itself.
	valves [][]*throwaway.Valve
	around []*throwaway.Valve
	// replicas are those that shards can fail over to; none where there is no time for that.
	replicas []*throwaway.Server
	// store are the nodes that the Shunts' store is on; nil: shards are.
	store *nodes
	// stops is held while a Shunt stands still.
	stops sync.Mutex
	// alter is held while a table or an index is altered.
	alter sync.Mutex
	// all is held by whoever disturbs one Shunt, and alone by whoever disturbs all.
	all sync.RWMutex
	// probes are rows that need new entries.
	probes atomic.Int64
	// adding: a shard may be joining.
	adding bool
}

// hand disturbs one Shunt at a time.
type hand struct {
	*hands
	rnd *rand.Rand
	// todo are kinds of disturbances, all of them once before any comes again.
	todo []func(*way) string
	done []string
	// lives is how many data_dirs there were.
	lives int
}

func (h *hand) disturb() {
	if len(h.todo) == 0 {
		h.todo = []func(*way) string{h.kill, h.kill, h.stop, h.fence, h.cut, h.cut, h.shutDown}
		if len(h.replicas) > 0 {
			h.todo = append(h.todo, h.stopFor(10*time.Second), h.stopFor(time.Minute), h.cutFor(45*time.Second))
		}
		h.rnd.Shuffle(len(h.todo), func(i, j int) { h.todo[i], h.todo[j] = h.todo[j], h.todo[i] })
	}
	h.disturbOne(h.todo[0])
	h.todo = h.todo[1:]
}

// disturbOne disturbs one that nobody else does.
func (h *hand) disturbOne(do func(*way) string) {
	h.all.RLock()
	defer h.all.RUnlock()
	w := h.ways[h.rnd.IntN(len(h.ways))]
	for !w.hand.TryLock() {
		w = h.ways[(w.n+1)%len(h.ways)]
	}
	defer w.hand.Unlock()
	began := time.Now()
	end := w.disturb()
	what := do(w)
	h.await(fmt.Sprintf("member %d serves behind: %s", w.n, what), func() bool { return h.serves(w) })
	w.away.Store(false)
	end()
	h.done = append(h.done, fmt.Sprintf("%d %s: %s", w.n, what, time.Since(began).Round(100*time.Millisecond)))
}

// killsEach kills one each so often.
func (h *hand) killsEach(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			h.disturbOne(h.kill)
		}
	}
}

// await is eventually for goroutines other than the test's.
func (h *hand) await(what string, ok func() bool) {
	for began := time.Now(); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > patience {
			h.fail("not within %s: %s", patience, what)
			return
		}
	}
}

// serves: it has joined all shards, and can write entries.
func (h *hand) serves(w *way) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	shards, err := rowsOf(ctx, w.db, "SHOW SHARDS")
	if err != nil || slices.ContainsFunc(shards, func(r row) bool {
		return r["State"] != "up" && (r["State"] != "joining" || !h.adding)
	}) {
		return false
	}
	members, err := rowsOf(ctx, w.db, "SHOW MEMBERS")
	joined := err == nil && slices.ContainsFunc(members, func(r row) bool {
		if !strings.HasSuffix(r["Addr"], portOf(w.addr)) {
			return false
		}
		// A member is behind for a heartbeat whenever an epoch begins.
		return !strings.Contains(r["State"], "fenced") && !strings.Contains(r["State"], "absent") && !strings.Contains(r["State"], "joining") && !strings.Contains(r["State"], "unknown")
	})
	if !joined {
		return false
	}
	// A home that was away is asked again once a second.
	_, err = w.db.ExecContext(ctx, fmt.Sprintf("INSERT INTO probes VALUES (%d, %[1]d, %[1]d, %[1]d)", h.probes.Add(1)))
	return err == nil
}

// portOf is an address's end.
func portOf(addr string) string { return addr[strings.LastIndex(addr, ":"):] }

// kill is kill -9; another comes in its place, on its data_dir or on an empty one.
func (h *hand) kill(w *way) string {
	what := "killed"
	settled := make(chan struct{})
	h.mu.Lock()
	h.settled = settled
	h.mu.Unlock()
	w.away.Store(true)
	w.kill()
	h.kills.Add(1)
	close(settled) // its connections are closed, which is known of those that the shards still have
	if h.rnd.IntN(2) == 0 {
		h.lives++
		what += " and replaced"
		w.edit("/data", fmt.Sprintf("/data%d", h.lives))
	}
	time.Sleep(time.Duration(h.rnd.IntN(2000)) * time.Millisecond)
	if h.rnd.IntN(2) == 0 {
		what += " and fenced"
		h.fenceOn(w, h.rnd.Perm(len(h.shards))...)
	}
	h.launch(w)
	return what
}

// launch starts one again, as a supervisor would: with a shard that stops to answer in the midst of its start it ends.
func (h *hand) launch(w *way) {
	var err error
	for range 3 {
		if err = w.launch(); err == nil {
			return
		}
	}
	h.fail("start member %d: %v", w.n, err)
}

// shutDown is SIGTERM.
func (h *hand) shutDown(w *way) string {
	w.away.Store(true)
	if code := w.stop(); code != 0 {
		h.fail("member %d: exit status %d", w.n, code)
	}
	h.launch(w)
	return "shut down"
}

// stop is SIGSTOP, and others fence it meanwhile.
func (h *hand) stop(w *way) string {
	lasts := time.Duration(2000+h.rnd.IntN(3000)) * time.Millisecond
	h.standStill(w, func() {
		time.Sleep(time.Duration(h.rnd.IntN(1000)) * time.Millisecond)
		h.fenceOn(w, h.someShards()...)
		time.Sleep(lasts)
	})
	return fmt.Sprintf("fenced while it stood still for %s", lasts)
}

// stopFor is SIGSTOP for shorter, or longer, than the others have patience.
func (h *hand) stopFor(lasts time.Duration) func(*way) string {
	return func(w *way) string {
		h.standStill(w, func() { time.Sleep(lasts) })
		return fmt.Sprintf("stopped for %s", lasts)
	}
}

// standStill has a Shunt stand still. What was sent to it before, and at last, it answers when it goes on.
func (h *hand) standStill(w *way, meanwhile func()) {
	h.stops.Lock()
	defer h.stops.Unlock()
	w.signal(syscall.SIGSTOP)
	time.Sleep(time.Duration(h.rnd.IntN(200)) * time.Millisecond)
	w.away.Store(true)
	meanwhile()
	w.away.Store(false)
	time.Sleep(time.Duration(h.rnd.IntN(200)) * time.Millisecond)
	w.signal(syscall.SIGCONT)
}

// fence is what any member may do at any time.
func (h *hand) fence(w *way) string {
	for range 3 {
		h.fenceOn(w, h.someShards()...)
		time.Sleep(time.Duration(h.rnd.IntN(1000)) * time.Millisecond)
	}
	return "fenced"
}

func (h *hand) someShards() []int {
	all := h.rnd.Perm(len(h.shards))
	return all[:1+h.rnd.IntN(len(all))]
}

func (h *hand) fenceOn(w *way, shards ...int) {
	for _, k := range shards {
		if _, err := h.shards[k].ExecContext(context.Background(), "UPDATE shunt_store.members SET fenced = 1 WHERE addr LIKE ?", "%"+portOf(w.addr)); err != nil {
			h.fail("fence member %d on s%d: %v", w.n, k, err)
		}
	}
}

// nodeAway has a node of the store be killed, or stand still: mostly the one in use. The others go on.
func (h *hand) nodeAway() {
	began := time.Now()
	h.all.Lock()
	defer h.all.Unlock()
	for _, w := range h.ways {
		defer w.disturb()()
	}
	i, what := h.store.primary(h.t), "node in use "
	if h.rnd.IntN(4) == 0 {
		i, what = (i+1+h.rnd.IntN(2))%3, "other node "
	}
	if h.rnd.IntN(3) > 0 {
		what += "killed"
		h.store.servers[i].Kill()
	} else {
		what += "stopped"
		h.store.servers[i].Pause()
	}
	returned := false
	back := func() {
		returned = true
		if err := h.store.back(h.t, i); err != nil {
			h.fail("node %d: %v", i, err)
		}
	}
	h.await("new entries are made without "+what, func() bool {
		switch lasts := time.Since(began); {
		case lasts > time.Minute && !returned && !h.store.usable(h.t):
			what += ", and no other node took writes for a minute: it is back"
			back()
		case lasts > 20*time.Second:
			h.store.bootstrapped(h.t)
		}
		return h.allServe() && (returned || h.store.missed(h.t))
	})
	what += fmt.Sprintf(", others go on after %s", time.Since(began).Round(100*time.Millisecond))
	if !returned {
		back()
	}
	h.await("the node is back", func() bool { return h.store.whole(h.t) })
	h.await("new entries are made with it", h.allServe)
	h.done = append(h.done, what)
}

// checkWithoutNode sees what `shunt check` says of the store while one of its nodes is down.
func (h *hand) checkWithoutNode() {
	h.store.servers[0].Kill()
	h.await("the other nodes go on", func() bool { return h.allServe() && h.store.missed(h.t) })
	if out, code := shunt(h.t, "check", "--config", h.p.config); code != 0 || !strings.Contains(out, "store: server at "+h.valves[0][len(h.shards)].Addr()) {
		h.t.Errorf("check without one node: status %d\n%s", code, out)
	}
	if err := h.store.back(h.t, 0); err != nil {
		h.t.Fatal(err)
	}
	h.await("the node is back", func() bool { return h.store.whole(h.t) })
	h.await("new entries are made with it", h.allServe)
}

// settles returns when all serve, with all indexes, and nothing is left to be done.
func (h *hand) settles() {
	h.t.Helper()
	for _, w := range h.ways {
		eventually(h.t, fmt.Sprintf("member %d serves", w.n), func() bool { return h.serves(w) })
		for name := range onPeople {
			w.waitIndex(w.db, name)
		}
		w.settled(w.db)
	}
}

func (h *hand) allServe() bool {
	return !slices.ContainsFunc(h.ways, func(w *way) bool { return !h.serves(w) })
}

// cut cuts it off from one shard, which is a home, too, or from a node of the store.
func (h *hand) cut(w *way) string {
	return h.cutFor(time.Duration(h.rnd.IntN(4000)) * time.Millisecond)(w)
}

func (h *hand) cutFor(lasts time.Duration) func(*way) string {
	return func(w *way) string {
		k := h.rnd.IntN(len(h.valves[w.n]))
		v := h.valves[w.n][k]
		what := "cut off from"
		switch h.rnd.IntN(4) {
		case 0:
			v.Shut()
		case 1:
			what = "asks in vain on"
			v.ShutRequests()
		case 2:
			what = "hears nothing of"
			v.ShutAnswers()
		case 3:
			what = "loses connections to"
			for range 10 {
				v.Cut()
				time.Sleep(time.Duration(h.rnd.IntN(100)) * time.Millisecond)
			}
		}
		time.Sleep(lasts)
		v.Open()
		if k >= len(h.shards) {
			return fmt.Sprintf("%s node %d of the store for %s", what, k-len(h.shards), lasts)
		}
		return fmt.Sprintf("%s s%d for %s", what, k, lasts)
	}
}

// numbered are rows numbered by AUTO_INCREMENT.
type numbered struct {
	mu sync.Mutex
	// acknowledged are the keys of rows since the last TRUNCATE TABLE.
	acknowledged map[string]bool
	next         int
}

// count inserts rows that get numbers, and finds them by another Shunt.
func (w *writer) count() {
	var keys, values []string
	w.numbered.mu.Lock()
	for range 1 + w.rnd.IntN(3) {
		w.numbered.next++
		keys = append(keys, fmt.Sprintf("k%d", w.numbered.next))
		values = append(values, fmt.Sprintf("(%d, '%s')", w.rnd.IntN(writers*tenantsPerOwner), keys[len(keys)-1]))
	}
	w.numbered.mu.Unlock()
	by := w.pick(w.rnd)
	query := "INSERT INTO counted (tenant, k) VALUES " + strings.Join(values, ", ")
	if _, err := by.db.ExecContext(context.Background(), query); err != nil {
		w.failed(by, query, err)
		w.ended() // a TRUNCATE TABLE may come
		return
	}
	w.numbered.mu.Lock()
	for _, k := range keys {
		w.numbered.acknowledged[k] = true
	}
	w.numbered.mu.Unlock()
	other := w.pick(w.rnd, by.way)
	query = "SELECT k FROM counted WHERE k IN ('" + strings.Join(keys, "', '") + "')"
	found, err := rowsOf(context.Background(), other.db, query)
	if err != nil {
		w.readFailed(context.Background(), other, query, err)
		return
	}
	slices.Sort(keys)
	if got := flat(found, "k"); !slices.Equal(got, keys) {
		w.fail("%s%s finds %q, and %q was acknowledged%s", query, other, got, keys, by)
	}
}

// verifyNumbers: each number is there once over all shards, and each acknowledged row.
func (n *contest) verifyNumbers() {
	numbers, found := map[string]string{}, map[string]bool{}
	for i, db := range n.shards {
		for _, r := range mustRows(n.t, db, "SELECT id, k FROM "+n.p.schema+".counted") {
			if other := numbers[r["id"]]; other != "" {
				n.t.Errorf("AUTO_INCREMENT gave %s to %s and, on s%d, to %s", r["id"], other, i, r["k"])
			}
			if found[r["k"]] {
				n.t.Errorf("%s is there twice", r["k"])
			}
			numbers[r["id"]], found[r["k"]] = r["k"], true
		}
	}
	for k := range n.numbered.acknowledged {
		if !found[k] {
			n.t.Errorf("%s was acknowledged, and isn't there", k)
		}
	}
}

// sameDefinitions: all shards have the same tables.
func (n *contest) sameDefinitions(tables ...string) {
	for _, table := range tables {
		var first string
		for i, db := range n.shards {
			text := mustRows(n.t, db, "SHOW CREATE TABLE "+n.p.schema+"."+table)[0]["Create Table"]
			text = regexp.MustCompile(` AUTO_INCREMENT=\d+`).ReplaceAllString(text, "")
			if i == 0 {
				first = text
			} else if text != first {
				n.t.Errorf("s%d has another table %s than s0:\n%s\n%s", i, table, text, first)
			}
		}
	}
}
