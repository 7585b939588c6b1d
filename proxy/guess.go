package proxy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// How a read goes by virtual indexes that are asked over a network. It doesn't wait for them where they can be
// guessed:
//
//	1 bind     by what they have answered last (Guessing.Guess)
//	2 send     to the shards guessed
//	3 confirm  ask the indexes, while the shards work
//	4 answer   if the guess holds; else drop what the shards answer, and begin anew without a guess
//
// Invariant: the client is told nothing of a guess, not even an error, before it is confirmed. What shards answer
// until then waits in their connections.

// guess are what tells whether a statement was bound by what the indexes say.
type guess []func(context.Context) bool

// errGuess: the statement was sent on a guess that was wrong.
var errGuess = fmt.Errorf("%w: virtual indexes have other shards than was guessed", errStale)

// mayGuess reports whether a statement may be sent on a guess: to be executed in vain does nothing. In a
// transaction it would keep a snapshot, or locks, where it doesn't belong.
func (s *session) mayGuess(r *request) bool {
	return s.proxy.guessing != nil && r.sent && r.plan.Repeatable && !r.guessedWrong && r.storing == nil && s.reading == nil && s.mayBeInVain()
}

// mayBeInVain reports that it does nothing to the session if a read is sent that isn't answered.
func (s *session) mayBeInVain() bool {
	return s.tx == nil && s.settings.autocommit && s.settings.once == (characteristics{}) &&
		s.temporary == nil && s.namedLocks == nil && s.tableLocks == nil
}

// bindOnGuess is bind by what is guessed, as far as it can be.
func (s *session) bindOnGuess(ctx context.Context, r *request) error {
	r.guess, r.guesses = nil, true
	err := s.bind(ctx, r)
	r.guesses = false
	if r.guess == nil || err == nil && sentAtOnce(r.bound) {
		return err
	}
	r.guess = nil
	return s.bind(ctx, r)
}

// sentAtOnce: all that is sent for it is sent before anything is answered.
func sentAtOnce(b *plan.Bound) bool {
	return b.Refuse == nil && b.Gather == nil && b.System == nil
}

// passing are lookups that wait for what binary logs tell, for a read that may go by them; nil otherwise.
func (s *session) passing(ctx context.Context, r *request) plan.Indexes {
	if s.proxy.remote || s.reading != nil || r.plan.Kind != plan.Select || r.plan.Lock != nil {
		return nil
	}
	var open Open
	if s.tx != nil {
		if len(s.tx.maintain) > 0 {
			return nil
		}
		if s.tx.showsPast() {
			open = s.tx.open
		}
	}
	ix := s.proxy.opts.Index.Passing(ctx, open)
	if ix == nil || s.seesUncommitted() {
		return nil
	}
	return ix
}

// seesUncommitted reports whether the statement under way sees rows that others have not committed.
func (s *session) seesUncommitted() bool {
	level, _ := s.settings.value(isolationSetting)
	switch {
	case s.tx != nil:
		level = s.tx.chosen.isolation
	case s.settings.once.isolation != "":
		level = s.settings.once.isolation
	}
	if level == "" || level == serverDefault {
		return s.catalog().Uncommitted
	}
	return strings.HasSuffix(level, "READ UNCOMMITTED")
}

// seesLate reports whether the statement under way sees rows whose entries may still be on their way into the virtual indexes, so
// that it doesn't go by these: see besides.
func (s *session) seesLate() bool { return s.proxy.beside != nil && s.seesUncommitted() }

// lookupsFor are what to bind a statement with.
func (s *session) lookupsFor(ctx context.Context, r *request) plan.Indexes {
	if !r.guesses || s.seesLate() {
		if ix := s.passing(ctx, r); ix != nil {
			return ix
		}
		return s.lookups(ctx)
	}
	ix := s.proxy.guessing
	return planner.Remote(func(questions []plan.Question) error {
		if holds := ix.Guess(questions); holds != nil {
			r.guess = append(r.guess, holds)
			return nil
		}
		return ix.Ask(ctx, questions)
	})
}

// onGuess reports that a statement was bound on a guess that isn't confirmed yet.
func (r *request) onGuess() bool { return r.guess != nil || r.current != nil }

// confirm asks whether a statement that was sent on a guess is where it belongs, and says what is so: errGuess if not.
func (s *session) confirm(ctx context.Context, r *request) error {
	if current := r.current; current != nil {
		if r.current = nil; !current(ctx) {
			r.guess = nil
			return errNotCurrent
		}
	}
	if r.guess == nil {
		return nil
	}
	for _, holds := range r.guess {
		if !holds(ctx) {
			r.guess, r.guessedWrong = nil, true
			s.proxy.metrics.guesses[false].Inc()
			if s.activity.killed() { // there, where it didn't belong
				return errInterrupted
			}
			return errGuess
		}
	}
	r.guess = nil
	s.proxy.metrics.guesses[true].Inc()
	return s.stillPlanned(r) // what was asked goes by that catalog
}

// ofGuess is what becomes of an error that came before the guess was confirmed: it may be of a shard where
// the statement doesn't belong.
func (s *session) ofGuess(ctx context.Context, r *request, err error) error {
	if err == nil || !r.onGuess() || errors.Is(err, errStale) || errors.Is(err, shard.ErrClient) || s.activity.killed() {
		return err
	}
	if wrong := s.confirm(ctx, r); wrong != nil {
		return wrong
	}
	return err
}

const (
	// What nobody wants of an answer is read and dropped up to this, and for no longer
	// than this: cheaper than a new connection.
	dropBytes = 256 << 10
	dropTime  = 20 * time.Millisecond
)

// drop does so. rows are what is left of the answer; nil: all of it.
func drop(conn *shard.Conn, rows *shard.Rows) {
	conn.Watch(nil) // it would lift the deadline
	if conn.Broken || conn.SetDeadline(time.Now().Add(dropTime)) != nil {
		return
	}
	if rows == nil {
		var err error
		if rows, err = conn.Rows(); err != nil {
			return
		}
	}
	if rows.Drain(dropBytes) {
		_ = conn.SetDeadline(time.Time{})
	}
}
