package main

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"
)

// The tables over four shards, all placed by id.
const (
	rowColumns    = "(id BIGINT PRIMARY KEY, email VARCHAR(100) NOT NULL, code VARCHAR(20) NOT NULL, note VARCHAR(100) NOT NULL DEFAULT '', "
	insertColumns = "(id BIGINT PRIMARY KEY, a VARCHAR(100) NOT NULL, b VARCHAR(20) NOT NULL, c VARCHAR(20) NOT NULL, KEY (a), KEY (b), KEY (c))"
)

// tables have the same rows, or none.
var tables = []struct {
	name, columns string
	filled        bool
	indexes       []string // the columns of its virtual indexes
}{
	{"loaded", rowColumns + "KEY (email), KEY (code))", true, nil},
	{"plain", rowColumns + "KEY (email), KEY (code))", true, nil},
	{"indexed", rowColumns + "KEY (email), KEY (code))", true, []string{"email", "code"}},
	{"gone", rowColumns + "KEY (email), KEY (code))", true, []string{"email"}},
	// No key of email, so that a scan by it reads rows; its index is made by scans.
	{"scanned", rowColumns + "KEY (code))", true, nil},
	{"no_index", insertColumns, false, nil},
	{"one_index", insertColumns, false, []string{"a"}},
	{"three_indexes", insertColumns, false, []string{"a", "b", "c"}},
}

// placements is the configuration of the tables.
func placements() string {
	var lines []string
	for _, t := range tables {
		lines = append(lines, t.name+": {shard_key: id}")
	}
	return "{tables: {" + strings.Join(lines, ", ") + "}}"
}

// fill makes all tables, their twins and their virtual indexes. Rows go through
// Shunt into one table, and from there into the others on each shard.
func (b *bench) fill(ctx context.Context) (err error) {
	admin, err := openDB(*b.shunt, "", false)
	if err != nil {
		return err
	}
	defer admin.Close()
	if _, err := admin.ExecContext(ctx, "CREATE DATABASE bench"); err != nil {
		return fmt.Errorf("create schema: %w", err)
	}
	if b.db, err = openDB(*b.shunt, "bench", false); err != nil {
		return err
	}
	b.onStop(func() { b.db.Close() })
	for _, t := range tables {
		if _, err := b.db.ExecContext(ctx, "CREATE TABLE "+t.name+" "+t.columns); err != nil {
			return fmt.Errorf("create table: %w", err)
		}
	}
	fmt.Fprintf(b.out, "loading %d rows\n", b.rows)
	for from := 0; from < b.rows; from += 1000 {
		var q strings.Builder
		q.WriteString("INSERT INTO loaded (id, email, code) VALUES ")
		for i := from; i < min(from+1000, b.rows); i++ {
			if i > from {
				q.WriteByte(',')
			}
			fmt.Fprintf(&q, "(%d,'user%d@example.com','c%d')", i, i, i)
		}
		if _, err := b.db.ExecContext(ctx, q.String()); err != nil {
			return fmt.Errorf("load: %w", err)
		}
	}
	b.shardOf = make([]uint8, b.rows)
	for i := range b.servers {
		if err := b.fillShard(ctx, i); err != nil {
			return fmt.Errorf("load shard %d: %w", i, err)
		}
	}
	for _, t := range tables {
		for _, column := range t.indexes {
			q := fmt.Sprintf("CREATE VIRTUAL INDEX idx_%[1]s_%[2]s ON %[1]s (%[2]s)", t.name, column)
			if _, err := b.db.ExecContext(ctx, q); err != nil {
				return fmt.Errorf("%s: %w", q, err)
			}
		}
	}
	return b.awaitIndexes(ctx)
}

// fillShard copies the shard's rows of the first table into the others and the
// twins, and notes which they are.
func (b *bench) fillShard(ctx context.Context, shard int) error {
	db, err := openDB(straight(b.servers[shard]), "bench", false)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "CREATE DATABASE "+twin); err != nil {
		return err
	}
	for i, t := range tables {
		statements := []string{fmt.Sprintf("CREATE TABLE %[1]s.%[2]s LIKE bench.%[2]s", twin, t.name)}
		if t.filled {
			statements = append(statements, fmt.Sprintf("INSERT INTO %s.%s SELECT * FROM bench.%s", twin, t.name, tables[0].name))
		}
		if t.filled && i > 0 {
			statements = append(statements, fmt.Sprintf("INSERT INTO bench.%s SELECT * FROM bench.%s", t.name, tables[0].name))
		}
		for _, q := range statements {
			if _, err := db.ExecContext(ctx, q); err != nil {
				return fmt.Errorf("%s: %w", q, err)
			}
		}
	}
	rows, err := db.QueryContext(ctx, "SELECT id FROM "+tables[0].name)
	if err != nil {
		return fmt.Errorf("read ids: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id int
		if err := rows.Scan(&id); err != nil {
			return fmt.Errorf("read ids: %w", err)
		}
		b.shardOf[id] = uint8(shard)
	}
	return rows.Err()
}

// awaitIndexes waits until every virtual index is ready.
func (b *bench) awaitIndexes(ctx context.Context) error {
	for {
		states, err := b.column(ctx, "SHOW VIRTUAL INDEXES", "Status")
		if err != nil {
			return err
		}
		waiting := false
		for _, s := range states {
			if s == "failed" {
				return fmt.Errorf("a virtual index failed")
			}
			waiting = waiting || s != "ready"
		}
		if !waiting {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// column reads one column of an answer.
func (b *bench) column(ctx context.Context, query, name string) (values []string, err error) {
	rows, err := rowsOf(ctx, b.db, query)
	for _, r := range rows {
		values = append(values, r[name])
	}
	return values, err
}

// rowsOf are the rows of an answer, by column; NULL is "".
func rowsOf(ctx context.Context, db *sql.DB, query string) (all []map[string]string, err error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", query, err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", query, err)
	}
	cells, into := make([]sql.NullString, len(names)), make([]any, len(names))
	for i := range cells {
		into[i] = &cells[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return nil, fmt.Errorf("%s: %w", query, err)
		}
		row := map[string]string{}
		for i, n := range names {
			row[n] = cells[i].String
		}
		all = append(all, row)
	}
	return all, rows.Err()
}
