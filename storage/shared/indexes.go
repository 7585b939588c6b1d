package shared

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
	"github.com/shunt-sql/shunt/storage/home"
)

// Index is storage.Store's.
func (s *Store) Index(id catalog.IndexID) (storage.IndexRecord, bool) {
	d, ok := s.state.Load().indexes[id]
	return d, ok
}

// Indexes is storage.Store's.
func (s *Store) Indexes() []storage.IndexRecord {
	var out []storage.IndexRecord
	now := s.state.Load()
	for id, d := range now.indexes {
		if now.whole(id) == id {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b storage.IndexRecord) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

func indexName(id catalog.IndexID) string { return strconv.FormatUint(uint64(id), 10) }

// taken reports another index of the table with this name.
func (now *state) taken(d storage.IndexRecord) bool {
	for id, have := range now.indexes {
		if id != d.ID && have.Schema == d.Schema && have.Table == d.Table && have.Name == d.Name {
			return true
		}
	}
	return false
}

// CreateIndex is storage.Store's. Numbers are burnt if it fails.
func (s *Store) CreateIndex(defined catalog.IndexDef) (storage.IndexRecord, error) {
	fail := func(err error) (storage.IndexRecord, error) {
		return storage.IndexRecord{}, fmt.Errorf("create virtual index %s on %s.%s: %w", defined.Name, defined.Schema, defined.Table, err)
	}
	d := storage.IndexRecord{IndexDef: defined, Created: time.Now()}
	table := catalog.TableName{Schema: defined.Schema, Name: defined.Table}
	d.Status = cmp.Or(d.Status, catalog.Building)
	d.Unread = d.Status == catalog.Building
	d.Unbegun = d.Unread
	var parts []storage.IndexRecord // or the index itself
	err := s.change(func(now *state) ([]home.Record, error) {
		d.ID, d.Parts, parts = 0, nil, nil
		if now.taken(d) {
			return nil, storage.ErrIndexExists
		}
		next := catalog.IndexID(1)
		if body := now.records[kindNext][kindIndex]; body != nil {
			if err := json.Unmarshal(body, &next); err != nil {
				return nil, err
			}
		}
		homes, err := s.spread(now, table, defined.Partitions, defined.Home)
		if err != nil {
			return nil, err
		}
		d.ID, d.Partitions = next, len(homes)
		next++
		if len(homes) == 1 {
			d.Home = homes[0]
			parts = []storage.IndexRecord{d}
		} else {
			parts = divide(&d, homes)
			next += catalog.IndexID(len(parts))
		}
		r, err := record(kindNext, kindIndex, next)
		return []home.Record{r}, err
	})
	if err != nil {
		return fail(err)
	}
	// The homes have it before anybody knows of it: what is added for it is kept.
	for i, p := range parts {
		if err := s.createAt(p); err != nil {
			return fail(errors.Join(err, s.dropMade(parts[:i])))
		}
	}
	err = s.change(func(now *state) (records []home.Record, err error) {
		if now.taken(d) {
			return nil, storage.ErrIndexExists
		}
		for _, p := range parts {
			if _, err := s.choose(now, table, p.Home); err != nil {
				return nil, err
			}
		}
		made := parts
		if len(parts) > 1 {
			made = append(slices.Clone(parts), d)
		}
		for _, m := range made {
			r, err := record(kindOf(m), indexName(m.ID), m)
			if err != nil {
				return nil, err
			}
			records = append(records, r)
		}
		return records, nil
	})
	if err != nil {
		return fail(errors.Join(err, s.dropMade(parts)))
	}
	d, _ = s.Index(d.ID)
	return d, nil
}

// divide gives an index a partition on each home, with the numbers behind its own.
func divide(d *storage.IndexRecord, homes []string) []storage.IndexRecord {
	parts := make([]storage.IndexRecord, len(homes))
	d.Home = ""
	for i, name := range homes {
		p := *d
		p.ID, p.Name, p.Home, p.Partitions, p.Include = d.ID+catalog.IndexID(i+1), fmt.Sprintf("%s/%d", d.Name, i+1), name, 1, nil
		p.Status = catalog.Disabled // to older versions
		parts[i] = p
	}
	for _, p := range parts {
		d.Parts = append(d.Parts, p.ID)
	}
	return parts
}

// createAt has an index's home have it.
func (s *Store) createAt(d storage.IndexRecord) error {
	h, err := s.reach(d.Home)
	if err != nil {
		return err
	}
	ctx, cancel := s.brief()
	defer cancel()
	if _, err := h.CreateIndex(ctx, d.ID); err != nil {
		return s.answered(s.place(d.Home), err)
	}
	return nil
}

// dropMade takes back what createAt has made.
func (s *Store) dropMade(parts []storage.IndexRecord) error {
	var errs []error
	for _, p := range parts {
		errs = append(errs, s.dropAt(p.ID, p.Home))
	}
	return errors.Join(errs...)
}

// UpdateIndex is storage.Store's.
func (s *Store) UpdateIndex(id catalog.IndexID, fn func(*storage.IndexRecord)) error {
	return s.alter(id, func(d *storage.IndexRecord) {
		old := *d
		fn(d)
		d.Home, d.Target, d.Former, d.Forsaken, d.Moves = old.Home, old.Target, old.Former, old.Forsaken, old.Moves
		d.Unread = old.Unread && d.Status != catalog.Ready
	})
}

// alter changes the record of an index, homes and all.
func (s *Store) alter(id catalog.IndexID, fn func(*storage.IndexRecord)) error {
	return s.tryAlter(id, func(d *storage.IndexRecord) error {
		fn(d)
		return nil
	})
}

// tryAlter is alter. An error of fn leaves the record as it is.
func (s *Store) tryAlter(id catalog.IndexID, fn func(*storage.IndexRecord) error) error {
	return s.change(func(now *state) ([]home.Record, error) {
		old, ok := now.indexes[id]
		if !ok {
			return nil, fmt.Errorf("virtual index %d: %w", id, storage.ErrNoIndex)
		}
		d := old
		d.Columns = slices.Clone(old.Columns)
		if err := fn(&d); err != nil {
			return nil, err
		}
		d.ID, d.Schema, d.Table, d.Partitions, d.Parts = old.ID, old.Schema, old.Table, old.Partitions, old.Parts
		if now.taken(d) {
			return nil, fmt.Errorf("update virtual index %s: %w", d.Name, storage.ErrIndexExists)
		}
		r, err := record(kindOf(d), indexName(id), d)
		return []home.Record{r}, err
	})
}

// MoveIndexes is storage.Store's.
func (s *Store) MoveIndexes(to map[catalog.IndexID]catalog.TableName) error {
	return s.change(func(now *state) (records []home.Record, err error) {
		type name struct{ schema, table, index string }
		taken := map[name]bool{}
		for id, d := range now.indexes {
			if t, ok := to[now.whole(id)]; ok {
				d.Schema, d.Table = t.Schema, t.Name
				r, err := record(kindOf(d), indexName(id), d)
				if err != nil {
					return nil, err
				}
				records = append(records, r)
			}
			n := name{d.Schema, d.Table, d.Name}
			if taken[n] {
				return nil, fmt.Errorf("move virtual index %s to %s.%s: %w", d.Name, d.Schema, d.Table, storage.ErrIndexExists)
			}
			taken[n] = true
		}
		return records, nil
	})
}

// DropIndex is storage.Store's: who reads by it, or adds to it, finds it gone at its homes. One that
// may be read at a home that doesn't answer isn't dropped: see rule forsake.
func (s *Store) DropIndex(id catalog.IndexID) error {
	d, known := s.Index(id)
	if !known {
		return fmt.Errorf("drop virtual index %d: %w", id, storage.ErrNoIndex)
	}
	if err := s.Outage(id); err != nil && d.Status == catalog.Ready {
		return err
	}
	parts := s.state.Load().parts(id)
	for _, part := range parts {
		of, _ := s.Index(part)
		for _, name := range homesOf(of) {
			err := s.dropAt(part, name)
			if _, out := errors.AsType[*OutError](err); err != nil && (d.Status == catalog.Ready || !out) {
				return err
			}
		}
	}
	return s.change(func(*state) ([]home.Record, error) {
		records := []home.Record{{Kind: kindOf(d), Name: indexName(id)}}
		for _, part := range d.Parts {
			records = append(records, home.Record{Kind: kindIndex, Name: indexName(part)})
		}
		return records, nil
	})
}

// dropAt drops an index at a home. What one that doesn't answer has left Sweep finds.
func (s *Store) dropAt(id catalog.IndexID, name string) error {
	h, err := s.reach(name)
	if err != nil {
		return err
	}
	ctx, cancel := s.brief()
	defer cancel()
	if err := h.DropIndex(ctx, id); err != nil && !errors.Is(err, storage.ErrNoIndex) {
		return s.answered(s.place(name), err)
	}
	return nil
}

// forget drops an index at a home where nobody looks for it any more.
func (s *Store) forget(id catalog.IndexID, name string) {
	if name == "" {
		return
	}
	if err := s.dropAt(id, name); err != nil {
		s.log.Info("what a home has of a virtual index that was moved is removed later", "home", name, "index", id, "error", err)
	}
}

// builtAt is the home of the generation that is built, or would be.
func builtAt(d storage.IndexRecord) string { return cmp.Or(d.Target, d.Home) }

// StartBuild is storage.Store's. An index that its home has lost, or that was forsaken there, is placed
// there anew.
//
// Rule newest record: Counter-example: the home of a forsaken index is back. One process places it there, and ends its
// turn; the next one, which hasn't heard of that, places it anew, and drops what is being built.
func (s *Store) StartBuild(id catalog.IndexID, _ int) error {
	return s.opening(id, func() error { return s.each(id, s.startBuild) })
}

// opening does what opens generations in an index's partitions. One that was cut short is begun anew as a whole (compose, rule
// opened in all).
func (s *Store) opening(id catalog.IndexID, do func() error) error {
	if d, _ := s.Index(id); len(d.Parts) == 0 {
		return do()
	}
	set := func(is bool) error {
		return s.alter(id, func(d *storage.IndexRecord) { d.Opening = is })
	}
	if err := set(true); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return set(false)
}

func (s *Store) startBuild(id catalog.IndexID) error {
	fresh, stop := s.brief()
	err := s.Refresh(fresh)
	stop()
	if err != nil {
		return err
	}
	d, known := s.Index(id)
	if !known {
		return fmt.Errorf("start a build of virtual index %d: %w", id, storage.ErrNoIndex)
	}
	if d.Forsaken {
		return s.move(id, d.Home, true)
	}
	h, err := s.reach(builtAt(d))
	if err != nil {
		return err
	}
	ctx, cancel := s.brief()
	defer cancel()
	_, err = h.StartBuild(ctx, id)
	if errors.Is(err, storage.ErrNoIndex) {
		return s.move(id, builtAt(d), d.Target == "")
	}
	if err != nil {
		return s.answered(s.place(builtAt(d)), err)
	}
	return s.UpdateIndex(id, func(*storage.IndexRecord) {}) // so that others look at the home
}

// FinishBuild is storage.Store's. Where it ends a move, the index is read at its new home from now
// on, by this process and by those that go by the new record.
func (s *Store) FinishBuild(id catalog.IndexID, generation uint32, floors map[catalog.ShardID]storage.Epoch) error {
	ctx, cancel := s.brief()
	defer cancel()
	if err := s.Refresh(ctx); err != nil {
		return err
	}
	d, known := s.Index(id)
	switch {
	case !known:
		return fmt.Errorf("finish the build of virtual index %d: %w", id, storage.ErrNoIndex)
	case d.Forsaken:
		return fmt.Errorf("finish the build of virtual index %d, which has no home: %w", id, storage.ErrSuperseded)
	case len(d.Parts) > 0:
		return s.finishParts(d, generation, floors)
	}
	at := builtAt(d)
	h, err := s.reach(at)
	if err != nil {
		return err
	}
	err = h.FinishBuild(ctx, id, generation, floors)
	if errors.Is(err, storage.ErrNotBuilding) && d.Target != "" {
		// It was finished, and the record wasn't written.
		heads, failed := h.Heads(ctx)
		if failed != nil {
			return failed
		}
		if err = storage.ErrSuperseded; heads[id].Readable == generation {
			err = nil
		}
	}
	if err != nil {
		return s.answered(s.place(at), err)
	}
	return s.tryAlter(id, func(now *storage.IndexRecord) error {
		if now.Forsaken || now.Moves != d.Moves { // meanwhile: see rule unread
			return fmt.Errorf("finish the build of virtual index %d, which was given up: %w", id, storage.ErrSuperseded)
		}
		if now.Target == at {
			now.Home, now.Target, now.Former = at, "", now.Home
		}
		if now.Status != catalog.Disabled {
			now.Status = catalog.Ready
		}
		now.Error, now.LastScan, now.Unread = "", time.Now(), false
		return nil
	})
}

// finishParts is FinishBuild of all partitions.
func (s *Store) finishParts(d storage.IndexRecord, generation uint32, floors map[catalog.ShardID]storage.Epoch) error {
	switch {
	case !d.HasBuild && (d.Opening || !d.Readable):
		return fmt.Errorf("finish the build of virtual index %d, which is to begin anew: %w", d.ID, storage.ErrSuperseded)
	case d.HasBuild && d.BuildGeneration != generation:
		return fmt.Errorf("finish the build of virtual index %d: generation %d is built, and not %d: %w", d.ID, d.BuildGeneration, generation, storage.ErrSuperseded)
	}
	if err := s.readParts(d); err != nil {
		return err
	}
	if !d.HasBuild {
		return fmt.Errorf("finish the build of virtual index %d: %w", d.ID, storage.ErrNotBuilding)
	}
	for _, part := range d.Parts {
		p, _ := s.Index(part)
		if !p.HasBuild { // an earlier run has finished it
			continue
		}
		// Who has finished one meanwhile needn't have finished the others: the record tells below.
		if err := s.FinishBuild(part, p.BuildGeneration, floors); err != nil && !errors.Is(err, storage.ErrNotBuilding) {
			return err
		}
	}
	return s.tryAlter(d.ID, func(now *storage.IndexRecord) error {
		if now.HasBuild || !now.Readable || now.Opening { // meanwhile
			return fmt.Errorf("finish the build of virtual index %d, of which a partition was given up: %w", d.ID, storage.ErrSuperseded)
		}
		if now.Status != catalog.Disabled {
			now.Status = catalog.Ready
		}
		now.Error, now.LastScan, now.Unread = "", time.Now(), false
		return nil
	})
}

// readParts notes that partitions are read which an earlier run has finished, and not noted.
//
// Counter-example: a run finishes a partition at its home, and is killed. The next one finds it finished, and the index is read. By
// its record the partition isn't: who is refused a write there forsakes it without a word (rule unread), and others miss what
// isn't added.
func (s *Store) readParts(d storage.IndexRecord) error {
	for _, part := range d.Parts {
		if p, _ := s.Index(part); !p.Unread || !p.Readable || p.HasBuild {
			continue
		}
		err := s.tryAlter(part, func(now *storage.IndexRecord) error {
			if now.Forsaken {
				return fmt.Errorf("finish the build of virtual index %d, of which a partition was given up: %w", d.ID, storage.ErrSuperseded)
			}
			now.Unread = false
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// generationsOf bounds the generations of an index that one home makes.
const generationsOf = 1 << 16

// Move gives an index a home by this name, where a generation is to be built: StartBuild at another
// place. Reads stay where they are until FinishBuild. Its present home: the move under way is given
// up, and the index built anew.
//
// With forsake the index has no other home from now on, and reads are wide. REQUIRES: then nobody reads by
// the index. In any case: no build of it runs, it has no Former, and nobody else changes indexes.
//
// Partitions are given the homes of a list in turns. Where one of these fails meanwhile, those before have begun to move, and do so
// with the build that is begun anew for that.
func (s *Store) Move(id catalog.IndexID, to string, forsake bool) error {
	now := s.state.Load()
	d, parts, names := now.indexes[id], now.parts(id), storage.SplitNames(to)
	if len(names) > len(parts) {
		return fmt.Errorf("move virtual index %d: %w", id, tooMany(len(names), len(parts)))
	}
	if len(parts) == 1 {
		return s.move(id, to, forsake)
	}
	for _, name := range names {
		if _, err := s.choose(now, catalog.TableName{Schema: d.Schema, Name: d.Table}, name); err != nil {
			return fmt.Errorf("move virtual index %s: %w", d.Name, err)
		}
	}
	return s.opening(id, func() error {
		for i, part := range parts {
			if err := s.move(part, names[i%len(names)], forsake); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Store) move(id catalog.IndexID, to string, forsake bool) error {
	ctx, cancel := s.brief()
	defer cancel()
	if err := s.Refresh(ctx); err != nil { // see rule newest record
		return err
	}
	d, known := s.Index(id)
	if !known {
		return fmt.Errorf("move virtual index %d: %w", id, storage.ErrNoIndex)
	}
	forsake = forsake || d.Forsaken
	if to == d.Home && !forsake {
		if d.Target != "" {
			if err := s.alter(id, func(d *storage.IndexRecord) { d.Target = "" }); err != nil {
				return err
			}
			s.forget(id, d.Target)
		}
		return s.startBuild(id)
	}
	to, err := s.choose(s.state.Load(), catalog.TableName{Schema: d.Schema, Name: d.Table}, to)
	if err != nil {
		return fmt.Errorf("move virtual index %s: %w", d.Name, err)
	}
	if err := s.dropAt(id, to); err != nil { // of an earlier move, which wasn't finished
		return err
	}
	h, err := s.reach(to)
	if err != nil {
		return err
	}
	moves, err := s.placeAt(ctx, h, d)
	if err != nil {
		return s.answered(s.place(to), err)
	}
	err = s.alter(id, func(d *storage.IndexRecord) {
		if d.Target, d.Moves = to, moves; forsake {
			d.Home, d.Target, d.Forsaken, d.Unread = to, "", false, true
		}
	})
	if err != nil {
		return errors.Join(err, s.dropAt(id, to))
	}
	if d.Target != to {
		s.forget(id, d.Target)
	}
	if forsake && d.Home != to {
		s.forget(id, d.Home)
	}
	return nil
}

// placeAt gives an index a generation to build at a home, with a number that no home has had for it: a scan that knows generation
// 7 knows nothing of a later one.
//
// Rule known to the home: the records may have gone back, and not know the last moves. Counter-example: an index is given up, and
// placed anew as move 1. The store's first server is replaced by one that lacks this; placed as move 1 once more it meets what the
// home is still removing of the first one, and no member can start.
func (s *Store) placeAt(ctx context.Context, h *home.Home, d storage.IndexRecord) (moves uint32, err error) {
	for moves = d.Moves + 1; ; moves++ {
		generation := max(moves*generationsOf, d.ReadGeneration, d.BuildGeneration) + 1
		if err = h.PlaceIndex(ctx, d.ID, generation); !errors.Is(err, storage.ErrIndexExists) || moves > d.Moves+mostForgotten {
			return moves, err
		}
	}
}

// mostForgotten bounds the moves that records have forgotten.
const mostForgotten = 1000

// EndMove ends that an index is added to where it was read before. REQUIRES: nobody goes by a record that
// reads it there.
func (s *Store) EndMove(id catalog.IndexID) error { return s.each(id, s.endMove) }

func (s *Store) endMove(id catalog.IndexID) error {
	d, _ := s.Index(id)
	if d.Former == "" {
		return nil
	}
	s.forget(id, d.Former) // first: whoever is late finds it gone
	return s.alter(id, func(d *storage.IndexRecord) { d.Former = "" })
}
