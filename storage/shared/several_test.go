package shared

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
	"github.com/shunt-sql/shunt/storage/home"
)

// modelHome has one index, of one shard.
type modelHome struct {
	keys     map[string]bool
	removals uint64
}

// modelHomes are two homes, asked by one Store, and a row that changes beside it.
type modelHomes struct {
	homes map[string]*modelHome
	// asked are the lookups that wait.
	asked chan asking
	out   string
}

type asking struct {
	name      string
	questions []home.Question
	answer    chan []home.Found
}

func (m *modelHomes) answer(a asking) {
	h := m.homes[a.name]
	found := make([]home.Found, len(a.questions))
	for i, q := range a.questions {
		found[i] = home.Found{OK: true, Generation: 1, Life: 1, Removals: h.removals}
		if h.keys[string(q.Key)] || q.Range && len(h.keys) > 0 {
			found[i].Shards = catalog.Only(1)
		}
	}
	a.answer <- found
}

var errNotThere = &OutError{Home: "b", Cause: context.DeadlineExceeded}

func (m *modelHomes) store() *Store {
	s := &Store{timeout: time.Minute, called: func(string, string, time.Duration, error) {}, log: slog.New(slog.DiscardHandler)}
	s.places.Store(&[]*place{newPlace(Server{Name: "a"}), newPlace(Server{Name: "b"})})
	indexes := map[catalog.IndexID]storage.IndexRecord{}
	for id, name := range []string{"a", "b"} {
		indexes[catalog.IndexID(id)] = storage.IndexRecord{IndexDef: catalog.IndexDef{ID: catalog.IndexID(id), Home: name}}
	}
	indexes[partitionedModel] = storage.IndexRecord{IndexDef: catalog.IndexDef{ID: partitionedModel}, Parts: []catalog.IndexID{0, 1}}
	s.state.Store(&state{indexes: indexes, wholes: map[catalog.IndexID]catalog.IndexID{0: partitionedModel, 1: partitionedModel}})
	s.lookup = func(_ context.Context, name string, questions []home.Question) ([]home.Found, error) {
		if name == m.out {
			return nil, errNotThere
		}
		a := asking{name, questions, make(chan []home.Found, 1)}
		m.asked <- a
		return <-a.answer, nil
	}
	return s
}

// eitherKey asks for a row with one of two keys, by an index on each home.
func eitherKey() []storage.Question {
	return []storage.Question{{Index: 0, Key: []byte("x")}, {Index: 1, Key: []byte("y")}}
}

// partitionedModel is an index that has both as its partitions.
const partitionedModel = 9

// eitherPartition asks for a row with a key of a range.
func eitherPartition() []storage.Question {
	return []storage.Question{{Index: partitionedModel, Ranged: true, Limit: 9}}
}

