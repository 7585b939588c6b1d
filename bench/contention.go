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

	"github.com/go-sql-driver/mysql"
)

// swappers are the connections that swap rows, of which there are so many.
const swappers = 8

var swappedRows = []int{2, 16, 200}

// swapSeconds of each half.
const swapSeconds = 8

func contentionCase(rows int) string { return fmt.Sprintf("contention/%d", rows) }

// contention measures swaps: of two rows that are locked in a random order, so that
// transactions wait for each other in circles.
func (b *bench) contention(ctx context.Context, rows int) (*series, error) {
	// Servers tell who waits for whom, as in production.
	s, targets, err := b.twoStages(ctx, shards, "{swapped: {tables: {t: {shard_key: id}}}}", "--performance-schema=OFF")
	if err != nil {
		return nil, err
	}
	defer s.stop()
	ids, err := idsApart(ctx, targets, rows)
	if err != nil {
		return nil, err
	}
	dbs := map[string]*sql.DB{}
	for _, t := range targets {
		admin, err := openDB(t, "", true)
		if err != nil {
			return nil, err
		}
		defer admin.Close()
		statements := []string{"CREATE DATABASE IF NOT EXISTS swapped", createSwapped}
		if t.name == ours {
			statements = append(statements, "CREATE VIRTUAL INDEX by_code ON swapped.t (code)")
		}
		for i, id := range ids {
			statements = append(statements, fmt.Sprintf("INSERT INTO swapped.t VALUES (%d, %d, %d)", id, i, i))
		}
		for _, q := range statements {
			if _, err := admin.ExecContext(ctx, q); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", t.name, q, err)
			}
		}
		for ready := t.name != ours; !ready; {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(50 * time.Millisecond):
			}
			if ready, err = indexReady(ctx, admin); err != nil {
				return nil, err
			}
		}
		if dbs[t.name], err = openDB(t, "swapped", true); err != nil {
			return nil, err
		}
		defer dbs[t.name].Close()
	}
	return b.turnsOf(ctx, contentionCase(rows), oneServer, targets, func(t target) (half, error) {
		return swap(ctx, t, dbs[t.name], rows)
	})
}

const createSwapped = "CREATE TABLE IF NOT EXISTS swapped.t (id INT PRIMARY KEY, code INT NOT NULL, v INT NOT NULL, KEY (code))"

// idsApart are of so many rows, of which none is on the shard of the one before.
func idsApart(ctx context.Context, targets []target, rows int) (ids []int, err error) {
	at := slices.IndexFunc(targets, func(t target) bool { return t.name == ours })
	admin, err := openDB(targets[at], "", true)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	for _, q := range []string{"CREATE DATABASE swapped", createSwapped} {
		if _, err := admin.ExecContext(ctx, q); err != nil {
			return nil, fmt.Errorf("%s: %w", q, err)
		}
	}
	last := ""
	for id := 1; len(ids) < rows; id++ {
		var plan, shard, access, reason, statement string
		explain := fmt.Sprintf("EXPLAIN ROUTE SELECT v FROM swapped.t WHERE id = %d", id)
		if err := admin.QueryRowContext(ctx, explain).Scan(&plan, &shard, &access, &reason, &statement); err != nil {
			return nil, fmt.Errorf("%s: %w", explain, err)
		}
		if shard != last {
			ids, last = append(ids, id), shard
		}
	}
	return ids, nil
}

// swap has all connections swap rows for some seconds.
func swap(ctx context.Context, t target, db *sql.DB, rows int) (h half, err error) {
	before, err := t.cpuTime()
	if err != nil {
		return h, err
	}
	end := time.Now().Add(swapSeconds * time.Second)
	var mu sync.Mutex
	var took []time.Duration
	var all sync.WaitGroup
	for client := range swappers {
		random := rand.New(rand.NewPCG(uint64(client), rand.Uint64()))
		all.Go(func() {
			conn, failed := db.Conn(ctx)
			if failed == nil {
				defer conn.Close()
			}
			for failed == nil && time.Now().Before(end) {
				start := time.Now()
				failed = swapTwo(ctx, conn, random.Perm(rows)[:2])
				if e, ok := errors.AsType[*mysql.MySQLError](failed); ok && (e.Number == 1213 || e.Number == 1205) {
					failed = nil
					continue
				}
				mu.Lock()
				took = append(took, time.Since(start))
				mu.Unlock()
			}
			mu.Lock()
			defer mu.Unlock()
			err = errors.Join(err, failed)
		})
	}
	all.Wait()
	after, cpuErr := t.cpuTime()
	if err = errors.Join(err, cpuErr); err != nil {
		return h, err
	}
	var sum int
	if err := db.QueryRowContext(ctx, "SELECT SUM(v) FROM t").Scan(&sum); err != nil || sum != rows*(rows-1)/2 {
		return h, fmt.Errorf("the rows' sum is %d: %w", sum, err)
	}
	if len(took) == 0 {
		return h, errors.New("no swap was done")
	}
	slices.Sort(took)
	at := func(share float64) time.Duration { return took[int(share*float64(len(took)-1))] }
	return half{
		statements: float64(len(took)) / swapSeconds, p50: at(0.5), p95: at(0.95), p99: at(0.99),
		cpu: (after - before) / time.Duration(len(took)),
	}, nil
}

// swapTwo exchanges what two rows have, each found by its code. A transaction that failed is
// rolled back.
func swapTwo(ctx context.Context, conn *sql.Conn, codes []int) error {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // too late behind a COMMIT
	var v [2]int
	for i, code := range codes {
		if err := tx.QueryRowContext(ctx, "SELECT v FROM t WHERE code = ? FOR UPDATE", code).Scan(&v[i]); err != nil {
			return err
		}
	}
	for i, code := range codes {
		if _, err := tx.ExecContext(ctx, "UPDATE t SET v = ? WHERE code = ?", v[1-i], code); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// indexReady reports that lookups go by the one virtual index.
func indexReady(ctx context.Context, db *sql.DB) (bool, error) {
	rows, err := rowsOf(ctx, db, "SHOW VIRTUAL INDEXES FROM swapped.t")
	return len(rows) == 1 && rows[0]["Status"] == "ready", err
}
