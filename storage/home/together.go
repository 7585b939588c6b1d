package home

import (
	"context"
	"sync"
	"time"
)

// together sends what callers ask for at the same time as one. Who comes while all flights are
// under way waits, and goes with the others that wait when one has landed: on a busy home a key
// costs a tenth of what it costs alone.
//
// Rule never join what was sent: a flight takes along only who came before it began.
// Counter-example: a lookup has read its snapshot and is on its way back; a row's entry is added and
// acknowledged; a reader who then joins that lookup misses the row.
type together[T any] struct {
	// room bounds the sizes of what a flight takes along.
	room int
	size func(of T) int
	// send does it for all. Its error is everybody's. What it is given is its own.
	send func(ctx context.Context, all []T) error

	mu      sync.Mutex
	flights int
	waiting []*passenger[T]
	// impatient sends those that wait beside the flights under way.
	impatient *time.Timer
}

const (
	// patience is how long what waits waits at most: a flight may have come to grief, or the home be far.
	patience = 3 * time.Millisecond
	// mostFlights bounds those under way at a time.
	mostFlights = 8
)

type passenger[T any] struct {
	of       T
	deadline time.Time // zero: none
	landed   chan struct{}
	err      error
}

// do sends of, alone or with others'. When ctx ends it may be under way yet.
func (t *together[T]) do(ctx context.Context, of T) error {
	t.mu.Lock()
	if t.flights == 0 {
		t.flights++
		t.mu.Unlock()
		defer t.landed()
		return t.send(ctx, []T{of})
	}
	p := &passenger[T]{of: of, landed: make(chan struct{})}
	p.deadline, _ = ctx.Deadline()
	t.waiting = append(t.waiting, p)
	if len(t.waiting) == 1 {
		t.impatient = time.AfterFunc(patience, t.alsoFly)
	}
	t.mu.Unlock()
	select {
	case <-p.landed:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// landed sends those that wait behind a flight.
func (t *together[T]) landed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flights--
	t.takeOff()
}

// alsoFly sends those that wait beside the flights under way.
func (t *together[T]) alsoFly() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.flights < mostFlights {
		t.takeOff()
	}
}

// takeOff sends as many of those that wait as there is room for.
func (t *together[T]) takeOff() {
	n, room := 0, t.room
	for ; n < len(t.waiting); n++ {
		if room -= t.size(t.waiting[n].of); room < 0 && n > 0 {
			break
		}
	}
	if n == 0 {
		return
	}
	aboard := t.waiting[:n:n]
	t.waiting = t.waiting[n:]
	t.impatient.Stop()
	if len(t.waiting) > 0 {
		t.impatient = time.AfterFunc(patience, t.alsoFly)
	}
	t.flights++
	go t.fly(aboard)
}

func (t *together[T]) fly(aboard []*passenger[T]) {
	defer t.landed()
	all := make([]T, len(aboard))
	latest := aboard[0].deadline
	for i, p := range aboard {
		all[i] = p.of
		if p.deadline.IsZero() || !latest.IsZero() && p.deadline.After(latest) {
			latest = p.deadline
		}
	}
	ctx, cancel := context.Background(), func() {}
	if !latest.IsZero() {
		ctx, cancel = context.WithDeadline(ctx, latest)
	}
	defer cancel()
	err := t.send(ctx, all)
	for _, p := range aboard {
		p.err = err
		close(p.landed)
	}
}
