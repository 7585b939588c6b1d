package proxy

import (
	"context"
	"errors"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// stayOn sends a statement that any of several shards can answer to one that
// the transaction has, rather than let another join, and else to one that
// answers.
func (s *session) stayOn(b *plan.Bound) {
	if b.Alternatives.Empty() || len(b.Statements) != 1 {
		return
	}
	if s.tx != nil {
		for _, id := range s.tx.order {
			if b.Alternatives.Has(id) {
				b.Statements[0].Shard = id
				return
			}
		}
	}
	if s.reading != nil && s.pickReplica(b.Statements[0].Shard) == nil {
		for id := range b.Alternatives.All {
			if s.pickReplica(id) != nil {
				b.Statements[0].Shard = id
				return
			}
		}
	}
	if at := b.Statements[0].Shard; s.pickReplica(at) == nil && !s.proxy.pool(at).Lively() {
		b.Statements[0].Shard = s.livelyOf(b.Alternatives)
	}
}

// livelyOf picks a shard that answers, the first if none does.
func (s *session) livelyOf(set catalog.ShardSet) catalog.ShardID {
	for id := range set.All {
		if s.proxy.pool(id).Lively() {
			return id
		}
	}
	return set.First()
}

// borrow takes a connection that has the session's settings: the transaction's
// own, or one of the pool's.
func (s *session) borrow(ctx context.Context, id catalog.ShardID) (*shard.Conn, error) {
	if s.tx != nil {
		return s.tx.conn(ctx, id)
	}
	return s.borrowPooled(ctx, id)
}

// borrowToRead is borrow for a statement that isn't a write, and is sent next.
func (s *session) borrowToRead(ctx context.Context, rows *plan.Rows, id catalog.ShardID) (*shard.Conn, error) {
	if s.tx != nil && s.tx.conns.at(id) == nil && !s.distrust && rows.Kind == plan.Select && !rows.Calls {
		return s.tx.joinOne(ctx, id, true)
	}
	return s.borrow(ctx, id)
}

func (s *session) borrowPooled(ctx context.Context, id catalog.ShardID) (*shard.Conn, error) {
	if conn := s.lockedConn(id); conn != nil {
		return s.borrowLocked(ctx, id, conn)
	}
	if s.usesPinned(id) {
		return s.borrowPinned(ctx)
	}
	if s.reading != nil {
		if conn := s.borrowReplica(ctx, id); conn != nil {
			return conn, nil
		}
	}
	if s.distrust {
		return s.borrowNew(ctx, id)
	}
	pool := s.proxy.pool(id)
	conn, err := pool.GetFor(ctx, s.holder(), s.countsFound(), s.settings.fingerprint)
	if err != nil {
		return nil, shard.Down(err)
	}
	conn.Client.Store(s.client.ID)
	if conn.Waited > 0 {
		s.measured.Waits++
		s.measured.Waited += conn.Waited
	}
	if err = s.settings.applyTo(ctx, conn); err == nil {
		return conn, nil
	}
	pool.Put(conn)
	if errors.Is(err, shard.ErrShard) {
		// It was dead already, and has got nothing yet that it could have done.
		return s.borrowNew(ctx, id)
	}
	return nil, s.shardError(id, err)
}

// fitting returns a connection over which what is registered on a shard may be sent: the one that
// was borrowed, or a new one in its place.
//
// Rule same join. Counter-example: a statement is registered, and this process, too slow, is
// fenced on the shard: what it has registered counts as ended, and a scan removes the entry that
// was added for the statement. It joins the shard anew, and the statement goes over a
// connection that nobody has ended.
func (s *session) fitting(ctx context.Context, open Open, id catalog.ShardID, conn *shard.Conn) (*shard.Conn, error) {
	if open.Fits(id, conn) || s.reading.has(conn) {
		return conn, nil
	}
	keeps := s.keeps(id)
	conn.Broken = true // it is the older one, or its session has waited
	s.putBack(id, conn)
	if !keeps {
		anew, err := s.borrowNew(ctx, id)
		if err != nil {
			return nil, err
		}
		if open.Fits(id, anew) {
			return anew, nil
		}
		s.putBack(id, anew)
	}
	return nil, errFenced(s.catalog().ShardName(id))
}

// errFenced: nothing was sent to the shard.
func errFenced(name string) error {
	return mysqlerr.Newf(mysqlerr.ShardLost, "this Shunt was taken off shard %s meanwhile, and has come back: try again", name)
}

// countsFound reports a client whose UPDATEs count the rows that they find, not those that
// they change.
func (s *session) countsFound() bool { return s.client.Capabilities&mysql.CLIENT_FOUND_ROWS != 0 }

// borrowNew is borrowPooled that trusts no idle connection: it has got one that
// was dead.
func (s *session) borrowNew(ctx context.Context, id catalog.ShardID) (*shard.Conn, error) {
	pool := s.proxy.pool(id)
	conn, err := pool.GetNew(ctx, s.holder(), s.countsFound())
	if err != nil {
		return nil, shard.Down(err)
	}
	conn.Client.Store(s.client.ID)
	if err := s.settings.applyTo(ctx, conn); err != nil {
		pool.Put(conn)
		return nil, s.notJoined(id, err)
	}
	return conn, nil
}

// giveBack returns a connection that isn't the transaction's.
func (s *session) giveBack(id catalog.ShardID, conn *shard.Conn) {
	if conn == nil {
		return
	}
	conn.Watch(nil)
	s.activity.done(conn)
	s.measurePart(id, conn)
	if conn.Ahead() && s.tx != nil { // something failed before the transaction had begun there
		s.tx.drop(id)
	}
	if s.tx == nil || s.tx.conns.at(id) != conn {
		s.putBack(id, conn)
	}
}

// keeps reports whether the connection to a shard is one that the session keeps:
// no other could take its place.
func (s *session) keeps(id catalog.ShardID) bool { return s.usesPinned(id) || s.lockedConn(id) != nil }

// putBack gives a connection back to its pool, unless it is the pinned one.
func (s *session) putBack(id catalog.ShardID, conn *shard.Conn) {
	if s.reading.putBack(conn) {
		return
	}
	if s.locked(id, conn) {
		if conn.Broken || conn.Busy() {
			s.loseTables(id)
		}
		return
	}
	if t := s.temporary; t == nil || t.conn != conn {
		s.proxy.pool(id).Put(conn)
	} else if conn.Broken || conn.Busy() {
		s.loseTemporary()
	}
}
