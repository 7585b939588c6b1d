package storage

import (
	"context"
	"fmt"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// moveSlice is the number of keys that Repartition copies at a time.
const moveSlice = 1000

// Repartition copies the readable generation into one with another number of
// partitions, online, and puts that in its place:
//
//	new generation in the view        every Add goes to both from here on
//	copy, slice by slice              through the new generation's writers,
//	                                  which keep the higher epoch
//	new generation becomes readable   in one transaction; the old is queued
//
// Lookups use the old one, which stays complete, until the last step. A Remove
// during the copy goes to both, but may be overtaken by a copied pair that was
// read before: that entry is stale, which costs a visit and no answer.
//
// progress (may be nil) hears the share done, 0 to 1. ErrBusy while the index
// is built or moved, ErrSuperseded if a build or drop ended it. If ctx ends,
// or the process, the old generation stays and the new one is garbage.
func (s *Store) Repartition(ctx context.Context, id catalog.IndexID, partitions int, progress func(float64)) error {
	if !s.gate.enter() {
		return ErrClosed
	}
	defer s.gate.leave()
	// Close ends the copy, as ctx does.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	old, g, err := s.startMove(id, partitions)
	if err != nil {
		return fmt.Errorf("repartition virtual index %d: %w", id, err)
	}
	err = s.copyGeneration(ctx, old, g, progress)
	if ferr := s.finishMove(id, g, err == nil); err == nil {
		err = ferr
	}
	if err != nil {
		return fmt.Errorf("repartition virtual index %d: %w", id, err)
	}
	return nil
}

func (s *Store) startMove(id catalog.IndexID, partitions int) (old, g *generation, err error) {
	ix, unlock, err := s.lockIndex(id)
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	if err := s.space.writable(); err != nil {
		return nil, nil, err
	}
	if partitions, err = checkPartitions(partitions); err != nil {
		return nil, nil, err
	}
	v := ix.view.Load()
	switch {
	case v.build != nil || v.move != nil:
		return nil, nil, ErrBusy
	case v.read == nil:
		return nil, nil, ErrNoIndex
	}
	g, set := s.openGeneration(partitions)
	return v.read, g, s.changeDef(ix, *ix.def.Load(), newView(v.read, nil, g), set)
}

// finishMove makes g readable, or drops it if the copy is not complete.
func (s *Store) finishMove(id catalog.IndexID, g *generation, complete bool) error {
	ix, unlock, err := s.lockIndex(id)
	if err != nil {
		return err
	}
	defer unlock()
	v := ix.view.Load()
	if v.move != g {
		return ErrSuperseded
	}
	if complete {
		v = newView(g, nil, nil)
	} else {
		v = newView(v.read, nil, nil)
	}
	return s.changeDef(ix, *ix.def.Load(), v, nil)
}

func (s *Store) copyGeneration(ctx context.Context, from, to *generation, progress func(float64)) error {
	// An Add after the view changed is in both generations, one before it may
	// not be in Pebble.
	if err := s.recent.flush(); err != nil {
		return err
	}
	total, _ := from.entries()
	copied := int64(0)
	b := batchPool.Get().(*batch)
	defer b.release()
	sc := &scratch{}
	var pairs []ShardEpoch
	var record []byte
	for _, p := range from.parts {
		for next := []byte{}; next != nil; {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := s.space.writable(); err != nil {
				return err
			}
			// Each slice reads its own snapshot, so that a long copy doesn't
			// keep old versions from being compacted.
			n := 0
			start := next
			next = nil
			if err := s.db.reading(); err != nil {
				return err
			}
			err := p.iterate(s.db, sc, start, nil, func(key, val []byte) (bool, error) {
				if n == moveSlice {
					next = append([]byte{}, key...)
					return false, nil
				}
				n++
				var err error
				if pairs, err = decodePairs(pairs[:0], val); err != nil {
					return false, err
				}
				target := to.partition(key)
				record = append(append(record[:0], target.prefix...), key...)
				r := b.request(requestAdd, target)
				for _, pair := range pairs {
					addPair(r, record, pair)
				}
				copied += int64(len(pairs))
				return true, nil
			})
			s.db.use.RUnlock()
			_, rerr := b.run(nil)
			if err == nil {
				err = rerr
			}
			if err != nil {
				if rerr == errGone { //nolint:errorlint // run returns it as it is
					return ErrSuperseded
				}
				return err
			}
			if progress != nil && total > 0 {
				progress(min(float64(copied)/float64(total), 1))
			}
		}
	}
	return nil
}
