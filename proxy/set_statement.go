package proxy

import (
	"strconv"
	"strings"
	"time"

	"github.com/shunt-sql/shunt/planner/spoken"
)

// forOne puts MariaDB's SET STATEMENT into effect until undo is called.
func (s *session) forOne(set *spoken.StatementSettings) (undo func(), err error) {
	if set == nil {
		return func() {}, nil
	}
	was := s.settings.own.limit
	if set.Limit != "" {
		next := s.settings
		if err := s.assignSelectLimit(&next, set.Limit, set.Limit); err != nil {
			return nil, err
		}
		s.limitSelect(next.own.limit)
	}
	s.setStatement = set
	return func() {
		s.setStatement = nil
		s.limitSelect(was)
	}, nil
}

func (s *session) limitSelect(limit selectLimit) {
	if s.settings.own.limit != limit {
		s.settings.own.limit = limit
		s.settings.update(s.catalog())
	}
}

// headed is what is sent to a shard for one of the client's statements.
func (s *session) headed(sql string) string {
	if s.setStatement == nil {
		return sql
	}
	return s.setStatement.Head + sql
}

// statementTime reads a max_statement_time; 0: no limit.
func statementTime(v string) time.Duration {
	if n, err := strconv.ParseFloat(strings.TrimSpace(v), 64); err == nil && n > 0 && n < maxTimeout {
		return time.Duration(n * float64(time.Second))
	}
	return 0
}