// runSeveral runs one schedule: choices say who is next, as long as there are some. It returns how many there
// were at each choice, and whether the row, which has one of the two keys at all times, was missed.
func runSeveral(either func() []storage.Question, careless, warm bool, choices []int) (widths []int, missed bool) {
	m := &modelHomes{asked: make(chan asking), homes: map[string]*modelHome{"a": {keys: map[string]bool{}}, "b": {keys: map[string]bool{"y": true}}}}
	s := m.store()
	s.careless = careless
	ask := func(serve func(done <-chan struct{})) []storage.Question {
		q, done := either(), make(chan struct{})
		go func() {
			defer close(done)
			if err := s.Ask(context.Background(), q); err != nil {
				q[0].Found.Shards = catalog.Only(1) // all are asked
			}
		}()
		serve(done)
		return q
	}
	if warm {
		ask(func(done <-chan struct{}) {
			for {
				select {
				case a := <-m.asked:
					m.answer(a)
				case <-done:
					return
				}
			}
		})
	}
	// The writer adds before the row changes; then a scan removes what is stale; and back again.
	writer := []func(){
		func() { m.homes["a"].keys["x"] = true },
		func() { delete(m.homes["b"].keys, "y"); m.homes["b"].removals++ },
		func() { m.homes["b"].keys["y"] = true },
		func() { delete(m.homes["a"].keys, "x"); m.homes["a"].removals++ },
	}
	q := ask(func(done <-chan struct{}) {
		for over := false; !over; {
			// Both homes are asked at once, or Ask ends.
			var waiting []asking
			for len(waiting) < 2 && !over {
				select {
				case a := <-m.asked:
					waiting = append(waiting, a)
				case <-done:
					over = true
				}
			}
			slices.SortFunc(waiting, func(a, b asking) int { return int(a.name[0]) - int(b.name[0]) })
			for len(waiting) > 0 {
				n := len(waiting)
				if len(writer) > 0 {
					n++
				}
				next := 0
				if len(widths) < len(choices) {
					next = choices[len(widths)]
				}
				widths = append(widths, n)
				if next == len(waiting) {
					writer[0]()
					writer = writer[1:]
					continue
				}
				m.answer(waiting[next])
				waiting = slices.Delete(waiting, next, next+1)
			}
		}
	})
	return widths, !slices.ContainsFunc(q, func(q storage.Question) bool { return !q.Found.Shards.Empty() })
}

// exploreSeveral runs all schedules of runSeveral.
func exploreSeveral(either func() []storage.Question, careless, warm bool) (miss []int, schedules int) {
	return exploreSchedules(func(choices []int) ([]int, bool) { return runSeveral(either, careless, warm, choices) })
}

// exploreSchedules runs all schedules, and returns one by which the row is missed.
func exploreSchedules(run func(choices []int) (widths []int, missed bool)) (miss []int, schedules int) {
	var choices []int
	for {
		schedules++
		widths, missed := run(choices)
		for len(choices) < len(widths) {
			choices = append(choices, 0)
		}
		if missed {
			return choices, schedules
		}
		choices = choices[:len(widths)]
		n := len(choices) - 1
		for n >= 0 && choices[n]+1 == widths[n] {
			n--
		}
		if n < 0 {
			return nil, schedules
		}
		choices = choices[:n+1]
		choices[n]++
	}
}

// TestSeveralHomes: a statement that may find its row by an index of either of two homes, or by a range of an index with a partition
// on each, doesn't miss one that has one of the keys at all times, whatever goes on between the answers. Without the rule removals
// it does.
func TestSeveralHomes(t *testing.T) {
	t.Parallel()
	for name, either := range map[string]func() []storage.Question{"keys": eitherKey, "partitions": eitherPartition} {
		for _, warm := range []bool{false, true} {
			miss, n := exploreSeveral(either, false, warm)
			if miss != nil {
				t.Errorf("%s, warm %t: the row is missed by %v", name, warm, miss)
			}
			t.Logf("%s, warm %t: %d schedules", name, warm, n)
			if miss, _ = exploreSeveral(either, true, warm); miss == nil {
				t.Errorf("%s, warm %t: without the rule nothing is missed", name, warm)
			}
		}
	}
}

// TestOneHomeOut: where one of two homes doesn't answer, its question alone has none.
func TestOneHomeOut(t *testing.T) {
	t.Parallel()
	m := &modelHomes{asked: make(chan asking), out: "b", homes: map[string]*modelHome{"a": {keys: map[string]bool{"x": true}}, "b": {}}}
	s := m.store()
	q := eitherKey()
	served := make(chan struct{})
	go func() {
		defer close(served)
		for range 2 { // it has to be seen twice that nothing is removed
			m.answer(<-m.asked)
		}
	}()
	if err := s.Ask(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	<-served
	if q[0].Err != nil || q[0].Found.Shards != catalog.Only(1) {
		t.Errorf("the home that answers: %+v", q[0])
	}
	if _, out := errors.AsType[*OutError](q[1].Err); !out {
		t.Errorf("the home that doesn't: %+v", q[1])
	}
}
