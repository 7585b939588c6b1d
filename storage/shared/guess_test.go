package shared

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// guessing is a Store whose homes answer at once.
func guessing(t *testing.T) (*Store, *modelHomes) {
	m := &modelHomes{asked: make(chan asking), homes: map[string]*modelHome{"a": {keys: map[string]bool{"x": true}}, "b": {keys: map[string]bool{}}}}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for a := range m.asked {
			m.answer(a)
		}
	}()
	t.Cleanup(func() {
		close(m.asked)
		<-served
	})
	return m.store(), m
}

// TestGuess: what was answered is guessed, and holds while the homes name no other shard and nothing was removed.
func TestGuess(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Store, *modelHomes)
		// guessed: there is a guess; holds: it is right.
		guessed, holds bool
	}{
		"nothing changes":         {func(*Store, *modelHomes) {}, true, true},
		"a shard goes":            {func(_ *Store, m *modelHomes) { delete(m.homes["a"].keys, "x") }, true, true},
		"a shard comes":           {func(_ *Store, m *modelHomes) { m.homes["b"].keys["y"] = true }, true, false},
		"something is removed":    {func(_ *Store, m *modelHomes) { m.homes["b"].removals++ }, true, false},
		"a home doesn't answer":   {func(_ *Store, m *modelHomes) { m.out = "b" }, true, false},
		"a home is taken for out": {func(s *Store, _ *modelHomes) { s.place("b").out.Store(errNotThere) }, false, false},
		"the index is gone":       {func(s *Store, _ *modelHomes) { s.state.Store(&state{}) }, false, false},
	} {
		s, m := guessing(t)
		if s.Guess(eitherKey()) != nil {
			t.Errorf("%s: guessed without an answer", name)
		}
		if err := s.Ask(t.Context(), eitherKey()); err != nil {
			t.Fatal(err)
		}
		c.change(s, m)
		q := eitherKey()
		holds := s.Guess(q)
		if (holds != nil) != c.guessed {
			t.Errorf("%s: guessed %t", name, holds != nil)
		}
		if holds == nil {
			continue
		}
		if q[0].Found.Shards != catalog.Only(1) || !q[0].Within || !q[1].Found.Shards.Empty() || !q[1].Within {
			t.Errorf("%s: guessed %+v", name, q)
		}
		if got := holds(t.Context()); got != c.holds {
			t.Errorf("%s: holds %t", name, got)
		}
	}
}

// TestGuessSince: a guess is void where something was removed since it was made, though another read has heard
// of that meanwhile.
func TestGuessSince(t *testing.T) {
	t.Parallel()
	s, m := guessing(t)
	if err := s.Ask(t.Context(), eitherKey()); err != nil {
		t.Fatal(err)
	}
	holds := s.Guess(eitherKey())
	m.homes["a"].removals++
	if err := s.Ask(t.Context(), eitherKey()); err != nil {
		t.Fatal(err)
	}
	if holds(t.Context()) {
		t.Error("it holds")
	}
}

// TestGuessDoubted: behind a wrong guess an index isn't guessed for a while, so that most reads aren't sent in vain
// where most guesses are wrong.
func TestGuessDoubted(t *testing.T) {
	t.Parallel()
	s, m := guessing(t)
	const reads = 1000
	wrong := 0
	for range reads {
		m.homes["b"].removals++
		q := eitherKey()
		if holds := s.Guess(q); holds == nil {
			if err := s.Ask(t.Context(), q); err != nil {
				t.Fatal(err)
			}
		} else if !holds(t.Context()) {
			wrong++
		}
	}
	if wrong == 0 || wrong > reads/guessDoubts {
		t.Errorf("%d of %d reads were sent in vain", wrong, reads)
	}
}

