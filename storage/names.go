package storage

import (
	"fmt"
	"maps"
	"sync"

	"github.com/dgraph-io/badger/v4"
)

// names numbers the shards. Entries hold the numbers, so a number is never
// given to another name.
type names struct {
	mu     sync.Mutex
	shards map[string]ShardID
}

func (n *names) load(s *Store) error {
	n.shards = map[string]ShardID{}
	return s.scan([]byte{kindShard}, func(key, val []byte) (bool, error) {
		if len(val) != 1 {
			return false, errCorrupt
		}
		n.shards[string(key[1:])] = ShardID(val[0])
		return true, nil
	})
}

// ShardID returns the number of the shard with this name, giving it the
// lowest free one the first time. Survives a power loss.
func (s *Store) ShardID(name string) (ShardID, error) {
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
	if len(n.shards) >= MaxShards {
		return 0, fmt.Errorf("number shard %s: %w", name, ErrTooManyShards)
	}
	if err := s.space.writable(); err != nil {
		return 0, err
	}
	// Numbers are never taken back, so they are dense.
	id := ShardID(len(n.shards))
	err := s.update(func(txn *badger.Txn) error { return txn.Set(shardKey(name), []byte{byte(id)}) })
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
func (s *Store) Shards() map[string]ShardID {
	s.names.mu.Lock()
	defer s.names.mu.Unlock()
	return maps.Clone(s.names.shards)
}

// SlotMap returns what SetSlotMap kept, nil if nothing.
func (s *Store) SlotMap() ([]byte, error) {
	if !s.gate.enter() {
		return nil, ErrClosed
	}
	defer s.gate.leave()
	return s.get([]byte{kindSlots})
}

// SetSlotMap keeps the slot map: for each slot a byte, the ShardID. Survives a
// power loss.
func (s *Store) SetSlotMap(m []byte) error {
	if !s.gate.enter() {
		return ErrClosed
	}
	defer s.gate.leave()
	if err := s.space.writable(); err != nil {
		return err
	}
	m = append([]byte(nil), m...)
	if err := s.update(func(txn *badger.Txn) error { return txn.Set([]byte{kindSlots}, m) }); err != nil {
		return fmt.Errorf("set slot map: %w", err)
	}
	return s.sync()
}
