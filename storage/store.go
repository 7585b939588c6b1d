package storage

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// Store is the table of virtual indexes with their marks, write-intents and
// jobs. All methods are safe for concurrent use. Methods called after Close
// return ErrClosed or a zero value.
type Store struct {
	opt   Options
	db    *badger.DB
	disk  diskThread
	gate  gate
	space *spaceGuard
	// background are the goroutines that the store owns: writers of
	// partitions, the entry count, the space guard, the intents' lifter.
	// stop ends ctx and so all but the writers, which end when nothing waits.
	background sync.WaitGroup
	ctx        context.Context
	stop       context.CancelFunc

	clock     clock
	names     names
	intents   intents
	threads   threads
	queue     queue
	garbage   garbage
	sequences sequences
	recent    recent
	hot       *hot
	published published

	// fresh: Open has made it.
	fresh bool

	// indexes is replaced as a whole, under change.
	indexes atomic.Pointer[map[IndexID]*index]
	// change serialises changes of definitions and generations.
	change         sync.Mutex
	nextIndex      IndexID
	nextGeneration uint32
}

// testOptions are for this package's tests.
type testOptions struct {
	memTable int64
	// syncFile replaces (*os.File).Sync.
	syncFile func(*os.File) error
	// flushAt is how many recent entries wake the flusher.
	flushAt int64
	// noFlusher leaves recent entries where they are until a call flushes; the lifter
	// of intents would, and isn't run then.
	noFlusher bool
	// manual leaves the lifter of intents, and what saves jobs, to the test.
	manual bool
}

// Open opens the store in o.Dir, making it if it is missing. The errors
// ErrLocked, ErrFormat and ErrUnreadable come with what to do.
func Open(o Options) (*Store, error) { return open(o, testOptions{}) }

