package storage

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// maxJobKeys bounds the keys of a verify_keys job. One that would get more
// becomes a maintain_index job: a scan is cheaper then.
const maxJobKeys = 1000

// queue holds all jobs in memory; each change is committed before it shows, but
// for what EnqueueSoon changes. That is committed soon, together, and before any
// other change of the queue and any sync.
type queue struct {
	mu   sync.Mutex
	jobs map[uint64]*job
	// fresh are the jobs that Enqueue may merge into: not claimed and without
	// a checkpoint, so that their work begins after the Enqueue. (What resumes
	// at a checkpoint has read part of the table before.)
	fresh map[mergeKey]*job
	// running is the claimed job for each thing that only one may work on.
	running map[mergeKey]uint64
	next    uint64
	changed chan struct{}
	// unsaved are the jobs that are not in the store as they are here. soon wakes
	// who saves them.
	unsaved []*job
	soon    chan struct{}
}

// soonDelay is how long EnqueueSoon's changes are gathered.
const soonDelay = 100 * time.Millisecond

// mergeKey says which jobs merge. Jobs of the types that work on one (table,
// shard) are split by shard at Enqueue; build_index is one for all shards of
// an index; others are one for a table.
type mergeKey struct {
	typ, schema, table string
	// shard is -1 where the job is for all its shards.
	shard int16
	index IndexID
}

// job is a job in the queue. Job.Keys is nil: the keys are in keys.
type job struct {
	Job
	key  mergeKey
	keys []JobKey
	seen map[seenKey]struct{}
	// nextKey numbers the next key's record: one for each of keys. Those from
	// saved on have none yet.
	nextKey uint32
	saved   int
	// unsaved: the job is in queue.unsaved.
	unsaved bool
	// swallows: the job is what became of a verify_keys job with too many
	// keys, so further ones for the (table, shard) add nothing to it.
	swallows bool
}

type seenKey struct {
	index IndexID
	key   string
}

// perShard are the types whose jobs are for one (table, shard) each.
func perShard(typ string) bool {
	return typ == MaintainIndex || typ == Reconcile || typ == VerifyKeys
}

func keyOf(j *Job, shard ShardID) mergeKey {
	k := mergeKey{typ: j.Type, schema: j.Schema, table: j.Table, shard: -1}
	switch {
	case perShard(j.Type):
		k.shard = int16(shard)
	case j.Type == BuildIndex && len(j.Indexes) > 0:
		k.index = j.Indexes[0]
	}
	return k
}

// exclusive is the key under which only one job may run. The two kinds of
// scans of a (table, shard) exclude each other.
func (k mergeKey) exclusive() mergeKey {
	if k.typ == Reconcile {
		k.typ = MaintainIndex
	}
	return k
}

func firstShard(set ShardSet) (first ShardID) {
	found := false
	set.Each(func(s ShardID) {
		if !found {
			first, found = s, true
		}
	})
	return first
}

func (q *queue) load(s *Store) error {
	q.jobs, q.fresh, q.running = map[uint64]*job{}, map[mergeKey]*job{}, map[mergeKey]uint64{}
	q.changed, q.soon = make(chan struct{}, 1), make(chan struct{}, 1)
	q.next = 1
	err := s.scan([]byte{kindJob}, func(_, val []byte) (bool, error) {
		j := &job{}
		if err := json.Unmarshal(val, &j.Job); err != nil {
			return false, err
		}
		j.key = keyOf(&j.Job, firstShard(j.Shards))
		// The worker that claimed it died with the process that had the store.
		j.ClaimedBy, j.ClaimedUntil = "", time.Time{}
		q.jobs[j.ID] = j
		q.refresh(j)
		q.next = max(q.next, j.ID+1)
		return true, nil
	})
	if err != nil {
		return err
	}
	err = s.scan([]byte{kindJobKey}, func(key, val []byte) (bool, error) {
		if len(key) != 13 {
			return false, errCorrupt
		}
		j := q.jobs[binary.BigEndian.Uint64(key[1:])]
		if j == nil {
			return true, nil
		}
		var k JobKey
		if err := json.Unmarshal(val, &k); err != nil {
			return false, err
		}
		j.addKey(k)
		j.saved = len(j.keys)
		j.nextKey = binary.BigEndian.Uint32(key[9:]) + 1
		return true, nil
	})
	if len(q.jobs) > 0 {
		q.wake()
	}
	return err
}

