package storage

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// generation is one set of entries of an index: the readable one, one being
// built, or one that a Repartition fills.
type generation struct {
	id    uint32
	parts []*partition
}

// genRef is a generation in a definition record.
type genRef struct {
	ID         uint32 `json:"id"`
	Partitions int    `json:"partitions"`
}

// newGeneration makes the memory side of a generation. counted says that its
// number of entries is known to be counts (or 0).
func (s *Store) newGeneration(ref genRef, counts []int64, counted bool) *generation {
	g := &generation{id: ref.ID, parts: make([]*partition, ref.Partitions)}
	for i := range g.parts {
		p := &partition{store: s, prefix: appendEntryPrefix(nil, ref.ID, uint16(i))}
		p.writer.p = p
		p.idle.L = &p.mu
		if i < len(counts) {
			p.count.Store(counts[i])
		}
		p.counted.Store(counted)
		g.parts[i] = p
	}
	return g
}

func (g *generation) ref() *genRef {
	if g == nil {
		return nil
	}
	return &genRef{g.id, len(g.parts)}
}

// partition returns the partition of an index key.
func (g *generation) partition(key []byte) *partition {
	return g.parts[partitionOf(key, len(g.parts))]
}

// entries is the number of (key, shard) pairs; exact is false while a count
// is under way.
func (g *generation) entries() (n int64, exact bool) {
	exact = true
	for _, p := range g.parts {
		n += p.count.Load()
		exact = exact && p.counted.Load()
	}
	return max(n, 0), exact
}

// close returns when what was asked before is written. Later requests get
// errGone.
func (g *generation) close() {
	for _, p := range g.parts {
		p.close()
	}
}

// errGone: the generation was retired between loading the view and asking its
// writer. The caller looks at the view again.
var errGone = errors.New("generation is gone")

// partition is a part of a generation. One goroutine at a time writes to it:
// all changes of its records are read-modify-write there, so they need no
// transaction conflicts, and whatever waits meanwhile is committed together.
//
// Who asks while nobody writes does it himself: handing over to another
// goroutine and back costs more than the commit.
type partition struct {
	store *Store
	// prefix begins the keys of its records.
	prefix []byte
	// count is the number of pairs since the snapshot of the last count; see
	// count.go.
	count   atomic.Int64
	counted atomic.Bool

	mu     sync.Mutex
	queue  []*request
	spare  []*request // the array of an earlier queue
	closed bool
	// writing: somebody has the writer. idle is signalled when nobody has.
	writing bool
	// lost: the database that its records were in is no more.
	lost   atomic.Bool
	idle   sync.Cond
	writer writer
}

type requestKind uint8

const (
	// requestAdd: each pair exists with an epoch of at least the given one.
	requestAdd requestKind = iota
	// requestAddMany is requestAdd of many entries at once, as an index is built: they are
	// put among the hot records.
	requestAddMany
	// requestRemove: each pair is gone if its epoch is less than the given one.
	requestRemove
	// requestSnapshot: see count.go.
	requestSnapshot
)

// request asks a partition's writer for changes. It is used by one caller at a
// time, again and again; its buffers are the writer's from submit until done.
type request struct {
	kind requestKind
	part *partition
	// keys are whole record keys, in buf; pairs has one element for each.
	keys  [][]byte
	pairs []ShardEpoch
	buf   []byte
	// changed is the number of pairs added or removed.
	changed int
	// snapshot answers requestSnapshot.
	snapshot *pebble.Snapshot
	done     chan error
}

var requestPool = sync.Pool{New: func() any { return &request{done: make(chan error, 1)} }}

func newRequest(kind requestKind, p *partition) *request {
	r := requestPool.Get().(*request)
	r.kind, r.part, r.changed = kind, p, 0
	return r
}

func (r *request) release() {
	// A request of a huge statement must not stay in the pool.
	if cap(r.buf) > 1<<20 || cap(r.keys) > 1<<14 {
		return
	}
	clear(r.keys)
	r.keys, r.pairs, r.buf = r.keys[:0], r.pairs[:0], r.buf[:0]
	r.part, r.snapshot = nil, nil
	requestPool.Put(r)
}

// addPair appends a pair; recordKey is copied.
func addPair[K string | []byte](r *request, recordKey K, pair ShardEpoch) {
	n := len(r.buf)
	r.buf = append(r.buf, recordKey...)
	// Where append moved buf, earlier keys keep the old array: still right.
	r.keys = append(r.keys, r.buf[n:len(r.buf):len(r.buf)])
	r.pairs = append(r.pairs, pair)
}

// submit has r written, by this goroutine unless another one is writing, and
// answered on r.done: errGone if the generation was retired before. A goroutine writes one batch, then leaves what came
// meanwhile to one of the store's own.
func (p *partition) submit(r *request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		r.done <- errGone
		return
	}
	p.queue = append(p.queue, r)
	if p.writing {
		return
	}
	p.writing = true
	p.writeQueueLocked()
	if len(p.queue) > 0 {
		p.store.background.Go(func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			for len(p.queue) > 0 {
				p.writeQueueLocked()
			}
			p.restLocked()
		})
		return
	}
	p.restLocked()
}

// writeQueueLocked writes what waits, as one batch. The lock is let go
// meanwhile.
func (p *partition) writeQueueLocked() {
	batch := p.queue
	p.queue = p.spare[:0]
	p.mu.Unlock()
	p.writer.write(batch)
	clear(batch)
	p.mu.Lock()
	p.spare = batch
}

func (p *partition) restLocked() {
	p.writing = false
	p.idle.Broadcast()
}

func (p *partition) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for p.writing {
		p.idle.Wait()
	}
}

