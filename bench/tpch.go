package main

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/shunt-sql/shunt/e2e/throwaway"
	"github.com/shunt-sql/shunt/e2e/tpch"
)

// tpchHeading begins the report's part about TPC-H, up to its end: the others
// are measured by another run, and each run keeps the other's part.
const tpchHeading = "\n## TPC-H\n"

// tpchPlacements is the configuration of its schema.
func tpchPlacements() string {
	var lines []string
	for _, t := range tpch.Tables {
		lines = append(lines, t.Placement())
	}
	return "{tables: {" + strings.Join(lines, ", ") + "}}"
}

// tpchRuns is how often each query is measured on either side, in turns.
const tpchRuns = 3

// tpch measures the 22 queries over four shards and on one server that has all
// rows, whose answers must be the same.
func (b *bench) tpch(ctx context.Context, scale float64) (string, error) {
	set, err := throwaway.Start(ctx, b.source, throwaway.Options{Servers: 1, Password: "bench", Args: durable})
	if err != nil {
		return "", err
	}
	defer set.Stop()
	one := set.Servers[0]
	var sides [2]*sql.DB
	for i, at := range []target{*b.shunt, straight(one)} {
		admin, err := openDB(at, "", false)
		if err != nil {
			return "", err
		}
		_, err = admin.ExecContext(ctx, "CREATE DATABASE tpch")
		admin.Close()
		if err != nil {
			return "", fmt.Errorf("create schema: %w", err)
		}
		if sides[i], err = openDB(at, "tpch", false); err != nil {
			return "", err
		}
		defer sides[i].Close()
		for _, t := range tpch.Tables {
			if _, err := sides[i].ExecContext(ctx, t.Create); err != nil {
				return "", fmt.Errorf("create %s: %w", t.Name, err)
			}
		}
	}
	fmt.Fprintf(b.out, "loading TPC-H at scale %g\n", scale)
	in := tpch.Insert{Exec: func(text string) error {
		for _, db := range sides {
			if _, err := db.ExecContext(ctx, text); err != nil {
				return fmt.Errorf("load: %w", err)
			}
		}
		return nil
	}}
	if err := tpch.Rows(scale, 1, in.Add); err != nil {
		return "", err
	}
	if err := in.Flush(); err != nil {
		return "", err
	}
	for _, server := range append([]*throwaway.Server{one}, b.servers...) {
		db, err := openDB(straight(server), "tpch", false)
		if err != nil {
			return "", err
		}
		for _, t := range tpch.Tables {
			if _, err := db.ExecContext(ctx, "ANALYZE TABLE "+t.Name); err != nil {
				db.Close()
				return "", fmt.Errorf("analyze: %w", err)
			}
		}
		db.Close()
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s\nWritten by `make bench-tpch`: scale %g (%d orders), lineitem and orders sharded by order key, the rest by their keys, nation and\n"+
		"region as reference tables. The median of %d runs in turns; every answer is the same on both sides. On %s, %s, %s.\n\n"+
		"| query | rows | way | four shards | one server | ratio |\n| --- | --- | --- | --- | --- | --- |\n",
		tpchHeading, scale, int(1_500_000*scale), tpchRuns, machine(), b.source.Name(), time.Now().Format(time.DateOnly))
	for i, query := range tpch.Queries(scale) {
		var took [2][]time.Duration
		var sums [2]string
		rows := 0
		for range tpchRuns {
			for side, db := range sides {
				start := time.Now()
				n, sum, err := answerOf(ctx, db, query)
				if err != nil {
					return "", fmt.Errorf("query %d: %w", i+1, err)
				}
				took[side] = append(took[side], time.Since(start))
				rows, sums[side] = n, sum
			}
			if sums[0] != sums[1] {
				return "", fmt.Errorf("query %d: the answer differs from one server's", i+1)
			}
		}
		way, err := wayOf(ctx, sides[0], query)
		if err != nil {
			return "", err
		}
		x, y := median(took[0]), median(took[1])
		fmt.Fprintf(&text, "| Q%d | %d | %s | %s | %s | %.1f |\n", i+1, rows, way, x.Round(time.Millisecond), y.Round(time.Millisecond), float64(x)/float64(y))
		fmt.Fprintf(b.out, "Q%d: %s, %s\n", i+1, x.Round(time.Millisecond), y.Round(time.Millisecond))
	}
	return text.String(), nil
}

// answerOf is the number of rows and the sum over all of them, in order.
func answerOf(ctx context.Context, db *sql.DB, query string) (n int, sum string, err error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return 0, "", err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return 0, "", err
	}
	cells, into := make([]sql.NullString, len(names)), make([]any, len(names))
	for i := range cells {
		into[i] = &cells[i]
	}
	h := sha256.New()
	for ; rows.Next(); n++ {
		if err := rows.Scan(into...); err != nil {
			return 0, "", err
		}
		fmt.Fprintf(h, "%v\n", cells)
	}
	return n, hex.EncodeToString(h.Sum(nil)), rows.Err()
}

// wayOf is route, merge or gather.
func wayOf(ctx context.Context, db *sql.DB, query string) (string, error) {
	rows, err := db.QueryContext(ctx, "EXPLAIN ROUTE "+query)
	if err != nil {
		return "", fmt.Errorf("explain: %w", err)
	}
	defer rows.Close()
	way := ""
	for rows.Next() {
		var skip sql.NullString
		if err := rows.Scan(&way, &skip, &skip, &skip, &skip); err != nil {
			return "", err
		}
	}
	return way, rows.Err()
}

// joinParts puts a new report together with the part of the old one that this
// run didn't measure.
func joinParts(file, text string, isTPCH bool) string {
	old, err := os.ReadFile(file)
	if err != nil {
		old = nil // there is none yet
	}
	rest, part, found := strings.Cut(string(old), tpchHeading)
	if isTPCH {
		return strings.TrimRight(rest, "\n") + "\n" + text
	}
	if found {
		return strings.TrimRight(text, "\n") + "\n" + tpchHeading + part
	}
	return text
}
