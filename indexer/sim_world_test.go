package indexer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/shunt-sql/shunt/planner/plan"

	"github.com/shunt-sql/shunt/cluster"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/storage"
)

// rules breaks rules of the protocol, to show that the simulation notices.
// They exist in the test's own code only: the actors that stand for sessions,
// the model store and shard, and the waits of the cluster.
type rules struct {
	addAfterSend   bool // the statement is sent before its entries are added
	noMark         bool // unknown keys are not marked
	removeAnyEpoch bool // entries are removed whatever their epoch
	clearAnyEpoch  bool // marks are cleared whatever their epoch
	horizonLate    bool // the horizon is computed after the snapshot is open
	noFloor        bool // no floor tells what removals went by
	oneLook        bool // several keys are looked up once, whatever goes meanwhile
	guess          guessRules
	epochStands    bool // opening a snapshot does not advance the epoch
	endEarly       bool // a statement is ended before its outcome is known
	blindToThreads bool // the previous life's statements are taken for gone
	noIntent       bool // no write-intents
	intentFirst    bool // write-intents before what they cover
	noRecheck      bool // the catalog is not checked after registering
	buildNoWait    bool // a build does not wait for older plans
	buildNoFloor   bool // a build is finished beside older snapshots
	noPKMark       bool // primary key changes set no mark
	noGate         bool // a scan removes behind one that began later
	oldGeneration  bool // a scan removes though a build has begun since it did
	hideBuild      bool // a scan does not know that a build is under way
	vouchAll       bool // a follower clears marks from before it began
	unshown        bool // a follower's registration ends though what it has seen is not visible
	notAbreast     bool // a read ignores marks though the follower has not dealt with what is visible
	notPassed      bool // marks are cleared though the follower has not passed what they stand for
	keptAhead      bool // a place in the log is kept whose changes have no entries yet
	begunUnsaid    bool // nobody is told that a build reads rows
	anyServer      bool // a follower begins at a place in another server's log
	shared         sharedRules
}

// scenario is a small world to explore.
type scenario struct {
	name string
	rows rows
	// long: it takes over five seconds, so that make check runs it alone.
	long bool
	// indexed: the index is ready at first, with an entry for each row.
	indexed bool
	// stale are entries without a row.
	stale string
	// crash, power: the process may die, the machine may lose its power, once.
	crash, power bool
	// blind: the scans' ledgers hold a single key.
	blind bool
	// checkpoints: builds save one after each row.
	checkpoints bool
	// builds: the catalog may change.
	builds bool
	// homes: the store is on two servers.
	homes bool
	// refused: the index was given up, and is on none of them at first; the second one may refuse what is written.
	refused bool
	// follows: marks of statements are logged, and what the shard commits is in its log before it is visible.
	follows bool
	// resumes: the shard's rows are changed by others alone, and a follower goes on at a place that was kept: at first this one.
	resumes bool
	place   string
	// unseen: at first no entry is there.
	unseen bool
	// verifies is a key that is looked for behind a crash.
	verifies string
	// exchanged: another server may answer for the shard behind a crash.
	exchanged bool
	// members are the processes, of which that many have joined the shard at first; none: one
	// that is alone.
	members []string
	joined  int
	// mortal is the member that may die, once.
	mortal string
	actors func(*world)
}

type world struct {
	sc      scenario
	broken  rules
	actors  []*actor
	current *actor
	store   *modelStore
	far     *modelStore // the store on another server, if there is one
	homes   homes
	unread  bool // storage.IndexRecord.Unread
	shard   *modelShard
	// proc is the process, or that of several whose actors are started.
	proc    *process
	members *members // nil: the process is alone
	readers map[string]*reader
	crashed bool
	looks   int
	failure string

	// resumed is the follower that goes on, trail its.
	resumed *follower
	trail   *modelTrail
	claimed bool // a job
}

