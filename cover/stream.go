package cover

import (
	"context"
	"sync"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// Trail is where the reading of a shard's log is.
type Trail interface {
	// Shown returns when all changes that were handed over before the call are visible on the shard.
	Shown(context.Context) error
	// CaughtUp returns when all changes of statements that had ended before the call have been handed over.
	CaughtUp(context.Context) error
}

// shard is what a shard's log has told.
type shard struct {
	// gate is shut while the log isn't read.
	gate gate

	mu sync.Mutex
	// read counts how often the log has begun, or ceased, to be read.
	read   int
	live   bool
	opens  bool // the gate is to be opened when what was handed over is visible
	holds  set  // by the transaction that is being read
	due    set  // by those before
	asked  set  // those of due that Shown was asked for
	ended  []*Writes
	asking []*Writes // those of ended that CaughtUp was asked for
	wake   chan struct{}
}

// set are gates that are shut, each once, and the indexes that they are of.
type set map[*gate]*index

func (s set) open() {
	for g, x := range s {
		x.open(g)
	}
}

// add adds a gate that is shut once more than before.
func (s *set) add(g *gate, x *index) {
	if _, is := (*s)[g]; is {
		x.open(g)
		return
	}
	if *s == nil {
		*s = set{}
	}
	(*s)[g] = x
}

func (s *shard) begin() {
	s.wake = make(chan struct{}, 1)
	s.gate.change()
}

// Stream is told what a shard's log has, by one goroutine.
type Stream struct {
	a *Answers
	s *shard
}

// Follow returns the stream of a shard's log, which isn't read yet: see Resumed.
func (a *Answers) Follow(id catalog.ShardID) *Stream { return &Stream{a, &a.shards[id]} }

// Change: a row with a key has changed, in a column that the index covers.
func (st *Stream) Change(ix *catalog.Index, key []byte) {
	x := st.a.index(ix)
	st.change(x, x.key(key))
}

// Doubt: rows of the index's table may have changed.
func (st *Stream) Doubt(ix *catalog.Index) {
	x := st.a.index(ix)
	st.change(x, &x.all)
}

func (st *Stream) change(x *index, g *gate) {
	x.change(g)
	s := st.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.live {
		x.open(g) // the shard's is shut
		return
	}
	s.holds.add(g, x)
}

// Committed: the transaction's changes have been handed over, and are in the index.
func (st *Stream) Committed() {
	s := st.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.holds) == 0 {
		return
	}
	for g, x := range s.holds {
		s.due.add(g, x)
	}
	s.holds = nil
	s.nudge()
}

// openShown opens a new index's gate when what was handed over is visible.
func (s *shard) openShown(x *index) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.live {
		x.open(&x.all) // the shard's is shut
		return
	}
	s.due.add(&x.all, x)
	s.nudge()
}

// Resumed: the log is being read, from where it was, or from a place from which on all that becomes visible is handed over.
func (st *Stream) Resumed() {
	s := st.s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read++
	if !s.live {
		s.live, s.opens = true, true
	}
	s.nudge()
}

// Stopped: the log isn't being read, or may not be.
func (st *Stream) Stopped() { st.s.stop() }

// Stop has nothing that is of a shard be kept or given until its log is resumed.
func (a *Answers) Stop(id catalog.ShardID) {
	if a != nil {
		a.shards[id].stop()
	}
}

func (s *shard) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read++
	if !s.live {
		return
	}
	s.live = false
	if s.opens {
		s.opens = false // it is shut still
	} else {
		s.gate.change()
	}
	// Of all that waits the shard's gate takes care.
	s.holds.open()
	s.due.open()
	s.asked.open()
	s.holds, s.due, s.asked = nil, nil, nil
	for _, w := range append(s.ended, s.asking...) {
		w.passed()
	}
	s.ended, s.asking = nil, nil
}

func (s *shard) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Tend opens gates until ctx ends. ready says whether nothing runs on the shard that an earlier process has sent.
func (st *Stream) Tend(ctx context.Context, trail Trail, ready func() bool) {
	s := st.s
	for {
		rest := tendRest
		if s.look(ctx, trail, ready) {
			s.nudge()
			rest = tendPause
		}
		select {
		case <-time.After(rest):
		case <-ctx.Done():
			return
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return
		}
	}
}

const (
	// tendRest is from one look to the next: all that has come meanwhile is asked for at once.
	tendRest = 5 * time.Millisecond
	// tendPause is how long it rests where it got no answer.
	tendPause = 20 * time.Millisecond
	// tendPatience bounds how long it waits for one.
	tendPatience = 5 * time.Second
)

// look asks for what is waited for, once. again: there was no answer.
func (s *shard) look(ctx context.Context, trail Trail, ready func() bool) (again bool) {
	s.mu.Lock()
	read, opens := s.read, s.opens
	if !s.live {
		s.mu.Unlock()
		return false
	}
	for g, x := range s.due { // behind an answer that didn't come there are some already
		s.asked.add(g, x)
	}
	s.due = nil
	s.asking = append(s.asking, s.ended...)
	s.ended = nil
	shown, caught := opens || len(s.asked) > 0, len(s.asking) > 0
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, tendPatience)
	defer cancel()
	if caught {
		if trail.CaughtUp(ctx) != nil {
			return true
		}
		s.mu.Lock()
		if s.read == read {
			for _, w := range s.asking {
				w.passed()
			}
			s.asking = nil
		}
		s.mu.Unlock()
	}
	if shown {
		if trail.Shown(ctx) != nil {
			return true
		}
		wait := opens && !ready()
		s.mu.Lock()
		if s.read == read {
			s.asked.open()
			s.asked = nil
			if opens && !wait {
				s.opens = false
				s.gate.open()
			}
		}
		s.mu.Unlock()
		return wait
	}
	return false
}
