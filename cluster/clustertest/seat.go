// Package clustertest has what a shard's server and the shared store keep of the members,
// in memory, for tests: Seat and Board. Each call is one step. They are plain and
// deterministic, and hold no lock while Hook is called, so that a scheduler of coroutines
// can stop there.
package clustertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shunt-sql/shunt/cluster"
	"github.com/shunt-sql/shunt/storage"
)

// Faults are what can be done to the calls of a Seat or Board. All may be nil.
type Faults struct {
	// Hook is called at the begin of each call, before anything is done.
	Hook func(step string)
	// Fail is called next, and its error is the call's: nothing is done.
	Fail func(step string) error
	// Saw is called at the end of each call with what it returned.
	Saw func(step, result string)
}

func (f *Faults) begin(step string) error {
	if f.Hook != nil {
		f.Hook(step)
	}
	if f.Fail != nil {
		return f.Fail(step)
	}
	return nil
}

func (f *Faults) saw(step string, result ...any) {
	if f.Saw != nil {
		f.Saw(step, strings.TrimSuffix(fmt.Sprintln(result...), "\n"))
	}
}

// Seat is one shard's. Its server lists the threads that Connect has begun. The zero
// value is one in epoch 1, which nobody has joined.
type Seat struct {
	Faults
	// Now is the server's clock; nil: it stands.
	Now func() time.Time
	// Life is how many servers were in use before.
	Life uint64

	mu    sync.Mutex
	past  storage.Epoch // the epoch is one more
	joins uint64
	noted uint64
	rows  map[uint64]cluster.Row
	notes map[uint64]noted
	// beats are when each join's last heartbeat came, of those that are linked.
	beats   map[uint64]time.Time
	threads map[uint64]*thread
}

type noted struct {
	join uint64
	cluster.Thread
}

type thread struct {
	cluster.Thread
	// busy: it goes on after a KILL until End.
	busy, killed bool
}

var _ cluster.Seat = (*Seat)(nil)

// Connect has the server list a thread.
func (s *Seat) Connect(id uint32, user, host string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.threads == nil {
		s.threads = map[uint64]*thread{}
	}
	s.threads[uint64(id)] = &thread{Thread: cluster.Thread{ID: uint64(id), User: user, Host: host}}
}

// Busy has a thread go on after a KILL, until End.
func (s *Seat) Busy(id uint32, busy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.threads[uint64(id)]; t != nil {
		if t.busy = busy; t.killed && !busy {
			delete(s.threads, uint64(id))
		}
	}
}

// End ends a thread.
func (s *Seat) End(id uint32) {
	s.mu.Lock()
	delete(s.threads, uint64(id))
	s.mu.Unlock()
}

// Unlink ends the connection that a join's heartbeats come by.
func (s *Seat) Unlink(join uint64) {
	s.mu.Lock()
	delete(s.beats, join)
	s.mu.Unlock()
}

// linkLocked has a heartbeat come.
func (s *Seat) linkLocked(join uint64) {
	if s.beats == nil {
		s.beats = map[uint64]time.Time{}
	}
	s.beats[join] = s.clock()
}

func (s *Seat) clock() time.Time {
	if s.Now == nil {
		return time.Time{}
	}
	return s.Now()
}

// Lists reports that a thread is there, and whether it was killed.
func (s *Seat) Lists(id uint32) (listed, killed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.threads[uint64(id)]
	return t != nil, t != nil && t.killed
}

// Present is the epoch, without a step.
func (s *Seat) Present() storage.Epoch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.past + 1
}

// GoBack has another server answer, whose epoch is another and who knows of no member.
func (s *Seat) GoBack(e storage.Epoch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.past, s.rows, s.notes, s.threads, s.beats = e-1, nil, nil, nil, nil
}

// String is all that the server keeps.
func (s *Seat) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	fmt.Fprint(&b, s.past+1)
	for _, j := range slices.Sorted(maps.Keys(s.rows)) {
		r := s.rows[j]
		_, linked := s.beats[j]
		fmt.Fprint(&b, " ", j, ":", r.ID, r.Told, r.Fenced, linked)
	}
	for _, n := range slices.Sorted(maps.Keys(s.notes)) {
		fmt.Fprint(&b, " n", s.notes[n].join, ":", s.notes[n].ID)
	}
	for _, t := range slices.Sorted(maps.Keys(s.threads)) {
		fmt.Fprint(&b, " t", t, s.threads[t].busy, s.threads[t].killed)
	}
	return b.String()
}

// do is one call: fn runs alone, and returns what is told to Saw.
func (s *Seat) do(step string, fn func() any) error {
	if err := s.begin(step); err != nil {
		return err
	}
	s.mu.Lock()
	result := fn()
	s.mu.Unlock()
	s.saw(step, result)
	return nil
}

// Join is Roll's.
func (s *Seat) Join(_ context.Context, who cluster.Identity, catalog uint64) (join uint64, err error) {
	err = s.do("join", func() any {
		s.joins++
		join = s.joins
		if s.rows == nil {
			s.rows = map[uint64]cluster.Row{}
		}
		s.rows[join] = cluster.Row{Identity: who, Join: join, Told: cluster.Told{Catalog: catalog}, Since: s.clock()}
		s.linkLocked(join)
		return join
	})
	return join, err
}

// Beat is Roll's.
func (s *Seat) Beat(_ context.Context, join uint64) (b cluster.Beat, err error) {
	err = s.do("beat", func() any {
		row, there := s.rows[join]
		if there {
			s.linkLocked(join)
		}
		b = cluster.Beat{Epoch: s.past + 1, Life: s.Life + 1, Here: there && !row.Fenced}
		return b
	})
	return b, err
}