// process is one life of the proxy.
type process struct {
	name    string // of a member
	x       *Indexer
	cluster modelled
	cat     *catalog.Catalog
	serving bool
}

// modelled is a cluster whose waits the simulation schedules.
type modelled interface {
	cluster.Cluster
	// state is what it holds.
	state() string
	// publish has the process, and all that share the store, go by the store's definitions.
	publish(*process) error
}

var quiet = slog.New(slog.DiscardHandler)

type modelCodec struct{}

func (modelCodec) Scanned(dst, raw []byte) ([]byte, bool) { return append(dst, raw...), true }

func (modelCodec) Equal(dst []byte, v keys.Value) ([]byte, bool) {
	l := v.Literal()
	return append(dst, l[len(l)-2]), true
}

type modelClock struct{}

func (modelClock) Now() time.Time                                 { return time.Unix(1e9, 0) }
func (modelClock) After(time.Duration) (<-chan time.Time, func()) { return nil, func() {} }

func newWorld(sc scenario, broken rules) *world {
	w := &world{sc: sc, broken: broken, readers: map[string]*reader{}}
	w.shard = &modelShard{w: w, committed: maps.Clone(sc.rows), conns: map[string]*modelThread{}}
	first := image{gens: map[int]map[string]storage.Epoch{}}
	if sc.indexed {
		first.defined, first.status, first.read, first.next = true, catalog.Ready, 1, 1
		first.gens[1] = map[string]storage.Epoch{}
		for _, k := range sc.rows {
			if !sc.unseen {
				first.gens[1][k] = 1
			}
		}
		first.place = sc.place
		for k := range strings.FieldsSeq(sc.stale) {
			first.gens[1][k] = 1
		}
	}
	w.store = &modelStore{w: w, now: first, disk: first.clone(), epoch: 2}
	if sc.homes {
		w.apart()
	}
	if len(sc.members) > 0 {
		w.gather()
	} else {
		w.proc = w.alone()
		w.proc.cluster.Settle(0, 0)
		w.proc.serving = true
	}
	sc.actors(w)
	return w
}

func (w *world) alone() *process {
	return w.newProcess("", &modelCluster{Local: cluster.NewLocal(w.store), w: w, open: map[storage.Epoch]int{}})
}

func (w *world) newProcess(name string, c modelled) *process {
	p := &process{name: name, cluster: c}
	p.x = New(Options{
		Cluster: p.cluster, Store: w.sees(), Shards: w, Clock: modelClock{},
		Catalog: func() *catalog.Catalog {
			w.note(fmt.Sprint(p.cat.Version))
			return p.cat
		},
		Publish: func(context.Context) error { return c.publish(p) },
		Logger:  quiet, Rand: rand.New(rand.NewPCG(1, 1)),
	})
	p.x.codec = func(*catalog.Column, bool) (codec, error) { return modelCodec{}, nil }
	p.x.adders = 0
	if w.sc.blind {
		p.x.ledgerLimit = 1
	}
	if w.sc.checkpoints {
		p.x.checkpointRows = 1
	}
	w.publish(p)
	return p
}

// modelCluster is a process that is alone, whose waits the simulation schedules.
type modelCluster struct {
	*cluster.Local
	w    *world
	open map[storage.Epoch]int // registrations by epoch
}

func (m *modelCluster) Register(id catalog.ShardID) cluster.Registration {
	r := m.Local.Register(id)
	m.open[r.Epoch]++
	return r
}

func (m *modelCluster) End(r cluster.Registration) {
	if m.open[r.Epoch]--; m.open[r.Epoch] == 0 {
		delete(m.open, r.Epoch)
	}
	m.Local.End(r)
}

func (m *modelCluster) Wait(_ context.Context, id catalog.ShardID, min storage.Epoch) error {
	if m.w.broken.buildNoWait {
		return nil
	}
	m.w.choose(fmt.Sprintf("wait for what began before %d", min), func() bool { return m.Passed(id, min) }, 1,
		func(int) string { return "" })
	return nil
}

