package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// recent are entries that Add has taken and Pebble does not have yet: in memory
// for lookups, and in a log, which survives the death of the process. Flush moves
// them into Pebble, many in one commit.
//
// A commit of Pebble's for a single entry costs about 10 µs, most of it for waking
// a goroutine that writes and being woken again, and a statement would wait for it;
// this way it is 1 µs for the statement.
//
// There are two logs, used in turns: one takes what comes while the other's
// entries are moved, and is then emptied. Open moves what it finds in them. An
// entry may so be added twice; whatever was removed between comes back stale.
//
// A log is never synced: Sync flushes first, so what it makes durable is in
// Pebble. What a power loss takes is found as always, by the write-intents.
//
// Whoever reads entries otherwise than by Lookup and Range, or removes some,
// flushes first.
type recent struct {
	s *Store
	// flushAt entries wake the flusher; at flushAt*recentBound, Add waits for it.
	flushAt int64
	// n is how many entries there are, so that nobody takes mu for none.
	n          atomic.Int64
	some, full chan struct{}

	mu sync.RWMutex
	// records are by record key; moving are those that a flush is putting into
	// Pebble.
	records, moving map[string]recentRecord
	// logs are nil for a store in memory. The active one has what is in records.
	logs   [2]*recentLog
	active int
	// leftover: something in the logs could not be moved, at Open or later. They take
	// nothing more until it is. It is set under mu.
	leftover atomic.Bool

	// flushing is held by who flushes. It comes before mu.
	flushing sync.Mutex
	// spare is the empty map of an earlier flush.
	spare map[string]recentRecord
}

// recentRecord is what was added to one record: one pair, seldom more.
type recentRecord struct {
	part *partition
	pair ShardEpoch
	more []ShardEpoch
}

// recentEntry is one entry for one partition. The record key is in the buffer
// that goes with it.
type recentEntry struct {
	part     *partition
	from, to int
	pair     ShardEpoch
}

const (
	// recentFlushAt keeps a flush at some 2 ms: statements beside it wait for the
	// processor. More at a time are not cheaper, a piece.
	recentFlushAt = 500
	recentBound   = 64
	// recentAge bounds how long an entry stays out of Pebble, and so what Open
	// finds after a crash.
	recentAge = time.Second
)

// open moves the entries that an earlier process left in its logs into Pebble.
func (r *recent) open(s *Store, flushAt int64) error {
	if flushAt == 0 {
		flushAt = recentFlushAt
	}
	r.s, r.flushAt = s, flushAt
	r.some, r.full = make(chan struct{}, 1), make(chan struct{}, 1)
	r.records = map[string]recentRecord{}
	if s.opt.InMemory {
		return nil
	}
	parts := map[string]*partition{}
	for _, ix := range *s.indexes.Load() {
		for _, g := range ix.view.Load().all {
			for _, p := range g.parts {
				parts[string(p.prefix)] = p
			}
		}
	}
	put := func(key []byte, pair ShardEpoch) {
		// Records of a generation that is gone are garbage.
		if len(key) >= entryPrefixLen && parts[string(key[:entryPrefixLen])] != nil {
			r.put(parts[string(key[:entryPrefixLen])], string(key), pair)
		}
	}
	for i := range r.logs {
		log, whole, err := openRecentLog(s.opt, i, s.fresh, put)
		if err != nil {
			return errors.Join(err, r.close())
		}
		r.logs[i] = log
		if !whole {
			// It was damaged, or cut short by the death of the process: which of them
			// can't be told. What may be lost is as after a power loss.
			s.opt.Logger.Warn("a log of recent index entries is damaged; what was written to lately is taken for lost", "file", log.f.Name())
			s.intents.lose()
		}
	}
	r.leftover.Store(true)
	// A full disk is no reason not to serve.
	if err := r.flush(); err != nil && !errors.Is(err, ErrStoreFull) {
		return errors.Join(err, r.close())
	}
	return nil
}

func (r *recent) close() error {
	var errs []error
	for _, l := range r.logs {
		errs = append(errs, l.close())
	}
	return errors.Join(errs...)
}

// add takes entries, with their record keys in keys. Those that are there already
// cost nothing.
func (r *recent) add(keys []byte, entries []recentEntry) error {
	for r.n.Load() >= r.flushAt*recentBound || !r.join(keys, entries) {
		if err := r.flush(); err != nil {
			return err
		}
	}
	return nil
}

// join is add where the log takes more and has room.
func (r *recent) join(keys []byte, entries []recentEntry) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	log := r.logs[r.active]
	if r.leftover.Load() || log != nil && log.size+len(entries)*recentOverhead+len(keys) > len(log.mem) {
		return false
	}
	before := r.n.Load()
	text := "" // of keys, to make one string of all
	for i := range entries {
		e := &entries[i]
		if r.has(keys[e.from:e.to], e.pair) {
			continue
		}
		if text == "" {
			text = string(keys)
		}
		if len(r.records) == 0 {
			notify(r.some)
		}
		r.put(e.part, text[e.from:e.to], e.pair)
		if log != nil {
			log.add(keys[e.from:e.to], e.pair)
		}
	}
	if before < r.flushAt && r.n.Load() >= r.flushAt {
		notify(r.full)
	}
	return true
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// has reports whether the pair is here in its epoch or a later one.
func (r *recent) has(key []byte, pair ShardEpoch) bool {
	rec, found := r.records[string(key)]
	if !found {
		return false
	}
	if rec.pair.Shard == pair.Shard {
		return rec.pair.Epoch >= pair.Epoch
	}
	for _, p := range rec.more {
		if p.Shard == pair.Shard {
			return p.Epoch >= pair.Epoch
		}
	}
	return false
}

