package indexer

import (
	"context"
	"sync"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// gate is something that one job at a time may hold.
type gate struct {
	schema, table string
	shard         catalog.ShardID
}

// scanGate admits one scan to a shard.
func scanGate(id catalog.ShardID) gate { return gate{shard: id} }

// retireGate admits one maintain or verify to (table, shard): a scan relies on
// the entries that it finds, so nothing may remove them beside it.
func retireGate(schema, table string, id catalog.ShardID) gate { return gate{schema, table, id} }

// gates is the set of gates that are held.
type gates struct {
	mu   sync.Mutex
	held map[gate]bool
	// freed is closed when a gate is left.
	freed chan struct{}
	// left is called after a gate was left.
	left func()
}

// try holds all of the gates, or none if one of them is held.
func (g *gates) try(want ...gate) bool {
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

func (g *gates) leave(have ...gate) {
	g.mu.Lock()
	for _, h := range have {
		delete(g.held, h)
	}
	close(g.freed)
	g.freed = make(chan struct{})
	g.mu.Unlock()
	g.left()
}

// enter waits until it holds the gate.
func (g *gates) enter(ctx context.Context, want gate) error {
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
