package indexer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/shunt-sql/shunt/cluster"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

const (
	leaseTime  = 30 * time.Second
	maxBackoff = 5 * time.Minute
	// dropAttempts are those at a job whose index the store doesn't know, before it is told.
	dropAttempts = 5
)

// errDDL ends a job that would hold up a DDL statement; errLease one whose
// lease was lost, or has run out.
var (
	errDDL   = errors.New("interrupted by DDL; goes on after it")
	errLease = errors.New("lease lost")
)

// work is what the dispatcher and the jobs share.
type work struct {
	// name is the worker's name in leases: unique for each life of a process.
	name string
	wake chan struct{}

	mu   sync.Mutex
	runs map[uint64]*run
	// held are jobs that wait for a transaction to end; see HeldBack.
	held map[uint64]*HeldBack
	// failed is how often a job has failed here. Its attempts are more: those that others' work has ended, too.
	failed map[uint64]int
	// rests say until when a shard is spared maintenance scans, pause until
	// when all are.
	rests map[catalog.ShardID]rest
	pause rest
	// notes say what a build waits for.
	notes map[catalog.IndexID]string
	// mend is when to mend next, and mended the catalog's version when that was done last; the
	// dispatcher's.
	mend   time.Time
	mended uint64
	// reconciled is when each table's reconciliation was last asked for.
	reconciled map[catalog.TableName]time.Time
}

// run is a job being done.
type run struct {
	job    *storage.Job
	ctx    context.Context
	cancel context.CancelCauseFunc
	gates  []cluster.Gate
	done   chan struct{}
}

func (w *work) init(name string) {
	w.name = name
	w.wake = make(chan struct{}, 1)
	w.runs, w.held, w.failed = map[uint64]*run{}, map[uint64]*HeldBack{}, map[uint64]int{}
	w.rests = map[catalog.ShardID]rest{}
	w.notes, w.reconciled = map[catalog.IndexID]string{}, map[catalog.TableName]time.Time{}
}

// Returned tells that a shard that was Down is so no more.
func (x *Indexer) Returned() { x.work.wakeUp() }

// wakeUp makes the dispatcher look for work again.
func (w *work) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// dispatch claims jobs and runs each in a goroutine, Workers at a time. It is
// the only one that claims.
func (x *Indexer) dispatch(ctx context.Context) {
	var jobs sync.WaitGroup
	defer jobs.Wait()
	free := make(chan struct{}, x.opts.Workers)
	for range x.opts.Workers {
		free <- struct{}{}
	}
	for {
		select {
		case <-free:
		case <-ctx.Done():
			return
		}
		r := x.claim(ctx)
		if r == nil {
			return // ctx ended
		}
		jobs.Go(func() {
			x.do(r.ctx, r.job)
			x.forget(r)
			free <- struct{}{}
			x.work.wakeUp()
		})
	}
}

// claimAgain is the pause while the store gives out no jobs, as on a full disk.
const claimAgain = time.Second

// claim waits for a job that may run now.
func (x *Indexer) claim(ctx context.Context) *run {
	told := ""
	for {
		now := x.clock.Now()
		var next time.Time // when something may change by the clock alone
		soonest := func(at time.Time) {
			if at.After(now) && (next.IsZero() || at.Before(next)) {
				next = at
			}
		}
		soonest(x.reconcile(now))
		soonest(x.mendAtTimes(ctx, now))
		var r *run
		// A worker elsewhere may have been faster with the job. Counter-example: the run stays; whoever
		// interrupts it waits for its end for ever, as does what its gates keep out.
		lost := func() {
			if r != nil {
				x.forget(r)
			}
			r = nil
		}
		job, err := x.store.Claim(x.work.name, leaseTime, now, func(j *storage.Job) bool {
			lost()
			var at time.Time
			r, at = x.admit(ctx, j, now)
			soonest(at)
			return r != nil
		})
		if job != nil {
			x.work.mu.Lock()
			r.job = job // with what Claim added to it
			x.work.mu.Unlock()
			return r
		}
		lost()
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, storage.ErrClosed) && err.Error() != told {
				told = err.Error()
				x.log.Error("claim a maintenance job; trying again", "error", err)
			}
			// Whatever wakes this would have it fail again at once.
			if !x.sleep(ctx, claimAgain) {
				return nil
			}
			continue
		}
		if at, ok := x.store.NextJob(); ok {
			soonest(at)
		}
		if !x.pause(ctx, now, next) {
			return nil
		}
	}
}

// sleep waits; false if ctx ended.
func (x *Indexer) sleep(ctx context.Context, d time.Duration) bool {
	over, stop := x.clock.After(d)
	defer stop()
	select {
	case <-over:
		return true
	case <-ctx.Done():
		return false
	}
}

