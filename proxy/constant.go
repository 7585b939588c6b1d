package proxy

import (
	"context"
	"errors"

	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// askFirst executes an INSERT whose rows are placed by expressions: a shard says
// what their values are, and the statement with these in their places is
// executed. why is the refusal of the statement as it is, which stays where the
// values aren't beyond doubt.
func (s *session) askFirst(ctx context.Context, r request, why error) error {
	plan, sql, err := s.filled(ctx, r, why)
	if err != nil {
		return err
	}
	return s.run(ctx, plan, request{sql: sql, start: r.start})
}

// filled is askFirst's statement with the values.
func (s *session) filled(ctx context.Context, r request, why error) (*planner.Rows, string, error) {
	if r.plan.Returning && s.binary {
		return nil, "", why // it goes on as text, and so do its rows
	}
	c, found := r.plan.Constants, s.counts.found
	s.last.warnings = nil // MariaDB keeps what was told before
	rows, err := s.collect(ctx, c.Query(r.values))
	s.counts.found = found
	if told, ok := errors.AsType[sqlError](err); ok && told.code == codeNoColumn {
		return nil, "", why // a column of the row, not a constant
	}
	if err != nil {
		return nil, "", err
	}
	if len(s.last.warnings) > 0 {
		return nil, "", why // an INSERT may fail with what a SELECT warns of
	}
	if len(rows.rows) != 1 || len(rows.columns) != c.Len() {
		return nil, "", why
	}
	literals, err := rows.literals(rows.rows[0])
	if err != nil {
		return nil, "", err
	}
	sql := c.With(literals, r.values)
	plan, err := s.plan(ctx, sql)
	if err != nil {
		return nil, "", err
	}
	insert, ok := plan.(*planner.Rows)
	if !ok || insert.Constants != nil {
		return nil, "", why
	}
	return insert, sql, nil
}

// literals are a row's values, each as a literal that stores the same.
func (c *collected) literals(p []byte) ([]string, error) {
	at := 1 + (len(c.columns)+9)/8
	if len(p) < at {
		return nil, wire.ErrMalformed
	}
	nulls, p := p[1:at], p[at:]
	out := make([]string, len(c.columns))
	for i := range c.columns {
		if nulls[(i+2)/8]&(1<<((i+2)%8)) != 0 {
			out[i] = "NULL"
			continue
		}
		text, rest, err := appendBinary(nil, &c.columns[i], anyTarget, p)
		if err != nil {
			return nil, err
		}
		out[i], p = string(text), rest
	}
	return out, nil
}
