package storage

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// index is the memory side of one virtual index.
type index struct {
	id catalog.IndexID
	// def and view change together under Store.change; each is immutable.
	def  atomic.Pointer[IndexRecord]
	view atomic.Pointer[view]

	marks atomic.Pointer[markSet]
	// markedSince is when the first of marks came where there was none, in Unix nanoseconds.
	markedSince atomic.Int64
	limits      limits
	// markMu serialises changes of marks. dropped is set under it: nothing may
	// be written for the index any more.
	markMu  sync.Mutex
	dropped bool
}

// view is the set of an index's live generations at one moment. Readers load
// it before they take a snapshot of the database and compare after: if it is
// still the same, the read generation was live (complete, nothing deleted) at
// the snapshot. Writers compare after their write: if it is still the same,
// they wrote to all generations that were live when they returned.
type view struct {
	read, build, move *generation
	// all are those three that are not nil.
	all []*generation
}

func newView(read, build, move *generation) *view {
	v := &view{read: read, build: build, move: move}
	for _, g := range []*generation{read, build, move} {
		if g != nil {
			v.all = append(v.all, g)
		}
	}
	return v
}

// counted is the generation whose entries are the index's.
func (v *view) counted() *generation {
	if v.read != nil {
		return v.read
	}
	return v.build
}

// definition is an index's record.
type definition struct {
	IndexRecord
	Read  *genRef `json:"read,omitempty"`
	Build *genRef `json:"build,omitempty"`
	Move  *genRef `json:"move,omitempty"`
}