// pause waits until there may be something to do; false if ctx ended.
func (x *Indexer) pause(ctx context.Context, now, next time.Time) bool {
	var timer <-chan time.Time
	if !next.IsZero() {
		var stop func()
		timer, stop = x.clock.After(next.Sub(now))
		defer stop()
	}
	select {
	case <-x.store.JobsChanged():
	case <-x.work.wake:
	case <-timer:
	case <-ctx.Done():
		return false
	}
	return true
}

// admit decides whether a job may run now, and notes its run if so; if not, at
// is when to look again, zero where an event will tell. It is called under the
// store's lock. The run is noted here, before the store has given the job out,
// so that whoever looks for runs to interrupt can't overlook it.
func (x *Indexer) admit(ctx context.Context, j *storage.Job, now time.Time) (r *run, at time.Time) {
	w := &x.work
	w.mu.Lock()
	defer w.mu.Unlock()
	// A run whose lease has run out may still be on its way to its end: whoever looks for
	// runs to interrupt must find that one.
	if w.runs[j.ID] != nil {
		return nil, time.Time{} // its end wakes
	}
	if x.cluster.Fenced(catalog.TableName{Schema: j.Schema, Name: j.Table}) || x.cluster.Dismissed(builds(j)) {
		return nil, time.Time{}
	}
	if x.opts.Down != nil {
		for id := range j.Shards.All {
			if x.opts.Down(id) {
				return nil, time.Time{} // Returned tells
			}
		}
	}
	if h := w.held[j.ID]; h != nil {
		if !x.cluster.Passed(h.Shard, h.After) {
			return nil, time.Time{}
		}
		delete(w.held, j.ID)
	}
	k := x.kindOf(j)
	if k.urgent != nil {
		urgent := k.urgent(x, j)
		until := w.pause.until(urgent)
		for id := range j.Shards.All {
			until = later(until, w.rests[id].until(urgent))
		}
		if until.After(now) {
			return nil, until
		}
	}
	gs := k.gates(j)
	if !x.cluster.TryEnter(gs...) {
		return nil, time.Time{}
	}
	copied := *j
	r = &run{job: &copied, gates: gs, done: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	w.runs[j.ID] = r
	return r, time.Time{}
}

// forget ends a run.
func (x *Indexer) forget(r *run) {
	r.cancel(nil)
	x.work.mu.Lock()
	delete(x.work.runs, r.job.ID)
	x.work.mu.Unlock()
	x.cluster.Leave(r.gates...)
	close(r.done)
}

func (x *Indexer) counted(id catalog.ShardID, s *scan) {
	if x.opts.Metrics.ScanRows != nil {
		x.opts.Metrics.ScanRows(id, s.rows, s.took)
	}
	count(x.opts.Metrics.Added, s.added)
}

// do runs a claimed job and finishes it or gives it back.
func (x *Indexer) do(ctx context.Context, j *storage.Job) {
	began := x.clock.Now()
	err := x.leased(ctx, j)
	done := func(outcome string) {
		if x.opts.Metrics.JobDone != nil {
			x.opts.Metrics.JobDone(j.Type, outcome, x.clock.Now().Sub(began))
		}
	}
	if err == nil {
		done("ok")
		x.work.mu.Lock()
		delete(x.work.failed, j.ID)
		x.work.mu.Unlock()
		if err := x.store.Finish(j.ID, x.work.name); err != nil && !errors.Is(err, storage.ErrLeaseLost) {
			x.log.Error("finish a maintenance job", "job", j.ID, "error", err)
		}
		if finished := x.kindOf(j).finished; finished != nil {
			finished(x, j)
		}
		return
	}
	now := x.clock.Now()
	var notBefore time.Time
	var held *HeldBack
	outcome := "again"
	switch cause := context.Cause(ctx); {
	case errors.As(err, &held):
		x.work.mu.Lock()
		x.work.held[j.ID] = held
		x.work.mu.Unlock()
		notBefore = now.Add(x.again(j))
		if x.opts.Metrics.HeldBack != nil {
			x.opts.Metrics.HeldBack(held.Shard)
		}
	case errors.Is(err, storage.ErrSuperseded), // by a scan that began later
		errors.Is(err, storage.ErrNoIndex) && j.Attempts < dropAttempts: // dropped by another process, of which this one will hear
		notBefore = now.Add(x.again(j))
	case errors.Is(cause, errDDL), errors.Is(cause, context.Canceled):
		err, notBefore = cause, now
	default:
		outcome, notBefore = "failed", now.Add(x.backoff(j.ID))
		x.log.Warn("a maintenance job failed and will be tried again", "job", j.ID, "type", j.Type,
			"schema", j.Schema, "table", j.Table, "attempts", j.Attempts, "error", err)
	}
	done(outcome)
	if err := x.store.Fail(j.ID, x.work.name, err, notBefore); err != nil && !errors.Is(err, storage.ErrLeaseLost) {
		x.log.Error("give a maintenance job back", "job", j.ID, "error", err)
	}
}

// buildAgain is the longest pause of a build: Delay is for scans, which may come late.
const buildAgain = time.Second

// again is how long a job waits that others were in the way of.
func (x *Indexer) again(j *storage.Job) time.Duration {
	if builds(j) != 0 {
		return min(x.opts.Delay, buildAgain)
	}
	return x.opts.Delay
}

// backoff is how long a job waits that has just failed: exponential, with jitter so that jobs that failed together
// are not tried together.
//
// Counter-example by attempts: a scan's table is scanned by others as well, which supersede it ten times in a second;
// then a shard is away for another second, and the job waits for five minutes.
func (x *Indexer) backoff(job uint64) time.Duration {
	x.work.mu.Lock() // Rand is not safe for several goroutines
	defer x.work.mu.Unlock()
	x.work.failed[job]++
	d := maxBackoff
	if n := x.work.failed[job]; n < 9 {
		d = min(d, time.Second<<(n-1))
	}
	return d/2 + time.Duration(x.opts.Rand.Int64N(int64(d/2)))
}

// forgetFailed forgets the failures of jobs that are no more.
func (w *work) forgetFailed(jobs []storage.Job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.failed, func(id uint64, _ int) bool {
		return !slices.ContainsFunc(jobs, func(j storage.Job) bool { return j.ID == id })
	})
}

