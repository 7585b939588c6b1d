package storage

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// UnfinishedDDL is DDL that was to be done on several shards, and isn't known to be done
// on all of them.
type UnfinishedDDL struct {
	// Op is what kind of statement it is, Schema the one that it was sent in, Text what was
	// sent, as far as it is worth being shown.
	Op, Schema, Text string
	// Tables are those that it names, by their old and new names; Schemas those that it is of.
	Tables  []catalog.TableName
	Schemas []string
	// Shards are all that it goes to, Done those that have it. Of Unknown it isn't known.
	// Others are those of Unknown that were found to have something else than Done.
	Shards, Done, Unknown, Others catalog.ShardSet
	At                            time.Time
	// By is the process that has kept it. Running: it is at it.
	By      string
	Running bool
}

// KeepUnfinished keeps a statement under a key that is the caller's. Survives the death of
// the process, synced a power loss.
func (s *Store) KeepUnfinished(key string, u UnfinishedDDL, synced bool) error {
	return s.changeUnfinished(key, s.space.writable, synced, func(w *changes, key []byte) error { return setJSON(w, key, u) })
}

// ForgetUnfinished takes back KeepUnfinished, which a power loss may undo.
func (s *Store) ForgetUnfinished(key string) error {
	return s.changeUnfinished(key, s.space.reclaimable, false, func(w *changes, key []byte) error { return w.delete(key) })
}

func (s *Store) changeUnfinished(key string, may func() error, synced bool, change func(w *changes, key []byte) error) error {
	if !s.gate.enter() {
		return ErrClosed
	}
	defer s.gate.leave()
	if err := may(); err != nil {
		return err
	}
	if err := s.update(func(w *changes) error { return change(w, unfinishedKey(key)) }); err != nil {
		return fmt.Errorf("keep what DDL is under way: %w", err)
	}
	if synced {
		return s.sync()
	}
	return nil
}

// Unfinished returns what is kept, by key.
func (s *Store) Unfinished() (map[string]UnfinishedDDL, error) {
	if !s.gate.enter() {
		return nil, ErrClosed
	}
	defer s.gate.leave()
	out := map[string]UnfinishedDDL{}
	err := s.scan([]byte{kindUnfinished}, func(key, val []byte) (bool, error) {
		var u UnfinishedDDL
		if err := json.Unmarshal(val, &u); err != nil {
			return false, fmt.Errorf("%w: %w", errCorrupt, err)
		}
		out[string(key[1:])] = u
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("read what DDL was under way: %w", err)
	}
	return out, nil
}
