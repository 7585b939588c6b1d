package storage

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
)

// garbage is the queue of generations to delete. Each has a record, written in
// the transaction that took the generation out of its index, so that a restart
// knows it.
type garbage struct {
	mu   sync.Mutex
	gens []uint32
	// next is where the first generation's deletion resumes: without it each
	// slice would walk over the tombstones of all before. nil: at its begin.
	next []byte
	// slice is held by whoever deletes one.
	slice sync.Mutex
}

func (g *garbage) load(s *Store) error {
	return s.scan([]byte{kindGarbage}, func(key, _ []byte) (bool, error) {
		if len(key) != 5 {
			return false, errCorrupt
		}
		g.gens = append(g.gens, binary.BigEndian.Uint32(key[1:]))
		return true, nil
	})
}

func (g *garbage) len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.gens)
}

// add queues a generation that no view holds and whose writers have ended.
func (g *garbage) add(gen uint32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !slices.Contains(g.gens, gen) {
		g.gens = append(g.gens, gen)
	}
}

func (g *garbage) first() (gen uint32, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.gens) == 0 {
		return 0, false
	}
	return g.gens[0], true
}

// DeleteGarbage deletes up to slice records (at least one) of old generations
// and reports whether there is more. One caller works at a time; others wait.
func (s *Store) DeleteGarbage(ctx context.Context, slice int) (more bool, err error) {
	if !s.gate.enter() {
		return false, ErrClosed
	}
	defer s.gate.leave()
	g := &s.garbage
	g.slice.Lock()
	defer g.slice.Unlock()
	gen, ok := g.first()
	if !ok {
		return false, nil
	}
	if err := ctx.Err(); err != nil {
		return true, err
	}
	if err := s.space.reclaimable(); err != nil {
		return true, err
	}
	if err := s.deleteSlice(gen, max(slice, 1)); err != nil {
		return true, fmt.Errorf("delete old generation %d: %w", gen, err)
	}
	return g.len() > 0, nil
}

func (s *Store) deleteSlice(gen uint32, slice int) error {
	g := &s.garbage
	var keys [][]byte
	if err := s.db.reading(); err != nil {
		return err
	}
	it, err := iterator(s.db, generationPrefix(gen))
	if err != nil {
		s.db.use.RUnlock()
		return s.db.noted(err)
	}
	it.SeekGE(g.next) // nil: the first
	err = s.db.each(it, func(key, _ []byte) (bool, error) {
		if len(keys) < slice {
			keys = append(keys, bytes.Clone(key))
		}
		return len(keys) < slice, nil
	})
	s.db.use.RUnlock()
	if err != nil {
		return err
	}
	last := len(keys) < slice
	err = s.updateEach(len(keys), func(w *changes, i int) error { return w.delete(keys[i]) })
	if err != nil {
		return err
	}
	if !last {
		g.next = keys[len(keys)-1]
		return nil
	}
	if err := s.update(func(w *changes) error { return w.delete(garbageKey(gen)) }); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gens, g.next = slices.DeleteFunc(g.gens, func(other uint32) bool { return other == gen }), nil
	return nil
}
