package storage

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/shunt-sql/shunt/planner/catalog"

	"github.com/cockroachdb/pebble/v2"
)

// scratch holds the buffers of one read.
type scratch struct {
	key, val []byte
	pairs    []ShardEpoch
	few      []recentEntry
	sought   []sought
}

// sought is a record that is looked for: its key in scratch.key, and the entry that it is to have.
type sought struct {
	p        *partition
	from, to int
	entry    int
}

var scratchPool = sync.Pool{New: func() any { return new(scratch) }}

func (sc *scratch) release() {
	if cap(sc.val) <= 1<<16 && cap(sc.key) <= 1<<18 {
		scratchPool.Put(sc)
	}
}

// Lookup returns the shards that may hold key: those of its entries and those
// with a mark that does not contradict components (the key's components by
// position; nil ones, or nil at all, are unknown). ErrNoIndex where there is
// nothing to read.
//
// Marks are loaded before the entries, because a scan adds the entries it
// found before it clears the mark that covered them: in the other order a
// lookup could see neither.
func (s *Store) Lookup(id catalog.IndexID, key []byte, components [][]byte) (Found, error) {
	if !s.gate.enter() {
		return Found{}, ErrClosed
	}
	defer s.gate.leave()
	if err := s.db.intact(); err != nil {
		return Found{}, err
	}
	ix := s.find(id)
	if ix == nil {
		return Found{}, ErrNoIndex
	}
	sc := scratchPool.Get().(*scratch)
	defer sc.release()
	for {
		marks, v := ix.readable()
		if v == nil {
			return Found{}, ErrNoIndex
		}
		sc.key = append(append(sc.key[:0], v.read.partition(key).prefix...), key...)
		var set catalog.ShardSet
		s.recent.widen(&set, sc.key)
		if err := s.record(sc, &set); err != nil {
			return Found{}, fmt.Errorf("look up in virtual index %d: %w", id, err)
		}
		// The generation was live all the while: see snapshot.
		if ix.view.Load() == v {
			found := marks.widened(set, components)
			found.Floors = &ix.limits
			return found, nil
		}
	}
}

// record adds the shards of the record sc.key in Pebble.
func (s *Store) record(sc *scratch, set *catalog.ShardSet) error {
	t, ok, err := s.hot.get(set, sc.key)
	if ok {
		return err
	}
	if err := s.db.reading(); err != nil {
		return err
	}
	defer s.db.use.RUnlock()
	snapshot := s.published.acquire()
	defer snapshot.release()
	if sc.val, _, err = s.db.read(snapshot, sc.key, sc.val[:0]); err != nil {
		return err
	}
	if err := addShards(set, sc.val); err != nil {
		return err
	}
	s.hot.put(t, sc.key, sc.val)
	return nil
}

// readable returns an index's marks, and its view, nil if there is nothing to
// read. What a lookup reads after them is at least as new: see Lookup.
func (ix *index) readable() (*markSet, *view) {
	marks, v := ix.marks.Load(), ix.view.Load()
	if v.read == nil {
		return nil, nil
	}
	return marks, v
}

// snapshot returns one in which the generations of v are as they were while live: a generation is deleted only after another view is shown, and a
// new one shown only after it is complete. So where the view is the same before
// and after the snapshot was taken, whatever happens later to its records is
// not in the snapshot. nil if the view has changed.
func (s *Store) snapshot(ix *index, v *view) *pebble.Snapshot {
	snapshot := s.db.NewSnapshot()
	if ix.view.Load() == v {
		return snapshot
	}
	_ = snapshot.Close() // never fails
	return nil
}

func addShards(set *catalog.ShardSet, val []byte) error {
	for {
		p, rest, ok := nextPair(val)
		if !ok {
			if len(rest) > 0 {
				return errCorrupt
			}
			return nil
		}
		set.Add(p.Shard)
		val = rest
	}
}

// Range returns the shards that may hold a key in [from, to), nil to being the
// end of the index: those of all entries there and all with a mark. ok is
// false where there are more than limit keys; the caller scatters.
func (s *Store) Range(id catalog.IndexID, from, to []byte, limit int) (found Found, ok bool, err error) {
	if !s.gate.enter() {
		return found, false, ErrClosed
	}
	defer s.gate.leave()
	if err := s.db.reading(); err != nil {
		return found, false, err
	}
	defer s.db.use.RUnlock()
	ix := s.find(id)
	if ix == nil {
		return found, false, ErrNoIndex
	}
	var set catalog.ShardSet
	var snapshot *pebble.Snapshot
	var v *view
	var marks *markSet
	// recent are keys that may not be in the snapshot.
	var recent map[string]struct{}
	for snapshot == nil {
		if marks, v = ix.readable(); v == nil {
			return found, false, ErrNoIndex
		}
		recent = s.recent.widenRange(&set, v.read, from, to)
		snapshot = s.snapshot(ix, v)
	}
	defer snapshot.Close()
	sc := scratchPool.Get().(*scratch)
	defer sc.release()
	n := len(recent)
	for _, p := range v.read.parts {
		err := p.iterate(snapshot, sc, from, to, func(key, val []byte) (bool, error) {
			if _, counted := recent[string(key)]; !counted {
				n++
			}
			if n > limit {
				return false, nil
			}
			return true, addShards(&set, val)
		})
		if err != nil {
			return found, false, fmt.Errorf("read range of virtual index %d: %w", id, err)
		}
		if n > limit {
			return found, false, nil
		}
	}
	found = marks.widened(set, nil)
	found.Floors = &ix.limits
	return found, true, nil
}

