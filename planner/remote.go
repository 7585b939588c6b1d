package planner

import (
	"bytes"
	"errors"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
)

// Remote are Indexes that are asked over a network: what a statement looks up is one call of ask,
// which fills the answers in, all as of one moment. An error of it stands for each of them. What
// ask is given is its own. They serve one statement, and one goroutine.
//
// The statement is bound as if each lookup found all shards, which says what to ask, and once more
// with the answers. Few leave more to ask: then all is asked anew, with what is added.
func Remote(ask func([]plan.Question) error) plan.Indexes { return &remote{ask: ask} }

type remote struct {
	ask func([]plan.Question) error
	// binding: a statement is bound, so that what it asks is asked at once.
	binding bool
	// noted is what the binding under way has asked, answered what was answered before it.
	noted, answered questions
	// open: some of noted isn't answered. last: no more is asked.
	open, last bool
	// failed is why nothing is answered any more.
	failed error
	// keys counts the full keys of noted that aren't answered.
	keys int
	// single counts lookups of no binding, which are of different moments.
	single uint64
}

// questions are a binding's, each one once.
type questions struct {
	list []plan.Question
	at   map[lookedUp]int
}

// lookedUp is what tells a question from others.
type lookedUp struct {
	index    *catalog.Index
	ranged   bool
	from, to string
	// endless: there is no to.
	endless bool
	limit   int
}

// errMoving: lookups found other shards each time, and so led to others.
var errMoving = errors.New("what it says changes while it is asked")

// atOnce runs do, which evaluates conditions by b, and may be run again.
//
// Invariant: what one run of do is told is of one moment.
func (b *binder) atOnce(do func()) {
	r, ok := b.ix.(*remote)
	if !ok || r.binding { // what another binding takes in is asked with it
		do()
		return
	}
	fresh := *b
	r.binding = true
	defer func() { *r = remote{ask: r.ask, single: r.single} }()
	for n := 0; ; n++ {
		*b = fresh
		r.noted, r.open, r.keys, r.last = questions{}, false, 0, r.failed != nil || n == momentTries
		do()
		if !r.open {
			return
		}
		if r.failed = r.ask(r.noted.list); r.failed != nil {
			r.noted = questions{}
		}
		r.answered = r.noted
	}
}

// guessed is how many full keys were noted that aren't answered.
func (b *binder) guessed() int {
	if r, ok := b.ix.(*remote); ok {
		return r.keys
	}
	return 0
}

// Lookup implements plan.Indexes.
func (r *remote) Lookup(ix *catalog.Index, key []byte, components [][]byte) (catalog.ShardSet, error) {
	q := r.answer(lookedUp{index: ix, from: string(key)}, components)
	return q.Shards, q.Err
}

// Range implements plan.Indexes.
func (r *remote) Range(ix *catalog.Index, from, to []byte, limit int) (set catalog.ShardSet, ok bool, err error) {
	q := r.answer(lookedUp{index: ix, ranged: true, from: string(from), to: string(to), endless: to == nil, limit: limit}, nil)
	return q.Shards, q.Within, q.Err
}

// Removals implements plan.Indexes: what one binding is told is of one moment.
func (r *remote) Removals() uint64 { return r.single }

// answer is the answer to a question, or a guess of all shards where it has none yet.
func (r *remote) answer(l lookedUp, components [][]byte) plan.Question {
	if !r.binding {
		r.single++
		one := []plan.Question{l.question(components)}
		if err := r.ask(one); err != nil {
			one[0].Err = err
		}
		return one[0]
	}
	i, answered := r.answered.at[l]
	switch {
	case answered && r.last:
		return r.answered.list[i]
	case r.failed != nil:
		return plan.Question{Err: r.failed}
	case r.last:
		return plan.Question{Err: errMoving}
	}
	if _, ok := r.noted.at[l]; !ok {
		r.noted.add(l, l.question(components))
	}
	if answered {
		return r.answered.list[i]
	}
	r.open = true
	if !l.ranged {
		r.keys++
	}
	return plan.Question{Shards: l.index.Table.Shards, Within: true}
}

func (q *questions) add(l lookedUp, asked plan.Question) {
	if q.at == nil {
		q.at = map[lookedUp]int{}
	}
	q.at[l] = len(q.list)
	q.list = append(q.list, asked)
}

// question asks in memory of its own.
func (l lookedUp) question(components [][]byte) plan.Question {
	q := plan.Question{Index: l.index}
	if l.ranged {
		q.Ranged, q.From, q.Limit = true, []byte(l.from), l.limit
		if !l.endless {
			q.To = []byte(l.to)
		}
		return q
	}
	q.Key = []byte(l.from)
	for _, c := range components {
		q.Components = append(q.Components, bytes.Clone(c))
	}
	return q
}
