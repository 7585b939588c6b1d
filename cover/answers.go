package cover

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// Answers are those that are kept.
type Answers struct {
	parts [parts]part
	// definitions is shut while DDL runs.
	definitions gate
	shards      [catalog.MaxShards]shard
	// Reads count those that asked, by what came of it.
	Reads [outcomes]atomic.Uint64

	mu      sync.RWMutex
	indexes map[catalog.IndexID]*index
}

// parts are what answers are divided among, so that sessions don't wait for each other.
const parts = 16

// New keeps answers of at most max bytes.
func New(max int64) *Answers {
	a := &Answers{indexes: map[catalog.IndexID]*index{}}
	for i := range a.parts {
		a.parts[i].max, a.parts[i].of = max/parts, map[string]*answer{}
	}
	for i := range a.shards {
		a.shards[i].begin()
	}
	return a
}

// Outcome is what came of a read.
type Outcome int

const (
	Answered Outcome = iota
	Absent           // none was kept
	Changed          // what it is of has changed since
	Written          // a write is under way, or hasn't come by the logs yet
	outcomes
)

// String is as metrics have it.
func (o Outcome) String() string {
	return [...]string{"answered", "absent", "changed", "written"}[o]
}

// Outcomes are all.
func Outcomes() []Outcome { return []Outcome{Answered, Absent, Changed, Written} }

// Bytes is how much memory is used, and Len how many answers are kept.
func (a *Answers) Bytes() (n int64) {
	for i := range a.parts {
		p := &a.parts[i]
		p.mu.Lock()
		n += p.bytes
		p.mu.Unlock()
	}
	return n
}

// Len is how many answers are kept.
func (a *Answers) Len() (n int) {
	for i := range a.parts {
		p := &a.parts[i]
		p.mu.Lock()
		n += len(p.of)
		p.mu.Unlock()
	}
	return n
}

// answer is one. All but its place in the list never changes.
type answer struct {
	key          string
	value        any
	size         int64
	gates        []passed
	newer, older *answer
}

// current says whether the answer has all that was acknowledged before; fast: all that has come by the logs.
//
// Rule writes first: counter-example: the states are as they were; a write's change comes, and its waiting ends; there
// are no writes now.
func (x *answer) current(fast bool) Outcome {
	if !fast {
		for _, g := range x.gates {
			if g.writes.Load() != 0 {
				return Written
			}
		}
	}
	for _, g := range x.gates {
		if g.state.Load() != g.was {
			return Changed
		}
	}
	return Answered
}

// part has some of the answers.
type part struct {
	mu             sync.Mutex
	of             map[string]*answer
	newest, oldest *answer // by use
	bytes, max     int64
}

func (a *Answers) part(key []byte) *part { return &a.parts[maphash.Bytes(seed, key)%parts] }

// Get is the answer that is kept for a key, which has all that it depends on but rows. It isn't given unless it is
// current.
func (a *Answers) Get(key []byte, fast bool) (value any, of Outcome) {
	p := a.part(key)
	p.mu.Lock()
	x := p.of[string(key)]
	of = Absent
	if x != nil {
		switch of = x.current(fast); of {
		case Answered:
			p.unlink(x)
			p.link(x)
			value = x.value
		case Changed:
			p.drop(x)
		default:
		}
	}
	p.mu.Unlock()
	a.Reads[of].Add(1)
	return value, of
}

func (p *part) link(x *answer) {
	x.older, x.newer = p.newest, nil
	if p.newest != nil {
		p.newest.newer = x
	} else {
		p.oldest = x
	}
	p.newest = x
}

func (p *part) unlink(x *answer) {
	if x.newer != nil {
		x.newer.older = x.older
	} else {
		p.newest = x.older
	}
	if x.older != nil {
		x.older.newer = x.newer
	} else {
		p.oldest = x.newer
	}
}

func (p *part) drop(x *answer) {
	p.unlink(x)
	delete(p.of, x.key)
	p.bytes -= x.size
}

// Fill is a read whose answer may be kept.
type Fill struct {
	a     *Answers
	table []*catalog.Index
	// moved is the index's count of when the read began, by place in table.
	moved []uint64
	gates []passed
}

// Begin is called before indexes are asked and the read is sent; nil: its answer can't be kept. indexes are the covering
// ones of a table, of which one is to be named by On.
func (a *Answers) Begin(indexes []*catalog.Index) *Fill {
	f := &Fill{a: a, table: indexes}
	if !f.take(&a.definitions) {
		return nil
	}
	for id := range indexes[0].Table.Shards.All {
		if !f.take(&a.shards[id].gate) {
			return nil
		}
	}
	for _, ix := range indexes {
		f.moved = append(f.moved, a.index(ix).moved.Load())
	}
	return f
}

func (f *Fill) take(g *gate) bool {
	was, ok := g.taken()
	f.gates = append(f.gates, passed{g, was})
	return ok && g.writes.Load() == 0
}

// On says, before the read is sent, by which keys of which index it is; false: its answer can't be kept.
//
// Rule as it was asked: no gate of the index has changed since Begin, nor was one opened. Counter-examples: the index is
// asked, and knows nothing on s1; a row comes there, and its change is passed; the key's state is taken now, and s1 isn't
// read. Or its change came before Begin, and the entry after the index was asked; then the gate is opened.
func (f *Fill) On(ix *catalog.Index, keys [][]byte) bool {
	x := f.a.index(ix)
	if !f.take(&x.all) {
		return false
	}
	for _, k := range keys {
		if !f.take(x.key(k)) {
			return false
		}
	}
	for i, of := range f.table {
		if of == ix {
			return x.moved.Load() == f.moved[i]
		}
	}
	return false
}

// Keep keeps the answer. size is the value's, in bytes.
func (f *Fill) Keep(key []byte, value any, size int) {
	x := &answer{value: value, gates: f.gates, size: int64(size+len(key)+len(f.gates)*16) + answerSize}
	p := f.a.part(key)
	if x.size > p.max/8 || x.current(true) != Answered {
		return
	}
	x.key = string(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	if was := p.of[x.key]; was != nil {
		p.drop(was)
	}
	p.of[x.key] = x
	p.link(x)
	for p.bytes += x.size; p.bytes > p.max; {
		p.drop(p.oldest)
	}
}

// answerSize is about what an answer takes beside its bytes.
const answerSize = 250

// index has the gates of an index. Those of a new one are shut until what its logs had before is visible: changes
// have passed that nobody has noted.
func (a *Answers) index(ix *catalog.Index) *index {
	a.mu.RLock()
	x := a.indexes[ix.ID]
	a.mu.RUnlock()
	if x != nil {
		return x
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if x = a.indexes[ix.ID]; x == nil {
		x = &index{}
		for id := range ix.Table.Shards.All {
			x.all.change()
			a.shards[id].openShown(x)
		}
		a.indexes[ix.ID] = x
	}
	return x
}