// refresh lets Enqueue merge into j if it may.
func (q *queue) refresh(j *job) {
	if j.ClaimedBy == "" && j.Checkpoint == nil && q.fresh[j.key] == nil {
		q.fresh[j.key] = j
	}
}

func (q *queue) wake() {
	select {
	case q.changed <- struct{}{}:
	default:
	}
}

func (j *job) addKey(k JobKey) {
	if j.seen == nil {
		j.seen = map[seenKey]struct{}{}
	}
	sk := seenKey{k.Index, string(k.Key)}
	if _, ok := j.seen[sk]; !ok {
		j.seen[sk] = struct{}{}
		j.keys = append(j.keys, k)
	}
}

// covers reports whether doing j does all that n asks for. It allocates
// nothing: it is what most UPDATEs find.
func (j *job) covers(n *Job) bool {
	if j.swallows && n.Type == VerifyKeys {
		for i := range n.Keys {
			if !slices.Contains(j.Indexes, n.Keys[i].Index) {
				return false
			}
		}
		return true
	}
	if !j.inTime(n) || !hasOperations(j.Operation, n.Operation) {
		return false
	}
	for _, id := range n.Indexes {
		if !slices.Contains(j.Indexes, id) {
			return false
		}
	}
	for _, c := range n.UpdatedColumns {
		if !slices.Contains(j.UpdatedColumns, c) {
			return false
		}
	}
	if !perShard(n.Type) && !j.Shards.Contains(n.Shards) {
		return false
	}
	for i := range n.Keys {
		if _, ok := j.seen[seenKey{n.Keys[i].Index, string(n.Keys[i].Key)}]; !ok {
			return false
		}
	}
	return true
}

// inTime: j will run no later than n asks for. A job that failed keeps its
// backoff whatever comes, or a failing shard would be asked with each UPDATE.
func (j *job) inTime(n *Job) bool {
	return j.Attempts > 0 || !j.NotBefore.After(n.NotBefore)
}

// hasOperations reports whether all of b's operations ("UPDATE+DELETE") are
// among a's.
func hasOperations(a, b string) bool {
	for b != "" {
		var op string
		op, b, _ = strings.Cut(b, "+")
		found := false
		for rest := a; rest != "" && !found; {
			var have string
			have, rest, _ = strings.Cut(rest, "+")
			found = have == op
		}
		if !found {
			return false
		}
	}
	return true
}

func union[T cmp.Ordered](a, b []T) []T {
	out := append(slices.Clone(a), b...)
	slices.Sort(out)
	return slices.Compact(out)
}

// with returns j's record merged with n.
func (j *job) with(n *Job) Job {
	m := j.Job
	if !j.inTime(n) {
		m.NotBefore = n.NotBefore
	}
	if n.CreatedAt.Before(m.CreatedAt) {
		m.CreatedAt = n.CreatedAt
	}
	if !hasOperations(m.Operation, n.Operation) {
		ops := union(strings.Split(m.Operation, "+"), strings.Split(n.Operation, "+"))
		m.Operation = strings.TrimPrefix(strings.Join(ops, "+"), "+")
	}
	m.Indexes = union(m.Indexes, n.Indexes)
	m.UpdatedColumns = union(m.UpdatedColumns, n.UpdatedColumns)
	if !perShard(n.Type) {
		m.Shards = m.Shards.Union(n.Shards)
	}
	return m
}

// setJob writes a job's record; its keys have records of their own.
func setJob(txn *badger.Txn, j Job) error {
	j.Keys = nil
	return setJSON(txn, jobRecordKey(j.ID), j)
}

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

// setJobKeys writes a job's record and those of keys, numbered from next on.
func setJobKeys(txn *badger.Txn, rec Job, next uint32, keys []JobKey) error {
	for i, k := range keys {
		if err := setJSON(txn, jobKeyKey(rec.ID, next+uint32(i)), k); err != nil {
			return err
		}
	}
	return setJob(txn, rec)
}

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

