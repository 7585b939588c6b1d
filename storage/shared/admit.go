package shared

import (
	"context"
	"fmt"
	"slices"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
	"github.com/shunt-sql/shunt/storage/home"
)

// Admit looks at a shard that this process is about to join, which is in an epoch. Where the homes know
// of a later one its server has forgotten some, as one that was put back has. Its rows may be of before then,
// and have no entries any more: it is marked, and is to be in epoch raise. Else raise is 0.
//
// Counter-example: row 5 has k = 'old'; it gets 'new', and a scan removes ('old', s0); s0 is restored from a
// backup of before. Nobody would look for 'old' there.
//
// A home that doesn't answer is looked at when it is back: until then its lookups go to all shards.
func (s *Store) Admit(ctx context.Context, shard catalog.ShardID, e storage.Epoch) (raise storage.Epoch, err error) {
	for _, p := range s.homes() {
		s.admit(p, shard, e) // first: it may come back meanwhile
		h, err := p.reach()
		var high storage.Epoch
		if err == nil {
			high, err = h.Highest(ctx, shard)
		}
		if err != nil {
			if out := s.answered(p, err); p.out.Load() == nil {
				return 0, out
			}
			continue
		}
		s.admit(p, shard, 0)
		if high > e {
			raise = max(raise, high+1)
		}
	}
	if raise == 0 {
		return 0, nil
	}
	s.log.Warn("the shard's server has forgotten epochs, as one that was put back has; reads by virtual indexes go to it until it has been scanned", "shard", shard, "epoch", e, "known", raise-1)
	for _, p := range s.homes() {
		if h, err := p.reach(); err == nil {
			if err := s.doubt(ctx, h, shard, raise); err != nil {
				return 0, err
			}
		}
	}
	return raise, nil
}

// Highest is the last epoch of a shard that a home knows of. All homes have to answer.
func (s *Store) Highest(ctx context.Context, shard catalog.ShardID) (highest storage.Epoch, err error) {
	for _, p := range s.homes() {
		h, err := p.reach()
		if err != nil {
			return 0, err
		}
		e, err := h.Highest(ctx, shard)
		if err != nil {
			return 0, err
		}
		highest = max(highest, e)
	}
	return highest, nil
}

// Doubt marks a shard in all indexes, and has it scanned. All homes have to answer.
func (s *Store) Doubt(ctx context.Context, shard catalog.ShardID, e storage.Epoch) error {
	for _, p := range s.homes() {
		h, err := p.reach()
		if err == nil {
			err = s.doubt(ctx, h, shard, e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// doubt marks a shard in all indexes of a home, and has it scanned.
func (s *Store) doubt(ctx context.Context, h *home.Home, shard catalog.ShardID, e storage.Epoch) error {
	heads, err := h.Heads(ctx)
	if err != nil {
		return err
	}
	var marks []storage.Mark
	scans := map[catalog.TableName][]catalog.IndexID{}
	for id := range heads {
		marks = append(marks, storage.Mark{Index: id, Shard: shard, Epoch: e})
		if d, ok := s.Index(id); ok {
			t := catalog.TableName{Schema: d.Schema, Name: d.Table}
			if id = s.state.Load().whole(id); !slices.Contains(scans[t], id) {
				scans[t] = append(scans[t], id)
			}
		}
	}
	if err := h.Mark(ctx, marks); err != nil {
		return fmt.Errorf("mark the shard: %w", err)
	}
	for t, ids := range scans {
		if _, err := s.Enqueue(storage.Job{
			Type: storage.MaintainIndex, Schema: t.Schema, Table: t.Name, Operation: "REPLACED", Shards: catalog.Only(shard), Indexes: ids,
		}); err != nil {
			return err
		}
	}
	return nil
}

// admit notes that a home is still to be asked about a shard; 0: no more.
func (s *Store) admit(p *place, shard catalog.ShardID, e storage.Epoch) {
	s.admitting.Lock()
	defer s.admitting.Unlock()
	if e == 0 {
		delete(p.admits, shard)
		return
	}
	if p.admits == nil {
		p.admits = map[catalog.ShardID]storage.Epoch{}
	}
	p.admits[shard] = e
}

// remember is Admit for a home that was away as shards were joined.
func (s *Store) remember(ctx context.Context, p *place) error {
	s.admitting.Lock()
	defer s.admitting.Unlock()
	h := p.home.Load()
	for shard, e := range p.admits {
		high, err := h.Highest(ctx, shard)
		if err == nil && high > e { // or others have removed something since
			err = s.doubt(ctx, h, shard, high)
		}
		if err != nil {
			return err
		}
		delete(p.admits, shard)
	}
	return nil
}
