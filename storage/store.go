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

	"github.com/shunt-sql/shunt/planner/catalog"
)

// Store is the table of virtual indexes with their marks, write-intents and
// jobs. All methods are safe for concurrent use. Methods called after Close
// return ErrClosed or a zero value.
type Store struct {
	opt  Options
	db   *engine
	disk diskThread
	// lock keeps other processes away; nil in memory.
	lock *os.File
	gate gate
	// counting is held by who counts entries.
	counting sync.Mutex
	memTable int64
	space    *spaceGuard
	// background are the goroutines that the store owns: writers of
	// partitions, the entry count, the space guard, the intents' lifter.
	// stop ends ctx and so all but the writers, which end when nothing waits.
	background sync.WaitGroup
	ctx        context.Context
	stop       context.CancelFunc

	clock     clock
	serial    serial
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
	// defined is when definitions were last changed, in Unix nanoseconds.
	defined atomic.Int64

	// removals: see Removals.
	removals atomic.Uint64

	// indexes is replaced as a whole, under change.
	indexes atomic.Pointer[map[catalog.IndexID]*index]
	// change serialises changes of definitions and generations.
	change         sync.Mutex
	nextIndex      catalog.IndexID
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
	// copies take a copy of the files for what a crash has left.
	copies bool
	// manual leaves the lifter of intents, and what saves jobs, to the test.
	manual bool
	// unmended leaves it to the test to make a damaged database anew.
	unmended bool
}

// Open opens the store in o.Dir, making it if it is missing. The errors
// ErrLocked, ErrFormat and ErrUnreadable come with what to do.
func Open(o Options) (*Store, error) { return open(o, testOptions{}) }

func open(o Options, t testOptions) (s *Store, err error) {
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
	o.copies = t.copies
	if t.memTable == 0 {
		t.memTable = memTableSize
	}
	if t.syncFile == nil {
		t.syncFile = (*os.File).Sync
	}
	lock, err := enter(o)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", o.Dir, err)
	}
	defer func() {
		if err != nil {
			_ = lock.Close() // nothing was written to it
		}
	}()
	s, err = openIn(o, t, lock)
	if !errors.Is(err, ErrUnreadable) || o.InMemory {
		return s, err
	}
	records, whole, healErr := readKept(o.Dir)
	if healErr == nil {
		healErr = heal(o, records, err)
	}
	if healErr != nil {
		return nil, fmt.Errorf("%w (it can't be made anew: %w)", err, healErr)
	}
	if !whole {
		o.Logger.Warn("the last of what the index store has kept may be lacking", "file", keptFile)
	}
	return openIn(o, t, lock)
}

// openIn opens the store in a directory that is held by lock.
func openIn(o Options, t testOptions, lock *os.File) (_ *Store, err error) {
	disk := startDiskThread()
	defer func() {
		if err != nil {
			disk.stop()
		}
	}()
	ctx, stop := context.WithCancel(context.Background())
	db, err := openEngine(o, t.memTable, ctx.Done())
	if err != nil {
		stop()
		return nil, err
	}
	s := &Store{ctx: ctx, stop: stop, memTable: t.memTable, opt: o, db: db, disk: disk, lock: lock, gate: gate{drained: make(chan struct{})}, space: newSpaceGuard(o)}
	s.intents.syncFile = t.syncFile
	if !o.InMemory {
		db.reachable = s.space.reachable
	}
	if o.LookupCache == 0 {
		o.LookupCache = defaultHotBytes
	}
	s.hot = newHot(int(o.LookupCache))
	s.published.open(db)
	counts, err := s.load(t.copies)
	if err != nil {
		stop()
		s.published.close()
		return nil, errors.Join(err, db.close())
	}
	if err := s.recent.open(s, t.flushAt); err != nil {
		stop()
		s.published.close()
		return nil, errors.Join(unreadable(o.Dir, fmt.Errorf("read recent entries: %w", err)), db.close())
	}
	db.account.of(o)
	if !t.unmended {
		s.background.Go(func() { s.mendDamage(ctx) })
	}
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
func (s *Store) load(copies bool) (uncounted []*generation, err error) {
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
	if err := s.serial.load(s); err != nil {
		return nil, s.loadError("serial", err)
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
	note, err := s.settleIn(copies)
	if err != nil {
		return nil, err
	}
	// The counts are of the last graceful stop: from the first write on they
	// are wrong, so they go before it, together with the new ceiling, which is
	// synced.
	err = s.update(func(w *changes) error {
		if err := w.delete([]byte{kindCounts}); err != nil {
			return err
		}
		if err := note(w); err != nil {
			return err
		}
		return s.clock.extend(w, s.clock.ceiling)
	})
	if err == nil {
		err = s.sync()
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: begin: %w", s.opt.Dir, err)
	}
	return uncounted, nil
}

// enter makes a store's directory ready to be opened, and keeps other processes from it as long
// as the file is open. In memory there is none.
func enter(o Options) (lock *os.File, err error) {
	if o.InMemory {
		return nil, nil
	}
	if name := foreign(o.Dir); name != "" {
		return nil, foreignFormat(name)
	}
	if err := prepareDir(o.Dir); err != nil {
		return nil, err
	}
	// A process that is being started has this one's files for a moment, and so its locks.
	for range 20 {
		if lock, err = lockDir(o.Dir); !errors.Is(err, ErrLocked) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return lock, err
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
			return fmt.Errorf("open %s: %w: it holds a database that is not Shunt's: choose another data_dir",
				s.opt.Dir, ErrFormat)
		}
		s.fresh = true
		return s.update(func(w *changes) error {
			return w.set([]byte{kindFormat}, binary.AppendUvarint(nil, formatVersion))
		})
	}
	if v, _ := binary.Uvarint(val); v != formatVersion {
		return fmt.Errorf("open %s: %w: version %d, this program reads version %d: use the version of Shunt that wrote it, or %s",
			s.opt.Dir, ErrFormat, v, formatVersion, beginAnew)
	}
	return nil
}

// Fresh reports that there was no store before this life.
func (s *Store) Fresh() bool { return s.fresh }

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
	err := s.flush()
	for _, ix := range *s.indexes.Load() {
		for _, g := range ix.view.Load().all {
			g.close()
		}
	}
	s.background.Wait()
	// A store that failed to write keeps its intents: what it holds is in
	// doubt.
	if err == nil && s.space.failed.Load() == nil {
		if err = s.space.reclaimable(); err == nil {
			err = s.finish()
		}
	}
	s.published.close()
	err = errors.Join(err, s.recent.close())
	err = errors.Join(err, s.db.close())
	if err != nil {
		err = fmt.Errorf("the index store is left as by a crash: %w", err)
	}
	s.disk.stop()
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
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
		err = s.update(func(w *changes) error { return w.set([]byte{kindCounts}, raw) })
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

// flush returns when all that was added before is in Pebble, or void: see damage.go.
func (s *Store) flush() error {
	for {
		renewals := s.db.renewals.Load()
		if again, err := s.voided(s.recent.flush(), renewals); !again {
			return err
		}
	}
}

func (s *Store) sync() error {
	if err := s.flush(); err != nil {
		return err
	}
	if err := s.queue.save(s); err != nil {
		return err
	}
	if s.opt.InMemory {
		return nil
	}
	err := s.disk.do(func() error { return syncDir(s.opt.Dir, s.intents.syncFile) })
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
	// The counts are Pebble's. Where this fails, Writable says so.
	_ = s.recent.flush()
	st := Stats{
		Indexes:   map[catalog.IndexID]IndexStats{},
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
			is.Bytes = s.bytesOf(g)
		}
		if is.Unknown = ix.marks.Load().shards(); !is.Unknown.Empty() {
			is.UnknownSince = time.Unix(0, ix.markedSince.Load())
		}
		st.Indexes[id] = is
	}
	return st
}

