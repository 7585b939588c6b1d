package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shunt-sql/shunt/advise"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/proxy/schema"
)

const (
	// sampledValues is of how many rows the values are looked for.
	sampledValues = 64
	// headRows are read of a table that has no primary key of whole numbers.
	headRows = 2048
	// countedRows: of a value that more rows have it isn't known how many.
	countedRows = 100
)

// advising are the settings of a session that looks at a server for advice: it only reads, no question takes longer
// than the limit, and statistics aren't those of yesterday.
func advising(mariaDB bool, limit time.Duration) []string {
	only := "SET SESSION TRANSACTION READ ONLY"
	if mariaDB {
		return []string{only, fmt.Sprintf("SET SESSION max_statement_time = %g", limit.Seconds())}
	}
	return []string{only, fmt.Sprintf("SET SESSION max_execution_time = %d", limit.Milliseconds()), "SET SESSION information_schema_stats_expiry = 0"}
}

// tableStats are a server's statistics.
type tableStats map[catalog.TableName]advise.Stats

const (
	// tableSizes and columnValues are what a server's statistics say of tables, and of columns that begin an index.
	tableSizes = `SELECT TABLE_SCHEMA, TABLE_NAME, COALESCE(TABLE_ROWS, 0), COALESCE(DATA_LENGTH + INDEX_LENGTH, 0)
		FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE'`
	columnValues = `SELECT TABLE_SCHEMA, TABLE_NAME, LOWER(COLUMN_NAME), MAX(CARDINALITY) FROM information_schema.STATISTICS
		WHERE SEQ_IN_INDEX = 1 AND COLUMN_NAME IS NOT NULL AND CARDINALITY > 0 AND SUB_PART IS NULL GROUP BY 1, 2, 3`
)

func readStats(ctx context.Context, q schema.Querier) (tableStats, error) {
	number := func(raw []byte) uint64 {
		n, _ := strconv.ParseUint(string(raw), 10, 64)
		return n
	}
	tables, err := q.Rows(ctx, tableSizes)
	if err != nil {
		return nil, err
	}
	values, err := q.Rows(ctx, columnValues)
	if err != nil {
		return nil, err
	}
	stats := tableStats{}
	for _, r := range tables {
		stats[catalog.TableName{Schema: string(r[0]), Name: string(r[1])}] = advise.Stats{Rows: number(r[2]), Bytes: number(r[3]), Distinct: map[string]uint64{}}
	}
	for _, r := range values {
		if of, ok := stats[catalog.TableName{Schema: string(r[0]), Name: string(r[1])}]; ok {
			of.Distinct[string(r[2])] = number(r[3])
		}
	}
	return stats, nil
}

// sampler asks a server for some rows of a table.
type sampler struct{ q schema.Querier }

// draw gives what some rows have in columns, n at most, a nil for a NULL.
//
// Rows are drawn evenly from between the least and the greatest primary key, column by column as far as these are
// whole numbers: some steps in the key for each row. Of a table without such a key the first rows are read.
//
// Counter-example to a LIMIT alone: the server may read an index on the columns, and all rows have its first value.
func (s sampler) draw(ctx context.Context, t *catalog.Table, columns []*catalog.Column, n int) (out [][][]byte, err error) {
	list, from := catalog.QuoteColumns(columns), " FROM "+catalog.QuoteTable(t.Schema, t.Name)
	if len(t.PrimaryKey) == 0 {
		from += " USE INDEX ()"
	} else {
		from += " FORCE INDEX (PRIMARY)"
	}
	if len(t.PrimaryKey) == 0 || !catalog.IsInteger(t.PrimaryKey[0].BaseType()) {
		rows, err := s.q.Rows(ctx, fmt.Sprintf("SELECT %s%s LIMIT %d", list, from, headRows))
		n = min(n, len(rows))
		for i := range n {
			out = append(out, rows[i*len(rows)/n])
		}
		return out, err
	}
	r := rand.New(rand.NewPCG(1, 1)) // the same advice each time
	where := slices.Repeat([]string{"TRUE"}, n)
	for _, c := range t.PrimaryKey {
		if !catalog.IsInteger(c.BaseType()) {
			break
		}
		name := catalog.QuoteName(c.Name)
		ends, err := s.each(ctx, "MIN("+name+"), MAX("+name+")"+from, where, "")
		if err != nil {
			return nil, err
		}
		behind := make([]string, n)
		for i, row := range ends {
			if at, ok := between(row, r); ok {
				behind[i] = where[i] + " AND " + name + " >= " + at
			}
		}
		found, err := s.each(ctx, name+from, behind, " ORDER BY "+name+" LIMIT 1")
		if err != nil {
			return nil, err
		}
		for i, row := range found {
			if row == nil {
				where[i] = ""
			} else {
				where[i] += " AND " + name + " = " + string(row[0])
			}
		}
	}
	out, err = s.each(ctx, list+from, where, " LIMIT 1")
	return slices.DeleteFunc(out, func(row [][]byte) bool { return row == nil }), err
}