// leased runs a job while its lease is renewed. When that can't be done in time (the
// disk is full), the job is somebody else's to claim, and ends here.
func (x *Indexer) leased(ctx context.Context, j *storage.Job) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() {
		until := j.ClaimedUntil
		for {
			if !x.sleep(ctx, leaseTime/3) {
				return
			}
			now := x.clock.Now()
			switch err := x.store.Renew(j.ID, x.work.name, leaseTime); {
			case err == nil:
				until = now.Add(leaseTime)
			case errors.Is(err, storage.ErrLeaseLost), !now.Before(until):
				cancel(errLease)
				return
			}
		}
	})
	defer renewing.Wait()
	defer cancel(nil)
	return x.perform(ctx, j)
}

// perform does what a job asks for. A job whose table or indexes are gone has
// nothing to do.
func (x *Indexer) perform(ctx context.Context, j *storage.Job) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	k := x.kindOf(j)
	if k.alone != nil {
		return k.alone(x, ctx, j)
	}
	if !x.indexed(j) {
		return nil
	}
	if moved, err := x.renamed(k, j); moved || err != nil {
		return err
	}
	c := x.opts.Catalog()
	if c == nil {
		return errors.New("there is no catalog yet")
	}
	t := c.Table(j.Schema, j.Table)
	if t == nil || len(t.Columns) == 0 {
		return fmt.Errorf("table %s.%s is not known", j.Schema, j.Table)
	}
	if k.table != nil {
		return k.table(x, ctx, t, j)
	}
	var held *HeldBack
	for id := range j.Shards.Intersect(t.Shards).All {
		if err := k.shard(x, ctx, t, id, j); err != nil {
			if h, ok := errors.AsType[*HeldBack](err); ok {
				held = h
				continue
			}
			return fmt.Errorf("shard %s: %w", x.shardName(id), err)
		}
	}
	if held != nil {
		return held
	}
	return nil
}

// renamed makes the job anew for the table that its indexes belong to now, if
// that was renamed since.
func (x *Indexer) renamed(k *kind, j *storage.Job) (moved bool, err error) {
	ids := slices.Clone(j.Indexes)
	for _, k := range j.Keys {
		if !slices.Contains(ids, k.Index) {
			ids = append(ids, k.Index)
		}
	}
	for _, id := range ids {
		def, ok := x.store.Index(id)
		if !ok || def.Schema == j.Schema && def.Table == j.Table {
			continue
		}
		moved = true
		if k.again {
			continue
		}
		_, err := x.store.Enqueue(storage.Job{
			Type: storage.MaintainIndex, Schema: def.Schema, Table: def.Table, Operation: j.Operation,
			Shards: j.Shards, Indexes: []catalog.IndexID{id}, NotBefore: x.clock.Now(),
		})
		if err != nil {
			return true, fmt.Errorf("enqueue job: %w", err)
		}
	}
	return moved, nil
}

// indexed reports whether any index that the job is about exists still.
func (x *Indexer) indexed(j *storage.Job) bool {
	for _, id := range j.Indexes {
		if _, ok := x.store.Index(id); ok {
			return true
		}
	}
	if len(j.Indexes) == 0 {
		for _, d := range x.store.Indexes() {
			if d.Schema == j.Schema && d.Table == j.Table {
				return true
			}
		}
	}
	for _, k := range j.Keys {
		if _, ok := x.store.Index(k.Index); ok {
			return true
		}
	}
	return false
}
