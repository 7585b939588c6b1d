package insights

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cespare/xxhash/v2"
)

const (
	// bytesOfShape is what a shape may take on average: 10,000 take 32 MiB, with what the allocator
	// rounds up.
	bytesOfShape = (29 << 20) / 10_000
	// ownBytes is what a shape takes at least: itself, its places in the map and the ring, and an alias.
	ownBytes = 720
	// maxAliases bounds those of a shape.
	maxAliases = 32
	// candidates are the shapes of which the least used one gives way.
	candidates = 16
	// halfLife is after how many shapes that gave way, for each that there is room for, calls count half.
	halfLife = 8
)

// Statistics are the figures of all shapes.
type Statistics struct {
	limit int
	// aliases are shapes by the hash of what a session has read.
	aliases []atomic.Pointer[alias]
	bytes   atomic.Int64

	mu     sync.Mutex // held to change what shapes there are
	byText map[name]*Shape
	ring   []*Shape // all of them, in no order; hand is where the search for the least used goes on
	hand   int
	// evicted counts the shapes that gave way.
	evicted uint64

	// others are those that gave way, together.
	others Shape
}

type name struct{ schema, text string }

type alias struct {
	hash  uint64
	shape *Shape
}

// New returns Statistics of up to limit shapes. nil Statistics count nothing.
func New(limit int) *Statistics {
	if limit <= 0 {
		return nil
	}
	s := &Statistics{limit: limit, aliases: make([]atomic.Pointer[alias], 1<<bits.Len(uint(2*limit))), byText: map[name]*Shape{}}
	s.bytes.Store(s.own())
	return s
}

// own are the bytes that it takes without a shape.
func (s *Statistics) own() int64 { return int64(len(s.aliases)) * int64(unsafe.Sizeof(alias{})+8) }

// Find is the shape that was named with this hash, or nil. It may be gone.
func (s *Statistics) Find(hash uint64) *Shape {
	at := hash & uint64(len(s.aliases)-1)
	for _, i := range [2]uint64{at, at ^ 1} {
		if a := s.aliases[i].Load(); a != nil && a.hash == hash {
			return a.shape
		}
	}
	return nil
}

// Name is the shape of a digest in a schema, which Find is to find by hash; 0: it isn't.
func (s *Statistics) Name(hash uint64, schema, text string) *Shape {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := name{schema, text}
	x := s.byText[n]
	if x == nil {
		x = &Shape{name: n, aged: s.evicted}
		for len(s.ring) >= s.limit || len(s.ring) > 0 && s.full() {
			s.evictLocked()
		}
		s.byText[n] = x
		s.ring = append(s.ring, x)
		s.bytes.Add(x.size())
	}
	if hash != 0 {
		s.aliasLocked(hash, x)
	}
	return x
}

// aliasLocked takes the place of what is there under another hash: that is named anew. A shape has
// its oldest one no more where it has many: as lists of many lengths are.
func (s *Statistics) aliasLocked(hash uint64, x *Shape) {
	at := hash & uint64(len(s.aliases)-1)
	if a := s.aliases[at].Load(); a != nil && a.hash != hash {
		at ^= 1
	}
	if s.aliases[at].Swap(&alias{hash, x}); len(x.aliases) == maxAliases {
		s.unaliasLocked(x, x.aliases[:1])
		x.aliases = x.aliases[:copy(x.aliases, x.aliases[1:])]
	}
	x.aliases = append(x.aliases, uint32(at))
}

// unaliasLocked drops what a shape has of some places: else it would stay in memory.
func (s *Statistics) unaliasLocked(x *Shape, places []uint32) {
	for _, at := range places {
		if a := s.aliases[at].Load(); a != nil && a.shape == x {
			s.aliases[at].Store(nil)
		}
	}
}

// full reports that shapes take more than they may.
func (s *Statistics) full() bool { return s.bytes.Load() > int64(s.limit)*bytesOfShape }

// evictLocked adds one that was used least lately to the others.
func (s *Statistics) evictLocked() {
	s.evicted++
	least, leastUse := -1, uint64(0)
	for range min(candidates, len(s.ring)) {
		s.hand = (s.hand + 1) % len(s.ring)
		if use := s.ring[s.hand].lately(s.evicted, uint64(s.limit*halfLife)); least < 0 || use < leastUse {
			least, leastUse = s.hand, use
		}
	}
	x := s.ring[least]
	last := len(s.ring) - 1
	s.ring[least], s.ring[last] = s.ring[last], nil
	s.ring = s.ring[:last]
	delete(s.byText, x.name)
	s.unaliasLocked(x, x.aliases)
	x.mu.Lock()
	defer x.mu.Unlock()
	s.bytes.Add(-x.size())
	s.others.mu.Lock()
	s.others.add(&x.figures)
	s.others.mu.Unlock()
	x.gone, x.figures = true, figures{} // a session may keep it
}

// Longest reports that an execution that took so long is the shape's longest: its Sample is to be kept.
func (x *Shape) Longest(took time.Duration) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return took > x.longest
}

