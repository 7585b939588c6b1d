package storage

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
)

// epochStep is how many epochs a synced write of the ceiling pays for, and how
// many at most a restart leaves out.
const epochStep = 4096

// clock hands out epochs. Every epoch that was handed out is under the
// ceiling record on disk, which is synced; a new life begins at the ceiling.
type clock struct {
	now     atomic.Uint64
	mu      sync.Mutex
	ceiling uint64
}

func (c *clock) load(s *Store) error {
	val, err := s.get(counterKey(counterEpoch))
	if err != nil {
		return err
	}
	first := uint64(1)
	if val != nil {
		n, l := binary.Uvarint(val)
		if l <= 0 {
			return errCorrupt
		}
		first = n
	}
	c.now.Store(first)
	c.ceiling = first + epochStep
	return nil
}

func (c *clock) extend(w *changes, ceiling uint64) error {
	return w.set(counterKey(counterEpoch), binary.AppendUvarint(nil, ceiling))
}

// Epoch is the current epoch. It costs an atomic load.
func (s *Store) Epoch() Epoch { return Epoch(s.clock.now.Load()) }

// Advance begins the next epoch and returns it. One call in epochStep waits
// for a sync.
func (s *Store) Advance() (Epoch, error) {
	if !s.gate.enter() {
		return 0, ErrClosed
	}
	defer s.gate.leave()
	c := &s.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	next := c.now.Load() + 1
	if next >= c.ceiling {
		if err := s.space.reclaimable(); err != nil {
			return 0, err
		}
		ceiling := next + epochStep
		if err := s.update(func(w *changes) error { return c.extend(w, ceiling) }); err != nil {
			return 0, err
		}
		if err := s.sync(); err != nil {
			return 0, err
		}
		c.ceiling = ceiling
	}
	c.now.Store(next)
	return Epoch(next), nil
}
