package storage

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
)

// serialRoom is how many serials a synced write of the limit pays for.
const serialRoom = 4096

// serial is a number that grows while the store is written to. Those who are told it
// (the shards) so notice a store that was set back: by a copy put in its place, or by a
// snapshot of its disk. It says no more of itself than what it had then.
//
//	jump   limit+1, synced: behind each write-intent and definition. An earlier state of the
//	       store, which lacks these, has a lower limit
//	next   one more within the limit, unsynced: now and then while tables are written to
//
// So what a store may have told is at most now, or after a power loss, which may have taken
// the last ones, limit.
//
// Counter-example for the order "intent, then jump": a state between the two in the other
// order takes the jump's number for its own, and lacks the intent of what was written behind it.
type serial struct {
	now atomic.Uint64

	mu sync.Mutex
	// Invariant: limit is synced, and not under now.
	limit uint64
	// known is what earlier lives may have told.
	known uint64
}

func (n *serial) load(s *Store) error {
	val, err := s.get(counterKey(counterSerial))
	if err != nil || val == nil {
		return err
	}
	now, l := binary.Uvarint(val)
	if l <= 0 {
		return errCorrupt
	}
	limit, m := binary.Uvarint(val[l:])
	if m <= 0 {
		return errCorrupt
	}
	n.known, n.limit = limit, limit
	if boot := string(val[l+m:]); boot != "" && boot == s.opt.BootID {
		n.known = now
	}
	n.now.Store(limit)
	return nil
}

func (n *serial) keep(s *Store, now, limit uint64) error {
	val := binary.AppendUvarint(binary.AppendUvarint(nil, now), limit)
	val = append(val, s.opt.BootID...)
	if err := s.update(func(w *changes) error { return w.set(counterKey(counterSerial), val) }); err != nil {
		return fmt.Errorf("keep the store's serial: %w", err)
	}
	return nil
}

// jump is sync, and raises the serial past all that an earlier state may take for its own.
func (n *serial) jump(s *Store) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.limit + 1
	if err := n.keep(s, now, now+serialRoom); err != nil {
		return err
	}
	if err := s.sync(); err != nil {
		return err
	}
	n.now.Store(now)
	n.limit = now + serialRoom
	return nil
}

// Serial is the highest serial that may have been told.
func (s *Store) Serial() uint64 { return s.serial.now.Load() }

// KnownSerial is the highest one that earlier lives may have told, 0 for none.
func (s *Store) KnownSerial() uint64 { return s.serial.known }

// JumpSerial raises the serial past all that a copy of the store, made before, takes for
// its own. Survives a power loss.
func (s *Store) JumpSerial() (uint64, error) {
	if !s.gate.enter() {
		return 0, ErrClosed
	}
	defer s.gate.leave()
	if err := s.space.reclaimable(); err != nil {
		return 0, err
	}
	if err := s.serial.jump(s); err != nil {
		return 0, err
	}
	return s.Serial(), nil
}

// NextSerial raises the serial by one, which survives the death of the process; after a
// power loss what it returned is known all the same. One call in serialRoom waits for a sync.
func (s *Store) NextSerial() (uint64, error) {
	if !s.gate.enter() {
		return 0, ErrClosed
	}
	defer s.gate.leave()
	if err := s.space.reclaimable(); err != nil {
		return 0, err
	}
	n := &s.serial
	n.mu.Lock()
	now := n.now.Load() + 1
	if now <= n.limit {
		defer n.mu.Unlock()
		if err := n.keep(s, now, n.limit); err != nil {
			return 0, err
		}
		n.now.Store(now)
		return now, nil
	}
	n.mu.Unlock()
	if err := n.jump(s); err != nil {
		return 0, err
	}
	return s.Serial(), nil
}