func (r *recent) put(part *partition, key string, pair ShardEpoch) {
	rec, found := r.records[key]
	if !found {
		r.n.Add(1)
		r.records[key] = recentRecord{part: part, pair: pair}
		return
	}
	if rec.pair.Shard == pair.Shard {
		rec.pair.Epoch = max(rec.pair.Epoch, pair.Epoch)
		r.records[key] = rec
		return
	}
	for i := range rec.more {
		if rec.more[i].Shard == pair.Shard {
			rec.more[i].Epoch = max(rec.more[i].Epoch, pair.Epoch)
			return
		}
	}
	rec.more = append(rec.more, pair)
	r.records[key] = rec
}

// widen adds the record's shards; a zero one has none.
func (rec recentRecord) widen(set *catalog.ShardSet) {
	if rec.part == nil {
		return
	}
	set.Add(rec.pair.Shard)
	for _, p := range rec.more {
		set.Add(p.Shard)
	}
}

// widen adds the shards of a record. The caller takes its snapshot of Pebble
// after: what a flush has moved is there then.
func (r *recent) widen(set *catalog.ShardSet, recordKey []byte) {
	if r.n.Load() == 0 {
		return
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	r.records[string(recordKey)].widen(set)
	r.moving[string(recordKey)].widen(set)
}

// widenRange adds the shards of the keys of g in [from, to), and returns those
// keys. As with widen, the snapshot comes after.
func (r *recent) widenRange(set *catalog.ShardSet, g *generation, from, to []byte) map[string]struct{} {
	if r.n.Load() == 0 {
		return nil
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	var keys map[string]struct{}
	// As texts, like the records' keys, to make none of each.
	prefix, first, end := string(generationPrefix(g.id)), string(from), string(to)
	for _, records := range []map[string]recentRecord{r.records, r.moving} {
		for recordKey, rec := range records {
			if !strings.HasPrefix(recordKey, prefix) {
				continue
			}
			key := recordKey[entryPrefixLen:]
			if key < first || to != nil && key >= end {
				continue
			}
			if keys == nil {
				keys = map[string]struct{}{}
			}
			keys[key] = struct{}{}
			rec.widen(set)
		}
	}
	return keys
}

// run flushes what is old or much, until ctx ends.
func (r *recent) run(ctx context.Context) {
	age := time.NewTimer(recentAge)
	defer age.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.some:
		}
		age.Reset(recentAge)
		select {
		case <-ctx.Done():
			return
		case <-age.C:
		case <-r.full:
		}
		if r.flush() != nil {
			// The disk is full, or the store read-only, and the operator knows.
			notify(r.some)
		}
	}
}

// flush returns when all that was added before is in Pebble.
func (r *recent) flush() error {
	if r.n.Load() == 0 && !r.leftover.Load() {
		return nil
	}
	r.flushing.Lock()
	defer r.flushing.Unlock()
	if err := r.s.space.reclaimable(); err != nil {
		return err
	}
	if r.spare == nil {
		r.spare = map[string]recentRecord{}
	}
	r.mu.Lock()
	moved := r.records
	r.moving, r.records, r.spare = moved, r.spare, nil
	logs := r.logs[r.active : r.active+1]
	if r.leftover.Load() {
		logs = r.logs[:]
	} else {
		r.active = 1 - r.active
	}
	r.mu.Unlock()

	err := r.move()
	for _, l := range logs {
		if l != nil && err == nil {
			err = r.emptied(l.reset())
		}
	}

	if err = r.settle(moved, err); err != nil {
		return err
	}
	r.leftover.Store(false)
	if int64(len(moved)) <= 4*r.flushAt {
		clear(moved)
		r.spare = moved
	}
	return nil
}

// emptied tells what became of a log's reset.
func (r *recent) emptied(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		r.s.space.refresh()
		return fmt.Errorf("%w: %w", ErrStoreFull, err)
	}
	return r.s.space.fail(err)
}

// settle ends a flush: what was moved is no longer here, unless that failed.
func (r *recent) settle(moved map[string]recentRecord, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.moving = nil
	r.n.Add(-int64(len(moved)))
	if err != nil {
		// Lookups go on finding these, and the log stays, for the next flush or process.
		r.leftover.Store(true)
		for key, rec := range moved {
			r.put(rec.part, key, rec.pair)
			for _, p := range rec.more {
				r.put(rec.part, key, p)
			}
		}
		return fmt.Errorf("move recent entries: %w", err)
	}
	return nil
}

// move has the partitions' writers add what is in moving.
func (r *recent) move() error {
	b := batchPool.Get().(*batch)
	defer b.release()
	for key, rec := range r.moving {
		q := b.request(requestAdd, rec.part)
		addPair(q, key, rec.pair)
		for _, p := range rec.more {
			addPair(q, key, p)
		}
	}
	// A generation that is gone needs none.
	if _, err := b.run(nil); err != nil && !errors.Is(err, errGone) {
		return err
	}
	return nil
}