// newIterator walks the records of p from the index key from on.
func (p *partition) newIterator(of pebble.Reader, sc *scratch, from []byte) (*pebble.Iterator, error) {
	it, err := iterator(of, p.prefix)
	if err == nil {
		sc.key = append(append(sc.key[:0], p.prefix...), from...)
		it.SeekGE(sc.key)
	}
	return it, err
}

// iterate calls fn with the keys in [from, to) and their values, which are
// only valid during the call.
func (p *partition) iterate(of pebble.Reader, sc *scratch, from, to []byte, fn func(key, val []byte) (more bool, err error)) error {
	it, err := p.newIterator(of, sc, from)
	if err != nil {
		return p.store.db.noted(err)
	}
	return p.store.db.each(it, func(key, val []byte) (bool, error) {
		key = key[len(p.prefix):]
		if to != nil && bytes.Compare(key, to) >= 0 {
			return false, nil
		}
		return fn(key, val)
	})
}

// Entries calls fn with the keys of an index from the key from on, in key
// order over all partitions, until it returns false. key and pairs are only
// valid during the call. building reads the building generation instead of the
// readable one. It reads one snapshot, which keeps old versions of records
// from being compacted: walk a large index in slices, resuming after the last
// key. fn must not call the Store.
func (s *Store) Entries(id catalog.IndexID, from []byte, building bool, fn func(key []byte, pairs []ShardEpoch) (more bool)) error {
	if !s.gate.enter() {
		return ErrClosed
	}
	defer s.gate.leave()
	ix := s.find(id)
	if ix == nil {
		return ErrNoIndex
	}
	// What is added from now on may be left out.
	if err := s.recent.flush(); err != nil {
		return fmt.Errorf("read virtual index %d: %w", id, err)
	}
	if err := s.db.reading(); err != nil {
		return err
	}
	defer s.db.use.RUnlock()
	var snapshot *pebble.Snapshot
	var g *generation
	for {
		v := ix.view.Load()
		if g = v.read; building {
			g = v.build
		}
		if g == nil {
			return ErrNoIndex
		}
		if snapshot = s.snapshot(ix, v); snapshot != nil {
			break
		}
	}
	defer snapshot.Close()
	sc := &scratch{}
	var its []*pebble.Iterator
	defer func() {
		for _, it := range its {
			_ = it.Close() // tells of what Error has told of
		}
	}()
	for _, p := range g.parts {
		it, err := p.newIterator(snapshot, sc, from)
		if err != nil {
			return fmt.Errorf("read virtual index %d: %w", id, s.db.noted(err))
		}
		its = append(its, it)
	}
	var key []byte
	for {
		// Partitions are few, so the least key is found by looking at all.
		var least *pebble.Iterator
		for _, it := range its {
			if err := s.db.noted(it.Error()); err != nil {
				return fmt.Errorf("read virtual index %d: %w", id, err)
			}
			if it.Valid() && (least == nil || bytes.Compare(it.Key()[entryPrefixLen:], least.Key()[entryPrefixLen:]) < 0) {
				least = it
			}
		}
		if least == nil {
			return nil
		}
		key = append(key[:0], least.Key()[entryPrefixLen:]...)
		val, err := least.ValueAndErr()
		if err == nil {
			sc.pairs, err = decodePairs(sc.pairs[:0], val)
		}
		if err != nil {
			return fmt.Errorf("read virtual index %d: %w", id, s.db.noted(err))
		}
		more := fn(key, sc.pairs)
		if invariants {
			scribble(key, sc.pairs)
		}
		if !more {
			return nil
		}
		least.Next()
	}
}

// Kept is a key as Entries and EntriesOf show it: as it is. Where the store is another it may be cut.
func (s *Store) Kept(key []byte) []byte { return key }

// EntriesOf is Entries for the keys that have an entry on a shard, of the readable generation.
func (s *Store) EntriesOf(id catalog.IndexID, shard catalog.ShardID, from []byte, fn func(key []byte) (more bool)) error {
	return s.Entries(id, from, false, func(key []byte, pairs []ShardEpoch) bool {
		for _, p := range pairs {
			if p.Shard == shard {
				return fn(key)
			}
		}
		return true
	})
}

