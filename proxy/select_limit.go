package proxy

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// selectLimit is sql_select_limit, which Shunt keeps: see planner/select_limit.go.
type selectLimit struct {
	on   bool // lower than the servers' default
	rows uint64
}

func (l selectLimit) value() uint64 {
	if l.on {
		return l.rows
	}
	return math.MaxUint64
}

const noSelectLimit = "sql_select_limit = 18446744073709551615"

// assignSelectLimit is SET sql_select_limit. A value out of bounds is cut off with a
// warning, as servers do.
func (s *session) assignSelectLimit(next *settings, value, literal string) error {
	next.own.limit = selectLimit{}
	if strings.EqualFold(literal, "default") {
		return nil
	}
	n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64)
	if err != nil {
		if _, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64); err != nil {
			return mysqlerr.New(mysqlerr.WrongTypeForVar, "Incorrect argument type to variable 'sql_select_limit'")
		}
		s.diag.warn(mysqlerr.TruncatedWrongValue, fmt.Sprintf("Truncated incorrect sql_select_limit value: '%s'", strings.TrimSpace(value)))
		n = 0
	}
	next.own.limit = selectLimit{on: n != math.MaxUint64, rows: n}
	return nil
}

// unlimited is the session without the limit, for a query that is the client's only
// in part: INSERT ... SELECT has none.
func (s *session) unlimited() (undo func()) {
	planning := s.settings.planning
	s.settings.planning.LimitsSelect, s.settings.planning.SelectLimit = false, 0
	return func() { s.settings.planning = planning }
}

// limits reports that a request is a SELECT or SHOW of the client's that is limited.
func (s *session) limits(r *request) bool {
	return s.settings.own.limit.on && r.sent && (r.plan.Kind == plan.Select || r.plan.Kind == plan.Locking || r.plan.Kind == plan.Show)
}

// limitOn sets the limit on a connection for one statement.
func (s *session) limitOn(ctx context.Context, conn *shard.Conn, r *request) (undo func(), err error) {
	if !s.limits(r) {
		return func() {}, nil
	}
	if _, err := conn.Exec(ctx, fmt.Sprintf("SET SESSION sql_select_limit = %d", s.settings.own.limit.rows)); err != nil {
		return func() {}, err
	}
	done := false
	return func() {
		if done || conn.Broken || conn.Busy() {
			return
		}
		done = true
		if _, err := conn.Exec(ctx, "SET SESSION "+noSelectLimit); err != nil {
			conn.Broken = true // not for another statement
		}
	}, nil
}
