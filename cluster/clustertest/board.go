package clustertest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/shunt-sql/shunt/cluster"
)

// Board is what members share. The zero value has no record, and version 0.
type Board struct {
	Faults

	mu      sync.Mutex
	version uint64
	history string // part of the version's ID
	records map[[2]string]cluster.Record
	turns   map[string]string
	asks    []asked
}

// asked is a question to one member.
type asked struct {
	cluster.Question
	member string
	taken  bool
	answer []byte
}

var _ cluster.Board = (*Board)(nil)

// GoBack has another store answer, of an earlier version, or of another history.
func (b *Board) GoBack(version uint64, history string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.version, b.history = version, history
	maps.DeleteFunc(b.records, func(_ [2]string, r cluster.Record) bool { return r.Version > version })
}

// Version is the number, without a step.
func (b *Board) Version() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.version
}

// String is all of it.
func (b *Board) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out strings.Builder
	fmt.Fprint(&out, b.version)
	for _, r := range b.since(0) {
		fmt.Fprintf(&out, " %s/%s@%d=%s", r.Kind, r.Name, r.Version, r.Body)
	}
	for _, t := range slices.Sorted(maps.Keys(b.turns)) {
		fmt.Fprintf(&out, " %s:%s", t, b.turns[t])
	}
	return out.String()
}

func (b *Board) since(version uint64) []cluster.Record {
	var records []cluster.Record
	for _, r := range b.records {
		if r.Version > version {
			records = append(records, r)
		}
	}
	slices.SortFunc(records, func(a, b cluster.Record) int {
		if a.Version != b.Version {
			return int(a.Version) - int(b.Version)
		}
		return strings.Compare(a.Kind+"/"+a.Name, b.Kind+"/"+b.Name)
	})
	return records
}

// do is one call: fn runs alone, and returns what is told to Saw.
func (b *Board) do(step string, fn func() any) error {
	if err := b.begin(step); err != nil {
		return err
	}
	b.mu.Lock()
	result := fn()
	b.mu.Unlock()
	b.saw(step, result)
	return nil
}

// Read is Records'.
func (b *Board) Read(_ context.Context, since uint64) (at cluster.Version, records []cluster.Record, err error) {
	err = b.do("read", func() any {
		at, records = cluster.Version{Number: b.version, ID: fmt.Sprint(b.version, b.history)}, b.since(since)
		return at.Number
	})
	return at, records, err
}

// News is cluster.Board's. It is no part of what is explored.
func (b *Board) News(_ context.Context, member string) (at cluster.Version, asked bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, q := range b.asks {
		asked = asked || q.member == member && !q.taken
	}
	return cluster.Version{Number: b.version, ID: fmt.Sprint(b.version, b.history)}, asked, nil
}

// Write is Records'.
func (b *Board) Write(_ context.Context, expect uint64, records ...cluster.Record) (version uint64, err error) {
	if err := b.do("write", func() any {
		if expect != 0 && expect != b.version {
			return cluster.ErrStale
		}
		b.version++
		version = b.version
		if b.records == nil {
			b.records = map[[2]string]cluster.Record{}
		}
		for _, r := range records {
			r.Version = version
			b.records[[2]string{r.Kind, r.Name}] = r
		}
		return version
	}); err != nil {
		return 0, err
	}
	if version == 0 {
		return 0, cluster.ErrStale
	}
	return version, nil
}

// TakeTurn is Turns'.
func (b *Board) TakeTurn(_ context.Context, name, holder string) (free bool, err error) {
	err = b.do("take turn", func() any {
		if free = b.turns[name] == ""; free {
			if b.turns == nil {
				b.turns = map[string]string{}
			}
			b.turns[name] = holder
		}
		return free
	})
	return free, err
}

// GiveTurn is Turns'.
func (b *Board) GiveTurn(_ context.Context, name, holder string) error {
	return b.do("give turn", func() any {
		if b.turns[name] == holder {
			delete(b.turns, name)
		}
		return nil
	})
}

// Holder is Turns'.
func (b *Board) Holder(_ context.Context, name string) (holder string, err error) {
	err = b.do("holder", func() any {
		holder = b.turns[name]
		return holder
	})
	return holder, err
}

// Held is Turns'.
func (b *Board) Held(_ context.Context, prefix string) (held map[string]string, err error) {
	err = b.do("held", func() any {
		held = maps.Clone(b.turns)
		maps.DeleteFunc(held, func(name, _ string) bool { return !strings.HasPrefix(name, prefix) })
		return fmt.Sprint(held)
	})
	return held, err
}

// TakeOver is Turns'.
func (b *Board) TakeOver(_ context.Context, name, from, to string) (had bool, err error) {
	err = b.do("take over", func() any {
		if had = from != "" && b.turns[name] == from; had {
			b.turns[name] = to
		}
		return had
	})
	return had, err
}

// Ask is Asks'. Its steps are no part of what is explored.
func (b *Board) Ask(_ context.Context, ask uint64, body []byte, members ...string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range members {
		b.asks = append(b.asks, asked{Question: cluster.Question{Ask: ask, Body: body}, member: m})
	}
	return nil
}

// Answers is Asks'.
func (b *Board) Answers(_ context.Context, ask uint64) (map[string][]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	answers := map[string][]byte{}
	for _, q := range b.asks {
		if q.Ask == ask && q.answer != nil {
			answers[q.member] = q.answer
		}
	}
	return answers, nil
}

// Withdraw is Asks'.
func (b *Board) Withdraw(_ context.Context, ask uint64) (untouched int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asks = slices.DeleteFunc(b.asks, func(q asked) bool {
		if q.Ask == ask && !q.taken {
			untouched++
		}
		return q.Ask == ask
	})
	return untouched, nil
}

// TakeUp is Asks'.
func (b *Board) TakeUp(_ context.Context, member string) (taken []cluster.Question, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, q := range b.asks {
		if q.member == member && !q.taken {
			b.asks[i].taken = true
			taken = append(taken, q.Question)
		}
	}
	return taken, nil
}

// Answer is Asks'.
func (b *Board) Answer(_ context.Context, ask uint64, member string, answer []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, q := range b.asks {
		if q.Ask == ask && q.member == member {
			b.asks[i].answer = answer
		}
	}
	return nil
}
