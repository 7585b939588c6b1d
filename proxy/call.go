package proxy

import (
	"context"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// answerFailedCall answers a CALL outside of a transaction with its error, which doesn't tell
// whether the procedure has left one open: its locks would stay with a pooled connection.
func (s *session) answerFailedCall(ctx context.Context, conn *shard.Conn, e shard.ServerError, tell func(*wire.Error) *wire.Error) error {
	if err := conn.Ping(ctx); err == nil && leftOpen(conn) {
		if _, err := conn.Exec(ctx, "ROLLBACK"); err != nil {
			conn.Broken = true
		}
		e.Message += " (what the procedure had not committed was rolled back)"
	}
	told := wire.Error(e)
	if tell != nil {
		told = *tell(&told)
	}
	return s.clientError(s.client.WriteError(mysqlerr.Error(told)))
}

// leftOpen reports that a connection is in a transaction, or not in autocommit. REQUIRES: its
// last answer was no error.
func leftOpen(conn *shard.Conn) bool {
	return conn.InTransaction() || conn.Status&mysql.SERVER_STATUS_AUTOCOMMIT == 0
}

// answerCall answers the end of a CALL, which was held back: what the procedure may have
// set is asked for before, and a transaction that it has left open is none of the
// session's, which has others' connections for its next statements.
func (s *session) answerCall(ctx context.Context, r *request, id catalog.ShardID, conn *shard.Conn, sum shard.Summary) error {
	if s.tx == nil && leftOpen(conn) {
		if _, err := conn.Exec(ctx, "ROLLBACK"); err != nil {
			return s.shardError(id, err)
		}
		return refuse("CALL of a procedure that leaves a transaction open, or autocommit off, is not supported: what it had not committed was rolled back; let it COMMIT")
	}
	last, told, err := askID(ctx, conn)
	if err != nil {
		return s.shardError(id, err)
	}
	if told {
		s.diag.setID(last)
	}
	if err := s.takeOver(ctx, conn, r.plan.Sets); err != nil {
		return s.shardError(id, err)
	}
	return s.answerOK(wire.OK{Affected: sum.Affected, LastInsertID: sum.LastInsertID, Warnings: sum.Warnings, Info: sum.Info})
}
