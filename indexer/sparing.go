package indexer

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
)

const (
	// sparedRows is how many rows a scan reads from one look at the clock to the next.
	sparedRows = 1000
	// lookEvery is how long a scan reads from one look at its shard to the next, or waits.
	lookEvery = time.Second
	// mostSpared bounds how long a scan waits at once: it goes on slowly then. Its snapshot holds up the shard's purge of old
	// rows meanwhile, and a server ends what isn't read for a minute (net_write_timeout).
	mostSpared = 30 * time.Second
)

// sparing has a scan wait while its shard is busy. That costs time alone, since a scan is of one snapshot however long it
// takes.
type sparing struct {
	x     *Indexer
	shard catalog.ShardID
	of    []*reading // which say what they wait for
	// urgent: marks have lookups ask the shard, which is busier the longer the scan takes. It never waits.
	urgent bool
	conn   Conn // beside the one that reads; nil: none yet
	looked time.Time
	noted  bool // what they wait for
}

// rows has what takes rows wait, now and then.
func (p *sparing) rows(ctx context.Context, row func([][]byte) error) func([][]byte) error {
	if p.x.opts.MaxRunning == 0 || p.urgent {
		return row
	}
	n := 0
	return func(r [][]byte) error {
		if n++; n%sparedRows == 0 && p.x.clock.Now().Sub(p.looked) >= lookEvery {
			if err := p.wait(ctx); err != nil {
				return err
			}
		}
		return row(r)
	}
}

// Spare is for who else reads many rows of a shard: wait, called for each of them, waits as a scan does. done ends it.
func (x *Indexer) Spare(ctx context.Context, id catalog.ShardID) (wait func() error, done func()) {
	p := &sparing{x: x, shard: id}
	row := p.rows(ctx, func([][]byte) error { return nil })
	return func() error { return row(nil) }, p.close
}

// wait waits while the shard is busy, for a bounded time.
func (p *sparing) wait(ctx context.Context) error {
	began := p.x.clock.Now()
	for {
		why := p.busy(ctx)
		p.looked = p.x.clock.Now()
		p.note(why)
		if why == "" || p.looked.Sub(began) >= mostSpared {
			return nil
		}
		if !p.x.sleep(ctx, lookEvery) {
			p.note("")
			return context.Cause(ctx)
		}
	}
}

// busy says why the shard is to be spared; "" where it isn't, or can't be asked: what reads there finds that out by itself.
func (p *sparing) busy(ctx context.Context) string {
	if p.x.opts.Lagging != nil {
		if why := p.x.opts.Lagging(p.shard); why != "" {
			return why
		}
	}
	running, err := p.running(ctx)
	if err != nil {
		p.close()
		return ""
	}
	if most := p.x.opts.MaxRunning; running > most {
		return fmt.Sprintf("spares shard %s, where %d threads run (maintenance.max_threads_running: %d)", p.x.shardName(p.shard), running, most)
	}
	return ""
}

// running is how many threads run on the shard, but for the scan's own two.
func (p *sparing) running(ctx context.Context) (n int, err error) {
	if p.conn == nil {
		if p.conn, err = p.x.opts.Shards.Open(ctx, p.shard); err != nil {
			return 0, err
		}
	}
	err = p.conn.Stream(ctx, "SHOW GLOBAL STATUS LIKE 'Threads_running'", func(row [][]byte) error {
		n, err = strconv.Atoi(string(row[1]))
		return err
	})
	return n - 2, err
}

// note says in Status what the indexes wait for.
func (p *sparing) note(why string) {
	if why == "" && !p.noted {
		return // another one's word stays
	}
	p.noted = why != ""
	p.x.work.mu.Lock()
	defer p.x.work.mu.Unlock()
	for _, r := range p.of {
		if p.x.work.notes[r.id] = why; why == "" {
			delete(p.x.work.notes, r.id)
		}
	}
}

func (p *sparing) close() {
	if p.conn != nil {
		_ = p.conn.Close() // it has only read
		p.conn = nil
	}
}
