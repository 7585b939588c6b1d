package seat

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strconv"
	"sync"
	"time"
)

// linkLock, and a join's number, name the lock of the connection that its heartbeats come by.
// A member that lives has it, and uses that connection all the time; others see both, without
// a write. A server lets go of it with the connection.
const linkLock = "shunt_store.join "

// linking is that connection, of one join at a time.
type linking struct {
	mu   sync.Mutex
	conn *sql.Conn
	join uint64 // whose lock it has; 0: none
}

// linked runs fn over the link of a join. It makes another one where that breaks; as long as the
// server holds the broken one for open, the lock is still that one's.
func (s *Seat) linked(ctx context.Context, join uint64, fn func(*sql.Conn) error) (err error) {
	l := &s.link
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() {
		if err != nil {
			l.endLocked()
		}
	}()
	if l.conn == nil {
		if l.conn, err = s.db.Conn(ctx); err != nil {
			return err
		}
	}
	if l.join != join {
		var got sql.NullBool
		name := func(join uint64) string { return linkLock + strconv.FormatUint(join, 10) }
		if err := l.conn.QueryRowContext(ctx, "DO RELEASE_LOCK(?); SELECT GET_LOCK(?, 0)", name(l.join), name(join)).Scan(&got); err != nil {
			return err
		}
		if l.join = 0; got.Bool {
			l.join = join
		}
	}
	return fn(l.conn)
}

func (l *linking) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endLocked()
}

// endLocked closes the connection itself: in the pool it would keep the lock.
func (l *linking) endLocked() {
	if l.conn != nil {
		_ = l.conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	l.conn, l.join = nil, 0
}

// Quiet is cluster.Roll's.
func (s *Seat) Quiet(ctx context.Context) (map[uint64]time.Duration, error) {
	rows, err := s.db.QueryContext(ctx, "SELECT join_no, COALESCE(IS_USED_LOCK(CONCAT('"+linkLock+"', join_no)), 0) FROM members")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	joins := map[uint64]uint64{} // by thread
	for rows.Next() {
		var join, thread uint64
		if err := rows.Scan(&join, &thread); err != nil {
			return nil, err
		}
		joins[thread] = join
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	threads, err := list(ctx, s.db)
	if err != nil {
		return nil, err
	}
	quiet := map[uint64]time.Duration{}
	for thread, join := range joins {
		if t, there := threads[thread]; there {
			quiet[join] = t.quiet
		}
	}
	return quiet, nil
}