func (m *modelCluster) Horizon(ctx context.Context, id catalog.ShardID) (h storage.Epoch, err error) {
	m.w.step("computes the horizon", func() string {
		h, err = m.Local.Horizon(ctx, id)
		return fmt.Sprint(h, err)
	})
	return h, err
}

func (m *modelCluster) publish(p *process) error {
	m.w.step("publish", func() string {
		m.w.publish(p)
		return fmt.Sprint(p.cat.Version)
	})
	return nil
}

func (m *modelCluster) state() string { return fmt.Sprint(m.open) }

func (w *world) ctx() context.Context { return context.Background() }

// publish makes a catalog of the store's definition.
func (w *world) publish(p *process) {
	w.adopt(p)
	c := &catalog.Catalog{Version: 1, Shards: []catalog.Shard{{ID: 0, Name: "s0"}}, All: catalog.Only(0)}
	if p.cat != nil {
		c.Version = p.cat.Version + 1
	}
	id, k := &catalog.Column{Name: "id", Type: "int"}, &catalog.Column{Name: "k", Type: "varchar(1)"}
	t := &catalog.Table{Schema: "s", Name: "t", Shards: c.All, Columns: []*catalog.Column{id, k}, PrimaryKey: []*catalog.Column{id}}
	if d := w.store.def(); w.store.now.defined {
		t.Indexes = []*catalog.Index{{ID: 1, Name: "ix", Table: t, Columns: []*catalog.Column{k}, Status: d.Status}}
	}
	c.Schemas = map[string]*catalog.Schema{"s": {Name: "s", Tables: map[string]*catalog.Table{"t": t}}}
	p.cat = c
}

func (p *process) table() *catalog.Table { return p.x.opts.Catalog().Table("s", "t") }

// missed says which read would miss a row now: one that begins now, or one in
// an open REPEATABLE READ transaction.
func (w *world) missed() string {
	for _, p := range w.processes() {
		if miss := w.missedBy(p); miss != "" {
			return miss
		}
	}
	return ""
}

// processes are those that live.
func (w *world) processes() []*process {
	if w.members != nil {
		return w.members.alive
	}
	return []*process{w.proc}
}

func (w *world) missedBy(p *process) string {
	if !p.serving || w.sc.resumes && !w.caughtUp() {
		return ""
	}
	if t := p.cat.Table("s", "t"); len(t.Indexes) == 0 || !t.Indexes[0].Usable() || w.store.now.read == 0 && !w.sc.homes {
		return "" // reads scatter
	}
	ix := &catalog.Index{ID: 1}
	for _, k := range []string{"a", "b", "c"} {
		if set, err := p.x.Lookup(ix, []byte(k), nil); err == nil && !set.Has(0) && w.shard.committed.has(k) {
			return fmt.Sprintf("a read of %q now misses a committed row", k)
		}
		for name, r := range w.readers {
			if r.open.x != p.x {
				continue
			}
			if set, err := r.open.Lookup(ix, []byte(k), nil); err == nil && !set.Has(0) && r.snapshot.has(k) {
				return fmt.Sprintf("transaction %s misses a row with %q of its snapshot", name, k)
			}
		}
	}
	return ""
}

// environment is what happens by itself: the server's work, and the crash.
func (w *world) environment(opts []option) []option {
	opts = w.shard.steps(opts)
	if w.crashed {
		return opts
	}
	if w.sc.mortal != "" {
		opts = append(opts, option{label: w.sc.mortal + " dies", run: w.lose})
	}
	if w.sc.crash {
		opts = append(opts, option{label: "the process dies", run: func() string { return w.crash(-1) }})
		if w.sc.exchanged {
			opts = append(opts, option{label: "the process dies, and another server answers", run: func() string {
				w.exchange()
				return w.crash(-1)
			}})
		}
	}
	if w.sc.power {
		for loss := range w.store.powerLosses() {
			opts = append(opts, option{label: "the power fails", run: func() string { return w.crash(loss) }})
		}
	}
	return opts
}