// each asks for one row under each condition; it is nil where there is none, and where the condition is "".
func (s sampler) each(ctx context.Context, what string, where []string, end string) ([][][]byte, error) {
	var all []string
	for i, condition := range where {
		if condition != "" {
			all = append(all, fmt.Sprintf("(SELECT %d, %s WHERE %s%s)", i, what, condition, end))
		}
	}
	out := make([][][]byte, len(where))
	if len(all) == 0 {
		return out, nil
	}
	rows, err := s.q.Rows(ctx, strings.Join(all, " UNION ALL "))
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		i, err := strconv.Atoi(string(row[0]))
		if err != nil || i < 0 || i >= len(out) {
			return nil, fmt.Errorf("row %q of %d", row[0], len(out))
		}
		out[i] = row[1:]
	}
	return out, nil
}

// between draws a number from two, which may be signed or not; ok is false where they are NULL.
func between(ends [][]byte, r *rand.Rand) (at string, ok bool) {
	if ends == nil || ends[0] == nil || ends[1] == nil {
		return "", false
	}
	least, most := string(ends[0]), string(ends[1])
	if from, err := strconv.ParseUint(least, 10, 64); err == nil {
		to, err := strconv.ParseUint(most, 10, 64)
		return strconv.FormatUint(from+upTo(to-from, r), 10), err == nil
	}
	from, err := strconv.ParseInt(least, 10, 64)
	if err != nil {
		return "", false
	}
	to, err := strconv.ParseInt(most, 10, 64)
	return strconv.FormatInt(int64(uint64(from)+upTo(uint64(to)-uint64(from), r)), 10), err == nil
}

// upTo draws from 0 to n.
func upTo(n uint64, r *rand.Rand) uint64 {
	if n+1 == 0 {
		return r.Uint64()
	}
	return r.Uint64N(n + 1)
}

// keyOf names a key of the server's that begins with the columns, in any order; "" where there is none.
func (s sampler) keyOf(ctx context.Context, t *catalog.Table, columns []*catalog.Column) (string, error) {
	rows, err := s.q.Rows(ctx, "SELECT INDEX_NAME, LOWER(COLUMN_NAME) FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = "+quoteText(t.Schema)+
		" AND TABLE_NAME = "+quoteText(t.Name)+" AND INDEX_TYPE = 'BTREE' ORDER BY INDEX_NAME, SEQ_IN_INDEX")
	begin := map[string][]string{}
	for _, row := range rows {
		name := string(row[0])
		if len(begin[name]) < len(columns) {
			begin[name] = append(begin[name], string(row[1]))
		}
		if !slices.ContainsFunc(columns, func(c *catalog.Column) bool { return !slices.Contains(begin[name], strings.ToLower(c.Name)) }) {
			return name, nil
		}
	}
	return "", err
}

// count tells how many rows have each value, countedRows at most, by a key of the server's that begins with the columns.
func (s sampler) count(ctx context.Context, t *catalog.Table, columns []*catalog.Column, key string, values [][][]byte) ([]uint64, error) {
	where := make([]string, len(values))
	for i, v := range values {
		var all []string
		for k, c := range columns {
			all = append(all, catalog.QuoteName(c.Name)+" <=> "+literal(c, v[k]))
		}
		where[i] = strings.Join(all, " AND ")
	}
	from := fmt.Sprintf("COUNT(*) FROM (SELECT 1 FROM %s FORCE INDEX (%s)", catalog.QuoteTable(t.Schema, t.Name), catalog.QuoteName(key))
	rows, err := s.each(ctx, from, where, fmt.Sprintf(" LIMIT %d) AS found", countedRows))
	if err != nil {
		return nil, err
	}
	out := make([]uint64, len(values))
	for i, row := range rows {
		if row != nil {
			out[i], err = strconv.ParseUint(string(row[0]), 10, 64)
		}
	}
	return out, err
}

// literal is a column's value, as a server has sent it, in a statement.
func literal(c *catalog.Column, raw []byte) string {
	switch base := c.BaseType(); {
	case raw == nil:
		return "NULL"
	case catalog.IsInteger(base):
		return string(raw)
	case strings.HasSuffix(base, "binary") || strings.HasSuffix(base, "blob"):
		return keys.Bytes(raw).Literal()
	}
	return keys.Text(string(raw), "utf8mb4").Literal()
}
