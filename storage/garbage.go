package storage

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/dgraph-io/badger/v4"
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
	err := s.db.View(func(txn *badger.Txn) error {
		o := badger.DefaultIteratorOptions
		o.Prefix, o.PrefetchValues = generationPrefix(gen), false
		it := txn.NewIterator(o)
		defer it.Close()
		if g.next == nil {
			it.Rewind()
		} else {
			it.Seek(g.next)
		}
		for ; it.Valid() && len(keys) < slice; it.Next() {
			keys = append(keys, it.Item().KeyCopy(nil))
		}
		return nil
	})
	if err != nil {
		return err
	}
	last := len(keys) < slice
	err = s.updateEach(len(keys), func(txn *badger.Txn, i int) error { return txn.Delete(keys[i]) })
	if err != nil {
		return err
	}
	if !last {
		g.next = keys[len(keys)-1]
		return nil
	}
	if err := s.update(func(txn *badger.Txn) error { return txn.Delete(garbageKey(gen)) }); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gens, g.next = g.gens[1:], nil
	return nil
}
