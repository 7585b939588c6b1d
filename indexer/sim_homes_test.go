package indexer

import (
	"errors"
	"fmt"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// homes is what the records say of where the index is, by the numbers of two stores: it is read on
// one and added to on those three. none: nowhere.
type homes struct{ home, target, former int }

const none = -1

// twoHomes are a store on two servers, as one process sees it: package shared is one.
type twoHomes struct {
	*modelStore // the first, which has the records
	w           *world
	// by are the records that the process goes by.
	by homes
}

// stores are the world's, by number.
func (w *world) stores() []*modelStore { return []*modelStore{w.store, w.far} }

// apart has the world's store on two servers.
func (w *world) apart() {
	empty := image{gens: map[int]map[string]storage.Epoch{}, next: 1 << 16, defined: true}
	w.far = &modelStore{w: w, now: empty, disk: empty.clone()}
	w.homes = homes{0, none, none}
	if w.sc.refused {
		w.homes.home, w.unread = none, true
		w.store.now.defined, w.store.now.status = true, catalog.Building
	}
}

// sees is the store as a new process sees it.
func (w *world) sees() Store {
	if !w.sc.homes {
		return w.store
	}
	return &twoHomes{modelStore: w.store, w: w, by: w.homes}
}

// adopt has a process go by the newest records.
func (w *world) adopt(p *process) {
	if s, ok := p.x.store.(*twoHomes); ok {
		s.by = w.homes
	}
}

func (s *twoHomes) reads() *modelStore { return s.w.stores()[max(0, s.by.home)] }

// each calls fn with all stores that are added to.
func (s *twoHomes) each(fn func(*modelStore) error) error {
	s.w.note(fmt.Sprint(s.by))
	for _, n := range []int{s.by.home, s.by.target, s.by.former} {
		if n == none {
			continue
		}
		if err := fn(s.w.stores()[n]); err != nil {
			return err
		}
	}
	return nil
}

func (s *twoHomes) Add(entries []storage.Entry) error {
	return s.each(func(m *modelStore) error {
		if s.w.sc.refused && s.refuses() {
			return nil
		}
		return m.Add(entries)
	})
}

// refuses: a write is refused, whereupon the index isn't added to any more.
func (s *twoHomes) refuses() (forsaken bool) {
	s.w.choose("refused?", nil, 2, func(choice int) string {
		if choice == 0 || s.w.homes.home == none || !s.w.unread && !s.w.broken.shared.anyUnread {
			forsaken = choice == 1 && s.w.homes.home == none
			return fmt.Sprint("taken in the end; or by nobody: ", forsaken)
		}
		s.w.homes = homes{none, none, none}
		s.by, forsaken = s.w.homes, true
		return "given up"
	})
	return forsaken
}

func (s *twoHomes) Mark(marks []storage.Mark) error {
	return s.each(func(m *modelStore) error { return m.Mark(marks) })
}

func (s *twoHomes) Clear(id catalog.IndexID, shard catalog.ShardID, before storage.Epoch) (cleared int, err error) {
	err = s.each(func(m *modelStore) error {
		n, err := m.Clear(id, shard, before)
		cleared = max(cleared, n)
		return err
	})
	return cleared, err
}

func (s *twoHomes) Unlog(id catalog.IndexID, shard catalog.ShardID) (had bool, err error) {
	err = s.each(func(m *modelStore) error {
		some, err := m.Unlog(id, shard)
		had = had || some
		return err
	})
	return had, err
}

func (s *twoHomes) Lookup(id catalog.IndexID, key []byte, components [][]byte) (storage.Found, error) {
	if s.by.home == none || s.reads().now.read == 0 {
		return storage.Found{}, storage.ErrNoIndex
	}
	return s.reads().Lookup(id, key, components)
}

func (s *twoHomes) Removals() uint64 { return s.store(0).removals<<32 + s.store(1).removals }

func (s *twoHomes) store(n int) *modelStore { return s.w.stores()[n] }

func (s *twoHomes) Entries(id catalog.IndexID, from []byte, building bool, fn func([]byte, []storage.ShardEpoch) bool) error {
	s.w.note(fmt.Sprint(s.by))
	return s.reads().Entries(id, from, building, fn)
}

func (s *twoHomes) EntriesOf(id catalog.IndexID, shard catalog.ShardID, from []byte, fn func([]byte) bool) error {
	s.w.note(fmt.Sprint(s.by))
	return s.reads().EntriesOf(id, shard, from, fn)
}

func (s *twoHomes) OpenGate(id catalog.IndexID, shard catalog.ShardID, e storage.Epoch) (storage.Gate, error) {
	n := s.by.home
	s.w.note(fmt.Sprint(s.by))
	g, err := s.reads().OpenGate(id, shard, e)
	g.Home = fmt.Sprint(n)
	return g, err
}

func (s *twoHomes) Retire(r storage.Retirement) (removed, cleared int, err error) {
	s.w.note(fmt.Sprint(s.by))
	if r.Gate.Home != fmt.Sprint(s.by.home) {
		return 0, 0, storage.ErrSuperseded
	}
	return s.reads().Retire(r)
}

func (s *twoHomes) Marks(id catalog.IndexID) []storage.Mark {
	s.w.note(fmt.Sprint(s.by))
	return s.reads().Marks(id)
}

func (s *twoHomes) AllMarks() []storage.Mark { return s.Marks(1) }

func (s *twoHomes) Index(id catalog.IndexID) (storage.IndexRecord, bool) {
	d, ok := s.modelStore.Index(id)
	at := s.reads().now
	d.Readable, d.ReadGeneration, d.HasBuild, d.BuildGeneration = at.read != 0, uint32(at.read), at.build != 0, uint32(at.build)
	if s.by.target != none {
		d.Target, d.HasBuild, d.BuildGeneration = "target", true, uint32(s.store(s.by.target).newest())
	}
	if s.by.former != none {
		d.Former = "former"
	}
	s.w.note(fmt.Sprint(s.by, d.HasBuild, d.BuildGeneration))
	return d, ok
}

func (s *twoHomes) Indexes() []storage.IndexRecord {
	d, _ := s.Index(1)
	return []storage.IndexRecord{d}
}

// record changes the records, by which this process goes at once.
func (s *twoHomes) record(to homes) {
	s.w.step("writes the record", func() string {
		s.w.homes, s.by = to, to
		return fmt.Sprint(to)
	})
}

func (s *twoHomes) Move(_ catalog.IndexID, _ string, forsake bool) error {
	to := homes{s.by.home, 1 - s.by.home, none}
	if forsake {
		to = homes{1, none, none}
	}
	if err := s.store(max(to.home, to.target)).StartBuild(1, 0); err != nil {
		return err
	}
	s.record(to)
	return nil
}

func (s *twoHomes) FinishBuild(id catalog.IndexID, generation uint32, floors map[catalog.ShardID]storage.Epoch) error {
	if s.w.sc.refused {
		return s.finishUnread(id, generation, floors)
	}
	if s.by.target == none {
		return s.reads().FinishBuild(id, generation, floors)
	}
	if err := s.store(s.by.target).FinishBuild(id, generation, floors); err != nil {
		return err
	}
	to := homes{s.by.target, none, s.by.home}
	if s.w.broken.shared.noFormer {
		to.former = none
	}
	s.record(to)
	return nil
}

// finishUnread finishes the build of an index that nobody reads, unless it was given up.
func (s *twoHomes) finishUnread(id catalog.IndexID, generation uint32, floors map[catalog.ShardID]storage.Epoch) (err error) {
	if err := s.reads().FinishBuild(id, generation, floors); err != nil {
		return err
	}
	s.w.step("writes the record, unless it was given up", func() string {
		if s.w.homes.home == none {
			err = storage.ErrSuperseded
		} else {
			s.w.unread, s.w.store.now.status = false, catalog.Ready
		}
		return fmt.Sprint(err)
	})
	return err
}

// EndMove leaves what the former home has where it is: its server is away, and answers others.
func (s *twoHomes) EndMove(catalog.IndexID) error {
	if s.by.former != none {
		s.record(homes{s.by.home, none, none})
	}
	return nil
}

func (s *twoHomes) Forsake(catalog.IndexID) error {
	s.record(homes{none, none, none})
	return nil
}

// forsaker has the index be nowhere, as where its server is away for long.
func (w *world) forsaker() {
	p := w.proc
	w.start("forsake", true, func() {
		w.must(p.x.unread(w.ctx(), w.store.def()))
		w.must(p.x.store.Forsake(1))
	})
}

// mover moves the index to the other server.
func (w *world) mover() {
	p := w.proc
	w.start("move", true, func() {
		w.must(p.x.store.Move(1, "", false))
		w.must(p.x.opts.Publish(w.ctx()))
		w.resume(p)
		w.must(p.x.endMove(w.ctx(), 1))
	})
}

// placer builds an index that was given up.
func (w *world) placer() {
	p := w.proc
	w.start("place", true, func() {
		w.must(p.x.store.Move(1, "", true))
		w.must(p.x.opts.Publish(w.ctx()))
		if err := w.tryResume(p); !errors.Is(err, storage.ErrSuperseded) {
			w.must(err)
		}
	})
}

// homesScenarios are those of an index that moves from one server to another.
var homesScenarios = []scenario{
	{name: "a move beside the other's writer", homes: true, rows: rows{1: "a"}, indexed: true, members: both, joined: 2, actors: func(w *world) {
		w.at("A").coarse = true
		w.autocommit("w1", set(1, "b"))
		w.lives()
		w.at("B").coarse = true
		w.mover()
	}},
	{name: "a move beside its own writer", homes: true, rows: rows{1: "a"}, indexed: true, members: both, joined: 2, actors: func(w *world) {
		w.at("A").coarse = true
		w.lives()
		w.at("B").coarse = true
		w.autocommit("w1", set(1, "b"))
		w.mover()
	}},
	{name: "a move beside a writer that computes", homes: true, rows: rows{1: "a"}, indexed: true, members: both, joined: 2, actors: func(w *world) {
		w.at("A").coarse, w.at("A").lazy = true, true
		w.autocommit("w1", compute(1, "b"))
		w.lives()
		w.at("B").coarse, w.at("B").lazy = true, true
		w.mover()
	}},
	{name: "a move beside a reader", homes: true, rows: rows{1: "a"}, indexed: true, members: both, joined: 2, actors: func(w *world) {
		w.at("A").coarse, w.at("A").lazy = true, true
		w.reader("r")
		w.autocommit("w1", set(1, "b"))
		w.lives()
		w.at("B").coarse, w.at("B").lazy = true, true
		w.mover()
	}},
	{name: "a move beside a scan", homes: true, rows: rows{1: "a"}, indexed: true, stale: "b", members: both, joined: 2, actors: func(w *world) {
		w.at("A").coarse, w.at("A").lazy = true, true
		w.scanner(1)
		w.lives()
		w.at("B").coarse, w.at("B").lazy = true, true
		w.mover()
	}},
	{name: "a server that is given up", homes: true, rows: rows{1: "a"}, indexed: true, members: both, joined: 2, actors: func(w *world) {
		w.at("A").coarse = true
		w.autocommit("w1", set(1, "b"))
		w.lives()
		w.at("B").coarse = true
		w.autocommit("w2", insert(2, "c"))
		w.forsaker()
	}},
	{name: "a server that refuses what is built there", homes: true, refused: true, rows: rows{1: "a"}, members: both, joined: 2, actors: func(w *world) {
		w.at("A").coarse = true
		w.autocommit("w1", set(1, "b"))
		w.lives()
		w.at("B").coarse = true
		w.autocommit("w2", insert(2, "c"))
		w.placer()
	}},
}

// TestHomes: an index that moves to another server is kept up on both until all read the new one.
func TestHomes(t *testing.T) { exploreAll(t, homesScenarios) }

// TestHomesTeeth: each rule of a move that is dropped makes some read miss a row.
func TestHomesTeeth(t *testing.T) {
	findTeeth(t, homesScenarios, []tooth{
		{"a move waits until all add to both servers", rules{shared: sharedRules{noBarrier: true}}, "a move beside the other's writer"},
		{"a move waits until all add to both servers (marks)", rules{shared: sharedRules{noBarrier: true}}, "a move beside a writer that computes"},
		{"a move waits for what has added to one server", rules{buildNoWait: true}, "a move beside the other's writer"},
		{"the former server is added to until all read the other", rules{shared: sharedRules{noFormer: true}}, "a move beside its own writer"},
		{"a server is added to until nobody reads there", rules{shared: sharedRules{noBarrier: true}}, "a server that is given up"},
		{"only what nobody reads is given up without a barrier", rules{shared: sharedRules{anyUnread: true}}, "a server that refuses what is built there"},
		{"a move's floor tells older snapshots", rules{buildNoFloor: true}, "a move beside a reader"},
	})
}
