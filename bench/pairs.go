package main

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
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

// pairsCase and scansCase are their names for -only.
const (
	pairsCase = "pairs"
	scansCase = "scans"
)

// pairs are measured over one connection.
type pairs struct {
	updates, both, selects, byIndex pairsOf
	cpu, plainCPU, updateCPU        time.Duration
}

func (b *bench) measurePairs(ctx context.Context) (p *pairs, err error) {
	p = &pairs{}
	random := rand.New(rand.NewPCG(rand.Uint64(), 0))
	conn, err := b.db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
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
	if p.updates, err = b.turns(ctx, "UPDATE of one indexed column, two virtual indexes / none", update("indexed"), update("plain")); err != nil {
		return nil, err
	}
	// The code stays, so that later reads find it; to Shunt it is a new key.
	updateBoth := func(table string) func(int) error {
		return func(n int) error {
			id := random.IntN(b.rows)
			return exec(fmt.Sprintf("UPDATE %s SET email = 'both%d@example.com', code = 'c%d' WHERE id = %d", table, n, id, id))
		}
	}
	if p.both, err = b.turns(ctx, "UPDATE of both indexed columns, two virtual indexes / none", updateBoth("indexed"), updateBoth("plain")); err != nil {
		return nil, err
	}

	direct, close, err := b.directConn(ctx)
	if err != nil {
		return nil, err
	}
	defer close()
	var ids []int // on the first shard
	for id, shard := range b.shardOf {
		if shard == 0 {
			ids = append(ids, id)
		}
	}
	point := func(c *sql.Conn) func(int) error {
		return func(int) error {
			var email string
			return c.QueryRowContext(ctx, fmt.Sprintf("SELECT email FROM plain WHERE id = %d", ids[random.IntN(len(ids))])).Scan(&email)
		}
	}
	if p.selects, err = b.turns(ctx, "SELECT by shard key through Shunt / direct", point(conn), point(direct)); err != nil {
		return nil, err
	}
	p.byIndex, err = b.turns(ctx, "SELECT by virtual index / by shard key", func(int) error {
		var id int
		return conn.QueryRowContext(ctx, fmt.Sprintf("SELECT id FROM indexed WHERE code = 'c%d'", random.IntN(b.rows))).Scan(&id)
	}, point(conn))
	if err != nil {
		return nil, err
	}
	if p.cpu, err = b.cpuPerStatement(ctx, point(conn)); err != nil {
		return nil, err
	}
	if p.updateCPU, err = b.cpuPerStatement(ctx, update("indexed")); err != nil {
		return nil, err
	}
	if p.plainCPU, err = b.cpuPerStatement(ctx, update("plain")); err != nil {
		return nil, err
	}
	return p, nil
}

// directConn is a connection to the first shard, around Shunt.
func (b *bench) directConn(ctx context.Context) (*sql.Conn, func(), error) {
	s := b.servers[0]
	db, err := openDB(straight(s), "bench", false)
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

// cpuPerStatement is the proxy's user and system time by statement.
func (b *bench) cpuPerStatement(ctx context.Context, f func(int) error) (time.Duration, error) {
	const statements = 3000
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
