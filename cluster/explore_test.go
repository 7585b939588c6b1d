package cluster_test

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/cluster"
	"github.com/shunt-sql/shunt/cluster/clustertest"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// The explorer runs members as coroutines over one shard's seat and a board. Each call to
// these is a step, and between two steps an actor runs alone. All interleavings are visited;
// a schedule ends where it meets a state that was seen. A state is what seat, board and
// world hold, and for each actor what its steps have told it.

// world is one shard with a key, one home, and those who act on them.
type world struct {
	t       testing.TB
	seat    clustertest.Seat
	board   clustertest.Board
	actors  []*actor
	current *actor

	row    bool          // committed: a row with the key
	entry  storage.Epoch // the key's at the home; 0: none
	ready  bool          // reads go by the index
	alters int           // who is altering a table now
	fault  string
	also   func() string // more of the state, if set
}

type actor struct {
	name    string
	next    func() (string, bool)
	stop    func()
	yield   func(string) bool
	pending string
	done    bool
	history uint64
}

type ended struct{}

func newWorld(t testing.TB) *world {
	w := &world{t: t}
	for _, f := range []*clustertest.Faults{&w.seat.Faults, &w.board.Faults} {
		f.Hook = w.step
		f.Saw = func(_, result string) { w.note(result) }
	}
	return w
}

// step lets others act. Outside of actors, while the world is set up, there are none.
func (w *world) step(label string) {
	if w.current != nil && !w.current.yield(label) {
		panic(ended{})
	}
}

func (w *world) note(result string) {
	if w.current != nil {
		w.current.history = mix(w.current.history, result)
	}
}

// mix is FNV-1a.
func mix(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return (h ^ 0xff) * 1099511628211
}

func (w *world) start(name string, body func()) {
	a := &actor{name: name}
	a.next, a.stop = iter.Pull(func(yield func(string) bool) {
		a.yield = yield
		defer func() {
			if r := recover(); r != nil {
				if _, ok := r.(ended); !ok {
					panic(r)
				}
			}
		}()
		body()
	})
	w.actors = append(w.actors, a)
	w.advance(a)
}

func (w *world) advance(a *actor) {
	w.current = a
	label, ok := a.next()
	w.current = nil
	a.pending, a.done = label, !ok
}

func (w *world) hash() uint64 {
	var b strings.Builder
	fmt.Fprint(&b, w.seat.String(), "|", w.board.String(), "|", w.row, w.entry, w.ready, w.alters, w.fault)
	if w.also != nil {
		b.WriteString(w.also())
	}
	for _, a := range w.actors {
		fmt.Fprint(&b, "|", a.name, a.done, a.pending, a.history)
	}
	return mix(14695981039346656037, b.String())
}

// missed is the promise.
func (w *world) missed() string {
	if w.fault == "" && w.ready && w.row && w.entry == 0 {
		return "a read misses a committed row"
	}
	return w.fault
}

// explore returns the shortest of the first faulty schedules; "" if there is none.
func explore(t testing.TB, setup func(*world)) (fault string, states int) {
	seen := map[uint64]bool{}
	var path []int
	for {
		w := newWorld(t)
		setup(w)
		var trace []string
		for depth := 0; ; depth++ {
			var may []*actor
			for _, a := range w.actors {
				if !a.done {
					may = append(may, a)
				}
			}
			if len(may) == 0 {
				break
			}
			fresh := depth >= len(path)
			if fresh {
				path = append(path, 0)
			}
			if path[depth] >= len(may) { // all were taken
				path = path[:depth]
				break
			}
			a := may[path[depth]]
			trace = append(trace, a.name+": "+a.pending)
			a.history = mix(a.history, a.pending)
			w.advance(a)
			if miss := w.missed(); miss != "" {
				w.close()
				return miss + "\n  " + strings.Join(trace, "\n  "), len(seen)
			}
			if depth == len(path)-1 {
				if h := w.hash(); seen[h] {
					break
				} else {
					seen[h] = true
				}
			}
		}
		w.close()
		if len(path) == 0 {
			return "", len(seen)
		}
		path[len(path)-1]++
		if len(seen) > 3_000_000 {
			t.Fatal("too many states")
		}
	}
}

func (w *world) close() {
	for _, a := range w.actors {
		w.current = a
		a.stop()
	}
	w.current = nil
}

