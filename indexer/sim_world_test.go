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

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/storage"
)

// rules breaks rules of the protocol, to show that the simulation notices.
// They exist in the test's own code only: the actors that stand for sessions,
// the model store and shard, and the wait that the tracker is given.
type rules struct {
	addAfterSend   bool // the statement is sent before its entries are added
	noMark         bool // unknown keys are not marked
	removeAnyEpoch bool // entries are removed whatever their epoch
	clearAnyEpoch  bool // marks are cleared whatever their epoch
	horizonLate    bool // the horizon is computed after the snapshot is open
	noWait         bool // removals don't wait for what was open at the snapshot
	epochStands    bool // opening a snapshot does not advance the epoch
	endEarly       bool // a statement is ended before its outcome is known
	blindToThreads bool // the previous life's statements are taken for gone
	noIntent       bool // no write-intents
	intentFirst    bool // write-intents before what they cover
	noRecheck      bool // the catalog is not checked after registering
	buildNoWait    bool // a build does not wait for older plans
	finishNoWait   bool // a build is finished beside older snapshots
	noPKMark       bool // primary key changes set no mark
	noExclusion    bool // verify runs beside a scan
	hideBuild      bool // a scan does not know that a build is under way
}

// scenario is a small world to explore.
type scenario struct {
	name string
	rows rows
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
	// gate: several want to work on (table, shard).
	gate   bool
	actors func(*world)
}

type world struct {
	sc      scenario
	broken  rules
	actors  []*actor
	current *actor
	store   *modelStore
	shard   *modelShard
	proc    *process
	readers map[string]rows
	gated   bool
	crashed bool
	looks   int
	failure string
}

// process is one life of the proxy.
type process struct {
	x       *Indexer
	cat     *catalog.Catalog
	serving bool
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
	w := &world{sc: sc, broken: broken, readers: map[string]rows{}}
	w.shard = &modelShard{w: w, committed: maps.Clone(sc.rows), conns: map[string]*modelThread{}}
	first := image{gens: map[int]map[string]storage.Epoch{}}
	if sc.indexed {
		first.defined, first.status, first.read, first.next = true, storage.Ready, 1, 1
		first.gens[1] = map[string]storage.Epoch{}
		for _, k := range sc.rows {
			first.gens[1][k] = 1
		}
		for k := range strings.FieldsSeq(sc.stale) {
			first.gens[1][k] = 1
		}
	}
	w.store = &modelStore{w: w, now: first, disk: first.clone(), epoch: 2}
	w.proc = w.newProcess()
	w.proc.x.tracker.settle(0, 0)
	w.proc.serving = true
	sc.actors(w)
	return w
}

func (w *world) newProcess() *process {
	p := &process{}
	p.x = New(Options{
		Store: w.store, Shards: w, Clock: modelClock{},
		Catalog: func() *catalog.Catalog {
			w.note(fmt.Sprint(p.cat.Version))
			return p.cat
		},
		Publish: func(context.Context) error {
			w.step("publish", func() string {
				w.publish(p)
				return fmt.Sprint(p.cat.Version)
			})
			return nil
		},
		Logger: quiet, Rand: rand.New(rand.NewPCG(1, 1)),
	})
	p.x.codec = func(*catalog.Column, bool) (codec, error) { return modelCodec{}, nil }
	p.x.adders = 0
	if w.sc.blind {
		p.x.ledgerLimit = 1
	}
	if w.sc.checkpoints {
		p.x.checkpointRows = 1
	}
	p.x.tracker.block = func(_ context.Context, id catalog.ShardID, min storage.Epoch) error {
		who := w.current.name
		if who == "build" {
			if scanned := w.store.now.checkpoint != ""; !scanned && w.broken.buildNoWait || scanned && w.broken.finishNoWait {
				return nil
			}
		} else if w.broken.noWait {
			return nil
		}
		w.choose(fmt.Sprintf("wait for what began before %d", min), func() bool { return p.x.tracker.Passed(id, min) }, 1,
			func(int) string { return "" })
		return nil
	}
	w.publish(p)
	return p
}

// publish makes a catalog of the store's definition.
func (w *world) publish(p *process) {
	c := &catalog.Catalog{Version: 1, Shards: []catalog.Shard{{ID: 0, Name: "s0"}}, All: catalog.Only(0)}
	if p.cat != nil {
		c.Version = p.cat.Version + 1
	}
	id, k := &catalog.Column{Name: "id", Type: "int"}, &catalog.Column{Name: "k", Type: "varchar(1)"}
	t := &catalog.Table{Schema: "s", Name: "t", Shards: c.All, Columns: []*catalog.Column{id, k}, PrimaryKey: []*catalog.Column{id}}
	if d := w.store.def(); w.store.now.defined {
		t.Indexes = []*catalog.Index{{ID: 1, Name: "ix", Table: t, Columns: []*catalog.Column{k}, Status: catalog.IndexStatus(d.Status)}}
	}
	c.Schemas = map[string]*catalog.Schema{"s": {Name: "s", Tables: map[string]*catalog.Table{"t": t}}}
	p.cat = c
}

func (p *process) table() *catalog.Table { return p.x.opts.Catalog().Table("s", "t") }

