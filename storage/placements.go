package storage

import (
	"bytes"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// TableName names a table.
type TableName struct{ Schema, Name string }

// Placements returns what SetPlacements kept.
func (s *Store) Placements() (map[TableName]string, error) {
	if !s.gate.enter() {
		return nil, ErrClosed
	}
	defer s.gate.leave()
	out := map[TableName]string{}
	err := s.scan([]byte{kindPlacement}, func(key, val []byte) (bool, error) {
		schema, name, ok := bytes.Cut(key[1:], []byte{0})
		if !ok {
			return false, errCorrupt
		}
		out[TableName{string(schema), string(name)}] = string(val)
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("read placements: %w", err)
	}
	return out, nil
}

// Placement returns what SetPlacements kept of a table, "" for nothing.
func (s *Store) Placement(t TableName) (string, error) {
	if !s.gate.enter() {
		return "", ErrClosed
	}
	defer s.gate.leave()
	val, err := s.get(placementKey(t))
	if err != nil {
		return "", fmt.Errorf("read a placement: %w", err)
	}
	return string(val), nil
}

// SetPlacements keeps for each table by what its rows are placed, a text that
// is the caller's; an empty one deletes the record. Survives a power loss.
func (s *Store) SetPlacements(changes map[TableName]string) error {
	if !s.gate.enter() {
		return ErrClosed
	}
	defer s.gate.leave()
	if err := s.space.writable(); err != nil {
		return err
	}
	var keys, vals [][]byte
	for t, placement := range changes {
		keys, vals = append(keys, placementKey(t)), append(vals, []byte(placement))
	}
	err := s.updateEach(len(keys), func(txn *badger.Txn, i int) error {
		if len(vals[i]) == 0 {
			return txn.Delete(keys[i])
		}
		return txn.Set(keys[i], vals[i])
	})
	if err != nil {
		return fmt.Errorf("set placements: %w", err)
	}
	return s.sync()
}
