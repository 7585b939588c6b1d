package cover

import (
	"hash/maphash"
	"sync/atomic"
)

// gate is what answers depend on.
type gate struct {
	// state counts the changes, above the number of those for which the gate is shut.
	state atomic.Uint64
	// writes are those through Shunt that may change what is behind it, and have not ended, or not come by the log.
	writes atomic.Int64
}

const oneChange = 1 << 16 // of a state; there are fewer for which it is shut

// change counts one, and shuts the gate until open.
func (g *gate) change() { g.state.Add(oneChange + 1) }

// open undoes that the gate was shut, once.
func (g *gate) open() { g.state.Add(^uint64(0)) }

// taken is the state by which an answer may be kept; ok is false where none may.
func (g *gate) taken() (state uint64, ok bool) {
	state = g.state.Load()
	return state, state%oneChange == 0
}

// passed is a gate and its state.
type passed struct {
	*gate
	was uint64
}

// keyGates bounds the memory of an index's gates: keys share them.
const keyGates = 1024

// index has the gates of a covering index.
type index struct {
	// moved counts how often a gate was changed, or opened, before each: see Fill.On.
	moved atomic.Uint64
	all   gate
	keys  [keyGates]gate
}

var seed = maphash.MakeSeed()

func (x *index) key(key []byte) *gate { return &x.keys[maphash.Bytes(seed, key)%keyGates] }

// change changes one of the index's gates.
func (x *index) change(g *gate) {
	x.moved.Add(1)
	g.change()
}

// open opens one of them, which was shut by change.
func (x *index) open(g *gate) {
	x.moved.Add(1)
	g.open()
}