// bytesOf is what a generation takes of the tables.
func (s *Store) bytesOf(g *generation) int64 {
	if s.db.reading() != nil {
		return 0
	}
	defer s.db.use.RUnlock()
	prefix := generationPrefix(g.id)
	n, err := s.db.EstimateDiskUsage(prefix, behind(prefix))
	if err != nil {
		_ = s.db.noted(err) // who reads it hears of it
	}
	return int64(n)
}

// diskBytes adds up what the files really take.
func (s *Store) diskBytes() int64 {
	if s.opt.InMemory {
		return int64(s.db.Metrics().DiskSpaceUsage())
	}
	return allocatedBytes(s.opt.Dir)
}

// update commits fn's changes, so that they survive the death of the process.
// fn's own error changes nothing; a failed commit makes the store read-only.
func (s *Store) update(fn func(w *changes) error) error {
	s.db.use.RLock()
	defer s.db.use.RUnlock()
	if err := s.db.health.err(); err != nil {
		return s.space.fail(err)
	}
	w := &changes{Batch: s.db.NewBatch()}
	defer w.Close()
	if err := fn(w); err != nil {
		return err
	}
	if err := s.db.commit(w); err != nil {
		return s.space.fail(err)
	}
	return nil
}

// updateEach calls fn for each of n changes and commits them, in pieces where they are large.
func (s *Store) updateEach(n int, fn func(w *changes, i int) error) error {
	for done := 0; done < n; {
		err := s.update(func(w *changes) error {
			for ; done < n && !w.full(); done++ {
				if err := fn(w, done); err != nil {
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
func (s *Store) get(key []byte) ([]byte, error) {
	s.db.use.RLock()
	defer s.db.use.RUnlock()
	if s.db.intact() != nil {
		return s.db.kept.get(key), nil
	}
	val, found, err := s.db.read(s.db, key, []byte{})
	if errors.Is(err, ErrDamaged) && s.db.kept != nil {
		return s.db.kept.get(key), nil
	}
	if !found {
		return nil, err
	}
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

func setJSON(w *changes, key []byte, v any) error {
	val, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(val) > maxValue {
		return fmt.Errorf("record of %d bytes is too large", len(val))
	}
	return w.set(key, val)
}

// scan calls fn with each record under prefix; key and val are only valid
// during the call.
func (s *Store) scan(prefix []byte, fn func(key, val []byte) (more bool, err error)) error {
	s.db.use.RLock()
	defer s.db.use.RUnlock()
	if s.db.intact() != nil {
		return s.db.kept.scan(prefix, nil, fn)
	}
	var last []byte
	it, err := iterator(s.db, prefix)
	if err == nil {
		it.First()
		err = each(it, func(key, val []byte) (bool, error) {
			more, err := fn(key, val)
			if err == nil {
				last = append(last[:0], key...)
			}
			return more, err
		})
	}
	if err = s.db.noted(err); errors.Is(err, ErrDamaged) && s.db.kept != nil {
		return s.db.kept.scan(prefix, last, fn)
	}
	return err
}
