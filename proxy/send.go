package proxy

import (
	"context"
	"errors"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// sent is a statement that a shard is working on.
type sent struct {
	shard catalog.ShardID
	conn  *shard.Conn
}

// sendAll sends a statement to all its shards before any answer is read, so
// that they work side by side. On an error the ones that were sent to are returned
// as well. The client gets what there is while a shard is waited for.
func (s *session) sendAll(ctx context.Context, r *request) ([]sent, error) {
	b := r.bound
	out, err := s.borrowAll(ctx, b)
	if err == nil {
		err = s.stillPlanned(r)
	}
	if err != nil {
		return out, err
	}
	s.watch(out)
	if err := s.sendTo(ctx, r, b.Statements, out); err != nil {
		return out, err
	}
	if err = s.confirm(ctx, r); err != nil {
		for _, x := range out {
			drop(x.conn, nil)
		}
	}
	return out, err
}

// borrowAll takes connections to a statement's shards, in the order of the shard
// numbers, in which every session takes them: no two wait for each other.
func (s *session) borrowAll(ctx context.Context, b *plan.Bound) ([]sent, error) {
	if s.tx != nil {
		var to catalog.ShardSet
		for _, st := range b.Statements {
			if s.tx.conns.at(st.Shard) == nil {
				to.Add(st.Shard)
			}
		}
		if err := s.tx.join(ctx, to); err != nil {
			return nil, err
		}
	}
	out := make([]sent, 0, len(b.Statements))
	for _, st := range b.Statements {
		conn, err := s.borrow(ctx, st.Shard)
		if err != nil {
			return out, err
		}
		out = append(out, sent{st.Shard, conn})
	}
	return out, nil
}

// sendTo sends a statement to some of its shards.
func (s *session) sendTo(ctx context.Context, r *request, statements []plan.ShardStatement, to []sent) error {
	for i, st := range statements {
		// When the last has begun to answer the others mostly have, too.
		to[i].conn.Await = i == len(to)-1 && !r.onGuess()
		if err := s.send(ctx, to[i].conn, r, st); err != nil {
			return err
		}
	}
	return nil
}

// send sends the statement's text or executes its prepared form.
func (s *session) send(ctx context.Context, conn *shard.Conn, r *request, st plan.ShardStatement) error {
	// The connection may remember another session's.
	if r.givesID || asksID(r, st.SQL) || r.returnsID() {
		if err := tellID(ctx, conn, s.diag.insertID); err != nil {
			return s.unsent(st.Shard, err)
		}
	}
	s.activity.sent(st.Shard, conn)
	// A hinted CALL may do anything there.
	conn.Unclean = conn.Unclean || r.plan.Kind == plan.Other || r.plan.Calls
	if r.prepared != nil {
		return s.sendPrepared(ctx, conn, r, st)
	}
	if err := s.sayOnce(ctx, conn, r, st.Shard); err != nil {
		return err
	}
	conn.Timed = s.timed(r)
	if err := conn.SendStatement(s.headed(st.SQL)); err != nil {
		return s.sendFailed(st.Shard, conn, err)
	}
	return nil
}

// unsentError: the connection broke before the shard can have got anything of
// the statement.
type unsentError struct{ error }

func (e unsentError) Unwrap() error { return e.error }

// unsent is shardError for a failure before the statement was sent.
func (s *session) unsent(id catalog.ShardID, err error) error {
	lost := errors.Is(err, shard.ErrShard)
	if err = s.shardError(id, err); lost {
		return unsentError{err}
	}
	return err
}

// sendFailed is shardError for a failure to send.
func (s *session) sendFailed(id catalog.ShardID, conn *shard.Conn, err error) error {
	if conn.Untouched() {
		return s.unsent(id, err)
	}
	return s.shardError(id, err)
}
