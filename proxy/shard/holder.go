package shard

import (
	"math"
	"slices"
	"sync/atomic"
	"time"
)

const (
	// shareOfFree: a holder may have as many times what is left for others.
	shareOfFree = 4
	// shareAtLeast are a holder's in any case: some statements need two at a time.
	shareAtLeast = 2
	// toldEach: how often a log tells of the same holder's waiting.
	toldEach = time.Minute
)

// Holder is who has connections of pools, a user: how many he has of each pool is
// bounded. Nil is Shunt itself, without a bound.
type Holder struct {
	Name string
	// id is the place of his tallies.
	id int
	// most connections of each pool; 0: his share.
	most atomic.Int64
}

// holders counts all that were ever made. There are as many as users.
var holders atomic.Int64

// NewHolder returns one with a share.
func NewHolder(name string) *Holder { return &Holder{Name: name, id: int(holders.Add(1))} }

// Bound sets how many connections of each pool he may have; 0: his share of it.
func (h *Holder) Bound(most int) { h.most.Store(int64(most)) }

// Unbound lets him have all.
func (h *Holder) Unbound() { h.most.Store(math.MaxInt64) }

// shares are what holders have of something, and who waits for some of it. They are
// locked by whose they are.
type shares struct {
	// tallies are the holders', by their ids, Shunt's own first; hungry are those with
	// waiters.
	tallies []tally
	hungry  []*Holder
	// used is what all hold together.
	used int
}

// tally is what a holder has.
type tally struct {
	holder *Holder
	held   int
	// waiting are his, the first come first.
	waiting []*waiter
	// refused are those of them who have waited in vain, told is when the log was.
	refused int
	told    time.Time
}

// waiter waits for a connection of its kind, or for a place to dial one.
type waiter struct {
	holder    *Holder
	foundRows bool
	state     string
	// ready gets one value.
	ready chan grant
}

// of is a holder's tally. It is good until the next one's first.
func (s *shares) of(h *Holder) *tally {
	id := 0
	if h != nil {
		id = h.id
	}
	if id >= len(s.tallies) {
		s.tallies = append(s.tallies, make([]tally, id+1-len(s.tallies))...)
	}
	t := &s.tallies[id]
	t.holder = h
	return t
}

// unbound: he may have all.
func (t *tally) unbound() bool { return t.holder == nil || t.holder.most.Load() == math.MaxInt64 }

func (s *shares) take(t *tally) {
	t.held++
	s.used++
}

func (s *shares) giveBack(h *Holder) {
	s.of(h).held--
	s.used--
}

// mayShare reports whether a holder may have one more of what there are max of.
//
// Rule dynamic threshold (Choudhury and Hahne, 1998): a holder's bound is a multiple of
// what is free. One alone gets four fifths, two get four ninths each, so something is
// always left for who comes next, and it isn't set aside for those who don't.
// Counter-example: 120 statements of one user that sleep for minutes on a pool of 100
// connections. A queue that is fair among those who wait helps nobody: no connection
// comes back.
func (s *shares) mayShare(t *tally, most int) bool {
	return t.held < shareAtLeast || t.held < shareOfFree*(most-s.used-1)
}

func (s *shares) enqueue(t *tally, w *waiter) {
	if len(t.waiting) == 0 {
		s.hungry = append(s.hungry, w.holder)
	}
	t.waiting = append(t.waiting, w)
}

// dequeue takes a waiter out; false: he isn't there any more.
func (s *shares) dequeue(w *waiter) bool {
	t := s.of(w.holder)
	i := slices.Index(t.waiting, w)
	if i < 0 {
		return false
	}
	t.waiting = slices.Delete(t.waiting, i, i+1)
	if len(t.waiting) == 0 {
		i = slices.Index(s.hungry, w.holder)
		s.hungry = slices.Delete(s.hungry, i, i+1)
	}
	return true
}

// next is who is to be served next, nil for nobody: of those who may have more, the
// first of who has the least.
func (s *shares) next(may func(*tally) bool) *waiter {
	var least *tally
	for _, h := range s.hungry {
		if t := s.of(h); may(t) && (least == nil || t.held < least.held) {
			least = t
		}
	}
	if least == nil {
		return nil
	}
	return least.waiting[0]
}

// tells reports whether the log is to be told of the holder's waiting.
func (t *tally) tells(now time.Time) bool {
	if now.Sub(t.told) < toldEach {
		return false
	}
	t.told = now
	return true
}

// Held is what a holder has of a pool. Refused: how often he got a ShareError.
type Held struct {
	Name                    string
	InUse, Waiting, Refused int
}

func (s *shares) all() (out []Held) {
	for _, t := range s.tallies {
		if t.holder != nil {
			out = append(out, Held{t.holder.Name, t.held, len(t.waiting), t.refused})
		}
	}
	return out
}
