package shared

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
	"github.com/shunt-sql/shunt/storage/home"
)

// ErrMoving: what several homes said was of different moments, each time.
var ErrMoving = errors.New("what the homes of virtual indexes say changes while they are asked")

// askTries bounds how often several homes are asked until their answers are of one moment.
const askTries = 3

// removed tells whether something may have been taken away from an index between two answers: both
// have the same.
type removed struct {
	generation     uint32
	life, removals uint64
}

// heard are what was last heard of indexes.
type heard struct {
	mu sync.Mutex
	of map[catalog.IndexID]removed
}

func (h *heard) set(id catalog.IndexID, r removed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.of == nil {
		h.of = map[catalog.IndexID]removed{}
	}
	h.of[id] = r
}

func (h *heard) get(id catalog.IndexID) (r removed, known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r, known = h.of[id]
	return r, known
}

// Ask fills the answers in, all as of one moment. An error means that there are none; one of a question
// that it has none. That ctx has ended says nothing of the homes.
//
// Rule removals: answers of several homes are taken only where nothing was removed from the indexes
// since before the first was asked. Counter-example: WHERE email = 'x' OR phone = 'y', by two
// indexes with a home each. The shard has a row with phone y. email's home says that no shard has x; an
// UPDATE gives the row x and another phone; a scan removes y; phone's home says that no shard has
// y. The row was there all the time.
func (s *Store) Ask(ctx context.Context, questions []storage.Question) error {
	asked, fold := s.state.Load().split(questions)
	err := s.askSplit(ctx, asked)
	fold()
	return err
}

func (s *Store) askSplit(ctx context.Context, questions []storage.Question) error {
	homes := s.homesOf(questions)
	before := map[catalog.IndexID]removed{}
	for i := range questions {
		if r, known := s.heard.get(questions[i].Index); known {
			before[questions[i].Index] = r
		}
	}
	for range askTries {
		after, err := s.askOnce(ctx, questions, homes)
		if err != nil {
			return err
		}
		same := true
		for id, r := range after {
			same = same && before[id] == r
		}
		if same || s.careless || len(homes.names) < 2 {
			return nil
		}
		before = after
	}
	return ErrMoving
}

// homesAsked are the homes of questions.
type homesAsked struct {
	names []string
	at    map[string][]int // positions in questions
}

// homesOf finds them. A question that has none gets its error.
func (s *Store) homesOf(questions []storage.Question) (homes homesAsked) {
	now := s.state.Load()
	homes.at = map[string][]int{}
	for i := range questions {
		q := &questions[i]
		name, err := now.reads(q.Index)
		if err == nil {
			err = s.outage(name)
		}
		if q.Err = err; err != nil {
			continue
		}
		if homes.at[name] == nil {
			homes.names = append(homes.names, name)
		}
		homes.at[name] = append(homes.at[name], i)
	}
	return homes
}

// askOnce asks each home once, all at the same time, and returns what the answers say of removals.
func (s *Store) askOnce(ctx context.Context, questions []storage.Question, homes homesAsked) (map[catalog.IndexID]removed, error) {
	var mu sync.Mutex
	after := map[catalog.IndexID]removed{}
	err := atOnce(homes.names, func(name string) error {
		at := homes.at[name]
		found, err := s.askHome(ctx, name, questions, at)
		if err != nil && ctx.Err() == nil && len(homes.names) > 1 {
			// Its indexes are wide, the others' aren't.
			for _, i := range at {
				questions[i].Err = err
			}
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		for j, f := range found {
			q := &questions[at[j]]
			after[q.Index] = removed{f.Generation, f.Life, f.Removals}
			if q.Err == nil {
				s.guesses.learn(q)
			}
		}
		return err
	})
	for id, r := range after {
		s.heard.set(id, r)
	}
	return after, err
}

// askHome asks one home the questions at these positions, as of one moment.
func (s *Store) askHome(ctx context.Context, name string, questions []storage.Question, at []int) ([]home.Found, error) {
	brief, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	asked := make([]home.Question, len(at))
	for j, i := range at {
		q := &questions[i]
		asked[j] = home.Question{Index: q.Index, Key: q.Key, Components: q.Components, Range: q.Ranged, From: q.From, To: q.To, Limit: q.Limit, Floors: true}
	}
	began := time.Now()
	answers, err := s.lookup(brief, name, asked)
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	s.called(name, "lookup", time.Since(began), err)
	if err := s.answered(s.place(name), err); err != nil {
		return nil, err
	}
	for j, f := range answers {
		q := &questions[at[j]]
		q.Err, q.Found, q.Within = nil, storage.Found{}, false
		if f.NoIndex {
			q.Err = storage.ErrNoIndex
			continue
		}
		q.Found, q.Within = storage.Found{Shards: f.Shards, Floors: floors(f.Floors)}, f.OK
	}
	return answers, nil
}

// floors are those of an answer.
type floors []storage.ShardEpoch

// Floor implements storage.Floors.
func (f floors) Floor(id catalog.ShardID) storage.Epoch {
	for _, at := range f {
		if at.Shard == id {
			return at.Epoch
		}
	}
	return 0
}