// scribble makes slices that were kept too long show.
func scribble(key []byte, pairs []ShardEpoch) {
	for i := range key {
		key[i] = 0xDB
	}
	for i := range pairs {
		pairs[i] = ShardEpoch{0xDB, 0xDBDBDBDB}
	}
}

// batch collects the requests of one call, one for each partition.
type batch struct {
	reqs []*request
	// views are the views that the requests were made from.
	views []seenView
}

type seenView struct {
	ix *index
	v  *view
}

func (b *batch) request(kind requestKind, p *partition) *request {
	for _, r := range b.reqs {
		if r.part == p {
			return r
		}
	}
	r := newRequest(kind, p)
	b.reqs = append(b.reqs, r)
	return r
}

func (b *batch) view(ix *index) *view {
	for _, sv := range b.views {
		if sv.ix == ix {
			return sv.v
		}
	}
	v := ix.view.Load()
	b.views = append(b.views, seenView{ix, v})
	return v
}

// current reports whether all generations that are live now were live then.
func (b *batch) current() bool {
	for _, sv := range b.views {
		now := sv.ix.view.Load()
		if now == sv.v {
			continue
		}
		for _, g := range now.all {
			if !slices.Contains(sv.v.all, g) {
				return false
			}
		}
	}
	return true
}

// run has the requests done and releases them. It returns the number of pairs
// that changed in partitions of generations for which counts is true. errGone
// if a generation was retired meanwhile; what is for others is done then.
func (b *batch) run(counts func(*partition) bool) (changed int, err error) {
	for _, r := range b.reqs {
		r.part.submit(r)
	}
	for _, r := range b.reqs {
		if rerr := <-r.done; rerr != nil && (err == nil || errors.Is(err, errGone)) {
			err = rerr
		}
		if counts != nil && counts(r.part) {
			changed += r.changed
		}
	}
	for _, r := range b.reqs {
		r.release()
	}
	b.reqs = b.reqs[:0]
	return changed, err
}

// forget drops requests that were not run.
func (b *batch) forget() {
	for _, r := range b.reqs {
		r.release()
	}
	b.reqs = b.reqs[:0]
}

var batchPool = sync.Pool{New: func() any { return new(batch) }}

func (b *batch) release() {
	clear(b.views)
	b.views = b.views[:0]
	b.forget()
	clear(b.reqs[:cap(b.reqs)])
	batchPool.Put(b)
}

// fewEntries is up to how many entries Add leaves to recent, which makes one
// write of them; more go into Pebble at once.
const fewEntries = 8

// Add makes the entries exist with at least their epochs, in every live
// generation of their indexes. When it returns they survive the death of the
// process. Entries that are there already cost no write, or a small one.
// Entries of an unknown index are ignored. An error may leave some of several
// entries added; ErrStoreFull and ErrReadOnly are returned before any is.
//
// REQUIRES: the caller has registered its statement in an epoch no later than
// the entries', and keeps it registered while it can still create the keys.
// Every horizon is then at most the entry's epoch, so no Retire (which takes
// away only what is older than a horizon) can race with the check that finds
// an entry in place: what is stored with an epoch of at least Entry.Epoch
// stays while the statement is open.
func (s *Store) Add(entries []Entry) error {
	if !s.gate.enter() {
		return ErrClosed
	}
	defer s.gate.leave()
	if err := s.space.writable(); err != nil {
		return err
	}
	for i := range entries {
		if len(entries[i].Key) > MaxKey {
			return fmt.Errorf("add to virtual index %d: %w: %d bytes", entries[i].Index, ErrKeyTooLong, len(entries[i].Key))
		}
	}
	b := batchPool.Get().(*batch)
	defer b.release()
	for {
		done, err := s.tryAdd(b, entries)
		if err != nil {
			return fmt.Errorf("add entries: %w", err)
		}
		if done {
			return nil
		}
	}
}

// tryAdd returns false if generations changed under way; what was added is
// found in place the next time.
func (s *Store) tryAdd(b *batch, entries []Entry) (done bool, err error) {
	b.views = b.views[:0]
	renewals := s.db.renewals.Load()
	if len(entries) <= fewEntries {
		err = s.addFew(b, entries)
	} else if err = s.missing(b, entries); err == nil {
		_, err = b.run(nil)
	} else {
		b.forget()
	}
	if errors.Is(err, errGone) {
		return false, nil
	}
	if again, err := s.voided(err, renewals); again || err != nil {
		return false, err
	}
	var last Pair // entries of a statement are mostly of one table and shard
	for i := range entries {
		e := &entries[i]
		if i > 0 && entries[i-1].Index == e.Index && entries[i-1].Shard == e.Shard {
			continue
		}
		ix := s.find(e.Index)
		if ix == nil {
			continue
		}
		p := ix.pair(e.Shard)
		if i > 0 && p == last {
			continue
		}
		if err := s.intents.ensure(s, p); err != nil {
			return false, err
		}
		last = p
	}
	return b.current(), nil
}

