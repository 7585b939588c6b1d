package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// percentilesCase compares the times of SHOW STATEMENT STATISTICS with those that the load has measured itself, of which a part
// is the way to the client and the client's own.
const percentilesCase = "insights/percentiles"

// percentilesLoads are statements with a time in seconds, and how long they take at most beside the rest: 0 for nothing.
var percentilesLoads = []struct {
	name, text string
	sleeps     float64
}{
	{"a row by its key", "SELECT id FROM slept WHERE id = 1 AND ? >= 0", 0},
	{"up to 0.1 s", "SELECT id, SLEEP(?) FROM slept WHERE id = 1", 0.1},
}

func (b *bench) percentiles(ctx context.Context) error {
	s, err := b.newStage(ctx, 1, 0)
	if err != nil {
		return err
	}
	defer s.stop()
	t, err := s.startShunt(ctx, b.program(), "{bench: {default: {placement: hash}}}")
	if err != nil {
		return err
	}
	db, err := openDB(*t, "", false)
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(loadConnections)
	for _, q := range []string{"CREATE DATABASE bench", "CREATE TABLE bench.slept (id INT PRIMARY KEY)", "INSERT INTO bench.slept VALUES (1)"} {
		if _, err := db.ExecContext(ctx, q); err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
	}
	if db, err = openDB(*t, "bench", false); err != nil {
		return err
	}
	defer db.Close()
	for _, x := range percentilesLoads {
		for range b.rounds {
			if err := b.percentilesOf(ctx, db, x.name, x.text, x.sleeps); err != nil {
				return fmt.Errorf("%s: %w", percentilesCase, err)
			}
		}
	}
	return nil
}

// percentilesOf compares those of one load.
func (b *bench) percentilesOf(ctx context.Context, db *sql.DB, name, text string, sleeps float64) error {
	stmt, err := db.PrepareContext(ctx, text)
	if err != nil {
		return err
	}
	defer stmt.Close()
	if _, err := timesOf(ctx, stmt, sleeps, loadWarmUp); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, "FLUSH STATEMENT STATISTICS"); err != nil {
		return err
	}
	own, err := timesOf(ctx, stmt, sleeps, time.Duration(b.seconds)*time.Second)
	if err != nil {
		return err
	}
	rows, err := rowsOf(ctx, db, "SHOW STATEMENT STATISTICS LIKE 'SELECT id%'")
	if err != nil || len(rows) != 1 {
		return errors.Join(fmt.Errorf("%d rows of statistics", len(rows)), err)
	}
	row := rows[0]
	fmt.Fprintf(b.out, "%s: %s, %d of %s statements:", percentilesCase, name, len(own), row["Calls"])
	for _, p := range []struct {
		column string
		share  float64
	}{{"P50_ms", 0.5}, {"P95_ms", 0.95}, {"P99_ms", 0.99}, {"P999_ms", 0.999}} {
		is := own[int(p.share*float64(len(own)-1))]
		var told float64
		if _, err := fmt.Sscan(row[p.column], &told); err != nil {
			return fmt.Errorf("%s: %w", p.column, err)
		}
		fmt.Fprintf(b.out, " %s %s for %s (%.3f)", p.column, row[p.column], milliseconds(float64(is)), told/(float64(is)/1e6))
	}
	fmt.Fprintln(b.out)
	return nil
}

// timesOf executes a statement over all connections for a time, and returns what each execution took, in order.
func timesOf(ctx context.Context, stmt *sql.Stmt, sleeps float64, lasts time.Duration) ([]time.Duration, error) {
	var all sync.WaitGroup
	took, failures := make([][]time.Duration, loadConnections), make([]error, loadConnections)
	until := time.Now().Add(lasts)
	for i := range loadConnections {
		random := rand.New(rand.NewPCG(uint64(i), rand.Uint64()))
		all.Go(func() {
			for time.Now().Before(until) && failures[i] == nil {
				value, began := random.Float64()*sleeps, time.Now()
				rows, err := stmt.QueryContext(ctx, value)
				if err == nil {
					for rows.Next() {
					}
					err = errors.Join(rows.Err(), rows.Close())
				}
				took[i], failures[i] = append(took[i], time.Since(began)), err
			}
		})
	}
	all.Wait()
	each := slices.Concat(took...)
	slices.Sort(each)
	return each, errors.Join(failures...)
}
