package main

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// statements in each half of a pair, and those not counted before the first.
const (
	perHalf = 25
	warmUp  = 1000
)

// pairsOf is what two ways of doing the same took.
type pairsOf struct {
	a, b   []time.Duration // medians, by pair
	ratios []float64       // a/b
}

func (p pairsOf) ratio() float64 { return median(p.ratios) }

// spread is the ratios' middle half.
func (p pairsOf) spread() string {
	s := slices.Sorted(slices.Values(p.ratios))
	return fmt.Sprintf("%.3f to %.3f", s[len(s)/4], s[len(s)*3/4])
}

func median[T int64 | float64 | time.Duration](values []T) T {
	s := slices.Sorted(slices.Values(values))
	return s[len(s)/2]
}

// turns measures two statements in turns on one connection each. Which half
// comes first alternates, too.
func (b *bench) turns(ctx context.Context, name string, first, second func(i int) error) (p pairsOf, err error) {
	fmt.Fprintf(b.out, "%s\n", name)
	n := 0
	half := func(f func(int) error, count int) (time.Duration, error) {
		took := make([]time.Duration, count)
		for i := range took {
			if ctx.Err() != nil {
				return 0, ctx.Err()
			}
			n++
			start := time.Now()
			if err := f(n); err != nil {
				return 0, fmt.Errorf("%s: %w", name, err)
			}
			took[i] = time.Since(start)
		}
		return median(took), nil
	}
	for _, f := range []func(int) error{first, second} {
		if _, err := half(f, warmUp); err != nil {
			return p, err
		}
	}
	for i := range b.pairs {
		var a, c time.Duration
		order := []func() error{
			func() (err error) { a, err = half(first, perHalf); return err },
			func() (err error) { c, err = half(second, perHalf); return err },
		}
		if i%2 == 1 {
			slices.Reverse(order)
		}
		for _, f := range order {
			if err := f(); err != nil {
				return p, err
			}
		}
		p.a, p.b = append(p.a, a), append(p.b, c)
		p.ratios = append(p.ratios, float64(a)/float64(c))
	}
	return p, nil
}

