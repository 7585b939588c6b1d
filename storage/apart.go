package storage

import (
	"fmt"
)

// Apart returns the shards that are not among those that serve, by name, with a text that is the
// caller's: what SetApart kept.
func (s *Store) Apart() (map[string]string, error) {
	if !s.gate.enter() {
		return nil, ErrClosed
	}
	defer s.gate.leave()
	out := map[string]string{}
	err := s.scan([]byte{kindApart}, func(key, val []byte) (bool, error) {
		out[string(key[1:])] = string(val)
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("read which shards are apart: %w", err)
	}
	return out, nil
}

// SetApart keeps that a shard is not among those that serve; an empty text ends that. Survives a
// power loss.
func (s *Store) SetApart(name, how string) error {
	if !s.gate.enter() {
		return ErrClosed
	}
	defer s.gate.leave()
	if err := s.space.writable(); err != nil {
		return err
	}
	err := s.update(func(w *changes) error {
		if how == "" {
			return w.delete(apartKey(name))
		}
		return w.set(apartKey(name), []byte(how))
	})
	if err != nil {
		return fmt.Errorf("keep that shard %s is apart: %w", name, err)
	}
	return s.sync()
}
