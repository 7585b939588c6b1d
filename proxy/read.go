package proxy

import (
	"context"
	"fmt"
	"time"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// readSurely is read, and once more where the connection was dead before.
func (s *session) readSurely(ctx context.Context, r *request) error {
	before := s.client.Writer().Total()
	err := s.read(ctx, r)
	for err != nil && s.elsewhere(ctx, r, err, before) {
		err = s.read(ctx, r)
	}
	if s.reading != nil && err == nil {
		s.proxy.metrics.replicaRead(s.reading)
	}
	if err == nil || !s.mayRepeat(r, err, before) {
		return err
	}
	s.distrust = true
	defer func() { s.distrust = false }()
	return s.read(ctx, r)
}

// repeatWithin is how soon a read must have failed to be sent once more.
const repeatWithin = time.Second

// mayRepeat reports whether a read is to be sent once more. It found a connection
// dead that had looked alive, as after a restart of a shard or of what is
// between; or any of several shards would do, and this one is down: b names
// another then. The client has got nothing of the answer.
func (s *session) mayRepeat(r *request, err error, before int64) bool {
	b := r.bound
	if !notBegun(err) && (s.tx != nil || s.tableLocks != nil || s.temporaryNeeded()) || !unreachable(err) || s.client.Writer().Total() != before {
		return false
	}
	// Not later: who ends a runaway query by ending its connection doesn't want
	// it begun again.
	soon := time.Since(r.start) < repeatWithin
	if len(b.Statements) == 1 && r.plan.Kind != plan.Locking {
		at := b.Statements[0].Shard
		if others := b.Alternatives.Minus(catalog.Only(at)); !others.Empty() && (soon || !s.proxy.pool(at).Lively()) {
			b.Statements[0].Shard = s.livelyOf(others)
			return true
		}
	}
	return (soon || notBegun(err) && !s.activity.killed()) && coded(err).Code == mysqlerr.ShardLost
}

// forwardWay is how a query of one shard is executed: its answer is forwarded as it is.
var forwardWay = &way{
	at:   bound,
	fits: func(_ *session, r *request) bool { return r.forwards() },
	execute: func(s *session, ctx context.Context, r *request) error {
		empty, err := s.readOne(ctx, r, r.bound.Statements[0])
		return s.observe(r, empty, err)
	},
}

func (r *request) forwards() bool {
	b := r.bound
	return len(b.Statements) == 1 && b.Merge == nil && b.System == nil && b.Gather == nil && r.plan.Shown == nil && r.plan.Creates == nil && !r.writes
}

// read sends a statement that changes nothing.
func (s *session) read(ctx context.Context, r *request) error {
	if r.forwards() { // as most do: the table needn't be walked
		return forwardWay.execute(s, ctx, r)
	}
	return s.wayOf(r, bound).execute(s, ctx, r)
}

// observe tells the index which of the shards that it named have answered no row.
func (s *session) observe(r *request, empty catalog.ShardSet, err error) error {
	// In a transaction an old snapshot may answer, which says nothing of now.
	if b := r.bound; err == nil && len(b.Probes) > 0 && s.tx == nil {
		s.measured.Vain += empty.Len()
		s.proxy.opts.Index.Observe(b.Probes, route(b), empty)
	}
	return err
}

func route(b *plan.Bound) catalog.ShardSet {
	var set catalog.ShardSet
	for _, st := range b.Statements {
		set.Add(st.Shard)
	}
	return set
}

// readOne forwards one shard's answer as it is.
func (s *session) readOne(ctx context.Context, r *request, st plan.ShardStatement) (empty catalog.ShardSet, err error) {
	if s.reading != nil {
		return s.readPart(ctx, r, st)
	}
	conn, err := s.borrowToRead(ctx, r.plan, st.Shard)
	if err != nil {
		return empty, err
	}
	if err = s.stillPlanned(r); err == nil {
		empty, err = s.readOver(ctx, r, st, conn)
	}
	s.giveBack(st.Shard, conn)
	return empty, err
}

// stillPlanned is errStale where the catalog has changed before a read has its connections.
//
// Counter-example: this process is too slow, and is fenced, and doesn't know: it goes by a virtual index
// as it was, which is no longer kept up there. By the lookup no shard has the row that another process has
// inserted. It joins the shards anew, as it makes a connection, and goes by the new catalog; the
// read is sent by the old one.
func (s *session) stillPlanned(r *request) error {
	if !r.plan.Kind.Writes() && !s.isCurrent(r.plan) {
		return errStale
	}
	return nil
}

// readOver is readOne over a connection.
func (s *session) readOver(ctx context.Context, r *request, st plan.ShardStatement, conn *shard.Conn) (empty catalog.ShardSet, err error) {
	unlimit, err := s.limitOn(ctx, conn, r)
	if err != nil {
		return empty, s.unsent(st.Shard, err)
	}
	defer unlimit()
	willAssign(r, conn)
	conn.Await = !r.onGuess()
	if err := s.send(ctx, conn, r, st); err != nil {
		return empty, err
	}
	if err := s.confirm(ctx, r); err != nil {
		drop(conn, nil)
		return empty, err
	}
	o := s.forwardOptions()
	o.HoldOK, o.HoldErr = r.plan.Calls, r.plan.Calls && s.tx == nil
	sum, err := conn.Forward(s.client, shard.Result, o)
	if err := s.forwarded(st.Shard, &sum, err); err != nil {
		return empty, err
	}
	if sum.Err != nil && o.HoldErr {
		return empty, s.answerFailedCall(ctx, conn, *sum.Err, o.Tell)
	}
	s.diag.keep(ctx, conn, &sum)
	unlimit() // before another SELECT
	if r.plan.Calls && sum.Err == nil {
		return empty, s.answerCall(ctx, r, st.Shard, conn, sum)
	}
	if sum.Err == nil && asksID(r, st.SQL) && setsID(st.SQL) {
		id, told, err := askID(ctx, conn)
		if err != nil {
			return empty, fmt.Errorf("%w: %w", errHalfAnswered, s.shardError(st.Shard, err))
		}
		if told {
			s.diag.setID(id)
		}
	}
	s.diag.find(ctx, conn, r.found, &sum)
	if sum.ResultSet && sum.Rows == 0 {
		empty.Add(st.Shard)
	}
	return empty, s.tookOver(ctx, r, st.Shard, conn)
}