// addFew puts entries into recent. To look whether Pebble has them would cost more
// than to bring them there once more. One for a generation that is gone does no harm.
func (s *Store) addFew(b *batch, entries []Entry) error {
	sc := scratchPool.Get().(*scratch)
	defer sc.release()
	sc.key = sc.key[:0]
	few := sc.few[:0]
	for i := range entries {
		e := &entries[i]
		ix := s.find(e.Index)
		if ix == nil {
			continue
		}
		for _, g := range b.view(ix).all {
			p := g.partition(e.Key)
			n := len(sc.key)
			sc.key = append(append(sc.key, p.prefix...), e.Key...)
			few = append(few, recentEntry{p, n, len(sc.key), ShardEpoch{e.Shard, e.Epoch}})
		}
	}
	err := s.recent.add(sc.key, few)
	clear(few)
	sc.few = few
	return err
}

// missing puts requests for the entries that are not in place into b. What is in
// place must be so for lookups too: what is committed but not published is not.
func (s *Store) missing(b *batch, entries []Entry) error {
	sc := scratchPool.Get().(*scratch)
	defer sc.release()
	s.db.use.RLock()
	defer s.db.use.RUnlock()
	if err := s.db.intact(); err != nil {
		return err
	}
	sc.key, sc.sought = sc.key[:0], sc.sought[:0]
	for i := range entries {
		ix := s.find(entries[i].Index)
		if ix == nil {
			continue
		}
		for _, g := range b.view(ix).all {
			p, n := g.partition(entries[i].Key), len(sc.key)
			sc.key = append(append(sc.key, p.prefix...), entries[i].Key...)
			sc.sought = append(sc.sought, sought{p, n, len(sc.key), i})
		}
	}
	// In their order each begins where the one before has ended, and so does who writes them.
	slices.SortFunc(sc.sought, func(a, b sought) int { return bytes.Compare(sc.key[a.from:a.to], sc.key[b.from:b.to]) })
	defer func() { clear(sc.sought) }()
	snapshot := s.published.acquire()
	defer snapshot.release()
	in, err := s.db.lookups(snapshot)
	if err != nil {
		return err
	}
	for _, at := range sc.sought {
		e, key := &entries[at.entry], sc.key[at.from:at.to]
		val, _, err := in.find(key)
		if err != nil {
			return errors.Join(err, in.close())
		}
		if !hasPair(val, ShardEpoch{e.Shard, e.Epoch}) {
			addPair(b.request(requestAddMany, at.p), key, ShardEpoch{e.Shard, e.Epoch})
		}
	}
	return in.close()
}

// hasPair reports whether a record's value has the pair in its epoch or a later
// one.
func hasPair(val []byte, pair ShardEpoch) bool {
	for {
		p, rest, ok := nextPair(val)
		if !ok {
			return false
		}
		if p.Shard == pair.Shard {
			return p.Epoch >= pair.Epoch
		}
		val = rest
	}
}

// remove takes (key, shard) away for each key whose entry was last confirmed
// before the epoch before, in every live generation, and returns how many
// went from the readable one (the building one if there is no other).
func (s *Store) remove(id catalog.IndexID, shard catalog.ShardID, keys [][]byte, before Epoch) (int, error) {
	if !s.gate.enter() {
		return 0, ErrClosed
	}
	defer s.gate.leave()
	ix := s.find(id)
	if ix == nil {
		return 0, nil
	}
	if err := s.space.reclaimable(); err != nil {
		return 0, err
	}
	if err := s.flush(); err != nil {
		return 0, fmt.Errorf("remove entries: %w", err)
	}
	b := batchPool.Get().(*batch)
	defer b.release()
	sc := scratchPool.Get().(*scratch)
	defer sc.release()
	v := b.view(ix)
	for _, key := range keys {
		if len(key) > MaxKey {
			continue
		}
		for _, g := range v.all {
			p := g.partition(key)
			sc.key = append(append(sc.key[:0], p.prefix...), key...)
			addPair(b.request(requestRemove, p), sc.key, ShardEpoch{shard, before})
		}
	}
	main, renewals := v.counted(), s.db.renewals.Load()
	n, err := b.run(func(p *partition) bool { return main != nil && slices.Contains(main.parts, p) })
	// A generation that is gone needs no removals, and in one that came
	// meanwhile the entry is at worst stale.
	if errors.Is(err, errGone) {
		return n, nil
	}
	if _, err := s.voided(err, renewals); err != nil {
		return n, fmt.Errorf("remove entries: %w", err)
	}
	return n, nil
}
