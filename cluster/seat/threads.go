package seat

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/cluster"
)

// Note is cluster.Notes'. The last two statements go in one round trip; the second begins when
// the first has been committed.
func (s *Seat) Note(ctx context.Context, join uint64, thread uint32) (note uint64, here bool, err error) {
	listed, err := list(ctx, s.db)
	if err != nil {
		return 0, false, err
	}
	t, ok := listed[uint64(thread)]
	if !ok {
		return 0, false, ErrNoThread
	}
	err = s.db.QueryRowContext(ctx, `INSERT INTO threads (join_no, thread, user, host) VALUES (?, ?, ?, ?);
		SELECT LAST_INSERT_ID(), EXISTS (SELECT 1 FROM members WHERE join_no = ? AND fenced = 0)`,
		join, t.ID, t.User, t.Host, join).Scan(&note, &here)
	if err != nil {
		return 0, false, err
	}
	return note, here, nil
}

// Forget is cluster.Notes'.
func (s *Seat) Forget(ctx context.Context, notes ...uint64) error {
	for len(notes) > 0 {
		some := notes[:min(len(notes), 1000)]
		notes = notes[len(some):]
		args := make([]any, len(some))
		for i, n := range some {
			args[i] = n
		}
		if _, err := s.db.ExecContext(ctx, "DELETE FROM threads WHERE note IN (?"+strings.Repeat(", ?", len(some)-1)+")", args...); err != nil {
			return err
		}
	}
	return nil
}

// Threads is cluster.Notes'.
func (s *Seat) Threads(ctx context.Context, join uint64) (all []cluster.Thread, err error) {
	rows, err := s.db.QueryContext(ctx, "SELECT note, thread, user, host FROM threads WHERE join_no = ?", join)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var t cluster.Thread
		if err := rows.Scan(&t.Note, &t.ID, &t.User, &t.Host); err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, rows.Err()
}

// process is a thread, and how long it has been doing what it does, or nothing.
type process struct {
	cluster.Thread
	idle  bool
	quiet time.Duration
}

// list is what the server lists, by number.
//
// Counter-example: information_schema.PROCESSLIST. MySQL answers nothing of it (3854) while a
// statement of anybody holds bytes that are no text, as that of an entry's key.
func list(ctx context.Context, on interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
},
) (map[uint64]process, error) {
	rows, err := on.QueryContext(ctx, "SHOW PROCESSLIST")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	if len(columns) < 6 {
		return nil, fmt.Errorf("SHOW PROCESSLIST has %d columns", len(columns))
	}
	var id uint64
	var user, host sql.NullString
	var seconds sql.NullInt64
	var command sql.NullString
	into := []any{&id, &user, &host, new(sql.RawBytes), &command, &seconds}
	for range columns[len(into):] {
		into = append(into, new(sql.RawBytes))
	}
	all := map[uint64]process{}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		all[id] = process{
			Thread: cluster.Thread{ID: id, User: user.String, Host: host.String},
			idle:   command.String == "Sleep", quiet: time.Duration(seconds.Int64) * time.Second,
		}
	}
	return all, rows.Err()
}

// Kill is cluster.Fencing's.
func (s *Seat) Kill(ctx context.Context, noted ...cluster.Thread) error {
	// One connection: if the server is restarted between the look and the KILL, which
	// would give a number to somebody else, the KILL isn't done.
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	left, err := s.running(ctx, conn, noted)
	if err != nil {
		return err
	}
	var errs []error
	for _, t := range left {
		_, err := conn.ExecContext(ctx, fmt.Sprintf("KILL %d", t.ID))
		if refused, ok := errors.AsType[*mysql.MySQLError](err); ok && refused.Number == 1094 { // ER_NO_SUCH_THREAD
			continue
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Running is cluster.Fencing's.
func (s *Seat) Running(ctx context.Context, noted ...cluster.Thread) ([]cluster.Thread, error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return s.running(ctx, conn, noted)
}

func (s *Seat) running(ctx context.Context, conn *sql.Conn, noted []cluster.Thread) (left []cluster.Thread, err error) {
	now, err := list(ctx, conn)
	if err != nil {
		return nil, err
	}
	for _, t := range noted {
		if l, there := now[t.ID]; there && l.User == t.User && l.Host == t.Host {
			if !l.idle {
				t.Busy = l.quiet
			}
			left = append(left, t)
		} else if !there && t.User != s.user && !s.all {
			return nil, fmt.Errorf("thread %d of %s: %w", t.ID, t.User, ErrBlind)
		}
	}
	return left, nil
}
