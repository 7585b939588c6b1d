package storage

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// recent are entries that Add has taken and Badger does not have yet: in memory
// for lookups, and in a log, which is written with one system call and so
// survives the death of the process. Flush moves them into Badger, many in one
// transaction.
//
// Those of a statement are one write to the log, and so are those of all
// sessions that come while another write is under way: whoever has waited for it
// writes for the others too.
//
// A transaction of Badger's for a single entry costs about 60 µs of CPU, most
// of it for waking goroutines of its own, and a statement would wait for it;
// this way it is 2 µs for the statement, and 4 for its share of a flush.
//
// There are two logs, used in turns: one takes what comes while the other's
// entries are moved, and is then emptied. Open moves what it finds in them. An
// entry may so be added twice; whatever was removed between comes back stale.
//
// A log is never synced: Sync flushes first, so what it makes durable is in
// Badger. What a power loss takes is found as always, by the write-intents.
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

	// mu is never held while something is written.
	mu sync.RWMutex
	// records are by record key; moving are those that a flush is putting into
	// Badger.
	records, moving map[string]recentRecord
	// pending are the log's records of the entries that no write has begun for
	// yet; joined counts all that were ever put there. Lookups see them already,
	// which does no harm.
	pending []byte
	joined  uint64

	// log is held by who writes to the active log or changes it. It comes before
	// mu.
	log sync.Mutex
	// logs are nil for a store in memory.
	logs   [2]*os.File
	active int
	size   int64
	// written is up to what joined was the log has everything.
	written atomic.Uint64
	// writes counts the system calls.
	writes int
	// buf is pending's array of before.
	buf []byte
	// leftover: Open could not move what it found in both logs.
	leftover atomic.Bool

	// flushing is held by who flushes. It comes before log.
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
	// recentAge bounds how long an entry stays out of Badger, and so what Open
	// finds after a crash.
	recentAge = time.Second
)

func recentName(i int) string { return fmt.Sprintf("recent-%d.log", i) }

// open moves the entries that an earlier process left in its logs into Badger.
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
	for i := range r.logs {
		name := filepath.Join(s.opt.Dir, recentName(i))
		log, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		missing := err != nil && !s.fresh
		for key, pair, rest := nextRecent(log); rest != nil; key, pair, rest = nextRecent(rest) {
			log = rest
			// Records of a generation that is gone are garbage.
			if len(key) >= entryPrefixLen && parts[string(key[:entryPrefixLen])] != nil {
				r.put(parts[string(key[:entryPrefixLen])], string(key), pair)
			}
		}
		if missing || len(log) > 0 {
			// It was damaged, or cut short by the death of the process: which of them
			// can't be told. What may be lost is as after a power loss.
			s.opt.Logger.Warn("a log of recent index entries is damaged; what was written to lately is taken for lost", "file", name, "bytes", len(log))
			s.intents.lose()
		}
		if r.logs[i], err = os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
			return errors.Join(err, r.close())
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
	for _, f := range r.logs {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// A log's record is
//
//	checksum(4) of the rest, length(4) of the rest, shard uvarint, epoch uvarint, record key
//
// and one that is not whole ends the log: its Add did not return.
const recentHeader = 8

func appendRecent(dst, key []byte, pair ShardEpoch) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, recentHeader)...)
	dst = binary.AppendUvarint(dst, uint64(pair.Shard))
	dst = binary.AppendUvarint(dst, uint64(pair.Epoch))
	dst = append(dst, key...)
	binary.BigEndian.PutUint32(dst[at+4:], uint32(len(dst)-at-recentHeader))
	binary.BigEndian.PutUint32(dst[at:], crc32.ChecksumIEEE(dst[at+4:]))
	return dst
}

// nextRecent returns the first record of a log and what follows; rest is nil at
// the end.
func nextRecent(log []byte) (key []byte, pair ShardEpoch, rest []byte) {
	if len(log) < recentHeader {
		return nil, pair, nil
	}
	n := uint64(binary.BigEndian.Uint32(log[4:]))
	if n == 0 || n > uint64(len(log)-recentHeader) {
		return nil, pair, nil
	}
	end := recentHeader + int(n)
	if crc32.ChecksumIEEE(log[4:end]) != binary.BigEndian.Uint32(log) {
		return nil, pair, nil
	}
	pair, key, ok := nextPair(log[recentHeader:end])
	if !ok {
		return nil, pair, nil
	}
	return key, pair, log[end:]
}

