package storage

import (
	"fmt"
	"maps"
	"sync"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// names numbers the shards. Entries hold the numbers, so a number is never
// given to another name.
type names struct {
	mu     sync.Mutex
	shards map[string]catalog.ShardID
}

func (n *names) load(s *Store) error {
	n.shards = map[string]catalog.ShardID{}
	return s.scan([]byte{kindShard}, func(key, val []byte) (bool, error) {
		if len(val) != 1 {
			return false, errCorrupt
		}
		n.shards[string(key[1:])] = catalog.ShardID(val[0])
		return true, nil
	})
}

// ShardID returns the number of the shard with this name, giving it the
// lowest free one the first time. Survives a power loss.
func (s *Store) ShardID(name string) (catalog.ShardID, error) {
	if !s.gate.enter() {
		return 0, ErrClosed
	}
	defer s.gate.leave()
	n := &s.names
	n.mu.Lock()
	defer n.mu.Unlock()
	if id, ok := n.shards[name]; ok {
		return id, nil
	}
	if len(n.shards) >= catalog.MaxShards {
		return 0, fmt.Errorf("number shard %s: %w", name, ErrTooManyShards)
	}
	if err := s.space.writable(); err != nil {
		return 0, err
	}
	// Numbers are never taken back, so they are dense.
	id := catalog.ShardID(len(n.shards))
	err := s.update(func(w *changes) error { return w.set(shardKey(name), []byte{byte(id)}) })
	if err == nil {
		err = s.sync()
	}
	if err != nil {
		return 0, fmt.Errorf("number shard %s: %w", name, err)
	}
	n.shards[name] = id
	return id, nil
}

// Shards returns all numbered shards.
func (s *Store) Shards() map[string]catalog.ShardID {
	s.names.mu.Lock()
	defer s.names.mu.Unlock()
	return maps.Clone(s.names.shards)
}

// SlotMap returns what KeepSlotMap kept, nil if nothing.
func (s *Store) SlotMap() ([]byte, error) {
	if !s.gate.enter() {
		return nil, ErrClosed
	}
	defer s.gate.leave()
	return s.get([]byte{kindSlots})
}

// KeepSlotMap keeps the slot map, for each slot a byte, the ShardID, where there is none. It
// returns the one that is kept: of those that several make at once the first. Survives a
// power loss.
func (s *Store) KeepSlotMap(m []byte) (kept []byte, err error) {
	if !s.gate.enter() {
		return nil, ErrClosed
	}
	defer s.gate.leave()
	s.names.mu.Lock()
	defer s.names.mu.Unlock()
	if kept, err = s.get([]byte{kindSlots}); err != nil || kept != nil {
		return kept, err
	}
	if err := s.space.writable(); err != nil {
		return nil, err
	}
	kept = append([]byte(nil), m...)
	if err := s.update(func(w *changes) error { return w.set([]byte{kindSlots}, kept) }); err != nil {
		return nil, fmt.Errorf("keep the slot map: %w", err)
	}
	return kept, s.sync()
}
