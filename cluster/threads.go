package cluster

import (
	"context"
	"fmt"
	"slices"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// note is a connection that this process has noted.
type note struct {
	storage.Thread
	join, number uint64
}

// noted are those on a shard, and owed the notes that are to be forgotten.
type noted struct {
	by   map[uint32][]note // by thread, the last one last
	owed []note
}

// lose forgets a join's: the notes go with its row. Where the server was put back, their
// numbers may be others' by now.
func (n *noted) lose(join uint64) {
	n.owed = slices.DeleteFunc(n.owed, func(o note) bool { return o.join == join })
	for id, notes := range n.by {
		if notes = slices.DeleteFunc(notes, func(o note) bool { return o.join == join }); len(notes) == 0 {
			delete(n.by, id)
		} else {
			n.by[id] = notes
		}
	}
}

// NoteThread is Connections'.
func (s *Shared) NoteThread(ctx context.Context, id catalog.ShardID, t storage.Thread) (join uint64, err error) {
	a, err := s.seat(id)
	if err != nil {
		return 0, err
	}
	if join = a.join(); join == 0 {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.failed != nil {
			return 0, s.at(a, fmt.Errorf("%w: %w", ErrNotJoined, a.failed))
		}
		return 0, s.at(a, ErrNotJoined)
	}
	number, here, err := a.seat.Note(ctx, join, t.ID)
	if err != nil {
		return 0, s.at(a, fmt.Errorf("note a connection: %w", err))
	}
	if !here {
		a.nudge() // the heartbeat finds out
		return 0, s.at(a, fmt.Errorf("fenced: %w", ErrNotJoined))
	}
	a.mu.Lock()
	a.noted.by[t.ID] = append(a.noted.by[t.ID], note{t, join, number})
	a.mu.Unlock()
	return join, nil
}

// ForgetThread is Connections'. The note goes with a heartbeat.
func (s *Shared) ForgetThread(id catalog.ShardID, t storage.Thread) error {
	a, err := s.seat(id)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	notes := a.noted.by[t.ID]
	i := slices.IndexFunc(notes, func(n note) bool { return n.Opened.Equal(t.Opened) })
	if i < 0 {
		return nil
	}
	a.noted.owed = append(a.noted.owed, notes[i])
	if notes = slices.Delete(notes, i, i+1); len(notes) > 0 {
		a.noted.by[t.ID] = notes
	} else {
		delete(a.noted.by, t.ID)
	}
	return nil
}

// forget removes what is owed.
func (a *seated) forget(ctx context.Context) error {
	a.mu.Lock()
	owed := a.noted.owed
	a.noted.owed = nil
	a.mu.Unlock()
	if len(owed) == 0 {
		return nil
	}
	numbers := make([]uint64, len(owed))
	for i, o := range owed {
		numbers[i] = o.number
	}
	if err := a.seat.Forget(ctx, numbers...); err != nil {
		a.mu.Lock()
		a.noted.owed = append(owed, a.noted.owed...)
		a.mu.Unlock()
		return fmt.Errorf("forget connections: %w", err)
	}
	return nil
}

// Thread is Connections'.
func (s *Shared) Thread(id catalog.ShardID, thread uint32) (t storage.Thread, known bool) {
	a := s.seats[id]
	if a == nil {
		return t, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	notes := a.noted.by[thread]
	if len(notes) == 0 {
		return t, false
	}
	return notes[len(notes)-1].Thread, true
}