// must notes what can't be.
func (w *world) must(err error) {
	if err != nil && w.fault == "" {
		w.fault = err.Error()
	}
}

// member is a process of the world, that sees seat and board through others, if given.
func (w *world) member(id uint64, seat cluster.Seat, board cluster.Board) *cluster.Shared {
	if seat == nil {
		seat = &w.seat
	}
	if board == nil {
		board = &w.board
	}
	return cluster.NewShared(cluster.Options{
		Seats: map[catalog.ShardID]cluster.Seat{0: seat}, Board: board, Identity: cluster.Identity{ID: id},
		Patience: -1, Logger: slog.New(slog.DiscardHandler),
	})
}

var ctx = context.Background()

// write is a statement of a member that puts the key into a row. between is done with its
// registration open, adds says whether it knows the index.
func (w *world) write(s *cluster.Shared, thread uint32, adds func() bool, between func(), anyJoin bool) {
	r := s.Register(0)
	defer s.End(r)
	if adds() {
		w.step("add")
		w.entry = max(w.entry, r.Epoch)
	}
	between()
	w.seat.Connect(thread, "app", fmt.Sprint("h:", thread))
	join, err := s.NoteThread(ctx, 0, storage.Thread{ID: thread})
	if err != nil || join != r.Join && !anyJoin {
		return
	}
	w.step("send")
	if listed, killed := w.seat.Lists(thread); !listed || killed {
		return
	}
	w.seat.Busy(thread, true)
	w.step("commit")
	w.row = true
	w.seat.Busy(thread, false)
	w.step("answer")
}

func always() bool { return true }
func nothing()     {}

// scan removes the entry, if it may.
func (w *world) scan(s *cluster.Shared) {
	_, err := s.Advance(ctx, 0)
	w.must(err)
	h, err := s.Horizon(ctx, 0)
	w.must(err)
	w.step("snapshot")
	row := w.row
	_, err = s.Advance(ctx, 0)
	w.must(err)
	w.step("remove")
	if !row && w.entry < h {
		w.entry = 0
	}
}

// broken is a seat with a rule taken away.
type broken struct {
	cluster.Seat
	lateRow     bool // the row is inserted when it is told for the first time
	lateInsert  bool // the row is inserted behind the epoch's being read
	toldAdopted bool // what is told doesn't heed what is open
	looksFirst  bool // a note is written behind the look at the row
	noFence     bool
	noKill      bool
	noGone      bool
	fencedGone  bool // what fenced rows tell isn't heeded
	blind       func() bool

	who     cluster.Identity
	catalog uint64
	join    uint64
	pending bool
}

func (b *broken) Join(ctx context.Context, who cluster.Identity, version uint64) (uint64, error) {
	if b.lateRow || b.lateInsert {
		b.who, b.catalog, b.pending = who, version, true
		b.join += 1000
		return b.join, nil
	}
	return b.Seat.Join(ctx, who, version)
}

func (b *broken) insert(ctx context.Context) {
	b.pending = false
	b.join, _ = b.Seat.Join(ctx, b.who, b.catalog)
}

func (b *broken) Beat(ctx context.Context, join uint64) (cluster.Beat, error) {
	if b.pending {
		beat, err := b.Seat.Beat(ctx, 0)
		if b.lateInsert {
			b.insert(ctx)
		}
		beat.Here = true
		return beat, err
	}
	if b.lateRow || b.lateInsert {
		join = b.join
	}
	return b.Seat.Beat(ctx, join)
}

func (b *broken) Tell(ctx context.Context, join uint64, told cluster.Told) error {
	if b.lateRow || b.lateInsert {
		if b.pending {
			b.insert(ctx)
		}
		join = b.join
	}
	if b.toldAdopted {
		told.Epoch = told.Adopted
	}
	return b.Seat.Tell(ctx, join, told)
}

func (b *broken) Note(ctx context.Context, join uint64, thread uint32) (uint64, bool, error) {
	if b.lateRow || b.lateInsert {
		join = b.join
	}
	if b.looksFirst {
		beat, _ := b.Seat.Beat(ctx, join)
		n, _, err := b.Seat.Note(ctx, join, thread)
		return n, beat.Here, err
	}
	return b.Seat.Note(ctx, join, thread)
}

func (b *broken) SetFenced(ctx context.Context, join uint64) (bool, error) {
	if b.noFence {
		return true, nil
	}
	return b.Seat.SetFenced(ctx, join)
}