// crash ends the process (loss -1) or cuts the power, and starts another.
func (w *world) crash(loss int) string {
	w.crashed = true
	kept := w.actors[:0]
	for _, a := range w.actors {
		if a.dies {
			a.stop()
		} else {
			kept = append(kept, a)
		}
	}
	w.actors = kept
	clear(w.readers)
	w.store.floor, w.store.gate, w.store.removals = 0, 0, 0
	w.shard.abandon()
	result := ""
	if loss >= 0 {
		w.store.losePower(loss)
		w.store.lost = w.store.record
		result = "left: " + w.store.now.String()
	} else {
		w.store.unclean = w.store.record
	}
	w.store.active = false
	w.proc = w.alone()
	p := w.proc
	w.resumed, w.trail, w.claimed = nil, nil, false
	if w.sc.resumes {
		w.resuming()
	}
	w.start("recovery", true, func() {
		w.must(p.x.recover(context.Background()))
		w.step("serves", func() string {
			w.publish(p)
			p.serving = true
			return ""
		})
		w.settle(p)
		if w.sc.verifies != "" {
			w.verify(w.sc.verifies)
		}
		if w.store.now.build != 0 {
			w.resume(p)
		}
		if w.store.now.read != 0 && !w.sc.resumes { // they are jobs there
			w.scan()
		}
	})
	return result
}

func (w *world) must(err error) {
	if err != nil && w.failure == "" {
		w.failure = err.Error()
	}
}

// unfinished reports whether somebody waits although nothing can happen.
func (w *world) unfinished() bool {
	for _, a := range w.actors {
		if !a.done && !a.endless {
			return true
		}
	}
	return false
}

func (w *world) close() {
	for _, a := range w.actors {
		a.stop()
	}
}

func (w *world) fingerprint() string {
	var b strings.Builder
	m := w.store
	fmt.Fprint(&b, m.now, "|", m.disk, "|", m.epoch, m.active, m.record, m.lost, m.unclean, "|", m.floor, m.gate, m.removals, "|")
	for _, u := range m.unsynced {
		b.WriteString(u.label + ",")
	}
	if w.far != nil {
		fmt.Fprint(&b, w.far.now, w.far.floor, w.far.gate, w.far.removals, w.homes, w.unread)
		for _, p := range w.processes() {
			fmt.Fprint(&b, p.x.store.(*twoHomes).by)
		}
	}
	fmt.Fprint(&b, "|", w.shard, "|")
	for _, p := range w.processes() {
		fmt.Fprint(&b, p.cluster.state(), p.x.isSettled(0), len(p.x.doubts.all), p.cat.Version, p.serving, "|")
	}
	for _, r := range slices.Sorted(maps.Keys(w.readers)) {
		fmt.Fprint(&b, r, w.readers[r].snapshot, w.readers[r].open.regs)
	}
	fmt.Fprint(&b, w.crashed, w.looks)
	if w.members != nil {
		b.WriteString(w.members.state())
	}
	return b.String()
}

// quietLook lets the threads be looked at once early, and then only when all
// have ended, so that there is an end to it.
func (w *world) quietLook() func() bool {
	return func() bool {
		if w.looks == 0 {
			return true
		}
		for _, t := range w.shard.conns {
			if !t.stray && t.busy() || t.orphan && t.inTransaction {
				return false
			}
		}
		return true
	}
}

// edit is a statement and what a session must have in the store before it.
type edit struct {
	statement
	adds  string
	marks bool
}

func set(pk int, key string) edit {
	return edit{statement: statement{fmt.Sprintf("UPDATE %d=%s", pk, key), pk, func(r rows) {
		if _, ok := r[pk]; ok {
			r[pk] = key
		}
	}}, adds: key}
}

