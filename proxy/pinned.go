package proxy

import (
	"context"
	"fmt"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// resetTimeout bounds how long a connection's reset may take; else it is closed.
const resetTimeout = 5 * time.Second

// pinned notes, before it is borrowed, a connection that the session will keep for
// what a server keeps with a connection. why is pinnedByTables or pinnedByLocks.
func (s *session) pinned(id catalog.ShardID, why string) error {
	if err := s.proxy.opts.Pools[id].Pin(); err != nil {
		return sqlError{1040, "08004", fmt.Sprintf("Too many connections: %v; these drop their temporary tables or release their locks, or shard_connections is raised", err)}
	}
	s.proxy.metrics.pinned.WithLabelValues(why).Inc()
	return nil
}

// unpinned takes pinned back.
func (s *session) unpinned(id catalog.ShardID, why string) {
	s.proxy.opts.Pools[id].Unpin()
	s.proxy.metrics.pinned.WithLabelValues(why).Dec()
}

// letGo gives a kept connection back, and all that it keeps on the server up.
func (s *session) letGo(id catalog.ShardID, conn *shard.Conn, why string) {
	pool := s.proxy.opts.Pools[id]
	ctx, cancel := context.WithTimeout(context.Background(), resetTimeout)
	defer cancel()
	if conn.Broken || conn.Busy() || conn.Reset(ctx) != nil {
		// A statement may still wait there, GET_LOCK() for one, for nobody.
		_ = pool.Kill(ctx, conn.ThreadID, false) // its end is noticed sooner or later
		pool.Discard(conn)
	} else {
		pool.Put(conn)
	}
	s.unpinned(id, why)
}
