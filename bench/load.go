package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// statement is one to be sent, and what shows that it was done.
type statement struct {
	text string // with placeholders
	args []any
	// shard has its rows; everyShard: each may have some.
	shard int
	// rows that are read or changed.
	rows int
}

const everyShard = -1

// source makes a worker's next statement, or errNoMore.
type source func(*rand.Rand) (statement, error)

// errNoMore ends a load early: there is nothing left to delete.
var errNoMore = errors.New("no rows left; -rows makes more")

// loadWarmUp of each load isn't counted.
const loadWarmUp = 300 * time.Millisecond

// client is a worker's connections: one to a proxy, or one to each shard, of
// which a statement takes the one that it is told.
type client struct {
	conns    []*sql.Conn
	prepared bool
	stmts    []map[string]*sql.Stmt // by connection
	query    bool                   // the statements answer with rows
}

func (c *client) do(ctx context.Context, s statement) error {
	rows := 0
	var err error
	switch {
	case s.shard != everyShard && len(c.conns) > 1:
		rows, err = c.send(ctx, s.shard, s)
	case len(c.conns) == 1:
		rows, err = c.send(ctx, 0, s)
	default:
		// As a client would that knows its shards: all at once.
		counts, failures := make([]int, len(c.conns)), make([]error, len(c.conns))
		var wg sync.WaitGroup
		for i := range c.conns[1:] {
			wg.Go(func() { counts[i+1], failures[i+1] = c.send(ctx, i+1, s) })
		}
		counts[0], failures[0] = c.send(ctx, 0, s)
		wg.Wait()
		for _, n := range counts {
			rows += n
		}
		err = errors.Join(failures...)
	}
	if err == nil && rows != s.rows {
		err = fmt.Errorf("%d rows instead of %d", rows, s.rows)
	}
	if err != nil {
		return fmt.Errorf("%s %v: %w", s.text, s.args, err)
	}
	return nil
}

// send gives the number of rows.
func (c *client) send(ctx context.Context, conn int, s statement) (n int, err error) {
	var stmt *sql.Stmt
	if c.prepared {
		if stmt = c.stmts[conn][s.text]; stmt == nil {
			if stmt, err = c.conns[conn].PrepareContext(ctx, s.text); err != nil {
				return 0, err
			}
			c.stmts[conn][s.text] = stmt
		}
	}
	if !c.query {
		var result sql.Result
		if stmt != nil {
			result, err = stmt.ExecContext(ctx, s.args...)
		} else {
			result, err = c.conns[conn].ExecContext(ctx, s.text, s.args...)
		}
		if err != nil {
			return 0, err
		}
		changed, err := result.RowsAffected()
		return int(changed), err
	}
	var rows *sql.Rows
	if stmt != nil {
		rows, err = stmt.QueryContext(ctx, s.args...)
	} else {
		rows, err = c.conns[conn].QueryContext(ctx, s.text, s.args...)
	}
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		n++
	}
	return n, rows.Err()
}

// close closes everything; it is too late for errors.
func (c *client) close() {
	for i, conn := range c.conns {
		for _, stmt := range c.stmts[i] {
			stmt.Close()
		}
		conn.Close()
	}
}

// load is many workers that each send one statement after the other.
type load struct {
	dbs      []*sql.DB // what each worker connects to: a proxy, or every shard
	workers  int
	prepared bool
	query    bool
	// batch is how many statements a transaction has; 0: autocommit.
	batch   int
	next    source
	seconds int
	cpu     func() (time.Duration, error)
	// beside, if not nil, makes writes that are sent beside, writesBeside a second.
	beside source
}

// connect makes a worker's client.
func (l *load) connect(ctx context.Context) (*client, error) {
	c := &client{prepared: l.prepared, query: l.query}
	for _, db := range l.dbs {
		conn, err := db.Conn(ctx)
		if err != nil {
			c.close()
			return nil, fmt.Errorf("connect: %w", err)
		}
		c.conns, c.stmts = append(c.conns, conn), append(c.stmts, map[string]*sql.Stmt{})
	}
	return c, nil
}