// compute is an UPDATE whose new value the planner can't know.
func compute(pk int, key string) edit {
	e := set(pk, key)
	e.text, e.adds, e.marks = fmt.Sprintf("UPDATE %d=f()=%s", pk, key), "", true
	return e
}

// computeInsert is an INSERT of a value that the planner can't know.
func computeInsert(pk int, key string) edit {
	e := insert(pk, key)
	e.text, e.adds, e.marks = fmt.Sprintf("INSERT %d=f()=%s", pk, key), "", true
	return e
}

func insert(pk int, key string) edit {
	return edit{statement: statement{fmt.Sprintf("INSERT %d=%s", pk, key), pk, func(r rows) {
		if _, ok := r[pk]; !ok {
			r[pk] = key
		}
	}}, adds: key}
}

func remove(pk int) edit {
	return edit{statement: statement{fmt.Sprintf("DELETE %d", pk), pk, func(r rows) { delete(r, pk) }}}
}

// move changes a primary key.
func (w *world) move(from, to int) edit {
	return edit{statement: statement{fmt.Sprintf("UPDATE %d TO %d", from, to), from, func(r rows) {
		if k, ok := r[from]; ok {
			delete(r, from)
			r[to] = k
		}
	}}, marks: !w.broken.noPKMark}
}

// register is steps 1 and 2 of a write; it returns the catalog to go by.
func (w *world) register(p *process, o *Open) (*Open, *catalog.Table) {
	for {
		t, stale := p.table(), false
		if !w.sc.builds && o != nil {
			return o, t
		}
		if w.sc.builds { // else there is one catalog only
			w.step("plans", func() string {
				t = p.table()
				return fmt.Sprint(p.cat.Version)
			})
		}
		mine := o == nil
		if mine {
			w.step("begins", func() string {
				o = p.x.Begin(catalog.Only(0))
				e, _ := o.Epoch(0)
				return fmt.Sprint(e)
			})
		}
		if !w.sc.builds {
			return o, t
		}
		w.step("checks the catalog", func() string {
			stale = t != p.table()
			return fmt.Sprint(stale)
		})
		if !stale || w.broken.noRecheck {
			return o, t
		}
		if mine {
			w.step("ends, to plan anew", func() string {
				o.End()
				return ""
			})
			o = nil
		}
	}
}

// prepare is what is in the store before the statement is sent.
func (w *world) prepare(p *process, o *Open, t *catalog.Table, e edit) {
	if len(t.Indexes) == 0 {
		return
	}
	var adds []plan.Entry
	var marks []plan.Mark
	for k := range strings.FieldsSeq(e.adds) {
		adds = append(adds, plan.Entry{Index: t.Indexes[0], Key: []byte(k), Shard: 0})
	}
	if e.marks {
		marks = append(marks, plan.Mark{Index: t.Indexes[0], Shard: 0, Logged: w.sc.follows})
	}
	w.must(p.x.Prepare(context.Background(), o, adds, marks, nil, catalog.ShardSet{}))
}

// send gives a statement to the server and waits for the answer.
func (w *world) send(name string, e edit, sent, answered func()) {
	th := w.shard.thread(name)
	// Sending is no step: when the server runs it is.
	th.sent = &e.statement
	sent()
	w.choose("has the answer", func() bool { return th.sent == nil }, 1, func(int) string {
		answered()
		return ""
	})
}

// autocommit starts a writer of one statement.
func (w *world) autocommit(name string, e edit) {
	w.start(name, true, func() {
		p := w.proc
		o, t := w.register(p, nil)
		if !w.broken.addAfterSend {
			w.prepare(p, o, t, e)
		}
		w.send(name, e, func() {
			if w.broken.addAfterSend {
				w.prepare(p, o, t, e)
			}
			if w.broken.endEarly {
				w.step("ends early", func() string {
					o.End()
					return ""
				})
			}
		}, func() { o.End() })
	})
}

