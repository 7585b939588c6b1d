package indexer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

const (
	leaseTime  = 30 * time.Second
	maxBackoff = 5 * time.Minute
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
	name  string
	gates gates
	wake  chan struct{}

	mu   sync.Mutex
	runs map[uint64]*run
	// held are jobs that wait for a transaction to end; see HeldBack.
	held map[uint64]*HeldBack
	// rests say until when a shard is spared maintenance scans, pause until
	// when all are.
	rests map[catalog.ShardID]rest
	pause rest
	// fenced are tables that DDL is about to change: no job touches them.
	fenced map[TableName]bool
	// dismissed is the index whose builds are being ended.
	dismissed storage.IndexID
	// notes say what a build waits for.
	notes map[storage.IndexID]string
	// mend is when to mend next, and mended the catalog's version when that was done last; the
	// dispatcher's.
	mend   time.Time
	mended uint64
	// reconciled is when each table's reconciliation was last asked for.
	reconciled map[TableName]time.Time
}

// run is a job being done.
type run struct {
	job    *storage.Job
	ctx    context.Context
	cancel context.CancelCauseFunc
	gates  []gate
	done   chan struct{}
}

func (w *work) init() {
	w.name = fmt.Sprintf("indexer-%016x", rand.Uint64())
	w.gates = gates{held: map[gate]bool{}, freed: make(chan struct{}), left: w.wakeUp}
	w.wake = make(chan struct{}, 1)
	w.runs, w.held = map[uint64]*run{}, map[uint64]*HeldBack{}
	w.rests, w.fenced = map[catalog.ShardID]rest{}, map[TableName]bool{}
	w.notes, w.reconciled = map[storage.IndexID]string{}, map[TableName]time.Time{}
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
		soonest(x.mendAtTimes(now))
		var r *run
		job, err := x.store.Claim(x.work.name, leaseTime, now, func(j *storage.Job) bool {
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
		if err != nil {
			if r != nil {
				x.forget(r)
			}
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

// gatesOf are the gates that a job holds while it runs.
func gatesOf(j *storage.Job) []gate {
	var gs []gate
	for id := range catalog.ShardSet(j.Shards).All {
		switch j.Type {
		case storage.MaintainIndex, storage.Reconcile:
			gs = append(gs, scanGate(id), retireGate(j.Schema, j.Table, id))
		case storage.VerifyKeys:
			gs = append(gs, retireGate(j.Schema, j.Table, id))
		}
	}
	return gs
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
	if w.fenced[TableName{j.Schema, j.Table}] ||
		j.Type == storage.BuildIndex && w.dismissed != 0 && slices.Contains(j.Indexes, w.dismissed) {
		return nil, time.Time{}
	}
	if x.opts.Down != nil && j.Type != storage.BuildIndex {
		for id := range catalog.ShardSet(j.Shards).All {
			if x.opts.Down(id) {
				return nil, time.Time{} // Returned tells
			}
		}
	}
	if h := w.held[j.ID]; h != nil {
		if !x.tracker.Passed(h.Shard, h.After) {
			return nil, time.Time{}
		}
		delete(w.held, j.ID)
	}
	if j.Type == storage.MaintainIndex || j.Type == storage.Reconcile {
		urgent := x.urgent(j)
		until := w.pause.until(urgent)
		for id := range catalog.ShardSet(j.Shards).All {
			until = later(until, w.rests[id].until(urgent))
		}
		if until.After(now) {
			return nil, until
		}
	}
	gs := gatesOf(j)
	if !w.gates.try(gs...) {
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
	x.work.gates.leave(r.gates...)
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
	if x.opts.Metrics.JobDone != nil {
		x.opts.Metrics.JobDone(j.Type, x.clock.Now().Sub(began), err)
	}
	if err == nil {
		if err := x.store.Finish(j.ID, x.work.name); err != nil && !errors.Is(err, storage.ErrLeaseLost) {
			x.log.Error("finish a maintenance job", "job", j.ID, "error", err)
		}
		if j.Type == storage.Reconcile {
			x.reconciled(j)
		}
		return
	}
	now := x.clock.Now()
	notBefore := now.Add(x.backoff(j.Attempts))
	var held *HeldBack
	switch cause := context.Cause(ctx); {
	case errors.As(err, &held):
		x.work.mu.Lock()
		x.work.held[j.ID] = held
		x.work.mu.Unlock()
		notBefore = now.Add(x.opts.Delay)
		if x.opts.Metrics.HeldBack != nil {
			x.opts.Metrics.HeldBack(held.Shard)
		}
	case errors.Is(cause, errDDL), errors.Is(cause, context.Canceled):
		err, notBefore = cause, now
	default:
		x.log.Warn("a maintenance job failed and will be tried again", "job", j.ID, "type", j.Type,
			"schema", j.Schema, "table", j.Table, "attempts", j.Attempts, "error", err)
	}
	if err := x.store.Fail(j.ID, x.work.name, err, notBefore); err != nil && !errors.Is(err, storage.ErrLeaseLost) {
		x.log.Error("give a maintenance job back", "job", j.ID, "error", err)
	}
}

// backoff is exponential, with jitter so that jobs that failed together are not
// tried together.
func (x *Indexer) backoff(attempts int) time.Duration {
	d := maxBackoff
	if attempts < 9 {
		d = min(d, time.Second<<max(0, attempts-1))
	}
	x.work.mu.Lock() // Rand is not safe for several goroutines
	defer x.work.mu.Unlock()
	return d/2 + time.Duration(x.opts.Rand.Int64N(int64(d/2)))
}

// leased runs a job while its lease is renewed. When that can't be done in time (the
// disk is full), the job is somebody else's to claim, and ends here.
func (x *Indexer) leased(ctx context.Context, j *storage.Job) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() {
		until := j.ClaimedUntil
		for {
			tick, stop := x.clock.After(leaseTime / 3)
			select {
			case <-tick:
			case <-ctx.Done():
				stop()
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
	if j.Type == storage.DropIndexJob {
		return x.collect(ctx)
	}
	if !x.indexed(j) {
		return nil
	}
	if moved, err := x.follow(j); moved || err != nil {
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
	if j.Type == storage.BuildIndex {
		return x.buildJob(ctx, t, j)
	}
	for id := range catalog.ShardSet(j.Shards).Intersect(t.Shards).All {
		var err error
		if j.Type == storage.VerifyKeys {
			err = x.verify(ctx, t, id, probes(t, j.Keys))
		} else {
			err = x.maintain(ctx, t, id, x.affected(t, j))
		}
		if err != nil {
			if _, ok := errors.AsType[*HeldBack](err); ok {
				return err
			}
			return fmt.Errorf("shard %s: %w", x.shardName(id), err)
		}
	}
	return nil
}

// follow makes the job anew for the table that its indexes belong to now, if
// that was renamed since.
func (x *Indexer) follow(j *storage.Job) (moved bool, err error) {
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
		if j.Type == storage.BuildIndex {
			continue // the renaming has asked for another build
		}
		_, err := x.store.Enqueue(storage.Job{
			Type: storage.MaintainIndex, Schema: def.Schema, Table: def.Table, Operation: j.Operation,
			Shards: j.Shards, Indexes: []storage.IndexID{id}, NotBefore: x.clock.Now(),
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

// affected are the indexes that a maintenance job scans for: those it names,
// or all. One whose column can't be keyed (any more) is left as it is: nobody
// reads by it.
func (x *Indexer) affected(t *catalog.Table, j *storage.Job) []*catalog.Index {
	var indexes []*catalog.Index
	for _, ix := range t.Indexes {
		named := len(j.Indexes) == 0
		for _, id := range j.Indexes {
			named = named || uint32(id) == ix.ID
		}
		if !named || len(ix.Columns) == 0 {
			continue
		}
		if _, err := x.newReading(ix); err != nil {
			continue
		}
		indexes = append(indexes, ix)
	}
	return indexes
}

// collect deletes the generations of dropped and rebuilt indexes.
func (x *Indexer) collect(ctx context.Context) error {
	for more := true; more; {
		var err error
		if more, err = x.store.DeleteGarbage(ctx, 5000); err != nil {
			return fmt.Errorf("delete old entries: %w", err)
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}
