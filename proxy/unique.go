package proxy

import (
	"context"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// onlyOnce asks the other shards for rows of the unique keys that a write has given to some of
// its own (see plan.Unique), and fails as a server does where there is one. REQUIRES: the write
// is executed in the session's transaction, and undone where onlyOnce fails.
func (s *session) onlyOnce(ctx context.Context, u *plan.Unique, affected uint64) error {
	looks := u.Elsewhere()
	if affected == 0 || len(looks) == 0 {
		return nil
	}
	var shards catalog.ShardSet
	for _, l := range looks {
		shards.Add(l.Shard)
	}
	if err := s.tx.join(ctx, shards); err != nil {
		return err
	}
	if looks[0].Rows == nil {
		return s.oneOfEach(ctx, u, looks, shards)
	}
	if err := s.canUndo(ctx, u.Table); err != nil {
		return err
	}
	duplicates := make([]error, len(s.catalog().Shards))
	lastID := s.diag.insertID
	met, err := s.onEach(shards, func(id catalog.ShardID, conn *shard.Conn) (met bool, err error) {
		for _, l := range looks {
			if l.Shard == id {
				duplicates[id], err = tryRows(ctx, conn, u, l, lastID)
			}
		}
		return duplicates[id] != nil, err
	})
	if err == nil && !met.Empty() {
		err = coded(duplicates[met.First()])
	}
	return err
}

// tryRows tries rows on a shard, and returns the error of one that meets another. Where one has
// an error of its own the server doesn't look at those behind it.
func tryRows(ctx context.Context, conn *shard.Conn, u *plan.Unique, l plan.Look, lastID uint64) (duplicate, err error) {
	met, refused, err := tryOn(ctx, conn, l.SQL, false, lastID)
	switch {
	case err != nil:
		return nil, err
	case met:
		return refused, nil
	case refused == nil || len(l.Rows) == 1:
		return nil, nil
	}
	for _, one := range u.Each(l) {
		if duplicate, err = tryRows(ctx, conn, u, one, lastID); duplicate != nil || err != nil {
			return duplicate, err
		}
	}
	return nil, nil
}

// oneOfEach fails where two shards have rows of one of the keys that an UPDATE has set.
func (s *session) oneOfEach(ctx context.Context, u *plan.Unique, looks []plan.Look, shards catalog.ShardSet) error {
	having := make([]map[int]bool, len(s.catalog().Shards))
	_, err := s.onEach(shards, func(id catalog.ShardID, conn *shard.Conn) (bool, error) {
		having[id] = map[int]bool{}
		for _, l := range looks {
			if l.Shard != id {
				continue
			}
			res, err := conn.Query(ctx, l.SQL)
			if err != nil {
				return false, err
			}
			having[id][l.Key] = len(res.Rows) > 0
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	of := map[int]int{}
	for id := range shards.All {
		for key, has := range having[id] {
			if has {
				of[key]++
			}
			if of[key] < 2 {
				continue
			}
			if u.Ignore {
				return refuse("UPDATE IGNORE of %s that would make a second row of a unique key, on another shard, is not supported: leave that row out by WHERE", u.Table.Name)
			}
			return u.Duplicate(key)
		}
	}
	return nil
}
