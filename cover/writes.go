package cover

import (
	"slices"
	"sync/atomic"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// Writes are those of one statement or transaction through Shunt. They belong to one goroutine, but for End.
type Writes struct {
	a     *Answers
	gates []*gate
	on    catalog.ShardSet
	// open counts who has not ended them, and then the shards whose logs aren't read so far.
	open atomic.Int32
}

// maxGates bounds the gates of a transaction's single keys.
const maxGates = 64

// Write notes, before it is sent, a statement that may change rows of an index's table on shards: those with some keys, or
// any (nil). w are those of its transaction so far, nil for none.
func (a *Answers) Write(w *Writes, ix *catalog.Index, keys [][]byte, shards catalog.ShardSet) *Writes {
	if w == nil {
		w = &Writes{a: a}
		w.open.Store(1)
	}
	w.on = w.on.Union(shards)
	x := a.index(ix)
	if keys == nil || len(keys)+len(w.gates) > maxGates {
		w.add(&x.all)
		return w
	}
	for _, k := range keys {
		w.add(x.key(k))
	}
	return w
}

func (w *Writes) add(g *gate) {
	if !slices.Contains(w.gates, g) {
		g.writes.Add(1)
		w.gates = append(w.gates, g)
	}
}

// Share has the writes end once more: a part of them is in doubt.
func (w *Writes) Share() *Writes {
	if w != nil {
		w.open.Add(1)
	}
	return w
}

// End: they have ended, and with them nothing is left that could change rows.
func (w *Writes) End() {
	if w == nil || w.open.Add(-1) > 0 {
		return
	}
	w.open.Store(int32(w.on.Len()) + 1)
	for id := range w.on.All {
		w.a.shards[id].await(w)
	}
	w.passed()
}

// await has the log be read up to where the writes have ended.
func (s *shard) await(w *Writes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.live { // the shard's gate is shut: what is kept later sees them
		w.passed()
		return
	}
	s.ended = append(s.ended, w)
	s.nudge()
}

func (w *Writes) passed() {
	if w.open.Add(-1) == 0 {
		for _, g := range w.gates {
			g.writes.Add(-1)
		}
	}
}

// Define has nothing be kept or given until done is called, and voids what is: DDL runs.
func (a *Answers) Define() (done func()) {
	if a == nil {
		return func() {}
	}
	a.definitions.change()
	return a.definitions.open
}
