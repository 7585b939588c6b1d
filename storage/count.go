package storage

import (
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"
)

// count counts the entries of generations after an unclean stop, in the
// background. For each partition its writer takes a snapshot between two
// commits and sets the counter to 0: from then on the counter holds what
// changed since the snapshot, so adding what the snapshot holds makes it
// exact.
func (s *Store) count(ctx context.Context, gens []*generation) {
	for _, g := range gens {
		for _, p := range g.parts {
			if ctx.Err() != nil {
				return
			}
			if err := p.recount(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, errGone) {
				s.opt.Logger.Warn("entries of a virtual index are not counted", "error", err)
			}
		}
	}
}

func (p *partition) recount(ctx context.Context) error {
	// Another database is not to be put in its place meanwhile.
	p.store.counting.Lock()
	defer p.store.counting.Unlock()
	r := newRequest(requestSnapshot, p)
	p.submit(r)
	err := <-r.done
	snapshot := r.snapshot
	r.release()
	if snapshot == nil {
		return err
	}
	defer snapshot.Close()
	if err != nil {
		return err
	}
	n, err := p.pairs(ctx, snapshot)
	if err != nil {
		return err
	}
	p.count.Add(n)
	p.counted.Store(true)
	return nil
}

// pairs counts the (key, shard) pairs of p in a snapshot.
func (p *partition) pairs(ctx context.Context, from pebble.Reader) (int64, error) {
	var n int64
	sc := &scratch{}
	err := p.iterate(from, sc, nil, nil, func(_, val []byte) (bool, error) {
		// Two numbers a pair; the last byte of each is less than 0x80.
		numbers := int64(0)
		for _, b := range val {
			if b < 0x80 {
				numbers++
			}
		}
		n += numbers / 2
		return true, ctx.Err()
	})
	return n, err
}