// Observe counts an execution of a shape. It returns the shape that it counts for, which is another
// one where that was gone.
func (s *Statistics) Observe(x *Shape, e *Execution) *Shape {
	fits, grown := x.observe(e)
	for try := 0; !fits; try++ {
		if x = s.Name(0, x.name.schema, x.name.text); try == 3 {
			x = &s.others // it comes and goes
		}
		fits, grown = x.observe(e)
	}
	if grown > 0 {
		s.bytes.Add(int64(grown))
		if s.full() {
			s.shrink()
		}
	}
	return x
}

func (s *Statistics) shrink() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.ring) > 1 && s.full() {
		s.evictLocked()
	}
}

// Flush forgets all.
func (s *Statistics) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.ring {
		x.mu.Lock()
		x.gone, x.figures = true, figures{}
		x.mu.Unlock()
	}
	clear(s.byText)
	s.ring, s.hand = nil, 0
	s.bytes.Store(s.own())
	s.others.mu.Lock()
	s.others.figures = figures{}
	s.others.mu.Unlock()
	for i := range s.aliases {
		s.aliases[i].Store(nil)
	}
}

// Rows are the figures of all shapes, in no order, and last those of the others together, if there
// are any, without a digest.
func (s *Statistics) Rows() []Row { return s.rows(true) }

// Counts are Rows without percentiles, which take most of the time.
func (s *Statistics) Counts() []Row { return s.rows(false) }

func (s *Statistics) rows(percentiles bool) []Row {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	rows := make([]Row, 0, len(s.ring)+1)
	for _, x := range s.ring {
		if r := x.row(percentiles); r.Calls > 0 {
			rows = append(rows, r)
		}
	}
	if r := s.others.row(percentiles); r.Calls > 0 {
		r.ID = 0
		rows = append(rows, r)
	}
	return rows
}

// Shape is a statement without its literals.
type Shape struct {
	name name
	// aliases are the places that it was put at; the Statistics'.
	aliases []uint32
	mu      sync.Mutex
	// gone: it is no longer one of the Statistics'.
	gone bool
	figures
	// used are the calls that count as lately no more, as of when so many shapes had given way.
	used, aged uint64
}

// ID is a number that is always the same for a digest in a schema.
func ID(schema, text string) uint64 { return xxhash.Sum64String(schema)*31 + xxhash.Sum64String(text) }

// lately is how often it was used. Counted half is what was when it was asked halfLife ago.
func (x *Shape) lately(now, halfLife uint64) uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	if now-x.aged >= halfLife {
		x.used += (x.calls - x.used + 1) / 2
		x.aged = now
	}
	return x.calls - x.used
}

// size is the bytes that it takes. REQUIRES: nobody changes it.
func (x *Shape) size() int64 {
	return int64(ownBytes + len(x.name.schema) + len(x.name.text) + x.grown())
}

// observe counts an execution; fits is false where the shape is gone. grown are the bytes that it
// takes for it.
func (x *Shape) observe(e *Execution) (fits bool, grown int) {
	x.mu.Lock()
	if x.gone {
		x.mu.Unlock()
		return false, 0
	}
	grown = x.figures.observe(e)
	x.mu.Unlock()
	return true, grown
}

func (x *Shape) row(percentiles bool) Row {
	x.mu.Lock()
	defer x.mu.Unlock()
	r := x.figures.row()
	if percentiles {
		r.Whole.percentiles(&x.whole)
		r.Part.percentiles(&x.part)
	}
	r.ID, r.Schema, r.Text = ID(x.name.schema, x.name.text), x.name.schema, x.name.text
	return r
}

// Execution is what a statement has cost. One is used for all of a session's.
type Execution struct {
	// Ended is when the answer's end was written, Took the time until then since the statement came.
	Ended time.Time
	Took  time.Duration
	// Code is that of the error that it ended with, 0 for none.
	Code uint16
	// Rows were sent to the client, Affected were changed.
	Rows, Affected int64
	// Plan and Access are those of EXPLAIN ROUTE.
	Plan, Access string
	// Parts are those of the shards.
	Parts []Part
	// Copied are the rows that a gather has copied.
	Copied int64
	// Waits are connections that were waited for, Waited for how long.
	Waits  int
	Waited time.Duration
	// Vain are shards that a virtual index has named and that had no row.
	Vain int
	// Sample is its text with its values, which is kept of the longest one; "": there is none.
	Sample string
}

// Part is a shard's.
type Part struct {
	Shard int
	// Thread is the shard's number of the connection.
	Thread uint32
	// Took is the time from when it was sent until its answer was read. Began is when it was sent, on a
	// clock of the caller's.
	Took, Began time.Duration
}

// Clear makes room for the next statement.
func (e *Execution) Clear() { // field by field: as a whole it would cost several times as much
	e.Code, e.Rows, e.Affected, e.Copied = 0, 0, 0, 0
	e.Waits, e.Waited, e.Vain = 0, 0, 0
	e.Plan, e.Access, e.Sample, e.Parts = "", "", "", e.Parts[:0]
}
