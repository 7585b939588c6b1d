package storage

import (
	"fmt"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// Position returns what KeepPosition kept, "" for nothing.
func (s *Store) Position(shard catalog.ShardID) (string, error) {
	if !s.gate.enter() {
		return "", ErrClosed
	}
	defer s.gate.leave()
	val, err := s.get(positionKey(shard))
	if err != nil {
		return "", fmt.Errorf("read the place in a log: %w", err)
	}
	return string(val), nil
}

// KeepPosition keeps up to where in a shard's log the entries have what it tells, a text that is the caller's. Survives
// the death of the process. "" ends that, and survives a power loss: who goes by another place then keeps it behind this.
func (s *Store) KeepPosition(shard catalog.ShardID, position string) error {
	if !s.gate.enter() {
		return ErrClosed
	}
	defer s.gate.leave()
	may := s.space.writable
	if position == "" {
		may = s.space.reclaimable
	}
	if err := may(); err != nil {
		return err
	}
	err := s.update(func(w *changes) error {
		if position == "" {
			return w.delete(positionKey(shard))
		}
		return w.set(positionKey(shard), []byte(position))
	})
	if err == nil && position == "" {
		err = s.sync()
	}
	if err != nil {
		return fmt.Errorf("keep the place in a log: %w", err)
	}
	return nil
}
