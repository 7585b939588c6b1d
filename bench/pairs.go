package main

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// howOften is how much is done in turns: pairs, what each half of one repeats, and
// what isn't counted before the first.
type howOften struct{ pairs, perHalf, warmUp int }

func (b *bench) statements() howOften { return howOften{b.pairs, 25, 1000} }

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

// turns measures two ways in turns on one connection each. Which half
// comes first alternates, too.
func (b *bench) turns(ctx context.Context, name string, often howOften, first, second func(i int) error) (p pairsOf, err error) {
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
		if _, err := half(f, often.warmUp); err != nil {
			return p, err
		}
	}
	for i := range often.pairs {
		var a, c time.Duration
		order := []func() error{
			func() (err error) { a, err = half(first, often.perHalf); return err },
			func() (err error) { c, err = half(second, often.perHalf); return err },
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
	updates, both, selects, byIndex, transactions, ddl pairsOf
	cpu, plainCPU, updateCPU                           time.Duration
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
	if p.updates, err = b.turns(ctx, "UPDATE of one indexed column, two virtual indexes / none", b.statements(), update("indexed"), update("plain")); err != nil {
		return nil, err
	}
	// The code stays, so that later reads find it; to Shunt it is a new key.
	updateBoth := func(table string) func(int) error {
		return func(n int) error {
			id := random.IntN(b.rows)
			return exec(fmt.Sprintf("UPDATE %s SET email = 'both%d@example.com', code = 'c%d' WHERE id = %d", table, n, id, id))
		}
	}
	if p.both, err = b.turns(ctx, "UPDATE of both indexed columns, two virtual indexes / none", b.statements(), updateBoth("indexed"), updateBoth("plain")); err != nil {
		return nil, err
	}

	direct, err := b.directConns(ctx, "bench")
	if err != nil {
		return nil, err
	}
	defer direct.close()
	ids := make([][]int, len(b.servers)) // by shard
	for id, shard := range b.shardOf {
		ids[shard] = append(ids[shard], id)
	}
	point := func(c *sql.Conn) func(int) error {
		return func(int) error {
			var email string
			return c.QueryRowContext(ctx, fmt.Sprintf("SELECT email FROM plain WHERE id = %d", ids[0][random.IntN(len(ids[0]))])).Scan(&email)
		}
	}
	if p.selects, err = b.turns(ctx, "SELECT by shard key through Shunt / direct", b.statements(), point(conn), point(direct[0])); err != nil {
		return nil, err
	}
	p.byIndex, err = b.turns(ctx, "SELECT by virtual index / by shard key", b.statements(), func(int) error {
		var id int
		return conn.QueryRowContext(ctx, fmt.Sprintf("SELECT id FROM indexed WHERE code = 'c%d'", random.IntN(b.rows))).Scan(&id)
	}, point(conn))
	if err != nil {
		return nil, err
	}
	if p.transactions, err = b.transactionPairs(ctx, conn, ids); err != nil {
		return nil, err
	}
	if p.ddl, err = b.ddlPairs(ctx, conn); err != nil {
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

// transactionPairs are of transactions that write to every shard, of whose rows ids are.
func (b *bench) transactionPairs(ctx context.Context, conn *sql.Conn, ids [][]int) (p pairsOf, err error) {
	direct, err := b.directConns(ctx, twin)
	if err != nil {
		return p, err
	}
	defer direct.close()
	through := func(int) *sql.Conn { return conn }
	straight := func(shard int) *sql.Conn { return direct[shard] }
	transaction := func(to func(shard int) *sql.Conn, ends int) func(int) error {
		return func(n int) error {
			for i := range ends {
				if _, err := to(i).ExecContext(ctx, "BEGIN"); err != nil {
					return err
				}
			}
			for shard, of := range ids {
				q := fmt.Sprintf("UPDATE plain SET note = 'n%d' WHERE id = %d", n, of[n%len(of)])
				if _, err := to(shard).ExecContext(ctx, q); err != nil {
					return err
				}
			}
			for i := range ends {
				if _, err := to(i).ExecContext(ctx, "COMMIT"); err != nil {
					return err
				}
			}
			return nil
		}
	}
	often := b.statements()
	often.warmUp /= 10
	return b.turns(ctx, "transaction that writes to every shard, through Shunt / straight to one after the other", often,
		transaction(through, 1), transaction(straight, len(ids)))
}

// otherTables are beside the one that ddlPairs makes, in the same schema.
const otherTables = 100

// ddlPairs are of a table that is made and dropped.
func (b *bench) ddlPairs(ctx context.Context, conn *sql.Conn) (p pairsOf, err error) {
	for i := range otherTables {
		if _, err := conn.ExecContext(ctx, fmt.Sprintf("CREATE TABLE other%d %s", i, insertColumns)); err != nil {
			return p, fmt.Errorf("create table: %w", err)
		}
	}
	direct, err := b.directConns(ctx, twin)
	if err != nil {
		return p, err
	}
	defer direct.close()
	ddl := func(to ...*sql.Conn) func(int) error {
		return func(int) error {
			for _, q := range []string{"CREATE TABLE made " + insertColumns, "DROP TABLE made"} {
				for _, c := range to {
					if _, err := c.ExecContext(ctx, q); err != nil {
						return err
					}
				}
			}
			return nil
		}
	}
	return b.turns(ctx, "CREATE TABLE and DROP TABLE, through Shunt / straight to one shard after the other", howOften{max(1, b.pairs/5), 5, 10}, ddl(conn), ddl(direct...))
}

// directConns are connections around Shunt, by shard.
type directConns []*sql.Conn

func (b *bench) directConns(ctx context.Context, schema string) (conns directConns, err error) {
	for _, s := range b.servers {
		db, err := openDB(straight(s), schema, false)
		if err != nil {
			conns.close()
			return nil, err
		}
		b.onStop(func() { db.Close() })
		c, err := db.Conn(ctx)
		if err != nil {
			conns.close()
			return nil, fmt.Errorf("connect to shard: %w", err)
		}
		conns = append(conns, c)
	}
	return conns, nil
}

func (conns directConns) close() {
	for _, c := range conns {
		c.Close()
	}
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
