package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

const (
	// silence is how long nothing comes of a member that has stopped, at the least.
	silence = 5 * time.Second
	// goneFor is how long a member is waited for of which the server has no connection that
	// anybody uses.
	goneFor = 2 * time.Second
	// looks is how often within the patience it is looked how long members are quiet: the
	// server lists all its threads for it.
	looks = 4
)

// lateness is what a row was behind in when it was seen last, and since when without a step
// forward; zero: it wasn't. Each has its own: a member that adopts epochs, and for ever fails to go
// by a change of the catalog, holds up DDL.
type lateness struct {
	adopted storage.Epoch
	version uint64
	// epoch and catalog: it was behind. silent: it didn't beat. gone: its connections had ended.
	epoch, catalog, silent, gone time.Time
}

// since is when something began that is so now, or, where it moved meanwhile, when that was seen.
func since(was time.Time, so, moved bool, now time.Time) time.Time {
	switch {
	case !so:
		return time.Time{}
	case was.IsZero() || moved:
		return now
	}
	return was
}

// overdue says why a member is fenced, or "". All of it is for its sake: see expel.
func (l lateness) overdue(now time.Time, patience time.Duration) string {
	over := func(since time.Time, patience time.Duration) bool {
		return !since.IsZero() && now.Sub(since) >= patience
	}
	switch {
	case over(l.gone, min(goneFor, patience)):
		return "its connections have ended"
	case over(l.silent, patience):
		return "it gives no sign of life"
	case over(l.epoch, patience):
		return "it doesn't follow the shard's epoch"
	case over(l.catalog, patience):
		return "it doesn't go by a change of the catalog"
	}
	return ""
}

// Sweep looks at the rows of a shard, and fences those whose member has died or doesn't
// follow, or which this process has left behind. What is fenced already, by anybody, it goes
// on with: threads may need some time to end, and a row goes once they have.
func (s *Shared) Sweep(ctx context.Context, id catalog.ShardID) error {
	return s.apart(ctx, id, s.sweep) // beside a Beat its new row wouldn't be known by its number at once
}

func (s *Shared) sweep(ctx context.Context, a *seated) error {
	epoch, rows, err := a.seat.Rows(ctx)
	if err != nil {
		return fmt.Errorf("read who is there: %w", err)
	}
	now, join := s.opts.Now(), a.join()
	var quiet map[uint64]time.Duration
	looked := now.Sub(a.looked) >= s.opts.Patience/looks && slices.ContainsFunc(rows, func(r Row) bool { return r.Linked && r.ID != s.opts.Identity.ID })
	if looked {
		if quiet, err = a.seat.Quiet(ctx); err != nil {
			return fmt.Errorf("look who gives a sign of life: %w", err)
		}
		a.looked = now
	}
	late, suspects := map[uint64]lateness{}, false
	for _, r := range rows {
		mine := r.ID == s.opts.Identity.ID
		suspects = suspects || r.Fenced
		switch {
		case r.Fenced:
		case mine && (r.Join == join || r.Join == a.joining):
			continue
		case mine:
		default:
			l := a.late[r.Join]
			silent := !l.silent.IsZero() // as it was when it was looked
			if looked {
				silent = quiet[r.Join] >= silence
			}
			ended := false
			if !r.Linked {
				silent, ended = true, s.ended(ctx, a, r.Join)
			}
			l = lateness{
				adopted: r.Adopted, version: r.Catalog,
				epoch:   since(l.epoch, r.Adopted < epoch, r.Adopted > l.adopted, now),
				catalog: since(l.catalog, r.Catalog < s.catalog.Load(), r.Catalog > l.version, now),
				silent:  since(l.silent, silent, false, now), gone: since(l.gone, ended, false, now),
			}
			late[r.Join] = l
			suspects = suspects || l != lateness{adopted: l.adopted, version: l.version}
			why := l.overdue(now, s.opts.Patience)
			if why == "" {
				continue
			}
			a.fenced.Add(1)
			s.log.Warn("a member is fenced on a shard", "member", life(r.ID), "addr", r.Addr, "shard", s.opts.ShardName(a.id), "why", why)
		}
		if _, err := s.expel(ctx, a, r.Join); err != nil {
			return err
		}
	}
	a.late = late
	a.others.Store(uint64(len(late)))
	a.unlike.Store(slices.ContainsFunc(rows, func(r Row) bool { return r.Version != s.opts.Identity.Version }))
	a.mu.Lock()
	a.suspects = suspects
	a.mu.Unlock()
	return nil
}

