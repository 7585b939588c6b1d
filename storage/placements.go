package storage

import (
	"bytes"
	"fmt"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// Placements returns what SetPlacements kept.
func (s *Store) Placements() (map[catalog.TableName]string, error) {
	out, err := s.texts(kindPlacement)
	if err != nil {
		return nil, fmt.Errorf("read placements: %w", err)
	}
	return out, nil
}

// Placement returns what SetPlacements kept of a table, "" for nothing.
func (s *Store) Placement(t catalog.TableName) (string, error) {
	if !s.gate.enter() {
		return "", ErrClosed
	}
	defer s.gate.leave()
	val, err := s.get(tableKey(kindPlacement, t))
	if err != nil {
		return "", fmt.Errorf("read a placement: %w", err)
	}
	return string(val), nil
}

// SetPlacements keeps for each table by what its rows are placed, a text that
// is the caller's; an empty one deletes the record. Survives a power loss.
func (s *Store) SetPlacements(placements map[catalog.TableName]string) error {
	if err := s.setTexts(kindPlacement, placements); err != nil {
		return fmt.Errorf("set placements: %w", err)
	}
	return nil
}

// Unlike returns what SetUnlike kept.
func (s *Store) Unlike() (map[catalog.TableName]string, error) {
	out, err := s.texts(kindUnlike)
	if err != nil {
		return nil, fmt.Errorf("read which copies are unlike: %w", err)
	}
	return out, nil
}

// SetUnlike keeps that the copies of a reference table differ, with a text that is the caller's; an
// empty one ends that. Survives a power loss.
func (s *Store) SetUnlike(t catalog.TableName, how string) error {
	if err := s.setTexts(kindUnlike, map[catalog.TableName]string{t: how}); err != nil {
		return fmt.Errorf("keep that copies are unlike: %w", err)
	}
	return nil
}

// texts are what setTexts kept of a kind, by table.
func (s *Store) texts(kind byte) (map[catalog.TableName]string, error) {
	if !s.gate.enter() {
		return nil, ErrClosed
	}
	defer s.gate.leave()
	out := map[catalog.TableName]string{}
	return out, s.scan([]byte{kind}, func(key, val []byte) (bool, error) {
		schema, name, ok := bytes.Cut(key[1:], []byte{0})
		if !ok {
			return false, errCorrupt
		}
		out[catalog.TableName{Schema: string(schema), Name: string(name)}] = string(val)
		return true, nil
	})
}

// setTexts keeps a text for each table; an empty one deletes the record.
func (s *Store) setTexts(kind byte, texts map[catalog.TableName]string) error {
	if !s.gate.enter() {
		return ErrClosed
	}
	defer s.gate.leave()
	if err := s.space.writable(); err != nil {
		return err
	}
	var keys, vals [][]byte
	for t, text := range texts {
		keys, vals = append(keys, tableKey(kind, t)), append(vals, []byte(text))
	}
	err := s.updateEach(len(keys), func(w *changes, i int) error {
		if len(vals[i]) == 0 {
			return w.delete(keys[i])
		}
		return w.set(keys[i], vals[i])
	})
	if err != nil {
		return err
	}
	return s.sync()
}