func (s *Store) loadIndexes(counts map[uint32][]int64) (uncounted []*generation, err error) {
	indexes := map[catalog.IndexID]*index{}
	var moves []definition
	err = s.scan([]byte{kindIndex}, func(_, val []byte) (bool, error) {
		var d definition
		if err := json.Unmarshal(val, &d); err != nil {
			return false, err
		}
		if d.Move != nil {
			moves = append(moves, d)
		}
		live := func(ref *genRef) *generation {
			if ref == nil {
				return nil
			}
			c, ok := counts[ref.ID]
			g := s.newGeneration(*ref, c, ok)
			if !ok {
				uncounted = append(uncounted, g)
			}
			return g
		}
		ix := &index{id: d.ID}
		s.publish(ix, d.IndexRecord, newView(live(d.Read), live(d.Build), nil))
		indexes[d.ID] = ix
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	for _, c := range []struct {
		name string
		set  func(uint64)
	}{
		{counterIndex, func(n uint64) { s.nextIndex = catalog.IndexID(n) }},
		{counterGeneration, func(n uint64) { s.nextGeneration = uint32(n) }},
	} {
		val, err := s.get(counterKey(c.name))
		if err != nil {
			return nil, err
		}
		n, _ := binary.Uvarint(val)
		c.set(max(n, 1))
	}
	s.indexes.Store(&indexes)
	// A Repartition does not outlive its process: its half-made generation is
	// garbage. The garbage list is loaded after this.
	for _, d := range moves {
		move := d.Move
		d.Move = nil
		err := s.update(func(w *changes) error {
			if err := w.set(garbageKey(move.ID), nil); err != nil {
				return err
			}
			return setJSON(w, indexKey(d.ID), d)
		})
		if err != nil {
			return nil, err
		}
	}
	return uncounted, s.loadMarks(indexes)
}

// publish makes def and v the index's. Callers hold s.change.
func (s *Store) publish(ix *index, def IndexRecord, v *view) {
	def.Readable, def.HasBuild, def.Moving = v.read != nil, v.build != nil, v.move != nil
	def.ReadGeneration, def.BuildGeneration = 0, 0
	if v.read != nil {
		def.ReadGeneration = v.read.id
	}
	if v.build != nil {
		def.BuildGeneration = v.build.id
	}
	if g := v.counted(); g != nil {
		def.Partitions = len(g.parts)
	}
	ix.def.Store(&def)
	ix.view.Store(v)
}

// pair is the index's table on a shard.
func (ix *index) pair(shard catalog.ShardID) Pair {
	d := ix.def.Load()
	return Pair{d.Schema, d.Table, shard}
}

func (s *Store) find(id catalog.IndexID) *index { return (*s.indexes.Load())[id] }

func cloneDef(d *IndexRecord) IndexRecord {
	c := *d
	c.Columns = slices.Clone(d.Columns)
	return c
}

// Index returns an index's definition.
func (s *Store) Index(id catalog.IndexID) (IndexRecord, bool) {
	ix := (*s.indexes.Load())[id]
	if ix == nil {
		return IndexRecord{}, false
	}
	return cloneDef(ix.def.Load()), true
}

// Indexes returns all definitions by rising ID.
func (s *Store) Indexes() []IndexRecord {
	var defs []IndexRecord
	for _, ix := range *s.indexes.Load() {
		defs = append(defs, cloneDef(ix.def.Load()))
	}
	slices.SortFunc(defs, func(a, b IndexRecord) int { return cmp.Compare(a.ID, b.ID) })
	return defs
}

// changeDef commits and publishes a new definition and view of an index, and
// queues the generations that are no longer live. extra joins the
// transaction. Callers hold s.change.
//
// The order is what readers and writers rely on: first the record, then the
// view, then the old writers are stopped (who still writes there learns it),
// then the old generations may be deleted.
//
// A power loss may take earlier commits and spare later ones (see syncDir), so
// the contents of a generation are synced before the record that makes it
// readable, and that record before anything of the old one is deleted.
func (s *Store) changeDef(ix *index, def IndexRecord, v *view, extra func(w *changes) error) error {
	old := ix.view.Load()
	if old == nil {
		old = newView(nil, nil, nil)
	}
	var retired []*generation
	for _, g := range old.all {
		if !slices.Contains(v.all, g) {
			retired = append(retired, g)
		}
	}
	if v.read != old.read {
		if err := s.sync(); err != nil {
			return err
		}
	}
	err := s.update(func(w *changes) error {
		for _, g := range retired {
			if err := w.set(garbageKey(g.id), nil); err != nil {
				return err
			}
		}
		if extra != nil {
			if err := extra(w); err != nil {
				return err
			}
		}
		return setJSON(w, indexKey(ix.id), definition{def, v.read.ref(), v.build.ref(), v.move.ref()})
	})
	if err != nil {
		return err
	}
	s.publish(ix, def, v)
	return s.retire(retired)
}

// retire stops the writers of generations that are no longer live, makes the
// record that says so survive a power loss, and lets them be deleted.
func (s *Store) retire(gens []*generation) error {
	for _, g := range gens {
		g.close()
	}
	if err := s.redefined(); err != nil {
		return err
	}
	for _, g := range gens {
		s.garbage.add(g.id)
	}
	return nil
}

// openGeneration takes a number for a new generation; set keeps it in a
// transaction.
func (s *Store) openGeneration(partitions int) (g *generation, set func(w *changes) error) {
	g = s.newGeneration(genRef{s.nextGeneration, partitions}, nil, true)
	// A number is burnt even if the transaction fails.
	s.nextGeneration++
	next := uint64(s.nextGeneration)
	return g, func(w *changes) error {
		return w.set(counterKey(counterGeneration), binary.AppendUvarint(nil, next))
	}
}

func checkPartitions(n int) (int, error) {
	if n == 0 {
		n = 1
	}
	if n < 1 || n > catalog.MaxPartitions {
		return 0, fmt.Errorf("%d partitions: must be 1 to %d", n, catalog.MaxPartitions)
	}
	return n, nil
}

// CreateIndex defines an index with a building generation and none to read.
// It sets ID, and Status to building unless given. ErrIndexExists where the
// table has an index of this name.
func (s *Store) CreateIndex(defined catalog.IndexDef) (IndexRecord, error) {
	def := IndexRecord{IndexDef: defined, Created: s.opt.Now()}
	if def.Home != "" {
		return IndexRecord{}, fmt.Errorf("create virtual index %s: %w", def.Name, ErrNoHomes)
	}
	if !s.gate.enter() {
		return IndexRecord{}, ErrClosed
	}
	defer s.gate.leave()
	s.change.Lock()
	defer s.change.Unlock()
	if err := s.space.writable(); err != nil {
		return IndexRecord{}, err
	}
	var err error
	if def.Partitions, err = checkPartitions(def.Partitions); err != nil {
		return IndexRecord{}, fmt.Errorf("create virtual index %s: %w", def.Name, err)
	}
	if s.exists(def, 0) {
		return IndexRecord{}, fmt.Errorf("create virtual index %s on %s.%s: %w", def.Name, def.Schema, def.Table, ErrIndexExists)
	}
	def = cloneDef(&def)
	def.ID = s.nextIndex
	s.nextIndex++
	if def.Status == "" {
		def.Status = catalog.Building
	}
	def.Unbegun = def.Status == catalog.Building
	next := uint64(s.nextIndex)
	g, setGeneration := s.openGeneration(def.Partitions)
	ix := &index{id: def.ID}
	err = s.changeDef(ix, def, newView(nil, g, nil), func(w *changes) error {
		if err := setGeneration(w); err != nil {
			return err
		}
		return w.set(counterKey(counterIndex), binary.AppendUvarint(nil, next))
	})
	if err != nil {
		return IndexRecord{}, fmt.Errorf("create virtual index %s: %w", def.Name, err)
	}
	indexes := maps.Clone(*s.indexes.Load())
	indexes[ix.id] = ix
	s.indexes.Store(&indexes)
	return cloneDef(ix.def.Load()), nil
}

func (s *Store) exists(def IndexRecord, but catalog.IndexID) bool {
	for id, ix := range *s.indexes.Load() {
		d := ix.def.Load()
		if id != but && d.Schema == def.Schema && d.Table == def.Table && d.Name == def.Name {
			return true
		}
	}
	return false
}

// lockIndex enters the store and takes s.change for a change of an index.
func (s *Store) lockIndex(id catalog.IndexID) (ix *index, unlock func(), err error) {
	if !s.gate.enter() {
		return nil, nil, ErrClosed
	}
	s.change.Lock()
	unlock = func() {
		s.change.Unlock()
		s.gate.leave()
	}
	if ix = s.find(id); ix == nil {
		unlock()
		return nil, nil, fmt.Errorf("virtual index %d: %w", id, ErrNoIndex)
	}
	return ix, unlock, nil
}

// UpdateIndex changes an index's definition: anything but ID, table, Partitions and
// what the generations say. fn must not call the Store.
func (s *Store) UpdateIndex(id catalog.IndexID, fn func(*IndexRecord)) error {
	ix, unlock, err := s.lockIndex(id)
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.space.writable(); err != nil {
		return err
	}
	old := ix.def.Load()
	def := cloneDef(old)
	fn(&def)
	def.ID, def.Schema, def.Table, def.Partitions = old.ID, old.Schema, old.Table, old.Partitions
	if s.exists(def, id) {
		return fmt.Errorf("update virtual index %s: %w", def.Name, ErrIndexExists)
	}
	if err := s.changeDef(ix, cloneDef(&def), ix.view.Load(), nil); err != nil {
		return fmt.Errorf("update virtual index %s: %w", def.Name, err)
	}
	return nil
}

// MoveIndexes gives indexes to other tables, all at once: tables may exchange their
// names. Write-intents of the old names are set for the new ones too.
func (s *Store) MoveIndexes(to map[catalog.IndexID]catalog.TableName) error {
	if !s.gate.enter() {
		return ErrClosed
	}
	defer s.gate.leave()
	s.change.Lock()
	defer s.change.Unlock()
	if err := s.space.writable(); err != nil {
		return err
	}
	type name struct{ schema, table, index string }
	taken := map[name]bool{}
	moved := map[*index]IndexRecord{}
	for id, ix := range *s.indexes.Load() {
		def := cloneDef(ix.def.Load())
		if t, ok := to[id]; ok {
			if err := s.intents.rename(s, Pair{Schema: def.Schema, Table: def.Table}, Pair{Schema: t.Schema, Table: t.Name}); err != nil {
				return fmt.Errorf("move virtual index %s: %w", def.Name, err)
			}
			def.Schema, def.Table = t.Schema, t.Name
			moved[ix] = def
		}
		n := name{def.Schema, def.Table, def.Name}
		if taken[n] {
			return fmt.Errorf("move virtual index %s to %s.%s: %w", def.Name, def.Schema, def.Table, ErrIndexExists)
		}
		taken[n] = true
	}
	err := s.update(func(w *changes) error {
		for ix, def := range moved {
			v := ix.view.Load()
			if err := setJSON(w, indexKey(ix.id), definition{def, v.read.ref(), v.build.ref(), v.move.ref()}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("move virtual indexes: %w", err)
	}
	for ix, def := range moved {
		s.publish(ix, def, ix.view.Load())
	}
	return s.redefined()
}

// redefined makes a change of definitions survive a power loss. An earlier state of the
// store doesn't know of it: it may take for ready what has been dropped, and written past,
// since.
func (s *Store) redefined() error {
	s.defined.Store(s.opt.Now().UnixNano())
	return s.serial.jump(s)
}

// StartBuild opens an empty building generation, dropping an unfinished build
// or Repartition. partitions 0 keeps the number. Reads stay on the readable
// generation if there is one; Add writes to both from now on.
//
// REQUIRES: of the statements and transactions whose Add returned before
// StartBuild did, the new generation has nothing. The scans that fill it must
// open their snapshots after those have ended, or the caller marks the shards
// on which some are still open.
func (s *Store) StartBuild(id catalog.IndexID, partitions int) error {
	ix, unlock, err := s.lockIndex(id)
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.space.writable(); err != nil {
		return err
	}
	def := cloneDef(ix.def.Load())
	if partitions == 0 {
		partitions = def.Partitions
	}
	if partitions, err = checkPartitions(partitions); err != nil {
		return fmt.Errorf("build virtual index %s: %w", def.Name, err)
	}
	g, set := s.openGeneration(partitions)
	if err := s.changeDef(ix, def, newView(ix.view.Load().read, g, nil), set); err != nil {
		return fmt.Errorf("build virtual index %s: %w", def.Name, err)
	}
	return nil
}

// FinishBuild makes the building generation the readable one and queues the
// old one. Status building or failed turns ready, Error is cleared, LastScan
// is now; Status disabled stays. generation is what the caller has filled:
// ErrSuperseded if another one is being built by now. floors are the epochs that began
// when the snapshots were open that it was filled from.
func (s *Store) FinishBuild(id catalog.IndexID, generation uint32, floors map[catalog.ShardID]Epoch) error {
	ix, unlock, err := s.lockIndex(id)
	if err != nil {
		return err
	}
	defer unlock()
	def, v := cloneDef(ix.def.Load()), ix.view.Load()
	switch {
	case v.build == nil:
		return fmt.Errorf("finish build of virtual index %s: %w", def.Name, ErrNotBuilding)
	case v.build.id != generation:
		return fmt.Errorf("finish build of virtual index %s: %w", def.Name, ErrSuperseded)
	}
	if err := s.space.writable(); err != nil {
		return err
	}
	if def.Status != catalog.Disabled {
		def.Status = catalog.Ready
	}
	def.Error, def.LastScan = "", s.opt.Now()
	for shard, e := range floors {
		raise(&ix.limits.floors[shard], e)
	}
	s.removals.Add(1)
	if err := s.changeDef(ix, def, newView(v.build, nil, nil), nil); err != nil {
		return fmt.Errorf("finish build of virtual index %s: %w", def.Name, err)
	}
	return nil
}

// DropIndex removes the definition and the marks at once and queues the
// generations. Add, Mark and Retire of the index do nothing from
// then on. Dropping an unknown index is ErrNoIndex.
func (s *Store) DropIndex(id catalog.IndexID) error {
	ix, unlock, err := s.lockIndex(id)
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.space.reclaimable(); err != nil {
		return err
	}
	// Marks are written under markMu, so none comes after the drop.
	ix.markMu.Lock()
	defer ix.markMu.Unlock()
	v := ix.view.Load()
	err = s.update(func(w *changes) error {
		for _, g := range v.all {
			if err := w.set(garbageKey(g.id), nil); err != nil {
				return err
			}
		}
		for shard := range ix.marks.Load().shards().All {
			if err := w.delete(markKey(id, shard)); err != nil {
				return err
			}
		}
		return w.delete(indexKey(id))
	})
	if err != nil {
		return fmt.Errorf("drop virtual index %s: %w", ix.def.Load().Name, err)
	}
	ix.dropped = true
	indexes := maps.Clone(*s.indexes.Load())
	delete(indexes, id)
	s.indexes.Store(&indexes)
	ix.view.Store(newView(nil, nil, nil))
	ix.marks.Store(nil)
	if err := s.retire(v.all); err != nil {
		return fmt.Errorf("drop virtual index %s: %w", ix.def.Load().Name, err)
	}
	return nil
}
