package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// turn is one that a member has at a time. A holder on the board is a member; while it
// drives the former one out, it is "member<former", and where it gives up on that
// "<former": whoever comes next goes on with it.
//
// A turn is taken over when no shard has a row of its holder. It may live all the same, and
// join anew. So:
//
//	taker   1 sees no rows of the holder's     holder   1 inserts its row
//	        2 puts itself in its place                  2 reads who has the turn
//	        3 fences rows that came since               3 uses the row
//
// If the holder reads before the taker's 2, then its row is there in the taker's 3, and goes
// before the taker begins. Else it finds that the turn is lost. Counter-example without 3: both
// alter a table.
type turn struct {
	name string
	// mine has an element while it is this process's, or somebody here waits for it.
	mine chan struct{}

	mu sync.Mutex
	// claimed from before it is taken on, until it is given back.
	claimed, lost bool
	// over is called when it is lost; nil: nobody asks.
	over func()

	waited waited
}

func (t *turn) init(name string) { t.name, t.mine = name, make(chan struct{}, 1) }

// set says what is so from now on.
func (t *turn) set(claimed, lost bool) {
	t.mu.Lock()
	t.claimed, t.lost = claimed, lost
	t.mu.Unlock()
}

// lose says that another has it.
func (t *turn) lose() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost = t.lost || t.claimed; t.lost && t.over != nil {
		t.over()
	}
}

// whenLost has it told when another has it.
func (t *turn) whenLost(over func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over = over; t.lost && over != nil {
		over()
	}
}

func (t *turn) isClaimed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.claimed
}

func (t *turn) isHeld() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.claimed && !t.lost
}

func (t *turn) isLost() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lost
}

func (s *Shared) takeTurn(ctx context.Context, t *turn) error {
	began := s.opts.Now()
	defer func() { t.waited.add(s.opts.Now().Sub(began)) }()
	if err := take(ctx, t.mine); err != nil {
		return err
	}
	err := s.awaitHolder(ctx, "turn of "+t.name, func(ctx context.Context) (string, error) { return s.tryTurn(ctx, t) })
	if err != nil {
		s.giveUp(t)
	}
	return err
}

// awaitHolder is await for what one has at a time.
func (s *Shared) awaitHolder(ctx context.Context, what string, ask func(context.Context) (holder string, err error)) error {
	return s.await(ctx, what, func(ctx context.Context) []string {
		holder, err := ask(ctx)
		switch {
		case err != nil:
			return []string{err.Error()}
		case holder != "":
			return []string{holder}
		}
		return nil
	})
}

// giveUp ends an attempt: what it had of the turn goes back.
func (s *Shared) giveUp(t *turn) {
	s.debts.owe(func(ctx context.Context) error {
		holder, err := s.opts.Board.Holder(ctx, t.name)
		if err != nil {
			return err
		}
		if rest, driving := strings.CutPrefix(holder, s.self+"<"); driving {
			_, err = s.opts.Board.TakeOver(ctx, t.name, holder, "<"+rest)
			return err
		}
		return s.opts.Board.GiveTurn(ctx, t.name, s.self)
	})
	t.set(false, false)
	<-t.mine
}

// tryTurn takes a turn, or names who has it.
func (s *Shared) tryTurn(ctx context.Context, t *turn) (holder string, err error) {
	if err := s.debts.pay(ctx); err != nil { // which may give the turn back
		return "", err
	}
	// Claimed first, so that a join beside this looks at it.
	t.set(true, false)
	free, err := s.opts.Board.TakeTurn(ctx, t.name, s.self)
	if err != nil {
		return "", err
	}
	if !free {
		if holder, err = s.takeOver(ctx, t); err != nil || holder != "" {
			return holder, err
		}
	}
	if t.isLost() {
		return "somebody who has taken it over", nil
	}
	return "", nil
}

// takeOver takes a turn from those that are gone, or names one that isn't.
func (s *Shared) takeOver(ctx context.Context, t *turn) (holder string, err error) {
	had, err := s.opts.Board.Holder(ctx, t.name)
	if err != nil || had == s.self {
		return "", err
	}
	if had == "" {
		return "somebody who just gave it back", nil
	}
	first, former, driving := strings.Cut(had, "<")
	if first != s.self {
		if first != "" {
			rows, err := s.rowsOf(ctx, first)
			if err != nil {
				return "", err
			}
			if len(rows) > 0 {
				return s.describe(rows[0]), nil
			}
			former, driving = had, true
		}
		mine := s.self + "<" + former
		if ok, err := s.opts.Board.TakeOver(ctx, t.name, had, mine); err != nil || !ok {
			return "somebody who was faster", err
		}
		had = mine
	}
	if !driving {
		return "", nil
	}
	for f := range strings.SplitSeq(former, "<") {
		if f == s.self {
			continue // what it is on now came behind the loss
		}
		rows, err := s.rowsOf(ctx, f)
		if err != nil {
			return "", err
		}
		for _, r := range rows {
			if gone, err := s.expel(ctx, r.seated, r.Join); err != nil || !gone {
				return s.describe(r), s.at(r.seated, err)
			}
		}
	}
	if ok, err := s.opts.Board.TakeOver(ctx, t.name, had, s.self); err != nil || !ok {
		return "somebody who was faster", err
	}
	return "", nil
}

// checkTurns sees which turns were taken over.
func (s *Shared) checkTurns(ctx context.Context) error {
	for _, t := range append(slices.Concat(s.duties.all(), s.tables.all()), &s.ddl, &s.changes, &s.numbers.turn) {
		t.mu.Lock()
		claimed, name := t.claimed, t.name
		t.mu.Unlock()
		if !claimed {
			continue
		}
		holder, err := s.opts.Board.Holder(ctx, name)
		if err != nil {
			return fmt.Errorf("see whose turn it is: %w", err)
		}
		if holder != s.self {
			t.lose()
		}
	}
	return nil
}

func (s *Shared) giveTurn(t *turn) {
	s.debts.owe(func(ctx context.Context) error { return s.opts.Board.GiveTurn(ctx, t.name, s.self) })
	t.set(false, false)
	<-t.mine
}

// TakeTurn is Turn's.
func (s *Shared) TakeTurn(ctx context.Context) error { return s.takeTurn(ctx, &s.ddl) }

// GiveTurn is Turn's.
func (s *Shared) GiveTurn() { s.giveTurn(&s.ddl) }

// TurnKept is Turn's.
func (s *Shared) TurnKept() error {
	if s.ddl.isLost() {
		return ErrTurnLost
	}
	return nil
}

// HasTurn reports that the turn of DDL is this process's.
func (s *Shared) HasTurn() bool { return s.ddl.isHeld() }

// LockChanges is Changes'.
func (s *Shared) LockChanges(ctx context.Context) error { return s.takeTurn(ctx, &s.changes) }

// TryLockChanges is Changes'.
func (s *Shared) TryLockChanges(ctx context.Context) bool {
	select {
	case s.changes.mine <- struct{}{}:
	default:
		return false
	}
	holder, err := s.tryTurn(ctx, &s.changes)
	if err != nil || holder != "" {
		s.giveUp(&s.changes)
		return false
	}
	return true
}

// UnlockChanges is Changes'.
func (s *Shared) UnlockChanges() { s.giveTurn(&s.changes) }