// add takes entries, with their record keys in keys. Those that are there already
// cost nothing.
func (r *recent) add(keys []byte, entries []recentEntry) error {
	if r.n.Load() >= r.flushAt*recentBound || r.leftover.Load() {
		if err := r.flush(); err != nil {
			return err
		}
	}
	return r.write(r.join(keys, entries))
}

// join shows the entries to lookups and returns what must be written before they
// are added: whoever finds an entry here may be before who brought it.
func (r *recent) join(keys []byte, entries []recentEntry) (joined uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
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
		if !r.s.opt.InMemory {
			r.pending = appendRecent(r.pending, keys[e.from:e.to], e.pair)
			r.joined++
		}
	}
	if before < r.flushAt && r.n.Load() >= r.flushAt {
		notify(r.full)
	}
	return r.joined
}

// write returns when what had joined is in a log.
func (r *recent) write(joined uint64) error {
	if r.written.Load() >= joined {
		return nil
	}
	r.log.Lock()
	defer r.log.Unlock()
	if r.written.Load() >= joined {
		return nil
	}
	// Where the write of ours has failed, so does the store.
	if err := r.s.space.failed.Load(); err != nil {
		return *err
	}
	r.mu.Lock()
	buf, all := r.pending, r.joined
	r.pending = r.buf[:0]
	r.mu.Unlock()
	f := r.logs[r.active]
	r.writes++
	_, err := f.WriteAt(buf, r.size)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		// Nothing is lost: the next write is at the same place. The guard refuses what
		// comes until there is room.
		r.mu.Lock()
		r.pending = append(slices.Clone(buf), r.pending...)
		r.mu.Unlock()
		s := r.s.space
		s.refresh()
		return fmt.Errorf("%w: write %s: %w", ErrStoreFull, f.Name(), err)
	}
	if err != nil {
		return r.s.space.fail(fmt.Errorf("write %s: %w", f.Name(), err))
	}
	r.size += int64(len(buf))
	r.written.Store(all)
	if cap(buf) <= 1<<16 {
		r.buf = buf
	} else {
		r.buf = nil
	}
	return nil
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
func (rec recentRecord) widen(set *ShardSet) {
	if rec.part == nil {
		return
	}
	set.Add(rec.pair.Shard)
	for _, p := range rec.more {
		set.Add(p.Shard)
	}
}

// widen adds the shards of a record. The caller takes its snapshot of Badger
// after: what a flush has moved is there then.
func (r *recent) widen(set *ShardSet, recordKey []byte) {
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
func (r *recent) widenRange(set *ShardSet, g *generation, from, to []byte) map[string]struct{} {
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

// flush returns when all that was added before is in Badger.
func (r *recent) flush() error {
	if r.n.Load() == 0 && !r.leftover.Load() {
		return nil
	}
	r.flushing.Lock()
	defer r.flushing.Unlock()
	if err := r.s.space.reclaimable(); err != nil {
		return err
	}
	// What is pending now goes into the other log, though it is moved with the
	// rest: whoever waits for it is told when it is there.
	if r.spare == nil {
		r.spare = map[string]recentRecord{}
	}
	r.log.Lock()
	r.mu.Lock()
	moved := r.records
	r.moving, r.records, r.spare = moved, r.spare, nil
	r.mu.Unlock()
	logs := r.logs[r.active : r.active+1]
	if r.leftover.Load() {
		logs = r.logs[:]
	} else {
		r.active, r.size = 1-r.active, 0
	}
	r.log.Unlock()

	err := r.move()
	for _, f := range logs {
		if f == nil || err != nil {
			continue
		}
		if terr := f.Truncate(0); terr != nil {
			err = r.s.space.fail(fmt.Errorf("empty %s: %w", f.Name(), terr))
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

// settle ends a flush: what was moved is no longer here, unless that failed.
func (r *recent) settle(moved map[string]recentRecord, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.moving = nil
	r.n.Add(-int64(len(moved)))
	if err != nil {
		// The store is read-only now. Lookups go on finding these, and the log
		// stays for the next process: nothing is flushed or added any more.
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