func (b *broken) Kill(ctx context.Context, threads ...cluster.Thread) error {
	if b.noKill {
		return nil
	}
	return b.Seat.Kill(ctx, threads...)
}

func (b *broken) Running(ctx context.Context, threads ...cluster.Thread) ([]cluster.Thread, error) {
	if b.noGone {
		return nil, nil
	}
	return b.Seat.Running(ctx, threads...)
}

func (b *broken) Remove(ctx context.Context, join uint64) error {
	if b.noFence {
		_, _ = b.Seat.SetFenced(ctx, join)
	}
	return b.Seat.Remove(ctx, join)
}

func (b *broken) Least(ctx context.Context) (storage.Epoch, error) {
	if !b.fencedGone {
		return b.Seat.Least(ctx)
	}
	e, rows, err := b.Seat.Rows(ctx)
	for _, r := range rows {
		if !r.Fenced {
			e = min(e, r.Epoch)
		}
	}
	return e, err
}

func (b *broken) Rows(ctx context.Context) (storage.Epoch, []cluster.Row, error) {
	e, rows, err := b.Seat.Rows(ctx)
	if b.blind != nil && b.blind() {
		rows = nil
	}
	return e, rows, err
}

// scenarios: a and b are the seats of the two members, nil for the world's own.
var scenarios = map[string]func(w *world, a, b *broken, anyJoin bool){
	"scan beside a write": func(w *world, a, b *broken, anyJoin bool) {
		one, two := w.pair(a, b)
		w.entry, w.ready = 1, true
		w.must(one.Beat(ctx, 0))
		w.must(two.Beat(ctx, 0))
		w.start("scan", func() { w.scan(one) })
		w.start("write", func() {
			w.write(two, 7, always, func() { w.must(two.Beat(ctx, 0)) }, anyJoin)
		})
	},
	"scan beside one who joins": func(w *world, a, b *broken, anyJoin bool) {
		one, two := w.pair(a, b)
		w.entry, w.ready = 1, true
		w.must(one.Beat(ctx, 0))
		w.start("scan", func() { w.scan(one) })
		w.start("write", func() {
			w.must(two.Beat(ctx, 0))
			w.write(two, 7, always, nothing, anyJoin)
		})
	},
	"fence, scan, write": func(w *world, a, b *broken, anyJoin bool) {
		one, two := w.pair(a, b)
		w.entry, w.ready = 1, true
		w.must(one.Beat(ctx, 0))
		w.must(two.Beat(ctx, 0))
		_, err := one.Advance(ctx, 0)
		w.must(err)
		w.start("fence", func() {
			w.must(one.Sweep(ctx, 0))
			w.scan(one)
		})
		w.start("write", func() { w.write(two, 7, always, nothing, anyJoin) })
	},
	"fence, scan, and one who joins anew": func(w *world, a, b *broken, anyJoin bool) {
		one, two := w.pair(a, b)
		w.entry, w.ready = 1, true
		w.must(one.Beat(ctx, 0))
		w.must(two.Beat(ctx, 0))
		_, err := one.Advance(ctx, 0)
		w.must(err)
		w.start("fence", func() {
			w.must(one.Sweep(ctx, 0))
			w.scan(one)
		})
		w.start("write", func() {
			w.write(two, 7, always, func() { w.must(two.Beat(ctx, 0)) }, anyJoin)
		})
	},
	"a new index beside one who joins": func(w *world, a, b *broken, anyJoin bool) {
		one, two := w.pair(a, b)
		version := uint64(0)
		two.Join(cluster.Member{Adopt: func(_ context.Context, v uint64) error {
			version = v
			return nil
		}})
		w.must(one.Beat(ctx, 0))
		w.start("build", func() { w.build(one) })
		w.start("write", func() {
			planned := version
			if two.Beat(ctx, 0) != nil {
				return
			}
			w.write(two, 7, func() bool { return version > 0 }, nothing, anyJoin || planned > version)
		})
	},
}

// build makes an index on the key: it is published, all go by it, what was registered before has
// ended, and then the rows are read.
func (w *world) build(s *cluster.Shared) {
	v, err := w.board.Write(ctx, 0, cluster.Record{Kind: "index"})
	w.must(err)
	once, cancel := context.WithCancel(ctx)
	cancel()
	for range 2 {
		if err = s.Adopted(once, v); err == nil {
			break
		}
	}
	if err != nil {
		return // it waits
	}
	began, err := s.Advance(ctx, 0)
	w.must(err)
	h, err := s.Horizon(ctx, 0)
	if err == nil && h < began {
		h, err = s.Horizon(ctx, 0)
	}
	if err != nil || h < began {
		return // it waits
	}
	w.step("snapshot")
	if w.row {
		w.entry = 1 << 20
	}
	w.step("finish")
	w.ready = true
}

