package proxy

import (
	"context"
	"errors"
	"math"
	"strconv"

	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/proxy/merge"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// FOUND_ROWS() is the session's, not a shard connection's: after each statement the
// rows are noted that were answered. Where only the server can say how many there
// were (SQL_CALC_FOUND_ROWS) it is asked at once, while its connection is at hand.

// findIn notes what one server's answer says of it.
func (s *session) findIn(ctx context.Context, conn *shard.Conn, r request, sum shard.Summary) {
	if n, ok := foundIn(ctx, conn, r.found, sum); ok {
		s.counts.found = n
	}
}

// foundIn is what one server's answer says; ok is false where that is nothing new.
func foundIn(ctx context.Context, conn *shard.Conn, f planner.FoundRows, sum shard.Summary) (n int64, ok bool) {
	if sum.Err != nil {
		return 0, false
	}
	switch f.Op {
	case planner.FoundKept:
		return 0, false
	case planner.FoundCounted:
		switch {
		case !sum.ResultSet:
			return 0, false
		case f.Skipped == 0:
			return sum.Rows, true
		case sum.Rows > 0:
			return int64(f.Skipped) + sum.Rows, true
		}
		// OFFSET is behind the last row: how far, the server knows.
	case planner.FoundOne:
		return 1, true
	case planner.FoundMatched:
		n, err := strconv.ParseInt(infoNumbers.FindString(sum.Info), 10, 64)
		return n, err == nil
	case planner.FoundAsked:
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

// findAnswered notes the rows that Shunt itself has answered.
func (s *session) findAnswered() {
	if s.counts.answered >= 0 {
		s.counts.found = int64(s.counts.answered)
	}
}

// findMerged notes how many rows a merge has made, or without LIMIT would have
// made of united rows.
func (s *session) findMerged(m *planner.Merge, rows *merge.Rows) error {
	to := uint64(0)
	switch {
	case m.CountAll && m.Unite:
		to = math.MaxUint64
	case m.Count == 0 && !s.mariaDB():
		to = m.Offset // MySQL counts what LIMIT 3, 0 skips
	}
	err := rows.Count(to)
	s.counts.found = int64(rows.Found())
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
	s.counts.found = 0
	for i := range answers {
		n, err := askFound(ctx, answers[i].conn)
		if err != nil {
			return s.shardError(answers[i].shard, err)
		}
		s.counts.found += n
	}
	return nil
}

// noFound is what found is after the server that counted was lost.
const noFound = -1

// errFound is told for FOUND_ROWS() then.
var errFound = sqlError{codeShardLost, "HY000", "FOUND_ROWS() is not known: the connection to the shard that counted the rows was lost; run the query again"}

// deprecatedFound is MySQL's warning of each FOUND_ROWS().
func deprecatedFound() [][]byte {
	return condition("Warning", 1287, "FOUND_ROWS() is deprecated and will be removed in a future release. Consider using COUNT(*) instead.")
}
