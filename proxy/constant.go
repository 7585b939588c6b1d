package proxy

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/wire"
)

var (
	// askWay is how a statement is executed that needs values that a shard knows.
	askWay = &way{
		at:   refused,
		fits: func(_ *session, r *request) bool { return r.plan.Constants != nil },
		explain: func(_ *session, _ context.Context, r *request) ([][]any, error) {
			return [][]any{explainRow("shard_key", "it is asked first for values that are needed, which then stand in the statement", strings.Join(r.plan.Constants.Queries(nil), "; "))}, nil
		},
		execute: (*session).askFirst,
	}
	// askAnywayWay is askWay where only the refusal says what to ask for.
	askAnywayWay = &way{
		at: refused,
		fits: func(_ *session, r *request) bool {
			return r.bound == nil && r.why.Unstored && !r.asked && planner.Forms(r.plan, r.values) != nil
		},
		execute: func(s *session, ctx context.Context, r *request) error {
			plan := *r.plan
			plan.Constants, r.plan = planner.Forms(r.plan, r.values), &plan
			return s.askFirst(ctx, r)
		},
	}
)

// askFirst executes an INSERT whose rows are placed by expressions: a shard says
// what their values are, and the statement with these in their places is
// executed. r.why is the refusal of the statement as it is, which stays where the
// values aren't beyond doubt.
func (s *session) askFirst(ctx context.Context, r *request) error {
	why := r.why
	plan, sql, err := s.filled(ctx, r, why)
	if err != nil && r.plan.Constants.AsStored() && coded(err).Code == mysqlerr.NotSupportedYet {
		return why // which says more of what the client wrote
	}
	if err != nil {
		return err
	}
	return s.run(ctx, plan, &request{sql: sql, start: r.start, asked: r.plan.Constants.AsStored()})
}

// filled is askFirst's statement with the values.
func (s *session) filled(ctx context.Context, r *request, why error) (*plan.Rows, string, error) {
	if r.plan.Returning && s.binary {
		return nil, "", why // it goes on as text, and so do its rows
	}
	c := r.plan.Constants
	defer s.diag.keepFound()()
	var literals []string
	for i, query := range c.Queries(r.values) {
		row, err := s.asked(ctx, c, i, query, r.values, why)
		if err != nil {
			return nil, "", err
		}
		literals = append(literals, row...)
	}
	sql := c.With(literals, r.values)
	planned, err := s.plan(ctx, sql)
	if err != nil {
		return nil, "", err
	}
	insert, ok := planned.(*plan.Rows)
	if !ok || insert.Constants != nil && !c.Subqueries() {
		return nil, "", why
	}
	return insert, sql, nil
}

// asked are the values that one of the queries answers.
func (s *session) asked(ctx context.Context, c *plan.Constants, i int, query string, params []keys.Value, why error) ([]string, error) {
	s.diag.clear() // MariaDB keeps what was told before
	rows, err := s.collect(ctx, query)
	told, failed := errors.AsType[mysqlerr.Error](err)
	switch {
	case failed && told.Code == mysqlerr.BadField && !c.Whole(i):
		return nil, why // a column of the row, not a constant
	case err != nil:
		return nil, err
	}
	defer rows.drop()
	switch {
	case rows.warned > 0 || len(rows.warnings) > 0:
		return nil, why // an INSERT may fail with what a SELECT warns of
	case c.Subqueries():
		return s.scalar(ctx, rows, c, i, params)
	case rows.count != 1 || len(rows.columns) != c.Len():
		return nil, why
	}
	unsure := rows.into(c.Into(0, c.Len()).Columns, s.catalog())
	row, err := rows.next()
	if err != nil {
		return nil, err
	}
	literals, err := rows.literals(row)
	for i := range literals {
		if unsure[i] == nil && !c.AsStored() || err != nil {
			continue
		}
		literals[i], err = s.storedValue(ctx, c, i, params, cmp.Or(unsure[i], why))
	}
	return literals, err
}

// storedValue is the i-th value as a server stores it. why is the refusal where it can't be asked.
func (s *session) storedValue(ctx context.Context, c *plan.Constants, i int, params []keys.Value, why error) (string, error) {
	rows, err := s.stored(ctx, c.Query(i, params), c.Into(i, 1))
	switch {
	case err != nil && coded(err).Code == mysqlerr.NotSupportedYet:
		return "", why
	case err != nil:
		return "", err
	}
	defer rows.drop()
	// Of a lenient session: behind the statement SHOW WARNINGS would lack it.
	if slices.ContainsFunc(rows.warnings, func(w [][]byte) bool { return string(w[0]) != "Note" }) {
		return "", why
	}
	if err := s.onceOnly(ctx, rows); err != nil {
		return "", err
	}
	row, err := rows.next()
	if err != nil {
		return "", err
	}
	out, err := rows.literals(row)
	if err != nil {
		return "", err
	}
	return out[0], nil
}

// scalar is the value of the i-th subquery, which was answered by rows.
func (s *session) scalar(ctx context.Context, rows *collected, c *plan.Constants, i int, params []keys.Value) ([]string, error) {
	switch {
	case len(rows.columns) != 1:
		return nil, mysqlerr.New(mysqlerr.OperandColumns, "Operand should contain 1 column(s)")
	case rows.count > 1:
		return nil, mysqlerr.New(mysqlerr.SubqueryManyRows, "Subquery returns more than 1 row")
	case rows.count == 0:
		return []string{"NULL"}, nil
	}
	into := c.Into(i, 1).Columns
	why := cmp.Or(rows.into(into, s.catalog())...)
	if from := rows.columns[0]; why == nil && !literalStores(&from, into[0]) {
		why = refuse("INSERT of a subquery's value of the type of %s into a column of the type %s is not supported: read the value first", from.Name, into[0].BaseType())
	}
	if why != nil {
		literal, err := s.storedValue(ctx, c, i, params, why)
		return []string{literal}, err
	}
	if err := s.onceOnly(ctx, rows); err != nil {
		return nil, err
	}
	row, err := rows.next()
	if err != nil {
		return nil, err
	}
	return rows.literals(row)
}

// literalStores reports that a subquery's value, which is no column, stores what its literal does.
func literalStores(from *wire.Column, into *catalog.Column) bool {
	column := into.BaseType()
	bytes := strings.HasSuffix(column, "blob") || strings.HasSuffix(column, "binary") || column == "bit"
	text := strings.HasSuffix(column, "text") || strings.HasSuffix(column, "char") || column == "enum" || column == "set"
	switch {
	case !isText(from.Type) && (column == "enum" || column == "set"): // a number of members
		return false
	case from.Type == mysql.MYSQL_TYPE_BIT:
		return !bytes
	case from.Type == mysql.MYSQL_TYPE_JSON:
		return text || column == "json"
	case from.Type == mysql.MYSQL_TYPE_YEAR || from.Flags&mysql.ZEROFILL_FLAG != 0:
		return !text && !bytes
	case from.Type == mysql.MYSQL_TYPE_TIMESTAMP && column == "timestamp":
		return true
	case isTime(from.Type) && !text && !bytes: // MySQL makes texts of them, MariaDB doesn't
		return !isNumeric(column) && (from.Type == mysql.MYSQL_TYPE_TIME) == (column == "time")
	}
	return true
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