// followed is a member that hears of a new index while it writes. late: its Adopt returns
// before statements are planned by the new version; unchecked: a statement doesn't look at the
// version again when it is registered.
func (w *world) followed(late, unchecked bool) {
	one, two := w.pair(nil, nil)
	version, coming := uint64(0), uint64(0)
	two.Join(cluster.Member{Adopt: func(_ context.Context, v uint64) error {
		if coming = v; !late {
			version = v
		}
		w.step("adopts")
		return nil
	}})
	w.must(one.Beat(ctx, 0))
	w.must(two.Beat(ctx, 0))
	w.start("build", func() { w.build(one) })
	w.start("follow", func() {
		for range 2 {
			w.must(two.Follow(ctx))
			w.must(two.Beat(ctx, 0))
		}
		w.step("plans by it")
		version = coming
	})
	w.start("write", func() {
		w.step("plans")
		planned := version
		w.note(fmt.Sprint(planned))
		w.step("registers")
		w.write(two, 7, func() bool { return planned > 0 }, func() {
			w.note(fmt.Sprint(version))
			if version != planned && !unchecked {
				panic(ended{})
			}
		}, false)
	})
}

// pair makes two members.
func (w *world) pair(a, b *broken) (one, two *cluster.Shared) {
	seat := func(x *broken) cluster.Seat {
		if x == nil {
			return nil
		}
		c := *x
		c.Seat = &w.seat
		return &c
	}
	return w.member(1, seat(a), nil), w.member(2, seat(b), nil)
}

// TestNoMiss visits all interleavings of each scenario.
func TestNoMiss(t *testing.T) {
	t.Parallel()
	for name, play := range scenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			miss, states := explore(t, func(w *world) { play(w, nil, nil, false) })
			t.Logf("%d states", states)
			if miss != "" {
				t.Error(miss)
			}
		})
	}
}

// TestNewIndex: a member that serves hears of an index before it is read.
func TestNewIndex(t *testing.T) {
	t.Parallel()
	miss, states := explore(t, func(w *world) { w.followed(false, false) })
	if t.Logf("%d states", states); miss != "" {
		t.Error(miss)
	}
	for rule, play := range map[string]func(*world){
		"what is told is gone by":                     func(w *world) { w.followed(true, false) },
		"the version is looked at behind registering": func(w *world) { w.followed(false, true) },
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			miss, states := explore(t, play)
			if !strings.HasPrefix(miss, "a read misses") {
				t.Fatalf("without the rule %d states have no miss: %s", states, miss)
			}
			t.Log(miss)
		})
	}
}

// TestTeeth: each rule that is taken away makes a read miss a row.
func TestTeeth(t *testing.T) {
	t.Parallel()
	for _, tooth := range []struct {
		rule, scenario string
		a, b           *broken
		anyJoin        bool
	}{
		{rule: "told heeds what is open", scenario: "scan beside a write", b: &broken{toldAdopted: true}},
		{rule: "a row is inserted before the epoch is read", scenario: "scan beside one who joins", b: &broken{lateInsert: true}},
		{rule: "what is shared is read behind the row", scenario: "a new index beside one who joins", b: &broken{lateRow: true}},
		{rule: "a note is written before the look", scenario: "fence, scan, write", b: &broken{looksFirst: true}},
		{rule: "a row is fenced before its notes are read", scenario: "fence, scan, write", a: &broken{noFence: true}},
		{rule: "threads are killed", scenario: "fence, scan, write", a: &broken{noKill: true, noGone: true}},
		{rule: "threads are gone", scenario: "fence, scan, write", a: &broken{noGone: true}},
		{rule: "what fenced rows tell counts", scenario: "fence, scan, write", a: &broken{fencedGone: true}},
		{rule: "a statement keeps to its join", scenario: "fence, scan, and one who joins anew", anyJoin: true},
	} {
		t.Run(tooth.rule, func(t *testing.T) {
			t.Parallel()
			miss, states := explore(t, func(w *world) { scenarios[tooth.scenario](w, tooth.a, tooth.b, tooth.anyJoin) })
			if !strings.HasPrefix(miss, "a read misses") {
				t.Fatalf("without the rule %d states have no miss: %s", states, miss)
			}
			t.Log(miss)
		})
	}
}

