package storage

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
)

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

// maxPutOff is how long a job of an earlier life waits at most: the clock may have been ahead by
// days when it was made.
const maxPutOff = 10 * time.Minute

func (q *queue) load(s *Store) error {
	q.jobs, q.fresh, q.running = map[uint64]*job{}, map[mergeKey]*job{}, map[mergeKey]uint64{}
	q.changed, q.soon = make(chan struct{}, 1), make(chan struct{}, 1)
	q.next = 1
	err := s.scan([]byte{kindJob}, func(_, val []byte) (bool, error) {
		j := &job{}
		if err := json.Unmarshal(val, &j.Job); err != nil {
			return false, err
		}
		var shard catalog.ShardID // of a job for all shards: 0
		for shard = range j.Shards.All {
			break
		}
		j.key = keyOf(&j.Job, shard)
		// The worker that claimed it died with the process that had the store.
		j.ClaimedBy, j.ClaimedUntil = "", time.Time{}
		if latest := s.opt.Now().Add(maxPutOff); j.NotBefore.After(latest) {
			j.NotBefore = latest
		}
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

// remove deletes a job and its keys.
func (q *queue) remove(s *Store, j *job) error {
	// The record goes first: keys without a job are ignored by load.
	err := s.updateEach(int(j.nextKey)+1, func(w *changes, i int) error {
		if i == 0 {
			return w.delete(jobRecordKey(j.ID))
		}
		return w.delete(jobKeyKey(j.ID, uint32(i-1)))
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
	if err := s.update(func(w *changes) error { return setJob(w, rec) }); err != nil {
		return err
	}
	j.Job = rec
	return nil
}

// changeJob runs fn on the record of a job that worker has claimed. A lease that
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
