package proxy

import (
	"cmp"
	"context"
	"strconv"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// namedLocks are what a session has taken by GET_LOCK(): on a server they belong
// to a connection, so the session keeps one, pinned, until they are released,
// COM_RESET_CONNECTION or its end. It is none of the transaction's.
type namedLocks struct {
	shard catalog.ShardID
	conn  *shard.Conn
	// held is how often locks were taken and not released; unknown: a statement
	// may have taken more.
	held    int
	unknown bool
}

// lockWay is how a statement about locks by name is executed.
var lockWay = &way{
	at:      unbound,
	fits:    func(_ *session, r *request) bool { return r.plan.Lock != nil },
	execute: (*session).namedLock,
}

// namedLock executes a statement about locks by name.
func (s *session) namedLock(ctx context.Context, r *request) error {
	b, err := s.proxy.planner.Bind(r.plan, r.values, s.proxy.opts.Index)
	if err != nil {
		return err
	}
	st, lock := b.Statements[0], r.plan.Lock
	r.found = b.Found
	s.diag.sending()
	// It waits and ends by itself, whatever becomes of the transaction.
	o := s.forwardOptions()
	tx := s.tx
	s.tx = nil
	defer func() { s.tx = tx }()
	conn, err := s.lockConn(ctx, st.Shard, lock.Op == plan.GetLock || lock.Op == plan.SomeLocks)
	if err != nil {
		return err
	}
	defer s.settleLocks(st.Shard, conn)
	if ask := lock.Reserved(r.values); ask != "" {
		// Where the name is wrong the statement itself says so.
		res, err := conn.Query(ctx, ask)
		if err != nil && shard.Code(err) == 0 {
			return s.shardError(st.Shard, err)
		}
		if err == nil && string(res.Rows[0][0]) != "0" {
			return spoken.ReservedLock()
		}
	}
	mine := false
	if lock.Op == plan.ReleaseLock {
		if mine, err = s.hasLock(ctx, st.Shard, conn, lock.Owner(r.values)); err != nil {
			return err
		}
	}
	if err := s.send(ctx, conn, r, st); err != nil {
		return err
	}
	// A client that goes away must not get the lock afterwards.
	waiting, stop := s.whileClientStays(ctx)
	var sum shard.Summary
	s.tx = tx // of which the client may be told with the answer
	err = conn.Under(waiting, func() (err error) {
		sum, err = conn.Forward(s.client, shard.Result, o)
		return err
	})
	s.tx = nil
	stop()
	if err := s.forwarded(st.Shard, &sum, err); err != nil {
		return err
	}
	s.diag.keep(ctx, conn, &sum)
	s.diag.find(ctx, conn, r.found, &sum)
	switch {
	case sum.Err != nil || lock.Op == plan.LookAtLock:
	case lock.Op == plan.GetLock:
		if mine, err := s.hasLock(ctx, st.Shard, conn, lock.Owner(r.values)); err != nil || mine {
			s.namedLocks.held++
		}
	case lock.Op == plan.ReleaseLock && mine && s.namedLocks != nil:
		s.namedLocks.held--
	case lock.Op == plan.ReleaseAllLocks && s.namedLocks != nil:
		s.namedLocks.held, s.namedLocks.unknown = 0, false
	case lock.Op == plan.SomeLocks:
		s.namedLocks.unknown = true
	}
	return nil
}

// lostLocks tells, once, that a session's locks are gone with their connection: it
// may do what they were to keep others from. Nothing is executed then.
func (s *session) lostLocks() error {
	l := s.namedLocks
	if l == nil || l.conn.Alive() {
		return nil
	}
	l.conn.Broken = true
	s.endLocks()
	return mysqlerr.Newf(mysqlerr.ShardLost, "Connection to shard %s was lost, and this session's locks by name with it", s.catalog().ShardName(l.shard))
}

// lockConn is the session's connection for locks, or one of the pool's. It becomes
// the session's before a lock is waited for: who waits keeps it from others, too.
func (s *session) lockConn(ctx context.Context, id catalog.ShardID, take bool) (conn *shard.Conn, err error) {
	if l := s.namedLocks; l != nil {
		if err := s.settings.applyMore(ctx, l.conn); err != nil {
			return nil, s.shardError(id, err)
		}
		s.activity.sent(id, l.conn)
		return l.conn, nil
	}
	if take {
		if err := s.pinned(id, pinnedByLocks); err != nil {
			return nil, err
		}
		defer func() {
			if err != nil {
				s.unpinned(id, pinnedByLocks)
			}
		}()
	}
	conn, err = s.proxy.pool(id).GetFor(ctx, s.holder(), false, s.settings.fingerprint)
	if err != nil {
		return nil, shard.Down(err)
	}
	if err := s.settings.applyTo(ctx, conn); err != nil {
		s.proxy.pool(id).Put(conn)
		return nil, s.shardError(id, err)
	}
	if take {
		s.namedLocks = &namedLocks{shard: id, conn: conn}
		s.proxy.lockOwners.Store(conn.ThreadID, s.client.ID)
	}
	s.activity.sent(id, conn)
	return conn, nil
}

// hasLock asks whether the connection itself has a lock.
func (s *session) hasLock(ctx context.Context, id catalog.ShardID, conn *shard.Conn, owner string) (bool, error) {
	res, err := conn.Query(ctx, owner)
	if err != nil {
		if shard.Code(err) != 0 {
			return false, nil // the statement itself says what is wrong with the name
		}
		return false, s.shardError(id, err)
	}
	return len(res.Rows) == 1 && string(res.Rows[0][0]) == strconv.FormatUint(uint64(conn.ThreadID), 10), nil
}

// lockOwner is the number of the client that has a lock, "" for none. One that has it on the shard itself is told by its number there.
func (s *session) lockOwner(ctx context.Context, name string) (string, error) {
	id := spoken.LockShard(s.catalog()).ID
	conn, err := s.lockConn(ctx, id, false)
	if err != nil {
		return "", err
	}
	defer s.settleLocks(id, conn)
	res, err := conn.Query(ctx, "SELECT IS_USED_LOCK("+name+")")
	if err != nil {
		return "", s.shardError(id, err)
	}
	thread := string(res.Rows[0][0])
	if n, err := strconv.ParseUint(thread, 10, 32); err == nil {
		if owner := cmp.Or(s.proxy.lockOwner(uint32(n)), s.lockOwnerElsewhere(ctx, uint32(n))); owner != 0 {
			return strconv.FormatUint(uint64(owner), 10), nil
		}
	}
	return thread, nil // "" for NULL
}

// lockOwner is the number of this Shunt's client whose locks by name are on a connection of a shard, 0 for none.
func (p *Proxy) lockOwner(thread uint32) uint32 {
	owner, _ := p.lockOwners.Load(thread)
	id, _ := owner.(uint32)
	return id
}

// settleLocks gives the connection up where no lock is on it any more.
func (s *session) settleLocks(id catalog.ShardID, conn *shard.Conn) {
	s.activity.done(conn)
	switch l := s.namedLocks; {
	case l == nil:
		s.proxy.pool(id).Put(conn)
	case conn.Broken || conn.Busy() || l.held <= 0 && !l.unknown:
		s.endLocks()
	}
}

// endLocks releases all locks by name and gives their connection back.
func (s *session) endLocks() {
	if l := s.namedLocks; l != nil {
		s.namedLocks = nil
		s.proxy.lockOwners.Delete(l.conn.ThreadID)
		s.letGo(l.shard, l.conn, pinnedByLocks)
	}
}
