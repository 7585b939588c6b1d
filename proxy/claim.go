package proxy

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/deadlock"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// A transaction claims in Shunt, until it ends, what others would wait for: the rows of a key that it is about
// to lock, or a table that it wants to be alone with (meetAlone). Who comes second would wait for rows on
// their shard, which alone knows for whom. Here he waits in Shunt, and a circle of such waits is seen as it
// closes, whatever shards the rows are on, and no server asked:
//
//	A: row 1 of s0, claimed     B: row 2 of s1, claimed
//	A: row 2: waits for B       B: row 1: would wait for A: 1213 at once
//
// What counts are the shards' locks. A claim of rows only puts the wait where it can be seen. So it isn't kept where
// no row was found; and who waits for one that sleeps asks the shard all the same, after claimPatience, and has
// the shard's timeouts. He is known to wait for that one as before: else circles would again be the shards' secret as
// soon as many wait. To whom of those that ask the shard gives its lock is not known, so he has the claim who is
// answered first.
//
// Waits for other keys of the same rows, for ranges and for gaps are not seen here: package deadlock looks for these.
type claims struct {
	mu    sync.Mutex
	held  map[claimed]*claim
	waits map[*transaction]*claimWait
}

// claimed is a table, or rows of it by their planner.LockedKeys.
type claimed struct {
	table catalog.TableName
	key   string
}

// claim is had by one transaction, since a time. Invariant: those of the queue are in claims.waits.
type claim struct {
	by    *transaction
	since time.Time
	// asks is the wait of by where that hasn't heard from the shard, nil where it has, or hasn't asked.
	asks  *claimWait
	queue []*claimWait
}

// claimWait is a transaction's wait, beside what it holds on the shards.
type claimWait struct {
	tx      *transaction
	what    claimed
	on      *claim
	threads []deadlock.Thread
	// ends gets nil when the claim is the transaction's, or why it will not be. asks: it has asked the shard,
	// and nobody reads this.
	ends chan error
	asks bool
}

const (
	// claimPatience is how long one transaction keeps another from asking the shard for rows that it
	// has claimed, claimMost how long several do one after the other.
	claimPatience, claimMost = 100 * time.Millisecond, time.Second
	// maxClaims bounds those of one transaction.
	maxClaims = 1000
)

// errClaimed: others have had it for too long.
var errClaimed = errors.New("claimed by others")

func newClaims() claims {
	return claims{held: map[claimed]*claim{}, waits: map[*transaction]*claimWait{}}
}

// take claims for a transaction, which has not, or returns the wait for who has it. victim is a
// wait that was ended, since there would have been a circle: of those that haven't asked a shard the youngest
// transaction's.
func (c *claims) take(tx *transaction, what claimed) (wait, victim *claimWait) {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := c.held[what]
	if held == nil {
		c.held[what] = &claim{by: tx, since: time.Now()}
		return nil, nil
	}
	wait = &claimWait{tx: tx, what: what, on: held, threads: tx.threads(), ends: make(chan error, 1)}
	held.queue = append(held.queue, wait)
	c.waits[tx] = wait
	victim = wait
	for at := c.waits[held.by]; at != wait; at = c.waits[at.on.by] {
		if at == nil {
			return wait, nil
		}
		if !at.asks && at.tx.began.After(victim.tx.began) {
			victim = at
		}
	}
	c.endLocked(victim, deadlock.Err)
	return wait, victim
}

// endLocked ends a wait in vain.
func (c *claims) endLocked(w *claimWait, why error) {
	c.dropLocked(w)
	w.ends <- why
}

func (c *claims) dropLocked(w *claimWait) {
	delete(c.waits, w.tx)
	w.on.queue = slices.DeleteFunc(w.on.queue, func(x *claimWait) bool { return x == w })
}

// end ends a transaction's wait in Shunt, if there is one.
func (c *claims) end(tx *transaction, why error) (ended bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.waits[tx]
	if ended = w != nil && !w.asks; ended {
		c.endLocked(w, why)
	}
	return ended
}

// ask has a wait go on at the shard; false: it has ended meanwhile.
func (c *claims) ask(w *claimWait) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.asks = c.waits[w.tx] == w
	return w.asks
}

// asked is what comes of a wait that has asked the shard. found: it has locked rows, so that it has the claim, before
// all that wait for them.
func (c *claims) asked(w *claimWait, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := w.on
	switch {
	case c.waits[w.tx] != w: // it has been given the claim
		if held.asks = nil; !found {
			c.passLocked(w.what, held)
		}
		return
	case found:
		c.dropLocked(w)
		if first := held.asks; first != nil { // the shard gave it the second one's lock
			c.waits[first.tx] = first
			held.queue = slices.Insert(held.queue, 0, first)
		}
		held.by, held.since, held.asks = w.tx, time.Now(), nil
	default:
		c.dropLocked(w)
	}
}

// leave gives a transaction's claims to those that wait for them.
func (c *claims) leave(tx *transaction, list iter.Seq[claimed]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for what := range list {
		if held := c.held[what]; held != nil && held.by == tx {
			c.passLocked(what, held)
		}
	}
}

// passLocked gives a claim to the next.
func (c *claims) passLocked(what claimed, held *claim) {
	if len(held.queue) == 0 {
		delete(c.held, what)
		return
	}
	next := held.queue[0]
	held.by, held.since, held.asks, held.queue = next.tx, time.Now(), nil, held.queue[1:]
	delete(c.waits, next.tx)
	if next.asks {
		held.asks = next
		return
	}
	next.ends <- nil
}

