package storage

import (
	"math"
	"sync"
	"sync/atomic"
)

// gate counts the calls inside the store, so that Close can refuse new ones
// and wait for the others. Unlike an RWMutex it may be entered again by a
// callback of a call that is inside.
type gate struct {
	// state counts the calls inside; negative once closed.
	state   atomic.Int64
	drained chan struct{}
	once    sync.Once
}

const gateClosed = math.MinInt64

func (g *gate) enter() bool {
	if g.state.Add(1) > 0 {
		return true
	}
	g.leave()
	return false
}

func (g *gate) leave() {
	if g.state.Add(-1) == gateClosed {
		g.once.Do(func() { close(g.drained) })
	}
}

// shut refuses new calls. It returns false if that was done before.
func (g *gate) shut() bool {
	for {
		old := g.state.Load()
		if old < 0 {
			return false
		}
		if g.state.CompareAndSwap(old, old+gateClosed) {
			if old == 0 {
				g.once.Do(func() { close(g.drained) })
			}
			return true
		}
	}
}

// wait waits for the calls inside a gate that is shut.
func (g *gate) wait() { <-g.drained }