// turnBoard is a board with a rule of turns taken away.
type turnBoard struct {
	cluster.Board
	own string // taken for the holder, whoever it is; "": asked
}

func (b turnBoard) Holder(ctx context.Context, name string) (string, error) {
	if b.own != "" {
		return b.own, nil
	}
	return b.Board.Holder(ctx, name)
}

// altered is the table of turns.
var altered = catalog.TableName{Schema: "s", Name: "t"}

// turns: the first has the turn of DDL, is fenced, joins anew and alters a table; the second
// takes the turn over, and does.
//
// byTable: the first has the turn of the table, and none of DDL any more.
func turns(w *world, byTable bool, b *broken, board func(cluster.Board, string) cluster.Board) {
	var first *cluster.Shared
	if board != nil {
		first = w.member(1, nil, board(&w.board, w.member(1, nil, nil).Self()))
	} else {
		first = w.member(1, nil, nil)
	}
	var seat cluster.Seat
	if b != nil {
		c := *b
		c.Seat = &w.seat
		if b.blind != nil { // once it has put itself in the other's place
			c.blind = func() bool { return strings.Contains(w.board.String(), "<") }
		}
		seat = &c
	}
	second := w.member(2, seat, nil)
	w.must(first.Beat(ctx, 0))
	w.must(second.Beat(ctx, 0))
	w.must(first.TakeTurn(ctx))
	kept := first.TurnKept
	if byTable {
		var err error
		kept, _, err = first.TakeTables(ctx, altered)
		w.must(err)
		first.GiveTurn()
		w.must(first.Follow(ctx))
	}
	_, err := second.Advance(ctx, 0)
	w.must(err)
	once, cancel := context.WithCancel(ctx)
	cancel()
	alter := func(s *cluster.Shared, kept func() error, thread uint32) {
		r := s.Register(0)
		defer s.End(r)
		w.seat.Connect(thread, "app", fmt.Sprint("h:", thread))
		if join, err := s.NoteThread(ctx, 0, storage.Thread{ID: thread}); err != nil || join != r.Join || kept() != nil {
			return
		}
		w.step("send")
		if listed, _ := w.seat.Lists(thread); !listed {
			return
		}
		w.seat.Busy(thread, true)
		w.alters++
		if w.alters > 1 {
			w.fault = "two alter a table"
		}
		w.step("altered")
		w.alters--
		w.seat.Busy(thread, false)
	}
	w.start("first", func() {
		if first.Beat(ctx, 0) == nil {
			alter(first, kept, 7)
		}
	})
	w.start("second", func() {
		for range 2 {
			w.must(second.Sweep(ctx, 0))
			if second.TakeTurn(once) != nil {
				continue
			}
			if holder, err := second.TablesHeld(ctx, catalog.Scope{Tables: []catalog.TableName{altered}}); err != nil || holder != "" {
				second.GiveTurn()
				continue
			}
			alter(second, second.TurnKept, 8)
			return
		}
	})
}

// TestOneAlters: one at a time has a turn, though its former holder lives.
func TestOneAlters(t *testing.T) {
	t.Parallel()
	for _, byTable := range []bool{false, true} {
		t.Run(fmt.Sprint("by table ", byTable), func(t *testing.T) {
			t.Parallel()
			fault, states := explore(t, func(w *world) { turns(w, byTable, nil, nil) })
			t.Logf("%d states", states)
			if fault != "" {
				t.Error(fault)
			}
			for rule, play := range map[string]func(*world){
				"one who joins anew looks whose turn it is": func(w *world) {
					turns(w, byTable, nil, func(b cluster.Board, own string) cluster.Board { return turnBoard{b, own} })
				},
				"one who takes over looks for rows once more": func(w *world) {
					turns(w, byTable, &broken{blind: func() bool { return true }}, nil)
				},
			} {
				t.Run(rule, func(t *testing.T) {
					t.Parallel()
					fault, states := explore(t, play)
					if !strings.HasPrefix(fault, "two alter") {
						t.Fatalf("without the rule nothing is wrong in %d states: %s", states, fault)
					}
					t.Log(fault)
				})
			}
		})
	}
}