// writer is the state of whoever writes to a partition.
type writer struct {
	p *partition
	// changes are what is not committed yet, nil for nothing. They can be read from.
	changes *changes
	// written are the records that are changed in it, in order. delta is the change of the
	// entry count.
	written []writtenRecord
	delta   int64
	// keeps: what is written is put among the hot records. latest are the places in
	// written then, by their keys' hashes.
	keeps  bool
	latest map[uint64]int
	// values holds the new values, until commit.
	values []byte
	pairs  []ShardEpoch
	val    []byte
}

// writtenRecord is a change of a record: val is empty where it goes.
type writtenRecord struct {
	key, val []byte
	hash     uint64
	// superseded: a later one of the same commit has changed it again.
	superseded bool
}

// write applies a batch in as few commits as maxCommit allows and
// answers each request. A failure is every request's failure: those whose
// changes went into an earlier commit of the batch hear it too, which
// is harmless because all changes are idempotent.
func (w *writer) write(batch []*request) {
	db := w.p.store.db
	db.use.RLock()
	defer db.use.RUnlock()
	err := db.health.err()
	if w.p.lost.Load() {
		err = errGone
	}
	w.keeps = !slices.ContainsFunc(batch, func(r *request) bool { return r.kind != requestAddMany })
	for _, r := range batch {
		if r.kind == requestSnapshot {
			// The snapshot must hold exactly what count no longer does.
			if err == nil {
				err = w.commit()
			}
			if err == nil {
				w.p.count.Store(0)
				r.snapshot = w.p.store.db.NewSnapshot()
			}
			continue
		}
		for i := 0; i < len(r.keys) && err == nil; i++ {
			if i%64 == 63 {
				runtime.Gosched() // statements come first: many keys take milliseconds
			}
			var changed bool
			changed, err = w.apply(r.kind, r.keys[i], r.pairs[i])
			if changed {
				r.changed++
			}
		}
	}
	if err == nil {
		err = w.commit()
	}
	w.discard()
	if err != nil && !errors.Is(err, errGone) {
		err = w.p.store.space.fail(err)
	}
	for _, r := range batch {
		r.done <- err
	}
}

func (w *writer) apply(kind requestKind, key []byte, pair ShardEpoch) (changed bool, err error) {
	if w.changes != nil && w.changes.full() {
		if err := w.commit(); err != nil {
			return false, err
		}
	}
	if w.changes == nil {
		w.changes = &changes{Batch: w.p.store.db.NewIndexedBatch()}
	}
	w.pairs = w.pairs[:0]
	if w.val, _, err = w.p.store.db.read(w.changes, key, w.val[:0]); err != nil {
		return false, err
	}
	if w.pairs, err = decodePairs(w.pairs, w.val); err != nil {
		return false, err
	}
	// The position of the shard, or where it belongs.
	at := 0
	for at < len(w.pairs) && w.pairs[at].Shard < pair.Shard {
		at++
	}
	found := at < len(w.pairs) && w.pairs[at].Shard == pair.Shard
	var delta int64
	switch kind {
	case requestAdd, requestAddMany:
		switch {
		case !found:
			w.pairs = append(w.pairs, ShardEpoch{})
			copy(w.pairs[at+1:], w.pairs[at:])
			w.pairs[at] = pair
			delta = 1
		case w.pairs[at].Epoch < pair.Epoch:
			w.pairs[at].Epoch = pair.Epoch
		default:
			return false, nil
		}
	case requestRemove:
		if !found || w.pairs[at].Epoch >= pair.Epoch {
			return false, nil
		}
		w.pairs = append(w.pairs[:at], w.pairs[at+1:]...)
		delta = -1
	case requestSnapshot: // write has answered it: it names no keys
	}
	var val []byte
	if len(w.pairs) == 0 {
		err = w.changes.delete(key)
	} else {
		n := len(w.values)
		w.values = appendPairs(w.values, w.pairs)
		val = w.values[n:len(w.values):len(w.values)]
		err = w.changes.set(key, val)
	}
	if err != nil {
		return false, err
	}
	w.written = append(w.written, writtenRecord{key: key, val: val})
	w.delta += delta
	return delta != 0, nil
}

// commit makes the changes so far survive the death of the process, and shows
// them to lookups. Hot records are out of the way meanwhile: see "Hot records" in
// doc.go.
func (w *writer) commit() error {
	if w.changes == nil {
		return nil
	}
	var err error
	if len(w.written) > 0 {
		hot := w.p.store.hot
		if w.latest == nil {
			w.latest = map[uint64]int{}
		}
		for i := range w.written {
			r := &w.written[i]
			if r.hash = hot.change(r.key); !w.keeps {
				continue
			}
			if at, ok := w.latest[r.hash]; ok {
				w.written[at].superseded = true
			}
			w.latest[r.hash] = i
		}
		err = w.p.store.db.commit(w.changes)
		w.p.store.published.publish()
		for i := range w.written {
			r := &w.written[i]
			hot.changed(r.hash, r.key, r.val, w.keeps && err == nil && !r.superseded)
		}
	}
	if err == nil {
		w.p.count.Add(w.delta)
	}
	w.discard()
	return err
}

func (w *writer) discard() {
	if w.changes != nil {
		_ = w.changes.Close() // never fails
	}
	if len(w.latest) > 1<<12 {
		w.latest = nil // to clear it would take long ever after
	}
	clear(w.latest)
	clear(w.written)
	w.changes, w.written, w.delta = nil, w.written[:0], 0
	if cap(w.values) > 1<<20 {
		w.values = nil
	}
	w.values = w.values[:0]
}
