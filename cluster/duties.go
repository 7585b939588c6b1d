package cluster

import (
	"context"
	"strings"
	"sync"
	"time"
)

// dutyEvery is how often a member looks whether a duty of another's is free. It is taken over within this time, when the
// other's rows are gone from all shards.
const dutyEvery = time.Second

// duties are turns, by name.
type duties struct {
	mu sync.Mutex
	of map[string]*turn
	// alive are members that had a row on some shard at that time.
	alive map[string]time.Time
}

func (d *duties) turn(duty string) *turn {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.of[duty]
	if t == nil {
		if d.of == nil {
			d.of = map[string]*turn{}
		}
		t = &turn{}
		t.init("duty " + duty)
		d.of[duty] = t
	}
	return t
}

func (d *duties) all() (turns []*turn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range d.of {
		turns = append(turns, t)
	}
	return turns
}

// Hold is Duties': this process has them all.
func (l *Local) Hold(ctx context.Context, duty string) (held context.Context, release func(), err error) {
	t := l.duties.turn(duty)
	if err := take(ctx, t.mine); err != nil {
		return nil, nil, err
	}
	held, cancel := context.WithCancel(ctx)
	return held, func() {
		cancel()
		<-t.mine
	}, nil
}

// Hold is Duties'. A member that stands still, and whose duty is taken over, finds out when it joins anew: until then both
// do it.
func (s *Shared) Hold(ctx context.Context, duty string) (held context.Context, release func(), err error) {
	t := s.duties.turn(duty)
	if err := take(ctx, t.mine); err != nil {
		return nil, nil, err
	}
	for !s.tryDuty(ctx, t) {
		rested := time.NewTimer(dutyEvery)
		select {
		case <-rested.C:
		case <-ctx.Done():
			rested.Stop()
			if t.isClaimed() {
				s.giveUp(t)
			} else {
				<-t.mine
			}
			return nil, nil, context.Cause(ctx)
		}
	}
	held, cancel := context.WithCancelCause(ctx)
	t.whenLost(func() { cancel(ErrTurnLost) })
	return held, func() {
		cancel(nil)
		t.whenLost(nil)
		s.giveTurn(t)
	}, nil
}

// tryDuty takes a duty that nobody has who lives. Who has one is asked for by reads alone.
func (s *Shared) tryDuty(ctx context.Context, t *turn) bool {
	holder, err := s.opts.Board.Holder(ctx, t.name)
	if err != nil {
		return false
	}
	if first, _, _ := strings.Cut(holder, "<"); first != "" && first != s.self && s.lives(ctx, first) {
		return false
	}
	holder, err = s.tryTurn(ctx, t)
	return err == nil && holder == ""
}

// lives reports that a member is on some shard, or was a moment ago, or that this can't be told.
func (s *Shared) lives(ctx context.Context, member string) bool {
	d := &s.duties
	now := s.opts.Now()
	d.mu.Lock()
	seen, known := d.alive[member]
	d.mu.Unlock()
	if known && now.Sub(seen) < dutyEvery/2 {
		return true
	}
	lives := !s.Gone(ctx, member)
	d.mu.Lock()
	if delete(d.alive, member); lives {
		if d.alive == nil {
			d.alive = map[string]time.Time{}
		}
		d.alive[member] = now
	}
	d.mu.Unlock()
	return lives
}
