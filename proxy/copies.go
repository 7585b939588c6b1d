package proxy

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
)

// copies admits what writes reference tables, of which each shard has a copy, and what else a shard that is added may have of
// others' rows before all processes read it (Join). Writes share it,
// each until its transaction ends; who compares copies for good has it alone, and so sees each
// write either in all of them or in none.
type copies struct {
	mu sync.Mutex
	// open counts those that share it. alone: nobody may begin to.
	open  int
	alone bool
	// changed is closed when open or alone has changed.
	changed chan struct{}
	written Written // since restart, but for what was taken
	// torn are the tables that may have been written on some shards and not on others, and when.
	torn map[catalog.TableName]tear
}

// Written are the tables that have been written; Any: any may have been.
type Written struct {
	Tables map[catalog.TableName]bool
	Any    bool
}

// May reports whether a table may have been written.
func (w Written) May(t catalog.TableName) bool { return w.Any || w.Tables[t] }

// tear is a COMMIT that has failed on some shards, or the end of a transaction with a write that was
// sent to one by its hint.
type tear struct {
	at     time.Time
	hinted bool
}

func newCopies() *copies {
	return &copies{changed: make(chan struct{}), written: Written{Tables: map[catalog.TableName]bool{}}, torn: map[catalog.TableName]tear{}}
}

func (c *copies) changedLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// enter shares it; leave must follow.
func (c *copies) enter(ctx context.Context) error {
	return c.until(ctx, c.enterLocked)
}

func (c *copies) enterLocked() bool {
	if c.alone {
		return false
	}
	c.open++
	return true
}

// tryEnter is enter where that need not wait.
func (c *copies) tryEnter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.enterLocked()
}

// until waits for a condition, which is called under the lock.
func (c *copies) until(ctx context.Context, condition func() bool) error {
	for {
		c.mu.Lock()
		done, changed := condition(), c.changed
		c.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// leave is told the tables that may have been written.
//
// Rule written at the end. Counter-example: a transaction changes a row; Join copies the table,
// without what isn't committed; the transaction ends. Noted when it began, the table would count
// as copied since.
func (c *copies) leave(h held) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range h.tables {
		c.written.Tables[t] = true
		if h.torn {
			c.torn[t] = tear{time.Now(), h.any}
		}
	}
	c.written.Any = c.written.Any || h.any
	c.open--
	c.changedLocked()
}

// tornFor is how long what a COMMIT that has failed has done may take to be seen.
const tornFor = time.Minute

// doubtful reports whether the copies of a table have just been torn. hinted: as somebody wants it.
func (c *copies) doubtful(t catalog.TableName) (doubtful, hinted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	how, ok := c.torn[t]
	if ok && time.Since(how.at) > tornFor {
		delete(c.torn, t)
	}
	return ok, how.hinted
}

// touch notes that any table may have been written.
func (c *copies) touch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.written.Any = true
}

// close waits until nobody shares it, for wait at most, and has it alone until reopen.
func (c *copies) close(ctx context.Context, wait time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, wait, errors.New("a transaction that has written a reference table is open"))
	defer cancel()
	err := c.until(ctx, func() bool {
		if c.alone { // as somebody else wants to be
			return false
		}
		c.alone = true
		return true
	})
	if err != nil {
		return err
	}
	if err = c.until(ctx, func() bool { return c.open == 0 }); err != nil {
		c.reopen()
	}
	return err
}

func (c *copies) reopen() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.alone = false
	c.changedLocked()
}

// take reports whether a table may have been written since the last take of it.
func (c *copies) take(t catalog.TableName) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.written.May(t)
	delete(c.written.Tables, t)
	return was
}

// restart has no table counted as written, but those that have just been torn.
//
// Counter-example: a connection breaks at COMMIT, and the session leaves; Join compares the table; the server commits.
func (c *copies) restart() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.written.Tables)
	c.written.Any = false
	for t, how := range c.torn {
		if time.Since(how.at) <= tornFor {
			c.written.Tables[t] = true
		}
	}
}

// sinceRestart are the tables that have been written since.
func (c *copies) sinceRestart() Written {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Written{maps.Clone(c.written.Tables), c.written.Any}
}

// held is what a session shares copies for.
type held struct {
	shares bool
	tables []catalog.TableName
	any    bool
	// torn: they were committed on some shards and not on others, or that isn't known.
	torn bool
}

// shareCopies is step 0 of a write: it waits where a shard that has been added is just taking over
// its copies, before the catalog is checked that the write was planned with.
func (s *session) shareCopies(ctx context.Context, rows *plan.Rows) error {
	h := &s.copies
	wants := rows.Calls || rows.Kind == plan.Other
	for _, t := range rows.Tables {
		wants = wants || t.Placement == catalog.Reference || t.Unlike || s.proxy.opts.Several && (t.Placement == catalog.Anywhere || len(t.Triggers)+len(t.Cascades) > 0)
	}
	if !wants {
		return nil
	}
	if err := s.holdCopies(ctx, h); err != nil {
		return err
	}
	for _, t := range rows.Tables {
		if name := (catalog.TableName{Schema: t.Schema, Name: t.Name}); !slices.Contains(h.tables, name) {
			h.tables = append(h.tables, name)
		}
		h.any = h.any || len(t.Triggers)+len(t.Cascades) > 0
	}
	h.any = h.any || rows.Calls || rows.Kind == plan.Other
	h.torn = h.torn || s.tx != nil && rows.Kind == plan.Other
	return nil
}

// holdCopies shares them for h, unless it does.
func (s *session) holdCopies(ctx context.Context, h *held) error {
	if h.shares {
		return nil
	}
	if h.shares = s.proxy.copies.tryEnter(); h.shares {
		return nil
	}
	ctx, _, done := s.activity.killable(ctx)
	defer done()
	if err := s.proxy.copies.enter(ctx); err != nil {
		return err
	}
	h.shares = true
	return nil
}

// leaveCopies ends what shareCopies began.
func (s *session) leaveCopies(h *held) {
	if h.shares {
		s.proxy.copies.leave(*h)
	}
	*h = held{}
}
