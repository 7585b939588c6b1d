package follow

import (
	"context"
	"sync"
	"time"
)

// Turns do something for all that wait for it at the same time at once.
//
// Rule never join what has begun: what is visible to who waits may not have been when the turn began.
type Turns struct {
	// Time bounds a turn, for which those that came since wait; required.
	Time time.Duration
	// Gather is for how long at most a turn waits for as many to join as the last one had, and no longer than that one took;
	// 0: it doesn't. Of eight that come again and again the first one would have a turn for itself each time, and the others the
	// next one.
	Gather time.Duration

	mu      sync.Mutex
	running bool
	waiting *turn
	last    int           // how many had the last turn
	took    time.Duration // run's
}

type turn struct {
	n          int // those that wait for it
	full, done chan struct{}
	err        error
}

// Next returns when a turn has ended that has begun since, or with ctx.
func (t *Turns) Next(ctx context.Context, do func(context.Context) error) error {
	return t.Join(do)(ctx)
}

// Join has the next turn taken, and returns what waits for its end, or for ctx's.
func (t *Turns) Join(do func(context.Context) error) (ended func(context.Context) error) {
	t.mu.Lock()
	if t.waiting == nil {
		t.waiting = &turn{full: make(chan struct{}), done: make(chan struct{})}
	}
	mine := t.waiting
	if mine.n++; mine.n == t.last {
		close(mine.full)
	}
	if !t.running {
		t.running = true
		go t.run(do)
	}
	t.mu.Unlock()
	return func(ctx context.Context) error {
		select {
		case <-mine.done:
			return mine.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// run takes turns while somebody waits.
func (t *Turns) run(do func(context.Context) error) {
	for {
		t.mu.Lock()
		now, few := t.waiting, t.Gather > 0 && t.waiting != nil && t.waiting.n < t.last
		t.mu.Unlock()
		if few {
			select {
			case <-now.full:
			case <-time.After(min(t.Gather, t.took)):
			}
		}
		t.mu.Lock()
		now = t.waiting // nobody takes it but run
		t.waiting, t.running = nil, now != nil
		if now != nil {
			t.last = now.n
		}
		t.mu.Unlock()
		if now == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), t.Time)
		began := time.Now()
		now.err = do(ctx)
		t.took = time.Since(began)
		cancel()
		close(now.done)
	}
}
