package throwaway

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/go-sql-driver/mysql"
)

// LockWaits are the statements of a server's sessions in a schema that wait for rows' locks, by the thread's id.
//
// A server tells what was so when nobody had asked for a tenth of a second. So who asks does it one after the other, and
// takes that long: tests that ask all the time would be told the same for ever.
func (s *Server) LockWaits(ctx context.Context, db *sql.DB, schema string) (map[uint32]string, error) {
	s.asking.Lock()
	defer s.asking.Unlock()
	time.Sleep(120 * time.Millisecond)
	rows, err := db.QueryContext(ctx, `SELECT p.id, COALESCE(p.info, '') FROM information_schema.innodb_trx x JOIN information_schema.processlist p
		ON p.id = x.trx_mysql_thread_id WHERE x.trx_state = 'LOCK WAIT' AND p.db = ?`, schema)
	if err != nil {
		var e *mysql.MySQLError
		if errors.As(err, &e) && e.Number == 3854 { // MySQL doesn't answer while any statement has bytes that are no text
			return map[uint32]string{}, nil
		}
		return nil, err
	}
	defer rows.Close()
	out := map[uint32]string{}
	for rows.Next() {
		var id uint32
		var info string
		if err := rows.Scan(&id, &info); err != nil {
			return nil, err
		}
		out[id] = info
	}
	return out, rows.Err()
}