const (
	// writesBeside are sent beside a load each second, by besideWorkers.
	writesBeside  = 2000
	besideWorkers = 8
)

// writes sends them at an even rate until the load is done. Where a tenth isn't sent by then it is an error: it would be
// another load.
func (l *load) writes(ctx context.Context, c *client, done *atomic.Bool) error {
	random, began := rand.New(rand.NewPCG(rand.Uint64(), 0)), time.Now()
	for due := began; ; {
		time.Sleep(time.Until(due))
		if done.Load() {
			if late := time.Since(due); late > time.Since(began)/10 {
				return fmt.Errorf("%d writes a second are more than this machine does beside the load", writesBeside)
			}
			return nil
		}
		due = due.Add(time.Second * besideWorkers / writesBeside)
		s, err := l.beside(random)
		if err == nil {
			err = c.do(ctx, s)
		}
		if err != nil {
			return err
		}
	}
}

// run measures: what ends between the warm-up's end and the load's counts.
func (l *load) run(ctx context.Context) (h half, err error) {
	clients := make([]*client, l.workers)
	for i := range clients {
		if clients[i], err = l.connect(ctx); err != nil {
			return h, err
		}
		defer clients[i].close()
	}
	var counts, done atomic.Bool
	took, failures := make([][]time.Duration, l.workers), make([]error, l.workers+besideWorkers)
	var wg sync.WaitGroup
	if l.beside != nil {
		for i := range besideWorkers {
			c, err := l.connect(ctx)
			if err != nil {
				return h, err
			}
			defer c.close()
			c.query = false
			wg.Go(func() {
				if err := l.writes(ctx, c, &done); err != nil {
					failures[l.workers+i] = err
					done.Store(true)
				}
			})
		}
	}
	ended := make(chan struct{})
	for i, c := range clients {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(rand.Uint64(), 0))
			for n := 0; !done.Load(); n++ {
				s, err := l.next(random)
				start := time.Now()
				if err == nil && l.batch > 0 && n%l.batch == 0 {
					_, err = c.conns[0].ExecContext(ctx, "BEGIN")
				}
				if err == nil {
					err = c.do(ctx, s)
				}
				if err == nil && l.batch > 0 && n%l.batch == l.batch-1 {
					_, err = c.conns[0].ExecContext(ctx, "COMMIT")
				}
				if err != nil {
					failures[i] = err
					done.Store(true) // for all
					return
				}
				if counts.Load() {
					took[i] = append(took[i], time.Since(start))
				}
			}
		})
	}
	go func() {
		wg.Wait()
		close(ended)
	}()
	pause := func(d time.Duration) {
		select {
		case <-ended:
		case <-ctx.Done():
		case <-time.After(d):
		}
	}
	pause(loadWarmUp)
	before, err := l.cpu()
	counts.Store(true)
	start := time.Now()
	if err == nil {
		pause(time.Duration(l.seconds) * time.Second)
	}
	counts.Store(false)
	lasted := time.Since(start)
	after, err2 := l.cpu()
	done.Store(true)
	<-ended
	for _, failed := range append(failures, err, err2, ctx.Err()) {
		if errors.Is(failed, errNoMore) && lasted > loadWarmUp {
			continue // long enough to count
		}
		if failed != nil {
			return h, failed
		}
	}
	all := slices.Concat(took...)
	if len(all) == 0 {
		return h, fmt.Errorf("no statement ended within %d s", l.seconds)
	}
	slices.Sort(all)
	at := func(share float64) time.Duration { return all[int(share*float64(len(all)-1))] }
	h.statements, h.p50, h.p95, h.p99 = float64(len(all))/lasted.Seconds(), at(0.50), at(0.95), at(0.99)
	h.cpu = (after - before) / time.Duration(len(all))
	return h, nil
}