// remove deletes a job and its keys.
func (q *queue) remove(s *Store, j *job) error {
	// The record goes first: keys without a job are ignored by load.
	err := s.updateEach(int(j.nextKey)+1, func(txn *badger.Txn, i int) error {
		if i == 0 {
			return txn.Delete(jobRecordKey(j.ID))
		}
		return txn.Delete(jobKeyKey(j.ID, uint32(i-1)))
	})
	if err != nil {
		return fmt.Errorf("remove job %d: %w", j.ID, err)
	}
	if j.unsaved {
		q.unsaved = slices.DeleteFunc(q.unsaved, func(o *job) bool { return o == j })
		j.unsaved = false
	}
	delete(q.jobs, j.ID)
	if q.fresh[j.key] == j {
		delete(q.fresh, j.key)
	}
	q.release(j)
	return nil
}

// release lets other jobs run where j did.
func (q *queue) release(j *job) {
	if ex := j.key.exclusive(); q.running[ex] == j.ID {
		delete(q.running, ex)
	}
}

// export returns a copy for callers.
func (j *job) export(now time.Time) Job {
	c := j.Job
	c.Indexes = slices.Clone(c.Indexes)
	c.UpdatedColumns = slices.Clone(c.UpdatedColumns)
	c.Checkpoint = slices.Clone(c.Checkpoint)
	c.Keys = slices.Clone(j.keys)
	switch {
	case j.claimed(now):
		c.State = Running
	case j.Attempts > 0 && j.NotBefore.After(now):
		c.State = Backoff
	default:
		c.State = Waiting
	}
	return c
}

func (j *job) claimed(now time.Time) bool {
	return j.ClaimedBy != "" && j.ClaimedUntil.After(now)
}

// blocked reports whether another job runs where j would.
func (q *queue) blocked(j *job, now time.Time) bool {
	other := q.jobs[q.running[j.key.exclusive()]]
	return other != nil && other != j && other.claimed(now)
}

// Claim gives the job that waits longest (by NotBefore, then ID) to a worker
// for the time of lease, nil if none may run at now (zero: the clock's). A job
// whose lease ran out may be claimed by another. runnable (may be nil) refuses
// jobs; it sees each without its Keys and must not call the Store. Attempts
// counts claims. worker must be unique over all processes and their lives.
func (s *Store) Claim(worker string, lease time.Duration, now time.Time, runnable func(*Job) bool) (*Job, error) {
	if !s.gate.enter() {
		return nil, ErrClosed
	}
	defer s.gate.leave()
	if now.IsZero() {
		now = s.opt.Now()
	}
	q := &s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	var ready []*job
	for _, j := range q.jobs {
		if !j.claimed(now) && !j.NotBefore.After(now) && !q.blocked(j, now) {
			ready = append(ready, j)
		}
	}
	slices.SortFunc(ready, func(a, b *job) int {
		return cmp.Or(a.NotBefore.Compare(b.NotBefore), cmp.Compare(a.ID, b.ID))
	})
	for i, j := range ready {
		if runnable != nil {
			c := j.Job
			ok := runnable(&c)
			if invariants {
				c = Job{Type: "kept too long"}
			}
			if !ok {
				continue
			}
		}
		if err := s.space.reclaimable(); err != nil {
			return nil, err
		}
		if err := q.saveLocked(s); err != nil {
			return nil, err
		}
		rec := j.Job
		rec.ClaimedBy, rec.ClaimedUntil = worker, now.Add(lease)
		rec.Attempts++
		if err := q.keep(s, j, rec); err != nil {
			return nil, fmt.Errorf("claim job %d: %w", j.ID, err)
		}
		if q.fresh[j.key] == j {
			delete(q.fresh, j.key)
		}
		q.running[j.key.exclusive()] = j.ID
		if i+1 < len(ready) {
			// The channel holds one wake; another worker may want the rest.
			q.wake()
		}
		c := j.export(now)
		return &c, nil
	}
	return nil, nil
}

