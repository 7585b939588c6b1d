package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// batch is the number of rows in one INSERT.
const batch = 500

// virtualIndex is one that the demo makes.
type virtualIndex struct{ name, table, column string }

var virtualIndexes = []virtualIndex{
	{"idx_email", "users", "email"},
	{"idx_tracking", "orders", "tracking"},
}

// prepare makes the schema, loads it and builds the virtual indexes, all
// through the proxy.
func (d *demo) prepare(ctx context.Context) error {
	if _, err := d.db.ExecContext(ctx, "CREATE DATABASE "+schema); err != nil {
		return fmt.Errorf("create schema: %w", err)
	}
	d.db.Close()
	var err error
	if d.db, err = d.open(schema); err != nil {
		return err
	}
	for _, ddl := range tables {
		if _, err := d.db.ExecContext(ctx, ddl); err != nil {
			return fmt.Errorf("create table: %w", err)
		}
	}
	if _, err := d.db.ExecContext(ctx, insert("countries", 0, len(countries)-1, func(i int) string {
		return fmt.Sprintf("('%s','%s')", countries[i][0], countries[i][1])
	})); err != nil {
		return fmt.Errorf("load countries: %w", err)
	}
	if err := d.load(ctx, "users", d.Users, func(i int) string { return userAt(i).values() }); err != nil {
		return err
	}
	if err := d.load(ctx, "orders", d.Orders, func(i int) string { return orderAt(i, d.Users).values() }); err != nil {
		return err
	}
	for _, ix := range virtualIndexes {
		if err := d.build(ctx, ix); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) load(ctx context.Context, table string, rows int, values func(int) string) error {
	p := newProgress(d.Out, "Loading "+table)
	var next, loaded atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for range loaders {
		g.Go(func() error {
			for {
				from := int(next.Add(batch)) - batch + 1
				if from > rows {
					return nil
				}
				to := min(from+batch-1, rows)
				if _, err := d.db.ExecContext(ctx, insert(table, from, to, values)); err != nil {
					return fmt.Errorf("load %s: %w", table, err)
				}
				n := loaded.Add(int64(to - from + 1))
				p.set(float64(n)/float64(rows), fmt.Sprintf("%d of %d rows", n, rows))
			}
		})
	}
	if err := g.Wait(); err != nil {
		p.abandon()
		return err
	}
	p.done(fmt.Sprintf("%d rows", rows))
	return nil
}

// build creates a virtual index and shows its progress until it is ready.
func (d *demo) build(ctx context.Context, ix virtualIndex) error {
	p := newProgress(d.Out, "Building "+ix.name)
	created := make(chan error, 1)
	go func() {
		_, err := d.db.ExecContext(ctx, fmt.Sprintf("CREATE VIRTUAL INDEX %s ON %s (%s)", ix.name, ix.table, ix.column))
		created <- err
	}()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	pending := created
	for {
		select {
		case err := <-pending:
			if err != nil {
				p.abandon()
				return fmt.Errorf("create virtual index %s: %w", ix.name, err)
			}
			pending = nil
		case <-ticker.C:
		case <-ctx.Done():
			p.abandon()
			return ctx.Err()
		}
		row, err := d.indexRow(ctx, ix)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			continue
		case err != nil:
			p.abandon()
			return err
		case row["Status"] == "failed":
			p.abandon()
			return fmt.Errorf("virtual index %s failed: %s", ix.name, row["Error"])
		case row["Status"] == "ready" && row["Unknown_shards"] == "" && pending == nil: // what is unknown widens the routes to be shown
			p.done(row["Entries"] + " entries")
			return nil
		}
		p.set(min(parseShare(row["Progress"]), 0.99), row["Entries"]+" entries")
	}
}

// indexRow is the index's row of SHOW VIRTUAL INDEXES by column name.
func (d *demo) indexRow(ctx context.Context, ix virtualIndex) (map[string]string, error) {
	rows, err := queryRows(ctx, d.db, "SHOW VIRTUAL INDEXES FROM "+ix.table)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if row["Name"] == ix.name {
			return row, nil
		}
	}
	return nil, sql.ErrNoRows
}

// parseShare reads a progress: 0.42 or 42%.
func parseShare(s string) float64 {
	number, percent := strings.CutSuffix(strings.TrimSpace(s), "%")
	f, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil {
		return 0
	}
	if percent {
		f /= 100
	}
	return f
}

// queryRows reads a small answer, each row by column name; NULL is "NULL".
func queryRows(ctx context.Context, db *sql.DB, query string) ([]map[string]string, error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", query, err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", query, err)
	}
	cells := make([]sql.NullString, len(names))
	into := make([]any, len(names))
	for i := range cells {
		into[i] = &cells[i]
	}
	var all []map[string]string
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return nil, fmt.Errorf("%s: %w", query, err)
		}
		row := make(map[string]string, len(names))
		for i, c := range cells {
			row[names[i]] = c.String
			if !c.Valid {
				row[names[i]] = "NULL"
			}
		}
		all = append(all, row)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", query, err)
	}
	return all, nil
}