// ended reports that the server has none of the connections that a join has noted, but for
// those that were in the midst of something as the client went: the server finds out later.
func (s *Shared) ended(ctx context.Context, a *seated, join uint64) bool {
	threads, err := a.seat.Threads(ctx, join)
	if err == nil && len(threads) > 0 {
		threads, err = a.seat.Running(ctx, threads...)
	}
	return err == nil && !slices.ContainsFunc(threads, func(t Thread) bool { return t.Busy < goneFor })
}

// expel fences a join, and reports that it is gone. Else it is called again.
//
//	1 fence the row: what is noted from here on sees that, and isn't used
//	2 read the notes
//	3 KILL those threads
//	4 see that the server lists none of them
//	5 remove the row: what the join has told counts no more
//
// Counter-examples. 2 before 1: a connection is noted in between, used, and killed by
// nobody. Without 4: a COMMIT that waits for a replica ignores KILL, and commits behind the
// horizon of a scan that no row holds back any more.
func (s *Shared) expel(ctx context.Context, a *seated, join uint64) (gone bool, err error) {
	if _, err := a.seat.SetFenced(ctx, join); err != nil {
		return false, fmt.Errorf("fence a member: %w", err)
	}
	threads, err := a.seat.Threads(ctx, join)
	if err != nil {
		return false, fmt.Errorf("read a fenced member's connections: %w", err)
	}
	if len(threads) > 0 {
		if err := a.seat.Kill(ctx, threads...); err != nil {
			return false, fmt.Errorf("end a fenced member's connections: %w", err)
		}
		if threads, err = a.seat.Running(ctx, threads...); err != nil {
			return false, fmt.Errorf("see whether a fenced member's connections have ended: %w", err)
		}
	}
	if len(threads) > 0 {
		return false, nil
	}
	if err := a.seat.Remove(ctx, join); err != nil {
		return false, fmt.Errorf("remove a fenced member: %w", err)
	}
	return true, nil
}

// Clear takes all off all shards, whoever they are. REQUIRES: none of them joins anew meanwhile.
func (s *Shared) Clear(ctx context.Context) error {
	return s.expelAll(ctx, func(*seated, []Row) error { return nil })
}

// Alone ends what members that have died have left on all shards, or names one that lives.
func (s *Shared) Alone(ctx context.Context) error {
	return s.expelAll(ctx, func(a *seated, rows []Row) error {
		quiet, err := a.seat.Quiet(ctx)
		if err != nil {
			return s.at(a, err)
		}
		for _, r := range rows {
			if r.Linked && quiet[r.Join] < silence {
				return fmt.Errorf("%s serves", s.describe(on{a, r}))
			}
		}
		return nil
	})
}

// expelAll expels all rows of all shards, but for what check refuses.
func (s *Shared) expelAll(ctx context.Context, check func(*seated, []Row) error) error {
	for _, id := range s.ids {
		a := s.seats[id]
		for left := true; left; {
			_, rows, err := a.seat.Rows(ctx)
			if err != nil {
				return s.at(a, err)
			}
			if err := check(a, rows); err != nil {
				return err
			}
			left = false
			for _, r := range rows {
				gone, err := s.expel(ctx, a, r.Join)
				if err != nil {
					return s.at(a, err)
				}
				left = left || !gone
			}
			if left && !s.pause(ctx, s.opts.Every, nil) {
				return s.at(a, context.Cause(ctx))
			}
		}
	}
	return nil
}