func open(o Options, t testOptions) (_ *Store, err error) {
	if o.Dir == "" && !o.InMemory {
		return nil, errors.New("open index store: no directory given")
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Quiet == 0 {
		o.Quiet = 5 * time.Second
	}
	if o.BootID == "" {
		o.BootID = bootID()
	}
	if t.memTable == 0 {
		t.memTable = memTableSize
	}
	if t.syncFile == nil {
		t.syncFile = (*os.File).Sync
	}
	disk := startDiskThread()
	defer func() {
		if err != nil {
			disk.stop()
		}
	}()
	db, err := openBadger(o, t.memTable)
	if err != nil {
		return nil, err
	}
	s := &Store{opt: o, db: db, disk: disk, gate: gate{drained: make(chan struct{})}, space: newSpaceGuard(o)}
	s.intents.syncFile = t.syncFile
	if o.LookupCache == 0 {
		o.LookupCache = defaultHotBytes
	}
	s.hot = newHot(int(o.LookupCache))
	s.published.open(db)
	counts, err := s.load()
	if err != nil {
		s.published.close()
		return nil, errors.Join(err, db.Close())
	}
	if err := s.recent.open(s, t.flushAt); err != nil {
		s.published.close()
		return nil, errors.Join(unreadable(o.Dir, fmt.Errorf("read recent entries: %w", err)), db.Close())
	}
	if err := noteBoot(o); err != nil {
		o.Logger.Warn("damage of the index store's logs will not be noticed at the next start", "error", err)
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	ctx := s.ctx
	s.background.Go(func() { s.count(ctx, counts) })
	s.background.Go(func() { s.published.run(ctx) })
	if !t.noFlusher {
		s.background.Go(func() { s.recent.run(ctx) })
	}
	if s.space.measure != nil {
		s.background.Go(func() { s.space.run(ctx, o.Logger) })
	}
	if !t.manual {
		s.background.Go(func() { s.queue.run(ctx, s) })
	}
	if !t.manual && !t.noFlusher {
		s.background.Go(func() { s.runLifter(ctx) })
	}
	return s, nil
}

// bootID is empty where the system has none: then no unclean stop can be told
// from a power loss, and all count as one.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// load reads everything but the entries, and begins a new life of the store:
// a range of epochs that was never handed out. It returns the generations
// whose entries must be counted.
func (s *Store) load() (uncounted []*generation, err error) {
	if err := s.loadFormat(); err != nil {
		return nil, err
	}
	counts := map[uint32][]int64{}
	if err := s.getJSON([]byte{kindCounts}, &counts); err != nil {
		return nil, s.loadError("entry counts", err)
	}
	if err := s.clock.load(s); err != nil {
		return nil, s.loadError("epoch", err)
	}
	if err := s.names.load(s); err != nil {
		return nil, s.loadError("shards", err)
	}
	if uncounted, err = s.loadIndexes(counts); err != nil {
		return nil, s.loadError("indexes", err)
	}
	if err := s.garbage.load(s); err != nil {
		return nil, s.loadError("old generations", err)
	}
	if err := s.intents.load(s); err != nil {
		return nil, s.loadError("write-intents", err)
	}
	if err := s.threads.load(s); err != nil {
		return nil, s.loadError("connections", err)
	}
	if err := s.queue.load(s); err != nil {
		return nil, s.loadError("jobs", err)
	}
	// The counts are of the last graceful stop: from the first write on they
	// are wrong, so they go before it, together with the new ceiling, which is
	// synced.
	err = s.db.Update(func(txn *badger.Txn) error {
		if err := txn.Delete([]byte{kindCounts}); err != nil {
			return err
		}
		return s.clock.extend(txn, s.clock.ceiling)
	})
	if err == nil {
		err = s.sync()
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: begin: %w", s.opt.Dir, err)
	}
	return uncounted, nil
}

func (s *Store) loadError(what string, err error) error {
	return unreadable(s.opt.Dir, fmt.Errorf("read %s: %w", what, err))
}

// loadFormat checks the format record, or writes it where the store is empty.
func (s *Store) loadFormat() error {
	val, err := s.get([]byte{kindFormat})
	if err != nil {
		return s.loadError("format", err)
	}
	if val == nil {
		empty := true
		err := s.scan(nil, func([]byte, []byte) (bool, error) {
			empty = false
			return false, nil
		})
		if err != nil {
			return s.loadError("format", err)
		}
		if !empty {
			return fmt.Errorf("open %s: %w: it holds a Badger database that is not Shunt's: choose another data_dir",
				s.opt.Dir, ErrFormat)
		}
		s.fresh = true
		return s.db.Update(func(txn *badger.Txn) error {
			return txn.Set([]byte{kindFormat}, binary.AppendUvarint(nil, formatVersion))
		})
	}
	if v, _ := binary.Uvarint(val); v != formatVersion {
		return fmt.Errorf("open %s: %w: version %d, this program reads version %d: use the version of Shunt that wrote it, or %s",
			s.opt.Dir, ErrFormat, v, formatVersion, beginAnew)
	}
	return nil
}

// Close refuses further calls, waits for those under way, and makes all of it
// survive a power loss: the next Open finds no intents.
func (s *Store) Close() error {
	if !s.gate.shut() {
		if invariants {
			panic("storage: Store closed twice")
		}
		return ErrClosed
	}
	s.stop()
	s.gate.wait()
	flushErr := s.recent.flush()
	for _, ix := range *s.indexes.Load() {
		for _, g := range ix.view.Load().all {
			g.close()
		}
	}
	s.background.Wait()
	err := flushErr
	// A store that failed to write keeps its intents: what it holds is in
	// doubt.
	if err == nil && s.space.failed.Load() == nil {
		err = s.finish()
	}
	s.published.close()
	err = errors.Join(err, s.recent.close())
	if full := hasRoom(s.opt.Dir); full != nil && !s.opt.InMemory {
		return errors.Join(err, fmt.Errorf("%w to close the index store: it is left as by a crash", full))
	}
	err = errors.Join(err, s.db.Close())
	s.disk.stop()
	return err
}

// finish lifts all intents and keeps the entry counts.
func (s *Store) finish() error {
	if err := s.sync(); err != nil {
		return fmt.Errorf("sync index store: %w", err)
	}
	counts := map[uint32][]int64{}
	for _, ix := range *s.indexes.Load() {
		for _, g := range ix.view.Load().all {
			if _, exact := g.entries(); exact {
				c := make([]int64, len(g.parts))
				for i, p := range g.parts {
					c[i] = p.count.Load()
				}
				counts[g.id] = c
			}
		}
	}
	// Counts that don't fit into a record are made anew.
	raw, err := json.Marshal(counts)
	if err == nil && len(raw) <= maxValue {
		err = s.update(func(txn *badger.Txn) error { return txn.Set([]byte{kindCounts}, raw) })
	}
	if err == nil {
		err = s.finishSequences()
	}
	if err == nil {
		err = s.intents.deleteAll(s)
	}
	if err == nil {
		err = s.sync()
	}
	if err != nil {
		return fmt.Errorf("finish index store: %w", err)
	}
	return nil
}

// Sync makes everything written so far survive a power loss.
func (s *Store) Sync() error {
	if !s.gate.enter() {
		return ErrClosed
	}
	defer s.gate.leave()
	return s.sync()
}

func (s *Store) sync() error {
	if err := s.recent.flush(); err != nil {
		return err
	}
	if err := s.queue.save(s); err != nil {
		return err
	}
	if s.opt.InMemory {
		return nil
	}
	err := s.disk.do(func() error { return syncDir(s.db, s.opt.Dir, s.intents.syncFile) })
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return fmt.Errorf("sync index store: %w", err) // nothing was synced, and nothing lost: a later one will do
	}
	if err != nil {
		// After a failed fsync the kernel may have dropped the dirty pages: a
		// second one that succeeds would prove nothing.
		return s.space.fail(fmt.Errorf("sync: %w", err))
	}
	return nil
}

// Writable returns nil, or why writes are refused: ErrStoreFull or
// ErrReadOnly. It costs an atomic load.
func (s *Store) Writable() error { return s.space.writable() }

// Room measures the disk and returns why what adds to it is refused, or nil.
func (s *Store) Room() error {
	s.space.refresh()
	return s.space.writable()
}

// Stats returns the store's numbers.
func (s *Store) Stats() Stats {
	if !s.gate.enter() {
		return Stats{Writable: ErrClosed}
	}
	defer s.gate.leave()
	// The counts are Badger's. Where this fails, Writable says so.
	_ = s.recent.flush()
	st := Stats{
		Indexes:   map[IndexID]IndexStats{},
		FreeBytes: s.space.free.Load(),
		Garbage:   s.garbage.len(),
		Intents:   s.intents.len(),
		Writable:  s.space.writable(),
		DiskBytes: s.diskBytes(),
	}
	st.HotHits, st.HotMisses, st.HotBytes = s.hot.stats()
	for id, ix := range *s.indexes.Load() {
		var is IndexStats
		if g := ix.view.Load().counted(); g != nil {
			n, exact := g.entries()
			is.Entries, is.Approximate = n, !exact
		}
		is.Unknown = ix.marks.Load().shards()
		st.Indexes[id] = is
	}
	return st
}

// diskBytes adds up what the files really take: Badger's logs are sparse.
func (s *Store) diskBytes() int64 {
	if s.opt.InMemory {
		lsm, vlog := s.db.Size()
		return lsm + vlog
	}
	return allocatedBytes(s.opt.Dir)
}

// update commits fn's changes, so that they survive the death of the process.
// fn's own error changes nothing; a failed commit makes the store read-only.
func (s *Store) update(fn func(txn *badger.Txn) error) error {
	txn := s.db.NewTransaction(true)
	defer txn.Discard()
	if err := fn(txn); err != nil {
		return err
	}
	if err := txn.Commit(); err != nil {
		return s.space.fail(err)
	}
	return nil
}

// updateEach calls fn for each of n changes and commits them, in one
// transaction if Badger's limit allows, else in several.
func (s *Store) updateEach(n int, fn func(txn *badger.Txn, i int) error) error {
	for done := 0; done < n; {
		start := done
		err := s.update(func(txn *badger.Txn) error {
			for ; done < n; done++ {
				err := fn(txn, done)
				if errors.Is(err, badger.ErrTxnTooBig) && done > start {
					return nil
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// get returns a copy of a record's value, nil if there is none.
func (s *Store) get(key []byte) (val []byte, err error) {
	err = s.db.View(func(txn *badger.Txn) error {
		item, err := txn.Get(key)
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		val, err = item.ValueCopy([]byte{})
		return err
	})
	return val, err
}

// getJSON leaves v alone where there is no record.
func (s *Store) getJSON(key []byte, v any) error {
	val, err := s.get(key)
	if err != nil || val == nil {
		return err
	}
	return json.Unmarshal(val, v)
}

func setJSON(txn *badger.Txn, key []byte, v any) error {
	val, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(val) > maxValue {
		return fmt.Errorf("record of %d bytes is too large", len(val))
	}
	return txn.Set(key, val)
}

// scan calls fn with each record under prefix; key and val are only valid
// during the call.
func (s *Store) scan(prefix []byte, fn func(key, val []byte) (more bool, err error)) error {
	return s.db.View(func(txn *badger.Txn) error {
		o := badger.DefaultIteratorOptions
		o.Prefix, o.PrefetchValues = prefix, false
		it := txn.NewIterator(o)
		defer it.Close()
		var buf []byte
		for it.Rewind(); it.Valid(); it.Next() {
			var err error
			if buf, err = it.Item().ValueCopy(buf[:0]); err != nil {
				return err
			}
			if more, err := fn(it.Item().Key(), buf); err != nil || !more {
				return err
			}
		}
		return nil
	})
}
