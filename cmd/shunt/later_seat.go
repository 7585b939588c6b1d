package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shunt-sql/shunt/cluster"
	"github.com/shunt-sql/shunt/cluster/seat"
	"github.com/shunt-sql/shunt/storage"
	"github.com/shunt-sql/shunt/storage/home"
)

// laterSeat is a seat on a shard, which may not answer as the process begins: it is opened by the first
// call that the server answers.
type laterSeat struct {
	at   atomic.Pointer[seat.Config]
	seat atomic.Pointer[seat.Seat]

	opening sync.Mutex
	mu      sync.Mutex
	failed  error // the last attempt's
	again   time.Time
}

var _ cluster.Seat = (*laterSeat)(nil)

// openAgain is the pause between two attempts.
const openAgain = 500 * time.Millisecond

// open is an error where the server answers, and can't be used.
func (l *laterSeat) open(ctx context.Context) error {
	if _, err := l.get(ctx); err != nil && !home.Unreachable(err) {
		return err
	}
	return nil
}

// readdress has it be reached elsewhere from now on, or as somebody else.
func (l *laterSeat) readdress(at seat.Config) error {
	l.opening.Lock()
	defer l.opening.Unlock()
	l.at.Store(&at)
	l.mu.Lock()
	l.again = time.Time{}
	l.mu.Unlock()
	if s := l.seat.Load(); s != nil {
		return s.Readdress(at)
	}
	return nil
}

// get opens the seat. While somebody does so, and for a moment behind a failure, the last attempt's error
// is everybody's: else all that ask would wait for the server, one after the other.
func (l *laterSeat) get(ctx context.Context) (*seat.Seat, error) {
	if s := l.seat.Load(); s != nil {
		return s, nil
	}
	if !l.opening.TryLock() {
		return nil, l.why(time.Time{})
	}
	defer l.opening.Unlock()
	if s := l.seat.Load(); s != nil {
		return s, nil
	}
	if err := l.why(time.Now()); err != nil {
		return nil, err
	}
	s, err := seat.Open(ctx, *l.at.Load())
	if err != nil {
		l.mu.Lock()
		l.failed, l.again = err, time.Now().Add(openAgain)
		l.mu.Unlock()
		return nil, err
	}
	l.seat.Store(s)
	return s, nil
}

// why is the last attempt's error, nil where it is time for another one. The zero time: it isn't.
func (l *laterSeat) why(now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case now.IsZero() && l.failed == nil:
		at := l.at.Load()
		return fmt.Errorf("shard %s (%s) hasn't answered yet: %w", at.Shard, at.Addr, context.DeadlineExceeded)
	case now.Before(l.again):
		return l.failed
	}
	return nil
}

// Close closes it, if it is open.
func (l *laterSeat) Close() error {
	if s := l.seat.Load(); s != nil {
		return s.Close()
	}
	return nil
}

// on has the seat, opened, do something.
func on[T any](ctx context.Context, l *laterSeat, do func(*seat.Seat) (T, error)) (v T, err error) {
	s, err := l.get(ctx)
	if err != nil {
		return v, err
	}
	return do(s)
}

func (l *laterSeat) do(ctx context.Context, do func(*seat.Seat) error) error {
	s, err := l.get(ctx)
	if err != nil {
		return err
	}
	return do(s)
}

func (l *laterSeat) Advance(ctx context.Context) (storage.Epoch, error) {
	return on(ctx, l, func(s *seat.Seat) (storage.Epoch, error) { return s.Advance(ctx) })
}

func (l *laterSeat) Raise(ctx context.Context, e storage.Epoch) error {
	return l.do(ctx, func(s *seat.Seat) error { return s.Raise(ctx, e) })
}

func (l *laterSeat) Join(ctx context.Context, who cluster.Identity, catalog uint64) (uint64, error) {
	return on(ctx, l, func(s *seat.Seat) (uint64, error) { return s.Join(ctx, who, catalog) })
}

func (l *laterSeat) Beat(ctx context.Context, join uint64) (cluster.Beat, error) {
	return on(ctx, l, func(s *seat.Seat) (cluster.Beat, error) { return s.Beat(ctx, join) })
}

func (l *laterSeat) Tell(ctx context.Context, join uint64, told cluster.Told) error {
	return l.do(ctx, func(s *seat.Seat) error { return s.Tell(ctx, join, told) })
}

func (l *laterSeat) Least(ctx context.Context) (storage.Epoch, error) {
	return on(ctx, l, func(s *seat.Seat) (storage.Epoch, error) { return s.Least(ctx) })
}

func (l *laterSeat) Rows(ctx context.Context) (e storage.Epoch, rows []cluster.Row, err error) {
	err = l.do(ctx, func(s *seat.Seat) error {
		e, rows, err = s.Rows(ctx)
		return err
	})
	return e, rows, err
}

func (l *laterSeat) Quiet(ctx context.Context) (map[uint64]time.Duration, error) {
	return on(ctx, l, func(s *seat.Seat) (map[uint64]time.Duration, error) { return s.Quiet(ctx) })
}

func (l *laterSeat) Note(ctx context.Context, join uint64, thread uint32) (note uint64, here bool, err error) {
	err = l.do(ctx, func(s *seat.Seat) error {
		note, here, err = s.Note(ctx, join, thread)
		return err
	})
	return note, here, err
}

func (l *laterSeat) Forget(ctx context.Context, notes ...uint64) error {
	return l.do(ctx, func(s *seat.Seat) error { return s.Forget(ctx, notes...) })
}

func (l *laterSeat) Threads(ctx context.Context, join uint64) ([]cluster.Thread, error) {
	return on(ctx, l, func(s *seat.Seat) ([]cluster.Thread, error) { return s.Threads(ctx, join) })
}

func (l *laterSeat) SetFenced(ctx context.Context, join uint64) (bool, error) {
	return on(ctx, l, func(s *seat.Seat) (bool, error) { return s.SetFenced(ctx, join) })
}

func (l *laterSeat) Kill(ctx context.Context, threads ...cluster.Thread) error {
	return l.do(ctx, func(s *seat.Seat) error { return s.Kill(ctx, threads...) })
}

func (l *laterSeat) Running(ctx context.Context, threads ...cluster.Thread) ([]cluster.Thread, error) {
	return on(ctx, l, func(s *seat.Seat) ([]cluster.Thread, error) { return s.Running(ctx, threads...) })
}

func (l *laterSeat) Remove(ctx context.Context, join uint64) error {
	return l.do(ctx, func(s *seat.Seat) error { return s.Remove(ctx, join) })
}
