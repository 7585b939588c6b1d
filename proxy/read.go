package proxy

import (
	"context"
	"fmt"
	"time"

	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// readSurely is read, and once more where the connection was dead before.
func (s *session) readSurely(ctx context.Context, r request, b *planner.Bound) error {
	before := s.client.Writer().Total()
	err := s.read(ctx, r, b)
	for err != nil && s.elsewhere(ctx, r, err, before) {
		err = s.read(ctx, r, b)
	}
	if s.reading != nil && err == nil {
		s.proxy.metrics.replicaRead(s.reading)
	}
	if err == nil || !s.mayRepeat(r, b, err, before) {
		return err
	}
	s.distrust = true
	defer func() { s.distrust = false }()
	return s.read(ctx, r, b)
}

// repeatWithin is how soon a read must have failed to be sent once more.
const repeatWithin = time.Second

// mayRepeat reports whether a read is to be sent once more. It found a connection
// dead that had looked alive, as after a restart of a shard or of what is
// between; or any of several shards would do, and this one is down: b names
// another then. The client has got nothing of the answer.
func (s *session) mayRepeat(r request, b *planner.Bound, err error, before int64) bool {
	if !notBegun(err) && (s.tx != nil || s.tableLocks != nil || s.temporaryNeeded()) || !unreachable(err) || s.client.Writer().Total() != before {
		return false
	}
	// Not later: who ends a runaway query by ending its connection doesn't want
	// it begun again.
	soon := time.Since(r.start) < repeatWithin
	if len(b.Statements) == 1 && r.plan.Kind != planner.Locking {
		at := b.Statements[0].Shard
		if others := b.Alternatives.Minus(catalog.Only(at)); !others.Empty() && (soon || !s.proxy.opts.Pools[at].Lively()) {
			b.Statements[0].Shard = s.livelyOf(others)
			return true
		}
	}
	return (soon || notBegun(err) && !s.activity.killed()) && coded(err).code == codeShardLost
}

// read sends a statement that changes nothing.
func (s *session) read(ctx context.Context, r request, b *planner.Bound) error {
	var empty catalog.ShardSet
	var err error
	if b.System != nil || b.Gather != nil {
		s.reading = nil
	}
	switch {
	case b.System != nil:
		s.cutsShown = s.limits(r) && r.found.Op == planner.FoundCounted
		if err = s.system(ctx, r, b); err == nil && r.found.Op == planner.FoundCounted {
			s.findAnswered()
		}
		return err
	case b.Gather != nil:
		return s.gather(ctx, r, b)
	case b.Merge != nil:
		empty, err = s.merge(ctx, r, b)
	case len(b.Statements) == 1 && r.plan.Shown != nil:
		s.cutsShown = s.limits(r)
		if err = s.showValues(ctx, r, b.Statements[0]); err == nil {
			s.findAnswered()
		}
	case len(b.Statements) == 1 && r.plan.Creates != nil:
		if err = s.showCreate(ctx, r.plan.Creates, b.Statements[0]); err == nil {
			s.findAnswered()
		}
	case len(b.Statements) == 1:
		empty, err = s.readOne(ctx, r, b.Statements[0])
	default:
		empty, err = s.concatenate(ctx, r, b)
	}
	// In a transaction an old snapshot may answer, which says nothing of now.
	if err == nil && len(b.Probes) > 0 && s.tx == nil {
		s.proxy.opts.Index.Observe(b.Probes, route(b), empty)
	}
	return err
}

func route(b *planner.Bound) catalog.ShardSet {
	var set catalog.ShardSet
	for _, st := range b.Statements {
		set.Add(st.Shard)
	}
	return set
}

// readOne forwards one shard's answer as it is.
func (s *session) readOne(ctx context.Context, r request, st planner.ShardStatement) (empty catalog.ShardSet, err error) {
	if s.reading != nil {
		return s.readPart(ctx, r, st)
	}
	conn, err := s.borrowToRead(ctx, r.plan, st.Shard)
	if err != nil {
		return empty, err
	}
	defer s.giveBack(st.Shard, conn)
	unlimit, err := s.limitOn(ctx, conn, r)
	if err != nil {
		return empty, s.unsent(st.Shard, err)
	}
	defer unlimit()
	willAssign(r, conn)
	conn.Await = true
	if err := s.send(ctx, conn, r, st); err != nil {
		return empty, err
	}
	o := s.forwardOptions()
	o.HoldOK, o.HoldErr = r.plan.Calls, r.plan.Calls && s.tx == nil
	sum, err := conn.Forward(s.client, shard.Result, o)
	if err := s.forwarded(st.Shard, sum, err); err != nil {
		return empty, err
	}
	if sum.Err != nil && o.HoldErr {
		return empty, s.answerFailedCall(ctx, conn, *sum.Err, o.Tell)
	}
	s.remember(ctx, conn, sum)
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
			s.last.insertID = id
		}
	}
	s.findIn(ctx, conn, r, sum)
	if sum.ResultSet && sum.Rows == 0 {
		empty.Add(st.Shard)
	}
	return empty, s.tookOver(ctx, r, st.Shard, conn)
}
