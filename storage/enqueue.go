package storage

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// Enqueue adds a job. Of j, Type, Schema, Table, Operation, Shards, Indexes,
// UpdatedColumns, Keys, CreatedAt (zero: now) and NotBefore count. It is split
// and merged into jobs that wait as design section 4 says; where they cover it
// already nothing is written. It returns the ID of the (first) job that will
// do the work. Survives the death of the process.
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
	if !perShard(j.Type) {
		return q.enqueue(s, j, Only(0), keyOf(j, 0), false)
	}
	var id uint64
	for i := range MaxShards {
		shard := ShardID(i)
		if !j.Shards.Has(shard) {
			continue
		}
		one, err := q.enqueue(s, j, Only(shard), keyOf(j, shard), soon)
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

// maxJobKeys bounds the keys of a verify_keys job. One that would get more
// becomes a maintain_index job: a scan is cheaper then.
const maxJobKeys = 1000

// enqueue does one merge key's part of a job.
func (q *queue) enqueue(s *Store, n *Job, shard ShardSet, key mergeKey, soon bool) (uint64, error) {
	if !soon {
		// What covers the job must be in the store too.
		if err := q.saveLocked(s); err != nil {
			return 0, err
		}
	}
	into := q.fresh[key]
	if into != nil && into.covers(n) {
		return into.ID, nil
	}
	if n.Type == VerifyKeys {
		scan := key
		scan.typ = MaintainIndex
		if j := q.fresh[scan]; j != nil && j.swallows && j.covers(n) {
			return j.ID, nil
		}
	}
	// What covers a job is saved before the intent is lifted, so only now it
	// matters whether that is set.
	if soon && !s.intents.isActive(Pair{n.Schema, n.Table, firstShard(shard)}) {
		soon = false
		if err := q.saveLocked(s); err != nil {
			return 0, err
		}
	}
	writable := s.space.writable
	if n.Type == DropIndexJob {
		writable = s.space.reclaimable // it makes room
	}
	if err := writable(); err != nil {
		return 0, err
	}
	if into != nil && len(into.keys)+len(n.Keys) > maxJobKeys || into == nil && len(n.Keys) > maxJobKeys {
		return q.overflow(s, into, n, shard, key)
	}
	var rec Job
	created := into == nil
	if created {
		rec = Job{
			ID: q.next, Type: n.Type, Schema: n.Schema, Table: n.Table, Operation: n.Operation, Shards: n.Shards,
			Indexes: union(n.Indexes, nil), UpdatedColumns: union(n.UpdatedColumns, nil),
			CreatedAt: n.CreatedAt, NotBefore: n.NotBefore,
		}
		if perShard(n.Type) {
			rec.Shards = shard
		}
		if rec.CreatedAt.IsZero() {
			rec.CreatedAt = s.opt.Now()
		}
		into = &job{key: key}
	} else {
		rec = into.with(n)
	}
	// More keys are no news to workers.
	wake := created || n.Type != VerifyKeys || rec.NotBefore.Before(into.NotBefore)
	var keys []JobKey
	for _, k := range n.Keys {
		if _, ok := into.seen[seenKey{k.Index, string(k.Key)}]; !ok {
			keys = append(keys, JobKey{k.Index, slices.Clone(k.Key), slices.Clone(k.Values)})
		}
	}
	if !soon {
		err := s.update(func(txn *badger.Txn) error { return setJobKeys(txn, rec, into.nextKey, keys) })
		if err != nil {
			return 0, fmt.Errorf("enqueue %s: %w", n.Type, err)
		}
	}
	into.Job = rec
	for _, k := range keys {
		into.addKey(k)
	}
	if soon {
		q.saveSoon(into)
	} else {
		into.nextKey += uint32(len(keys))
		into.saved = len(into.keys)
	}
	if created {
		q.next++
		q.jobs[rec.ID] = into
		q.fresh[key] = into
	}
	if wake {
		q.wake()
	}
	return rec.ID, nil
}

// overflow puts a maintain_index job in the place of a verify_keys job with
// too many keys. The scan's job is written first: a crash between leaves both.
func (q *queue) overflow(s *Store, old *job, n *Job, shard ShardSet, key mergeKey) (uint64, error) {
	scan := *n
	scan.Type, scan.Keys = MaintainIndex, nil
	for _, k := range n.Keys {
		scan.Indexes = union(scan.Indexes, []IndexID{k.Index})
	}
	if old != nil {
		for _, k := range old.keys {
			scan.Indexes = union(scan.Indexes, []IndexID{k.Index})
		}
		scan.CreatedAt = old.CreatedAt
	}
	key.typ = MaintainIndex
	id, err := q.enqueue(s, &scan, shard, key, false)
	if err != nil {
		return 0, err
	}
	q.jobs[id].swallows = true
	if old == nil {
		return id, nil
	}
	return id, q.remove(s, old)
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
	err := s.updateEach(len(q.unsaved), func(txn *badger.Txn, i int) error {
		j := q.unsaved[i]
		return setJobKeys(txn, j.Job, j.nextKey, j.keys[j.saved:])
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
