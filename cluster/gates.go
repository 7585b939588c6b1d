package cluster

import (
	"context"
	"sync"
)

// gates is the set of gates that are held.
type gates struct {
	mu   sync.Mutex
	held map[Gate]bool
	// freed is closed when a gate is left.
	freed chan struct{}
	// left is called after a gate was left.
	left func()
}

func (g *gates) start(left func()) {
	g.held, g.freed, g.left = map[Gate]bool{}, make(chan struct{}), left
}

// TryEnter is Gates'.
func (g *gates) TryEnter(want ...Gate) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, w := range want {
		if g.held[w] {
			return false
		}
	}
	for _, w := range want {
		g.held[w] = true
	}
	return true
}

// Leave is Gates'.
func (g *gates) Leave(have ...Gate) {
	g.mu.Lock()
	for _, h := range have {
		delete(g.held, h)
	}
	close(g.freed)
	g.freed = make(chan struct{})
	g.mu.Unlock()
	g.left()
}

// Enter is Gates'.
func (g *gates) Enter(ctx context.Context, want Gate) error {
	for {
		g.mu.Lock()
		freed := g.freed
		free := !g.held[want]
		if free {
			g.held[want] = true
		}
		g.mu.Unlock()
		if free {
			return nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
