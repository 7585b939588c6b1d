package shared

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/shunt-sql/shunt/storage"
)

const (
	// soonEvery is how often it is looked whether EnqueueSoon's jobs are to be written: soonMost behind the first one, or
	// soonEvery before one is due. Each time takes some statements on the first home, whatever there is to write.
	soonEvery = 100 * time.Millisecond
	soonMost  = time.Second
	// askEvery is how often it is asked whether others have made jobs, or marks.
	askEvery = time.Second
	// maxSoon is how many jobs are gathered at most until they are merged.
	maxSoon = 1000
)

// queue is this process's side of the jobs.
type queue struct {
	mu sync.Mutex
	// soon are those that came, by what they are, and merged those of before by their Work: few, whatever came.
	soon, merged map[string]storage.Job
	// first is when the first of soon came, due when the first of soon may run.
	first, due time.Time
	changed    chan struct{}
}

func (q *queue) init() {
	q.soon, q.merged, q.changed = map[string]storage.Job{}, map[string]storage.Job{}, make(chan struct{}, 1)
}

func (q *queue) notify() {
	select {
	case q.changed <- struct{}{}:
	default:
	}
}

// Run writes what EnqueueSoon has gathered, and has workers look for jobs of others, until ctx
// ends.
//
// Rule apart: homes are asked whether they are back beside that. Counter-example: a home was away for a second; reads
// and writes leave thousands of jobs, each of which takes a transaction on the first home; until all are
// written the home is taken for out, and writes are refused.
func (s *Store) Run(ctx context.Context) {
	var asks sync.WaitGroup
	defer asks.Wait()
	asks.Go(func() {
		ask := time.NewTicker(askEvery)
		defer ask.Stop()
		for {
			select {
			case <-ask.C:
				jobs := s.look(ctx)
				s.probe(ctx)
				if jobs {
					s.endLeases(ctx)
					s.queue.notify()
				}
			case <-ctx.Done():
				return
			}
		}
	})
	flush := time.NewTicker(soonEvery)
	defer flush.Stop()
	for {
		select {
		case now := <-flush.C:
			if s.queue.isDue(now) {
				s.flush(ctx)
			}
		case <-ctx.Done():
			last, cancel := s.brief()
			s.flush(last)
			cancel()
			return
		}
	}
}

// endLeases has the jobs of workers go on elsewhere whose processes are gone: their leases would last for a while. One
// that lives all the same finds that it has lost the lease, as after one that ran out.
func (s *Store) endLeases(ctx context.Context) {
	if s.gone == nil || s.homes()[0].out.Load() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	workers, err := s.first().Workers(ctx)
	for _, w := range workers {
		if process := storage.ProcessOf(w); err == nil && process != "" && process != s.self && s.gone(ctx, process) {
			var n int64
			if n, err = s.first().EndLeases(ctx, w); n > 0 {
				s.log.Info("the maintenance jobs of a member that is gone go on elsewhere", "member", process, "jobs", n)
			}
		}
	}
	if err != nil && ctx.Err() == nil {
		s.log.Warn("whose maintenance jobs were left can't be read", "error", err)
	}
}

// flush enqueues what was gathered; what can't be stays, until the home answers again.
//
// Rule merge first: each job takes a transaction. Counter-example: a home was away, and reads of many keys and
// writes leave thousands of jobs; the process is stopped before they are written, and most are lost.
func (s *Store) flush(ctx context.Context) {
	first := s.homes()[0]
	h, err := first.reach()
	if err != nil {
		return
	}
	q := &s.queue
	q.mu.Lock()
	q.mergeLocked()
	merged := q.merged
	q.merged = map[string]storage.Job{}
	q.mu.Unlock()
	for work, j := range merged {
		_, err := h.Enqueue(ctx, j)
		if err = s.wrote(first, err); err != nil {
			// Of a home that doesn't answer, or takes no writes, it is told once.
			if _, told := errors.AsType[*OutError](err); !told && ctx.Err() == nil {
				s.log.Warn("maintenance jobs can't be made now", "error", err)
			}
			q.mu.Lock()
			for _, j := range merged {
				merge(q.merged, j)
			}
			q.mu.Unlock()
			return
		}
		delete(merged, work)
		q.notify()
	}
}

// isDue reports that what was gathered is to be written.
func (q *queue) isDue(now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.merged) > 0 || len(q.soon) > 0 && (now.Sub(q.first) >= soonMost || q.due.Sub(now) <= soonEvery)
}

func (q *queue) mergeLocked() {
	for _, j := range q.soon {
		merge(q.merged, j)
	}
	clear(q.soon)
}

