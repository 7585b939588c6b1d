package proxy

import (
	"context"
	"errors"
	"math"
	"strconv"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/merge"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// FOUND_ROWS() is the session's, not a shard connection's: after each statement the
// rows are noted that were answered. Where only the server can say how many there
// were (SQL_CALC_FOUND_ROWS) it is asked at once, before its connection is given back. Over
// several shards their counts are summed, or united rows counted to the end.
//
// Known gaps: MariaDB's FOUND_ROWS() strays from the rows that were answered (an aggregate
// that needs no table, SET from a subquery), Shunt's doesn't. MySQL's warning that
// FOUND_ROWS() is deprecated is lost in statements that have its value spliced in, but for SET.

// foundIn is what one server's answer says; ok is false where that is nothing new.
func foundIn(ctx context.Context, conn *shard.Conn, f plan.FoundRows, sum *shard.Summary) (n int64, ok bool) {
	if sum.Err != nil {
		return 0, false
	}
	switch f.Op {
	case plan.FoundKept:
		return 0, false
	case plan.FoundCounted:
		switch {
		case !sum.ResultSet:
			return 0, false
		case f.Skipped == 0:
			return sum.Rows, true
		case sum.Rows > 0:
			return int64(f.Skipped) + sum.Rows, true
		}
		// OFFSET is behind the last row: how far, the server knows.
	case plan.FoundOne:
		return 1, true
	case plan.FoundMatched:
		n, err := strconv.ParseInt(infoNumbers.FindString(sum.Info), 10, 64)
		return n, err == nil
	case plan.FoundAsked:
	}
	n, err := askFound(ctx, conn)
	if err != nil {
		return noFound, true
	}
	return n, true
}

// askFound asks a server what it found by the connection's last statement.
func askFound(ctx context.Context, conn *shard.Conn) (int64, error) {
	res, err := conn.Query(ctx, "SELECT FOUND_ROWS()")
	if err != nil {
		return 0, err
	}
	if len(res.Rows) != 1 || len(res.Rows[0]) != 1 {
		return 0, errors.New("no answer to FOUND_ROWS()")
	}
	return strconv.ParseInt(string(res.Rows[0][0]), 10, 64)
}

// findMerged notes how many rows a merge has made, or without LIMIT would have
// made of united rows.
func (s *session) findMerged(m *plan.Merge, rows *merge.Rows) error {
	to := uint64(0)
	switch {
	case m.CountAll && m.Unite:
		to = math.MaxUint64
	case m.Count == 0 && !s.mariaDB():
		to = m.Offset // MySQL counts what LIMIT 3, 0 skips
	}
	err := rows.Count(to)
	s.diag.setFound(int64(rows.Found()))
	return err
}

// readAll reads answers to their ends.
func (s *session) readAll(answers []answer) error {
	for i := range answers {
		a := &answers[i]
		for !a.rows.Done() {
			if _, err := a.Next(); err != nil {
				return s.answerFailed(a, err)
			}
		}
	}
	return nil
}

// findAll adds up what each shard would have answered without LIMIT. REQUIRES: their
// answers have been read to their ends.
func (s *session) findAll(ctx context.Context, answers []answer) error {
	found := int64(0)
	for i := range answers {
		n, err := askFound(ctx, answers[i].conn)
		if err != nil {
			return s.shardError(answers[i].shard, err)
		}
		found += n
	}
	s.diag.setFound(found)
	return nil
}

// noFound is what found is after the server that counted was lost.
const noFound = -1

// errFound is told for FOUND_ROWS() then.
var errFound = mysqlerr.New(mysqlerr.ShardLost, "FOUND_ROWS() is not known: the connection to the shard that counted the rows was lost; run the query again")

// deprecatedFound is MySQL's warning of each FOUND_ROWS().
func deprecatedFound() [][]byte {
	return condition("Warning", mysqlerr.WarnDeprecatedSyntax, "FOUND_ROWS() is deprecated and will be removed in a future release. Consider using COUNT(*) instead.")
}