func (b *bench) measure(ctx context.Context) (string, error) {
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	conn, err := b.db.Conn(ctx)
	if err != nil {
		return "", fmt.Errorf("connect: %w", err)
	}
	defer conn.Close()
	exec := func(q string) error {
		_, err := conn.ExecContext(ctx, q)
		return err
	}
	update := func(table string) func(int) error {
		return func(n int) error {
			return exec(fmt.Sprintf("UPDATE %s SET email = 'new%d@example.com' WHERE id = %d", table, n, random.IntN(b.rows)))
		}
	}
	updates, err := b.turns(ctx, "UPDATE of one indexed column, two virtual indexes / none", update("indexed"), update("plain"))
	if err != nil {
		return "", err
	}
	// The code stays, so that later reads find it; to Shunt it is a new key.
	updateBoth := func(table string) func(int) error {
		return func(n int) error {
			id := random.IntN(b.rows)
			return exec(fmt.Sprintf("UPDATE %s SET email = 'both%d@example.com', code = 'c%d' WHERE id = %d", table, n, id, id))
		}
	}
	both, err := b.turns(ctx, "UPDATE of both indexed columns, two virtual indexes / none", updateBoth("indexed"), updateBoth("plain"))
	if err != nil {
		return "", err
	}

	direct, close, err := b.directConn(ctx)
	if err != nil {
		return "", err
	}
	defer close()
	ids, err := b.idsOnFirstShard(ctx, direct)
	if err != nil {
		return "", err
	}
	point := func(c *sql.Conn) func(int) error {
		return func(int) error {
			var email string
			return c.QueryRowContext(ctx, fmt.Sprintf("SELECT email FROM plain WHERE id = %d", ids[random.IntN(len(ids))])).Scan(&email)
		}
	}
	selects, err := b.turns(ctx, "SELECT by shard key through Shunt / direct", point(conn), point(direct))
	if err != nil {
		return "", err
	}
	byIndex, err := b.turns(ctx, "SELECT by virtual index / by shard key", func(int) error {
		var id int
		return conn.QueryRowContext(ctx, fmt.Sprintf("SELECT id FROM indexed WHERE code = 'c%d'", random.IntN(b.rows))).Scan(&id)
	}, point(conn))
	if err != nil {
		return "", err
	}
	cpu, err := b.cpuPerStatement(ctx, point(conn))
	if err != nil {
		return "", err
	}
	updateCPU, err := b.cpuPerStatement(ctx, update("indexed"))
	if err != nil {
		return "", err
	}
	plainCPU, err := b.cpuPerStatement(ctx, update("plain"))
	if err != nil {
		return "", err
	}
	scan, err := b.scans(ctx)
	if err != nil {
		return "", err
	}

	var w strings.Builder
	fmt.Fprintf(&w, "# Benchmarks\n\nWritten by `make bench`. Clients, proxy and %d shards share one machine, so ratios say more than absolute\n", shards)
	fmt.Fprintf(&w, "figures. Pairs are measured in turns (%d pairs of %d statements, one connection); a ratio is the median of the pairs' ratios.\n\n", b.pairs, perHalf)
	fmt.Fprintf(&w, "- %s\n- %s\n- %d rows in each table, seed %d, %s\n\n", machine(), b.source, b.rows, seed, time.Now().UTC().Format("2006-01-02"))
	fmt.Fprintf(&w, "| what | A | B | A/B | middle half | wanted |\n| --- | --- | --- | --- | --- | --- |\n")
	row := func(what string, p pairsOf, wanted string) {
		fmt.Fprintf(&w, "| %s | %s | %s | %.3f | %s | %s |\n", what, median(p.a).Round(time.Microsecond), median(p.b).Round(time.Microsecond), p.ratio(), p.spread(), wanted)
	}
	row("UPDATE of an indexed column by shard key: A with two virtual indexes, B with none", updates, "at most 1.05")
	row("The same of both indexed columns", both, "")
	row("SELECT by shard key: A through Shunt, B direct", selects, "")
	row("SELECT of one row: A by virtual index, B by shard key", byIndex, "")
	fmt.Fprintf(&w, "| Rows a second of one column: A a maintenance scan, B %s | %.0f | %.0f | %.3f | | at least 0.7 |\n", scan.client, scan.reading, scan.plain, scan.reading/scan.plain)
	fmt.Fprintf(&w, "| The same over the whole job: A also connects and reads the index of all shards | %.0f | %.0f | %.3f | |  |\n", scan.job, scan.plain, scan.job/scan.plain)
	fmt.Fprintf(&w, "\nBuilding a virtual index over %d rows: %s, from CREATE VIRTUAL INDEX until it is ready.\n", b.rows, scan.build.Round(time.Millisecond))
	fmt.Fprintf(&w, "CPU of the proxy: %s a SELECT by shard key, %s an UPDATE with no virtual index, %s one with two (maintenance included).\n",
		cpu.Round(100*time.Nanosecond), plainCPU.Round(100*time.Nanosecond), updateCPU.Round(100*time.Nanosecond))
	return w.String(), nil
}

// directConn is a connection to the first shard, around Shunt.
func (b *bench) directConn(ctx context.Context) (*sql.Conn, func(), error) {
	s := b.servers[0]
	db, err := open(s.Addr(), s.User, s.Password, "bench")
	if err != nil {
		return nil, nil, err
	}
	c, err := db.Conn(ctx)
	if err != nil {
		db.Close()
		return nil, nil, fmt.Errorf("connect to shard: %w", err)
	}
	return c, func() { c.Close(); db.Close() }, nil
}

func (b *bench) idsOnFirstShard(ctx context.Context, direct *sql.Conn) (ids []int, err error) {
	rows, err := direct.QueryContext(ctx, "SELECT id FROM plain")
	if err != nil {
		return nil, fmt.Errorf("read ids: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id int
		if err := rows.Scan(&id); err != nil {
			return nil, fmt.Errorf("read ids: %w", err)
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// cpuPerStatement is the proxy's user and system time by statement.
func (b *bench) cpuPerStatement(ctx context.Context, f func(int) error) (time.Duration, error) {
	const statements = 10_000
	before, err := b.shunt.cpuTime()
	if err != nil {
		return 0, err
	}
	for i := range statements {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if err := f(1_000_000 + i); err != nil {
			return 0, err
		}
	}
	after, err := b.shunt.cpuTime()
	return (after - before) / statements, err
}