// merge adds a job to those that wait, by their Work, as the home would.
func merge(waiting map[string]storage.Job, j storage.Job) {
	parts, err := j.Parts()
	if err != nil {
		return // it is for no shard
	}
	for i := range parts {
		n := &parts[i]
		work := n.Work()
		var old *storage.Job
		if o, ok := waiting[work]; ok {
			old = &o
		}
		scan := old.Swallowing(n)
		switch {
		case scan != nil:
			delete(waiting, work)
			merge(waiting, *scan)
		case old == nil:
			waiting[work] = *n
		case !old.Covers(n, false):
			waiting[work] = old.Merged(n)
		}
	}
}

// Enqueue is storage.Store's.
func (s *Store) Enqueue(j storage.Job) (uint64, error) {
	ctx, cancel := s.brief()
	defer cancel()
	defer s.queue.notify()
	return s.first().Enqueue(ctx, j)
}

// EnqueueSoon is storage.Store's: equal jobs of a second are one. What j points to is lent.
func (s *Store) EnqueueSoon(j storage.Job) error {
	same, due := j, j.NotBefore
	same.NotBefore, same.CreatedAt = time.Time{}, time.Time{}
	key, err := json.Marshal(same)
	if err != nil {
		return err
	}
	q := &s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, have := q.soon[string(key)]; have {
		return nil
	}
	j.Indexes, j.UpdatedColumns, j.Keys = slices.Clone(j.Indexes), slices.Clone(j.UpdatedColumns), slices.Clone(j.Keys)
	for i := range j.Keys {
		j.Keys[i].Key, j.Keys[i].Values = slices.Clone(j.Keys[i].Key), slices.Clone(j.Keys[i].Values)
	}
	if len(q.soon) == 0 {
		q.first, q.due = time.Now(), due
	}
	if due.Before(q.due) {
		q.due = due
	}
	q.soon[string(key)] = j
	if len(q.soon) > maxSoon {
		q.mergeLocked()
	}
	return nil
}

// Jobs is storage.Store's: none where the home doesn't answer, at once where that is known.
//
// Counter-example: each scrape of the metrics waits for the home until the timeout, and a monitor gives up before. What
// it tells is that Shunt is down.
func (s *Store) Jobs() []storage.Job {
	h, err := s.homes()[0].reach()
	if err != nil {
		return nil
	}
	ctx, cancel := s.brief()
	defer cancel()
	jobs, err := h.Jobs(ctx)
	if err != nil {
		s.log.Warn("the maintenance jobs can't be read", "error", err)
	}
	return jobs
}

// NextJob is storage.Store's.
func (s *Store) NextJob() (time.Time, bool) {
	ctx, cancel := s.brief()
	defer cancel()
	at, ok, err := s.first().NextJob(ctx)
	if err != nil {
		return time.Now().Add(askEvery), true
	}
	return at, ok
}

// JobsChanged is storage.Store's.
func (s *Store) JobsChanged() <-chan struct{} { return s.queue.changed }

// Claim is storage.Store's.
//
// By its clock, as the home's decides: who asks for a far future's jobs has all.
//
// Counter-example: a build fails, and is tried again later; the index is built anew elsewhere, the job is
// to end, and isn't found. It goes on, in vain, for ever, and no other one is made for that index.
func (s *Store) Claim(worker string, lease time.Duration, now time.Time, runnable func(*storage.Job) bool) (*storage.Job, error) {
	ctx, cancel := s.brief()
	defer cancel()
	if time.Until(now) > time.Hour {
		return s.first().ClaimEarly(ctx, worker, lease, runnable)
	}
	return s.first().Claim(ctx, worker, lease, runnable)
}

// Renew is storage.Store's.
func (s *Store) Renew(id uint64, worker string, lease time.Duration) error {
	ctx, cancel := s.brief()
	defer cancel()
	return s.first().Renew(ctx, id, worker, lease)
}

// SaveCheckpoint is storage.Store's.
func (s *Store) SaveCheckpoint(id uint64, worker string, raw json.RawMessage, progress float64) error {
	ctx, cancel := s.brief()
	defer cancel()
	return s.first().SaveCheckpoint(ctx, id, worker, raw, progress)
}

// Finish is storage.Store's.
func (s *Store) Finish(id uint64, worker string) error {
	ctx, cancel := s.brief()
	defer cancel()
	return s.first().Finish(ctx, id, worker)
}

// Fail is storage.Store's.
func (s *Store) Fail(id uint64, worker string, cause error, notBefore time.Time) error {
	ctx, cancel := s.brief()
	defer cancel()
	return s.first().Fail(ctx, id, worker, cause, notBefore)
}
