package storage

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// Enqueue adds a job. Of j, Type, Schema, Table, Operation, Shards, Indexes,
// UpdatedColumns, Keys, CreatedAt (zero: now) and NotBefore count. It is split
// and merged into jobs that wait (see mergeKey); where they cover it already
// nothing is written. It returns the ID of the (first) job that will do the
// work. Survives the death of the process.
func (s *Store) Enqueue(j Job) (uint64, error) { return s.enqueue(&j, false) }

// EnqueueSoon is Enqueue for jobs behind writes: what many statements ask for in
// a moment is one write to the store, in the background, which none waits for.
// Where the process dies before it, the write-intent of the (table, shard) is
// found instead: where that isn't set, this is Enqueue.
func (s *Store) EnqueueSoon(j Job) error {
	_, err := s.enqueue(&j, true)
	return err
}

func (s *Store) enqueue(j *Job, soon bool) (uint64, error) {
	if !s.gate.enter() {
		return 0, ErrClosed
	}
	defer s.gate.leave()
	q := &s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if !kindOf(j.Type).perShard {
		return q.enqueue(s, j, keyOf(j, 0), false)
	}
	var id uint64
	for shard := range j.Shards.All {
		one, err := q.enqueue(s, j, keyOf(j, shard), soon)
		if err != nil {
			return 0, err
		}
		if id == 0 {
			id = one
		}
	}
	if id == 0 {
		return 0, fmt.Errorf("enqueue %s: no shards given", j.Type)
	}
	return id, nil
}

// maxJobKeys bounds the keys of a job. One that would get more becomes another; see
// jobKind.
const maxJobKeys = 1000

// enqueue does one merge key's part of a job.
func (q *queue) enqueue(s *Store, n *Job, key mergeKey, soon bool) (uint64, error) {
	if !soon {
		// What covers the job must be in the store too.
		if err := q.saveLocked(s); err != nil {
			return 0, err
		}
	}
	if j := q.covering(n, key); j != nil {
		return j.ID, nil
	}
	// What covers a job is saved before the intent is lifted, so only now it
	// matters whether that is set.
	if soon && !s.intents.isActive(Pair{n.Schema, n.Table, catalog.ShardID(key.shard)}) {
		soon = false
		if err := q.saveLocked(s); err != nil {
			return 0, err
		}
	}
	writable := s.space.writable
	if kindOf(n.Type).makesRoom {
		writable = s.space.reclaimable
	}
	if err := writable(); err != nil {
		return 0, err
	}
	j := q.fresh[key]
	created := j == nil
	if created {
		j = &job{key: key}
	}
	if kindOf(n.Type).overflow != "" && len(j.keys)+len(n.Keys) > maxJobKeys {
		return q.overflow(s, j, n)
	}
	var rec Job
	if created {
		rec = q.newRecord(s, n, key)
	} else {
		rec = j.with(n)
	}
	// More keys are no news to workers.
	wake := created || kindOf(n.Type).overflow == "" || rec.NotBefore.Before(j.NotBefore)
	keys := j.lacking(n.Keys)
	if !soon {
		err := s.update(func(w *changes) error { return setJobKeys(w, rec, j.nextKey, keys) })
		if err != nil {
			return 0, fmt.Errorf("enqueue %s: %w", n.Type, err)
		}
	}
	j.Job = rec
	for _, k := range keys {
		j.addKey(k)
	}
	if soon {
		q.saveSoon(j)
	} else {
		j.nextKey += uint32(len(keys))
		j.saved = len(j.keys)
	}
	if created {
		q.next++
		q.jobs[rec.ID] = j
		q.fresh[key] = j
	}
	if wake {
		q.wake()
	}
	return rec.ID, nil
}

// covering returns a job that waits and does all that n asks for, nil if none
// does.
func (q *queue) covering(n *Job, key mergeKey) *job {
	if j := q.fresh[key]; j != nil && j.covers(n) {
		return j
	}
	if as := kindOf(n.Type).overflow; as != "" {
		key.typ = as
		if j := q.fresh[key]; j != nil && j.swallows && j.covers(n) {
			return j
		}
	}
	return nil
}

// newRecord is the record of a new job for what n asks for.
func (q *queue) newRecord(s *Store, n *Job, key mergeKey) Job {
	rec := Job{
		ID: q.next, Type: n.Type, Schema: n.Schema, Table: n.Table, Operation: n.Operation, Shards: n.Shards,
		Indexes: union(n.Indexes, nil), UpdatedColumns: union(n.UpdatedColumns, nil),
		CreatedAt: n.CreatedAt, NotBefore: n.NotBefore,
	}
	if kindOf(n.Type).perShard {
		rec.Shards = catalog.Only(catalog.ShardID(key.shard))
	}
	if rec.CreatedAt.IsZero() {
		rec.CreatedAt = s.opt.Now()
	}
	return rec
}

// overflow puts a scan's job in the place of one of keys (a new one has no ID)
// that n would give too many. The scan's job is written
// first: a crash between leaves both.
func (q *queue) overflow(s *Store, old *job, n *Job) (uint64, error) {
	scan := n.scanning(old.keys)
	if old.ID != 0 {
		scan.CreatedAt = old.CreatedAt
	}
	key := old.key
	key.typ = scan.Type
	id, err := q.enqueue(s, &scan, key, false)
	if err != nil {
		return 0, err
	}
	q.jobs[id].swallows = true
	if old.ID == 0 {
		return id, nil
	}
	return id, q.remove(s, old)
}

// scanning is the job of the type that one with too many keys becomes.
func (n *Job) scanning(more []JobKey) Job {
	scan := *n
	scan.Type, scan.Keys = kindOf(n.Type).overflow, nil
	for _, k := range slices.Concat(n.Keys, more) {
		scan.Indexes = union(scan.Indexes, []catalog.IndexID{k.Index})
	}
	return scan
}

// soonDelay is how long EnqueueSoon's changes are gathered.
const soonDelay = 100 * time.Millisecond

func (q *queue) saveSoon(j *job) {
	if j.unsaved {
		return
	}
	j.unsaved = true
	q.unsaved = append(q.unsaved, j)
	if len(q.unsaved) == 1 {
		notify(q.soon)
	}
}

// save commits what EnqueueSoon has changed.
func (q *queue) save(s *Store) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.saveLocked(s)
}

func (q *queue) saveLocked(s *Store) error {
	if len(q.unsaved) == 0 {
		return nil
	}
	if err := s.space.reclaimable(); err != nil {
		return err
	}
	err := s.updateEach(len(q.unsaved), func(w *changes, i int) error {
		j := q.unsaved[i]
		return setJobKeys(w, j.Job, j.nextKey, j.keys[j.saved:])
	})
	if err != nil {
		return fmt.Errorf("save jobs: %w", err)
	}
	for _, j := range q.unsaved {
		j.nextKey += uint32(len(j.keys) - j.saved)
		j.saved, j.unsaved = len(j.keys), false
	}
	clear(q.unsaved)
	q.unsaved = q.unsaved[:0]
	return nil
}

// run saves what EnqueueSoon has changed, until ctx ends.
func (q *queue) run(ctx context.Context, s *Store) {
	t := time.NewTimer(soonDelay)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.soon:
		}
		t.Reset(soonDelay)
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if err := q.save(s); err != nil {
			// The disk is full, or the store read-only, and the operator knows.
			notify(q.soon)
		}
	}
}
