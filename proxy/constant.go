package proxy

import (
	"context"
	"errors"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"

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
	defer func() { s.counts.found = found }()
	var literals []string
	for i, query := range c.Queries(r.values) {
		row, err := s.asked(ctx, c, i, query, why)
		if err != nil {
			return nil, "", err
		}
		literals = append(literals, row...)
	}
	sql := c.With(literals, r.values)
	plan, err := s.plan(ctx, sql)
	if err != nil {
		return nil, "", err
	}
	insert, ok := plan.(*planner.Rows)
	if !ok || insert.Constants != nil && !c.Subqueries() {
		return nil, "", why
	}
	return insert, sql, nil
}

// asked are the values that one of the queries answers.
func (s *session) asked(ctx context.Context, c *planner.Constants, i int, query string, why error) ([]string, error) {
	s.last.warnings = nil // MariaDB keeps what was told before
	rows, err := s.collect(ctx, query)
	told, failed := errors.AsType[sqlError](err)
	switch {
	case failed && told.code == codeNoColumn && !c.Whole(i):
		return nil, why // a column of the row, not a constant
	case err != nil:
		return nil, err
	}
	defer rows.drop()
	switch {
	case rows.warned > 0 || len(rows.warnings) > 0:
		return nil, why // an INSERT may fail with what a SELECT warns of
	case c.Subqueries():
		if err := s.scalar(ctx, rows, c.Target(i)); err != nil {
			return nil, err
		}
		if rows.count == 0 {
			return []string{"NULL"}, nil
		}
	case rows.count != 1 || len(rows.columns) != c.Len():
		return nil, why
	}
	row, err := rows.next()
	if err != nil {
		return nil, err
	}
	return rows.literals(row)
}

// scalar is for a subquery's answer whose value goes to a column: it refuses what isn't one value,
// and what its literal would store otherwise.
func (s *session) scalar(ctx context.Context, rows *collected, column string) error {
	switch {
	case len(rows.columns) != 1:
		return sqlError{1241, "21000", "Operand should contain 1 column(s)"}
	case rows.count > 1:
		return sqlError{1242, "21000", "Subquery returns more than 1 row"}
	}
	from, into, stored := rows.columns[0], anyTarget, true
	bytes := strings.HasSuffix(column, "blob") || strings.HasSuffix(column, "binary") || column == "bit"
	text := strings.HasSuffix(column, "text") || strings.HasSuffix(column, "char") || column == "enum" || column == "set"
	switch {
	case !isText(from.Type) && (column == "enum" || column == "set"): // a number of members
		stored = false
	case from.Type == mysql.MYSQL_TYPE_BIT:
		stored = !bytes
	case from.Type == mysql.MYSQL_TYPE_JSON:
		into, stored = document, text || column == "json"
	case from.Type == mysql.MYSQL_TYPE_YEAR || from.Flags&mysql.ZEROFILL_FLAG != 0:
		stored = !text && !bytes
	case from.Type == mysql.MYSQL_TYPE_TIMESTAMP && column == "timestamp":
		into = instant
	case isTime(from.Type) && !text && !bytes: // MySQL makes texts of them, MariaDB doesn't
		stored = !isNumeric(column) && (from.Type == mysql.MYSQL_TYPE_TIME) == (column == "time")
	case isText(from.Type) && from.Charset != binaryCollation && bytes:
		into = asciiBytes
	}
	if !stored {
		return refuse("INSERT of a subquery's value of the type of %s into a column of the type %s is not supported: read the value first", from.Name, column)
	}
	rows.targets = []target{into}
	return s.onceOnly(ctx, rows)
}

// literals are a row's values, each as a literal that stores the same.
func (c *collected) literals(p []byte) ([]string, error) {
	nulls, p, ok := wire.TakeNulls(p, len(c.columns))
	if !ok {
		return nil, wire.ErrMalformed
	}
	out := make([]string, len(c.columns))
	for i := range c.columns {
		if nulls.Has(i) {
			out[i] = "NULL"
			continue
		}
		text, rest, err := appendBinary(nil, &c.columns[i], c.target(i), p)
		if err != nil {
			return nil, err
		}
		out[i], p = string(text), rest
	}
	return out, nil
}