// missed says which read would miss a row now: one that begins now, or one in
// an open REPEATABLE READ transaction.
func (w *world) missed() string {
	if w.proc == nil || !w.proc.serving {
		return ""
	}
	if t := w.proc.cat.Table("s", "t"); len(t.Indexes) == 0 || !t.Indexes[0].Usable() || w.store.now.read == 0 {
		return "" // reads scatter
	}
	for _, k := range []string{"a", "b", "c"} {
		if w.store.covers(k) {
			continue
		}
		if w.shard.committed.has(k) {
			return fmt.Sprintf("a read of %q now misses a committed row", k)
		}
		for name, snapshot := range w.readers {
			if snapshot.has(k) {
				return fmt.Sprintf("transaction %s misses a row with %q of its snapshot", name, k)
			}
		}
	}
	return ""
}

// environment is what happens by itself: the server's work, and the crash.
func (w *world) environment(opts []option) []option {
	opts = w.shard.steps(opts)
	if w.proc == nil || w.crashed {
		return opts
	}
	if w.sc.crash {
		opts = append(opts, option{label: "the process dies", run: func() string { return w.crash(-1) }})
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
	w.gated = false
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
	w.proc = w.newProcess()
	p := w.proc
	w.start("recovery", true, func() {
		w.must(p.x.recover(context.Background()))
		w.step("serves", func() string {
			w.publish(p)
			p.serving = true
			return ""
		})
		w.settle(p)
		if w.store.now.build != 0 {
			w.resume(p)
		}
		if w.store.now.read != 0 {
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
		if !a.done && a.name != "lifter" {
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
	fmt.Fprint(&b, m.now, "|", m.disk, "|", m.epoch, m.active, m.record, m.lost, m.unclean, "|")
	for _, u := range m.unsynced {
		b.WriteString(u.label + ",")
	}
	fmt.Fprint(&b, "|", w.shard, "|")
	t := &w.proc.x.tracker.shards[0]
	fmt.Fprint(&b, t.open, t.settled, len(w.proc.x.tracker.doubts), w.proc.cat.Version, w.proc.serving, "|")
	for _, r := range slices.Sorted(maps.Keys(w.readers)) {
		fmt.Fprint(&b, r, w.readers[r])
	}
	fmt.Fprint(&b, w.gated, w.crashed, w.looks)
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
			if t.busy() || t.orphan && t.inTransaction {
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
	var adds []Add
	var marks []Mark
	for k := range strings.FieldsSeq(e.adds) {
		adds = append(adds, Add{Index: t.Indexes[0], Key: []byte(k), Shard: 0})
	}
	if e.marks {
		marks = append(marks, Mark{Index: t.Indexes[0], Shard: 0})
	}
	w.must(p.x.Prepare(o, adds, marks, nil, catalog.ShardSet{}))
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
func (w *world) transaction(name string, edits ...edit) {
	w.start(name, true, func() {
		p := w.proc
		var o *Open
		th := w.shard.thread(name)
		for _, e := range edits {
			var t *catalog.Table
			o, t = w.register(p, o)
			w.prepare(p, o, t, e)
			th.inTransaction = true
			w.send(name, e, func() {}, func() {})
		}
		w.choose("sends COMMIT or ROLLBACK", nil, 2, func(c int) string {
			th.commits, th.aborts = c == 0, c == 1
			return fmt.Sprint(c)
		})
		w.choose("has the answer", func() bool { return !th.busy() }, 1, func(int) string {
			o.End()
			return ""
		})
	})
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
			w.readers[name] = maps.Clone(w.shard.committed)
			return fmt.Sprint(w.readers[name])
		})
		w.step("commits", func() string {
			delete(w.readers, name)
			o.End()
			return ""
		})
	})
}

// enter holds the gate of (table, shard) during fn.
func (w *world) enter(fn func()) {
	if !w.sc.gate {
		fn()
		return
	}
	w.choose("enters", func() bool { return !w.gated || w.broken.noExclusion }, 1, func(int) string {
		w.gated = true
		return ""
	})
	fn()
	w.gated = false
}

// scan maintains the index once.
func (w *world) scan() {
	p := w.proc
	w.enter(func() {
		t := p.table()
		err := p.x.maintain(context.Background(), t, 0, t.Indexes)
		if _, held := errors.AsType[*HeldBack](err); !held { // it did what it may, and another scan would follow
			w.must(err)
		}
	})
}

func (w *world) scanner(times int) {
	w.start("scan", true, func() {
		for range times {
			w.scan()
		}
	})
}

func (w *world) verifier(key string) {
	p := w.proc
	w.start("verify", true, func() {
		w.enter(func() {
			t := p.table()
			probe := Probe{Index: t.Indexes[0], Key: []byte(key), Values: []keys.Value{keys.String([]byte(key), "utf8mb4")}}
			w.must(p.x.verify(context.Background(), t, 0, []Probe{probe}))
		})
	})
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
			_, err := w.store.CreateIndex(storage.IndexDef{})
			w.must(err)
			w.must(p.x.opts.Publish(context.Background()))
		} else {
			w.must(w.store.StartBuild(1, 1))
		}
		w.resume(p)
	})
}

// resume runs the build job.
func (w *world) resume(p *process) {
	b := &building{
		x: p.x, ix: p.table().Indexes[0],
		save: w.store.saveCheckpoint,
		note: func(string) {},
		scanning: func(context.Context, catalog.ShardID) (func(), error) {
			if w.sc.gate {
				w.choose("enters", func() bool { return !w.gated }, 1, func(int) string {
					w.gated = true
					return ""
				})
			}
			return func() { w.gated = false }, nil
		},
	}
	w.must(b.restore([]byte(w.store.now.checkpoint)))
	w.must(b.run(context.Background()))
	w.must(p.x.announce(context.Background(), b.ix))
}

// lifter lifts the write-intent, twice at most.
func (w *world) lifter() {
	w.start("lifter", true, func() {
		w.store.lift()
		w.store.lift()
	})
}
