package shared

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// Guess fills in what the homes have answered last. A read may be sent to the shards guessed, and nothing of
// what they answer be told until holds, which asks the homes, has said that the guess was right. It is nil where
// there is no guess.
//
// Rule guess: a guess holds where the homes name no shard that isn't guessed, and nothing was removed from the
// indexes since before the read was sent. Then all that the homes would have named before it is named
// now: the read is where it would be had it waited for them. Counter-example to the shards alone: the shard
// has a row with k, and isn't guessed; the read is sent elsewhere; the row is deleted, and a scan removes the
// entry; the home says that no shard has k. What a guess is made of is no matter: it may be of any age.
//
// A new generation counts as a removal: who was fenced meanwhile may ask by keys of columns that were redefined
// since, of which it has none.
func (s *Store) Guess(questions []storage.Question) (holds func(context.Context) bool) {
	now := s.state.Load()
	asked, fold := now.split(questions)
	before := map[catalog.IndexID]removed{}
	for i := range asked {
		q := &asked[i]
		name, err := now.reads(q.Index)
		if err != nil || s.outage(name) != nil {
			return nil
		}
		heard, known := s.heard.get(q.Index)
		if !known || !s.guesses.fill(q) {
			return nil
		}
		before[q.Index] = heard
	}
	guessed := slices.Clone(asked)
	fold()
	return func(ctx context.Context) bool {
		right := s.holds(ctx, guessed, before)
		if !right {
			s.guesses.doubt(before)
		}
		return right
	}
}

// holds asks the homes what they say to a guess.
func (s *Store) holds(ctx context.Context, guessed []storage.Question, before map[catalog.IndexID]removed) bool {
	said := slices.Clone(guessed)
	after, err := s.askOnce(ctx, said, s.homesOf(said))
	if err != nil || !s.careless && !maps.Equal(before, after) {
		return false
	}
	for i, q := range said {
		if q.Err != nil || q.Within != guessed[i].Within || !q.Found.Shards.Minus(guessed[i].Found.Shards).Empty() {
			return false
		}
	}
	return true
}

// guesses are the last answers.
type guesses struct {
	mu sync.Mutex
	// latest are those that were given or used last, before those of the time before it was full.
	latest, before map[guessKey]guess
	// doubts are how many questions about an index aren't guessed yet, since a guess was wrong.
	doubts map[catalog.IndexID]int
}

type guessKey struct {
	index    catalog.IndexID
	ranged   bool
	endless  bool
	from, to string
	limit    int
}

type guess struct {
	shards catalog.ShardSet
	within bool
}

const (
	// guessBound bounds latest and before, each, and guessBytes the keys that are kept: 20 MB at most.
	guessBound = 1 << 15
	guessBytes = 128
	// guessDoubts of an index's questions follow a wrong guess before the next one: a tenth of
	// the reads are sent in vain at most.
	guessDoubts = 10
)

func guessKeyOf(q *storage.Question) guessKey {
	if q.Ranged {
		return guessKey{q.Index, true, q.To == nil, string(q.From), string(q.To), q.Limit}
	}
	return guessKey{index: q.Index, from: string(q.Key)}
}

// fill gives a question its guess.
func (g *guesses) fill(q *storage.Question) bool {
	k := guessKeyOf(q)
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := g.doubts[q.Index]; n > 0 {
		g.doubts[q.Index] = n - 1
		return false
	}
	of, ok := g.latest[k]
	if !ok {
		if of, ok = g.before[k]; !ok {
			return false
		}
		g.put(k, of)
	}
	q.Err, q.Found, q.Within = nil, storage.Found{Shards: of.shards}, of.within
	return true
}

// learn keeps an answer.
func (g *guesses) learn(q *storage.Question) {
	if len(q.Key)+len(q.From)+len(q.To) > guessBytes {
		return
	}
	k, of := guessKeyOf(q), guess{q.Found.Shards, q.Within}
	g.mu.Lock()
	defer g.mu.Unlock()
	if had, ok := g.latest[k]; !ok || had != of {
		g.put(k, of)
	}
}

func (g *guesses) put(k guessKey, of guess) {
	if len(g.latest) >= guessBound || g.latest == nil {
		g.latest, g.before = map[guessKey]guess{}, g.latest
	}
	g.latest[k] = of
}

// doubt takes in that a guess of these indexes was wrong.
func (g *guesses) doubt(of map[catalog.IndexID]removed) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.doubts == nil {
		g.doubts = map[catalog.IndexID]int{}
	}
	for id := range of {
		g.doubts[id] = guessDoubts
	}
}