// TestGuessesBounded: however much is asked, a bounded part of it is remembered: the last, and no long keys.
func TestGuessesBounded(t *testing.T) {
	t.Parallel()
	var g guesses
	of := func(i int) *storage.Question {
		return &storage.Question{Index: 1, Key: binary.BigEndian.AppendUint32(nil, uint32(i)), Within: true, Found: storage.Found{Shards: catalog.Only(3)}}
	}
	const asked = 5 * guessBound
	for i := range asked {
		g.learn(of(i))
		g.fill(of(0))
	}
	if n := len(g.latest) + len(g.before); n > 2*guessBound {
		t.Errorf("%d are kept", n)
	}
	for _, i := range []int{0, asked - 1} {
		if q := of(i); !g.fill(q) || q.Found.Shards != catalog.Only(3) {
			t.Errorf("%d is forgotten", i)
		}
	}
	long := &storage.Question{Index: 1, Key: make([]byte, guessBytes+1)}
	if g.learn(long); g.fill(long) {
		t.Error("a long key is kept")
	}
	ranged := storage.Question{Index: 1, Ranged: true, From: []byte("a"), Limit: 10}
	g.learn(&ranged)
	for _, other := range []storage.Question{
		{Index: 2, Ranged: true, From: []byte("a"), Limit: 10},
		{Index: 1, Ranged: true, From: []byte("a"), To: []byte{}, Limit: 10},
		{Index: 1, Ranged: true, From: []byte("a"), Limit: 11},
		{Index: 1, Key: []byte("a")},
	} {
		if g.fill(&other) {
			t.Errorf("%+v gets the answer of another question", other)
		}
	}
}

// runGuess runs one schedule: choices say whether the home that is asked next answers, or the writer goes on. It
// reports whether a read was missed that was sent elsewhere on the guess that no shard has the row.
func runGuess(careless bool, choices []int) (widths []int, missed bool) {
	m := &modelHomes{asked: make(chan asking), homes: map[string]*modelHome{"a": {keys: map[string]bool{}}, "b": {keys: map[string]bool{"y": true}}}}
	s := m.store()
	s.careless = careless
	for id := range catalog.IndexID(2) {
		s.heard.set(id, removed{1, 1, 0})
	}
	for _, q := range eitherKey() {
		q.Within = true
		s.guesses.learn(&q)
	}
	writer := []func(){
		func() { m.homes["a"].keys["x"] = true },
		func() { delete(m.homes["b"].keys, "y"); m.homes["b"].removals++ },
		func() { m.homes["b"].keys["y"] = true },
		func() { delete(m.homes["a"].keys, "x"); m.homes["a"].removals++ },
	}
	step := func(actors int) (chosen int) {
		if len(writer) > 0 {
			actors++
		}
		if len(widths) < len(choices) {
			chosen = choices[len(widths)]
		}
		widths = append(widths, actors)
		return chosen
	}
	holds := s.Guess(eitherKey())
	for step(1) == 1 {
		writer[0]()
		writer = writer[1:]
	}
	held := make(chan bool, 1)
	go func() { held <- holds(context.Background()) }()
	waiting := []asking{<-m.asked, <-m.asked}
	if waiting[0].name > waiting[1].name {
		waiting[0], waiting[1] = waiting[1], waiting[0]
	}
	for len(waiting) > 0 {
		next := step(len(waiting))
		if next == len(waiting) {
			writer[0]()
			writer = writer[1:]
			continue
		}
		m.answer(waiting[next])
		waiting = append(waiting[:next], waiting[next+1:]...)
	}
	return widths, <-held // the shard has the row at all times
}

// TestGuessSeveralHomes: a guess that is confirmed by several homes is so as of one moment.
func TestGuessSeveralHomes(t *testing.T) {
	t.Parallel()
	for _, careless := range []bool{false, true} {
		miss, n := exploreSchedules(func(choices []int) ([]int, bool) { return runGuess(careless, choices) })
		t.Logf("careless %t: %d schedules", careless, n)
		if (miss != nil) != careless {
			t.Errorf("careless %t: the row is missed by %v", careless, miss)
		}
	}
}
