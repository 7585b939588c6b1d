package storage

import (
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// Thread is a connection to a shard, by the number that its server gave it.
type Thread struct {
	ID     uint32
	Opened time.Time // of earlier lives: to the second
}

// threads tell the life after a crash which connections the dead process had:
// what it has sent may still be on its way to them.
type threads struct {
	mu sync.Mutex
	// old are those of earlier lives, now this one's.
	old, now map[catalog.ShardID]map[uint32]time.Time
}

func (t *threads) load(s *Store) error {
	t.old, t.now = map[catalog.ShardID]map[uint32]time.Time{}, map[catalog.ShardID]map[uint32]time.Time{}
	return s.scan([]byte{kindThread}, func(key, val []byte) (bool, error) {
		opened, n := binary.Varint(val)
		if len(key) != 6 || n <= 0 {
			return false, errCorrupt
		}
		shard := catalog.ShardID(key[1])
		if t.old[shard] == nil {
			t.old[shard] = map[uint32]time.Time{}
		}
		t.old[shard][binary.BigEndian.Uint32(key[2:])] = time.Unix(opened, 0)
		return true, nil
	})
}

// disown forgets the connections of earlier lives, and returns their records' keys.
// REQUIRES: it is called in Open.
func (t *threads) disown() (keys [][]byte) {
	for shard, of := range t.old {
		for id := range of {
			keys = append(keys, threadKey(shard, id))
		}
	}
	clear(t.old)
	return keys
}

// NoteThread keeps a connection that was opened, before anything is sent on it.
func (s *Store) NoteThread(shard catalog.ShardID, t Thread) error {
	return s.changeThread(shard, t.ID, func(w *changes, key []byte) error {
		return w.set(key, binary.AppendVarint(nil, t.Opened.Unix()))
	}, func(now map[uint32]time.Time) { now[t.ID] = t.Opened })
}

// ForgetThread takes back NoteThread: the connection was closed, and whatever
// its statement may still do is known elsewhere. One of an earlier life has
// ended on the server.
func (s *Store) ForgetThread(shard catalog.ShardID, id uint32) error {
	return s.changeThread(shard, id, func(w *changes, key []byte) error { return w.delete(key) },
		func(now map[uint32]time.Time) { delete(now, id) })
}

func (s *Store) changeThread(shard catalog.ShardID, id uint32, change func(*changes, []byte) error, show func(now map[uint32]time.Time)) error {
	if !s.gate.enter() {
		return ErrClosed
	}
	defer s.gate.leave()
	if err := s.space.writable(); err != nil {
		return err
	}
	s.threads.mu.Lock()
	defer s.threads.mu.Unlock()
	if err := s.update(func(w *changes) error { return change(w, threadKey(shard, id)) }); err != nil {
		return fmt.Errorf("keep the number of a connection: %w", err)
	}
	// Where a server was restarted, the number is now this life's.
	delete(s.threads.old[shard], id)
	if s.threads.now[shard] == nil {
		s.threads.now[shard] = map[uint32]time.Time{}
	}
	show(s.threads.now[shard])
	return nil
}

// Thread is the connection of this life that was noted last by a number, and not forgotten.
func (s *Store) Thread(shard catalog.ShardID, id uint32) (t Thread, known bool) {
	s.threads.mu.Lock()
	defer s.threads.mu.Unlock()
	opened, known := s.threads.now[shard][id]
	return Thread{id, opened}, known
}

// OldThreads are the connections to a shard that earlier lives have left open.
func (s *Store) OldThreads(shard catalog.ShardID) []Thread {
	s.threads.mu.Lock()
	defer s.threads.mu.Unlock()
	var out []Thread
	for id, opened := range s.threads.old[shard] {
		out = append(out, Thread{id, opened})
	}
	return out
}