// patient is for how long a wait is to go on at least.
func (c *claims) patient(w *claimWait, began time.Time, patience, most time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	since := w.on.since
	if since.Before(began) {
		since = began
	}
	return min(time.Until(since.Add(patience)), time.Until(began.Add(most)))
}

// waiting adds the transactions that wait, and returns for whom.
func (c *claims) waiting(open map[deadlock.Transaction]deadlock.Open) map[deadlock.Transaction]deadlock.Transaction {
	c.mu.Lock()
	defer c.mu.Unlock()
	by := make(map[deadlock.Transaction]deadlock.Transaction, len(c.waits))
	for tx, w := range c.waits {
		if len(w.threads) > 0 { // else nobody waits for it
			by[tx] = w.on.by
			open[tx] = deadlock.Open{Began: tx.began, Threads: w.threads}
		}
	}
	return by
}

// claim claims for the session's transaction, or returns the wait for who has it.
func (s *session) claim(what claimed) *claimWait {
	wait, victim := s.proxy.claims.take(s.tx, what)
	switch {
	case victim != nil:
		s.proxy.metrics.deadlocks.Inc()
		victim.tx.s.log.Debug("a deadlock: the transaction is rolled back")
	case wait == nil:
		s.tx.has(what)
	default:
		s.proxy.deadlocks.Wake()
	}
	return wait
}

func (tx *transaction) has(what claimed) {
	if tx.claims == nil {
		tx.claims = map[claimed]bool{}
	}
	tx.claims[what] = true
}

// await waits for a claim: for patience at most for one that has it, for most in all; then it is errClaimed, and
// the wait one that asks.
func (s *session) await(ctx context.Context, wait *claimWait, patience, most time.Duration) (err error) {
	c, tx := &s.proxy.claims, s.tx
	ctx, _, done := s.activity.killable(ctx)
	defer done()
	began := time.Now()
	timer := time.NewTimer(min(patience, most))
	defer timer.Stop()
	for waits := true; waits; {
		select {
		case err = <-wait.ends:
			waits = false
		case <-ctx.Done():
			c.end(tx, context.Cause(ctx))
			err, waits = <-wait.ends, false
		case <-timer.C:
			if more := c.patient(wait, began, patience, most); more > 0 {
				timer.Reset(more)
			} else if c.ask(wait) {
				return errClaimed
			}
		}
	}
	if err == nil {
		tx.has(wait.what)
		return context.Cause(ctx) // it has come with a KILL
	}
	if errors.Is(err, deadlock.Err) {
		s.serverFailed(deadlock.Err)
		tx.victim = deadlock.Err
		return mysqlerr.Error(*deadlock.Err)
	}
	return err
}

// rowClaims are those of one statement: fresh are new, and asked is the wait for one that others have.
type rowClaims struct {
	tx    *transaction
	fresh []claimed
	asked *claimWait
}

// claimRows claims what a statement is about to lock, in an order that all statements have: two that lock the
// same rows on several shards wait for each other in no circle. REQUIRES: a transaction.
func (s *session) claimRows(ctx context.Context, r *request) (c rowClaims, err error) {
	if len(s.catalog().Shards) < 2 {
		return c, nil
	}
	t, keys := planner.LockedKeys(r.plan, r.values)
	c.tx, s.tx.found = s.tx, 0
	for _, key := range keys {
		what := claimed{catalog.TableName{Schema: t.Schema, Name: t.Name}, key}
		if s.tx.claims[what] || len(s.tx.claims) >= maxClaims {
			continue
		}
		if wait := s.claim(what); wait != nil {
			if err := s.awaitRows(ctx, r, wait); errors.Is(err, errClaimed) {
				c.asked = wait
				return c, nil // a transaction has one wait
			} else if err != nil {
				return c, err
			}
		}
		c.fresh = append(c.fresh, what)
	}
	return c, nil
}

// awaitRows is await for as long as the statement may run.
func (s *session) awaitRows(ctx context.Context, r *request, wait *claimWait) error {
	if limit := s.maxTime(r.sql); limit > 0 && (r.plan.Kind == plan.Locking || s.mariaDB()) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, s.errLate())
		defer cancel()
	}
	return s.await(ctx, wait, claimPatience, claimMost)
}

// answered keeps the claims behind the statement only where it has found rows, by each key one.
func (c rowClaims) answered() {
	n := int64(len(c.fresh))
	if c.asked != nil {
		n++
	}
	if n == 0 {
		return
	}
	tx, all := c.tx, &c.tx.s.proxy.claims
	found := tx.found >= n
	if c.asked != nil {
		all.asked(c.asked, found)
		if found {
			tx.has(c.asked.what)
		}
	}
	if !found {
		all.leave(tx, slices.Values(c.fresh))
		for _, what := range c.fresh {
			delete(tx.claims, what)
		}
	}
}

// foundRows are the rows that a statement has found, also where it has left them as they were.
func foundRows(sum *shard.Summary) int64 {
	if sum.Err != nil {
		return 0
	}
	if matched, ok := strings.CutPrefix(sum.Info, "Rows matched: "); ok {
		n, _, _ := strings.Cut(matched, " ")
		rows, _ := strconv.ParseInt(n, 10, 64)
		return rows
	}
	return sum.Rows + int64(sum.Affected)
}