// Tell is Roll's.
func (s *Seat) Tell(_ context.Context, join uint64, told cluster.Told) error {
	return s.do("tell", func() any {
		if row, there := s.rows[join]; there {
			row.Told = cluster.Told{
				Epoch: max(row.Epoch, told.Epoch), Adopted: max(row.Adopted, told.Adopted), Catalog: max(row.Catalog, told.Catalog), Open: told.Open,
			}
			s.rows[join] = row
		}
		return told
	})
}

// Least is Roll's.
func (s *Seat) Least(context.Context) (least storage.Epoch, err error) {
	err = s.do("least", func() any {
		least = s.past + 1
		for _, row := range s.rows {
			least = min(least, row.Epoch)
		}
		return least
	})
	return least, err
}

// Rows is Roll's.
func (s *Seat) Rows(context.Context) (epoch storage.Epoch, rows []cluster.Row, err error) {
	err = s.do("rows", func() any {
		epoch = s.past + 1
		for _, j := range slices.Sorted(maps.Keys(s.rows)) {
			row := s.rows[j]
			for _, n := range s.notes {
				if n.join == j {
					row.Connections++
				}
			}
			_, row.Linked = s.beats[j]
			rows = append(rows, row)
		}
		return rows
	})
	return epoch, rows, err
}

// Quiet is Roll's.
func (s *Seat) Quiet(context.Context) (quiet map[uint64]time.Duration, err error) {
	err = s.do("quiet", func() any {
		quiet = map[uint64]time.Duration{}
		for j, at := range s.beats {
			if _, there := s.rows[j]; there {
				quiet[j] = s.clock().Sub(at).Truncate(time.Second)
			}
		}
		return quiet
	})
	return quiet, err
}

// Advance is Seat's.
func (s *Seat) Advance(context.Context) (e storage.Epoch, err error) {
	err = s.do("advance", func() any {
		s.past++
		e = s.past + 1
		return e
	})
	return e, err
}

// Raise is Seat's.
func (s *Seat) Raise(_ context.Context, e storage.Epoch) error {
	return s.do("raise", func() any {
		s.past = max(s.past, e-1)
		return e
	})
}

// ErrNoThread is Note's.
var ErrNoThread = errors.New("the server lists no such thread")

// Note is Notes'. It is two steps.
func (s *Seat) Note(_ context.Context, join uint64, id uint32) (number uint64, here bool, err error) {
	err = s.do("note", func() any {
		t := s.threads[uint64(id)]
		if t == nil {
			return ErrNoThread
		}
		s.noted++
		number = s.noted
		if s.notes == nil {
			s.notes = map[uint64]noted{}
		}
		n := noted{join, t.Thread}
		n.Note = number
		s.notes[number] = n
		return number
	})
	if err != nil {
		return 0, false, err
	}
	if number == 0 {
		return 0, false, ErrNoThread
	}
	err = s.do("look", func() any {
		row, there := s.rows[join]
		here = there && !row.Fenced
		return here
	})
	return number, here, err
}

// Forget is Notes'.
func (s *Seat) Forget(_ context.Context, notes ...uint64) error {
	return s.do("forget", func() any {
		for _, n := range notes {
			delete(s.notes, n)
		}
		return notes
	})
}

// Threads is Notes'.
func (s *Seat) Threads(_ context.Context, join uint64) (threads []cluster.Thread, err error) {
	err = s.do("threads", func() any {
		for _, n := range slices.Sorted(maps.Keys(s.notes)) {
			if s.notes[n].join == join {
				threads = append(threads, s.notes[n].Thread)
			}
		}
		return threads
	})
	return threads, err
}

// SetFenced is Fencing's.
func (s *Seat) SetFenced(_ context.Context, join uint64) (was bool, err error) {
	err = s.do("fence", func() any {
		if row, there := s.rows[join]; there && !row.Fenced {
			row.Fenced, was = true, true
			s.rows[join] = row
		}
		return was
	})
	return was, err
}

// same finds a thread that is the one which was noted.
func (s *Seat) same(t cluster.Thread) *thread {
	if now := s.threads[t.ID]; now != nil && now.User == t.User && now.Host == t.Host {
		return now
	}
	return nil
}

// Kill is Fencing's.
func (s *Seat) Kill(_ context.Context, threads ...cluster.Thread) error {
	return s.do("kill", func() any {
		for _, t := range threads {
			if now := s.same(t); now != nil {
				if now.killed = true; !now.busy {
					delete(s.threads, t.ID)
				}
			}
		}
		return len(threads)
	})
}

// Running is Fencing's.
func (s *Seat) Running(_ context.Context, threads ...cluster.Thread) (left []cluster.Thread, err error) {
	err = s.do("running", func() any {
		for _, t := range threads {
			if now := s.same(t); now != nil {
				if t.Busy = 0; now.busy {
					t.Busy = time.Hour
				}
				left = append(left, t)
			}
		}
		return left
	})
	return left, err
}

// Remove is Fencing's.
func (s *Seat) Remove(_ context.Context, join uint64) error {
	return s.do("remove", func() any {
		if !s.rows[join].Fenced {
			return false
		}
		delete(s.rows, join)
		maps.DeleteFunc(s.notes, func(_ uint64, n noted) bool { _, there := s.rows[n.join]; return !there })
		return true
	})
}