// disconnected starts a writer that loses its connection after it sent.
func (w *world) disconnected(name string, e edit) {
	w.start(name, true, func() {
		p := w.proc
		o, t := w.register(p, nil)
		w.prepare(p, o, t, e)
		w.shard.thread(name).sent = &e.statement
		w.step("loses its connection", func() string {
			if w.broken.endEarly {
				o.End()
			} else {
				o.InDoubt(0, storage.Thread{ID: uint32(threadID(name))})
			}
			return ""
		})
		w.settle(p)
	})
}

// transaction starts a writer of several statements that commits or rolls back.
func (w *world) transaction(name string, edits ...edit) { w.transacts(name, false, edits) }

// transactionBeside adds what it makes as late as it may.
func (w *world) transactionBeside(name string, edits ...edit) { w.transacts(name, true, edits) }

func (w *world) transacts(name string, beside bool, edits []edit) {
	w.start(name, true, func() {
		p := w.proc
		var o *Open
		var late []func()
		add := func() {
			for _, prepare := range late {
				prepare()
			}
		}
		th := w.shard.thread(name)
		for _, e := range edits {
			var t *catalog.Table
			o, t = w.register(p, o)
			if beside && !e.marks {
				late = append(late, func() { w.prepare(p, o, t, e) })
			} else {
				w.prepare(p, o, t, e)
			}
			th.inTransaction = true
			w.send(name, e, func() {}, func() {})
		}
		if !w.broken.addAfterSend {
			add()
		}
		w.choose("sends COMMIT or ROLLBACK", nil, 2, func(c int) string {
			th.commits, th.aborts = c == 0, c == 1
			return fmt.Sprint(c)
		})
		if w.broken.addAfterSend {
			add()
		}
		w.choose("has the answer", func() bool { return !th.busy() }, 1, func(int) string {
			o.End()
			return ""
		})
	})
}

// reader is an open REPEATABLE READ transaction.
type reader struct {
	snapshot rows
	open     *Open
}

// reader starts a REPEATABLE READ transaction. It may read at any moment
// between its steps; see missed.
func (w *world) reader(name string) {
	w.start(name, true, func() {
		p := w.proc
		var o *Open
		w.step("begins", func() string {
			o = p.x.Begin(catalog.Only(0))
			return ""
		})
		w.step("opens its snapshot", func() string {
			w.readers[name] = &reader{maps.Clone(w.shard.committed), o}
			return fmt.Sprint(w.readers[name].snapshot)
		})
		w.step("commits", func() string {
			delete(w.readers, name)
			o.End()
			return ""
		})
	})
}

// finder starts an autocommit read of a row that has one of two keys at all times.
func (w *world) finder(first, second string) {
	w.start("finder", true, func() {
		x, ix := w.proc.x, &catalog.Index{ID: 1}
		var set catalog.ShardSet
		for again := true; again; {
			var before uint64
			set = catalog.ShardSet{}
			w.step("begins to look up", func() string {
				before = x.Removals()
				return fmt.Sprint(before)
			})
			for _, k := range []string{first, second} {
				w.step("looks up "+k, func() string {
					found, err := x.Lookup(ix, []byte(k), nil)
					w.must(err)
					set = set.Union(found)
					return fmt.Sprint(found.Has(0))
				})
			}
			w.step("has looked up", func() string {
				again = x.Removals() != before && !w.broken.oneLook
				return fmt.Sprint(again)
			})
		}
		if !set.Has(0) {
			w.must(errors.New("a read of two keys misses a row that has one of them at all times"))
		}
	})
}

// guessRules breaks rules of reads that are sent where they guess.
type guessRules struct {
	anySet      bool // what the store says isn't compared with the guess
	anyRemovals bool // whatever was removed since before the read was sent
	heardLate   bool // what was removed before is heard of behind the read
	askedEarly  bool // the store has said so before the read began
}