// keep commits and shows a job's new record.
func (q *queue) keep(s *Store, j *job, rec Job) error {
	if err := s.update(func(txn *badger.Txn) error { return setJob(txn, rec) }); err != nil {
		return err
	}
	j.Job = rec
	return nil
}

// change runs fn on the record of a job that worker has claimed. A lease that
// ran out but was not taken over is still the worker's.
func (s *Store) changeJob(id uint64, worker string, fn func(q *queue, j *job, rec Job) error) error {
	if !s.gate.enter() {
		return ErrClosed
	}
	defer s.gate.leave()
	q := &s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	j := q.jobs[id]
	if j == nil || worker == "" || j.ClaimedBy != worker {
		return fmt.Errorf("job %d: %w", id, ErrLeaseLost)
	}
	if err := s.space.reclaimable(); err != nil {
		return err
	}
	if err := q.saveLocked(s); err != nil {
		return err
	}
	return fn(q, j, j.Job)
}

// Renew extends the lease to lease from now. ErrLeaseLost if another worker
// has taken the job over.
func (s *Store) Renew(id uint64, worker string, lease time.Duration) error {
	return s.changeJob(id, worker, func(q *queue, j *job, rec Job) error {
		rec.ClaimedUntil = s.opt.Now().Add(lease)
		return q.keep(s, j, rec)
	})
}

// SaveCheckpoint keeps where the job resumes, and its progress (0 to 1).
func (s *Store) SaveCheckpoint(id uint64, worker string, raw json.RawMessage, progress float64) error {
	return s.changeJob(id, worker, func(q *queue, j *job, rec Job) error {
		rec.Checkpoint, rec.Progress = slices.Clone(raw), progress
		return q.keep(s, j, rec)
	})
}

// Finish removes a done job.
func (s *Store) Finish(id uint64, worker string) error {
	return s.changeJob(id, worker, func(q *queue, j *job, _ Job) error {
		if err := q.remove(s, j); err != nil {
			return err
		}
		// What it held up may run.
		q.wake()
		return nil
	})
}

// Fail gives a job back, to be claimed no earlier than notBefore. It keeps its
// checkpoint.
func (s *Store) Fail(id uint64, worker string, cause error, notBefore time.Time) error {
	return s.changeJob(id, worker, func(q *queue, j *job, rec Job) error {
		rec.ClaimedBy, rec.ClaimedUntil, rec.NotBefore = "", time.Time{}, notBefore
		rec.Error = ""
		if cause != nil {
			rec.Error = cause.Error()
		}
		if err := q.keep(s, j, rec); err != nil {
			return err
		}
		q.release(j)
		q.refresh(j)
		q.wake()
		return nil
	})
}

// Jobs returns all jobs by ID.
func (s *Store) Jobs() []Job {
	if !s.gate.enter() {
		return nil
	}
	defer s.gate.leave()
	q := &s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	now := s.opt.Now()
	jobs := make([]Job, 0, len(q.jobs))
	for _, j := range q.jobs {
		jobs = append(jobs, j.export(now))
	}
	slices.SortFunc(jobs, func(a, b Job) int { return cmp.Compare(a.ID, b.ID) })
	return jobs
}

// NextJob is the earliest time at which a job may become claimable by the
// clock alone (NotBefore, or the end of a lease); false without jobs. It may
// be in the past.
func (s *Store) NextJob() (time.Time, bool) {
	if !s.gate.enter() {
		return time.Time{}, false
	}
	defer s.gate.leave()
	q := &s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	now := s.opt.Now()
	var first time.Time
	found := false
	for _, j := range q.jobs {
		at := j.NotBefore
		if j.claimed(now) {
			at = j.ClaimedUntil
		} else if q.blocked(j, now) {
			continue
		}
		if !found || at.Before(first) {
			first, found = at, true
		}
	}
	return first, found
}

// JobsChanged gets a value after jobs have changed. One value stands for any
// number of changes, and wakes one worker; Claim passes it on while there is
// more to claim. A worker waits for it or for NextJob.
func (s *Store) JobsChanged() <-chan struct{} { return s.queue.changed }