// guesser starts an autocommit read of a key that is sent on the guess that the shard has none: it goes
// elsewhere. The store is asked behind it (package shared, Guess).
//
// A row that was there as the read was sent must not be missed though it has gone since, as none is
// where the store is asked first.
func (w *world) guesser(key string) {
	w.start("guesser", true, func() {
		x, broken := w.proc.x, w.broken.guess
		var before, after uint64
		var there, found bool
		hear := func() {
			w.step("has heard", func() string {
				before = x.Removals()
				return fmt.Sprint(before)
			})
		}
		ask := func() {
			w.step("asks for "+key, func() string {
				set, err := x.Lookup(&catalog.Index{ID: 1}, []byte(key), nil)
				w.must(err)
				found, after = set.Has(0), x.Removals()
				return fmt.Sprint(found, after)
			})
		}
		send := func() {
			w.step("is sent elsewhere", func() string {
				there = w.shard.committed.has(key)
				return fmt.Sprint(there)
			})
		}
		order := []func(){hear, send, ask}
		switch {
		case broken.heardLate:
			order = []func(){send, hear, ask}
		case broken.askedEarly:
			order = []func(){ask, hear, send}
		}
		for _, do := range order {
			do()
		}
		holds := (broken.anySet || !found) && (broken.anyRemovals || before == after)
		if there && holds {
			w.must(errors.New("a read that was sent on a guess misses a row"))
		}
	})
}

// scan maintains the index once.
func (w *world) scan() {
	p := w.proc
	t := p.table()
	w.retired(p.x.maintain(context.Background(), t, 0, t.Indexes))
}

// retired takes the error of a scan, which has done what it may: another would follow.
func (w *world) retired(err error) {
	if _, held := errors.AsType[*HeldBack](err); !held && !errors.Is(err, storage.ErrSuperseded) && !errors.Is(err, cluster.ErrNotJoined) {
		w.must(err)
	}
}

func (w *world) scanner(times int) {
	w.start("scan", true, func() {
		for range times {
			w.scan()
		}
	})
}

func (w *world) verifier(key string) {
	w.start("verify", true, func() { w.verify(key) })
}

// verify looks for a key.
func (w *world) verify(key string) {
	p := w.current.of
	t := p.table()
	probe := plan.Probe{Index: t.Indexes[0], Key: []byte(key), Values: []keys.Value{keys.String([]byte(key), "utf8mb4")}}
	w.retired(p.x.verify(context.Background(), t, 0, []plan.Probe{probe}))
}

// settle looks at the server's threads until nothing is in doubt.
func (w *world) settle(p *process) {
	for done := false; !done; {
		var err error
		done, err = p.x.settle(context.Background(), 0)
		w.must(err)
		w.looks = 1
	}
	w.looks = 0
}

// builder creates the index, or builds it anew.
func (w *world) builder(create bool) {
	p := w.proc
	w.start("build", true, func() {
		if create {
			_, err := w.store.CreateIndex(catalog.IndexDef{})
			w.must(err)
			w.must(p.x.opts.Publish(context.Background()))
		} else {
			w.must(w.store.StartBuild(1, 1))
		}
		w.resume(p)
	})
}

// resume runs the build job.
func (w *world) resume(p *process) { w.must(w.tryResume(p)) }

func (w *world) tryResume(p *process) error {
	b := &building{
		x: p.x, ix: p.table().Indexes[0],
		save:     w.store.saveCheckpoint,
		note:     func(string) {},
		scanning: func(context.Context, catalog.ShardID) (func(), error) { return func() {}, nil },
	}
	if err := b.restore([]byte(w.store.now.checkpoint)); err != nil {
		return err
	}
	if err := b.run(context.Background()); err != nil {
		return err
	}
	return p.x.announce(context.Background(), b.ix)
}

// lifter lifts the write-intent, twice at most.
func (w *world) lifter() {
	w.start("lifter", true, func() {
		w.store.lift()
		w.store.lift()
	}).endless = true
}
