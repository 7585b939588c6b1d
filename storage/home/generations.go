package home

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// Head is what a home has of an index as a whole.
type Head struct {
	// Readable is the generation that lookups read, Building the one that is being built; 0: none.
	Readable, Building uint32
	Life, Removals     uint64
}

// Heads returns those of all indexes.
func (h *Home) Heads(ctx context.Context) (map[catalog.IndexID]Head, error) {
	heads := map[catalog.IndexID]Head{}
	err := h.each(ctx, func(rows *sql.Rows) error {
		var id catalog.IndexID
		var d Head
		err := rows.Scan(&id, &d.Readable, &d.Building, &d.Life, &d.Removals)
		heads[id] = d
		return err
	}, "SELECT idx, readable, building, life, removals FROM heads")
	if err != nil {
		return nil, fmt.Errorf("read the heads of virtual indexes: %w", err)
	}
	return heads, nil
}

// Removals is a number that is another one when something may have been taken away from an index.
func (h *Home) Removals(ctx context.Context) (uint64, error) {
	all := fnv.New64a()
	err := h.each(ctx, func(rows *sql.Rows) error {
		var idx, readable, life, removals uint64
		err := rows.Scan(&idx, &readable, &life, &removals)
		for _, n := range []uint64{idx, readable, life, removals} {
			_, _ = all.Write(binary.LittleEndian.AppendUint64(nil, n)) // never fails
		}
		return err
	}, "SELECT idx, readable, life, removals FROM heads ORDER BY idx")
	if err != nil {
		return 0, fmt.Errorf("read what was removed: %w", err)
	}
	return all.Sum64(), nil
}

// counted bounds how many entries of an index are counted.
const counted = 100_000

// Counts are how many entries each index has, counted up to a bound, and how many generations
// wait to be deleted.
func (h *Home) Counts(ctx context.Context) (entries map[catalog.IndexID]int64, garbage int, err error) {
	entries = map[catalog.IndexID]int64{}
	heads, err := h.Heads(ctx)
	for id, head := range heads {
		var n int64
		if err == nil {
			err = h.row(ctx, &n, "SELECT COUNT(*) FROM (SELECT 1 FROM entries WHERE idx = ? AND generation = ? LIMIT ?) e",
				id, cmp.Or(head.Readable, head.Building), counted)
		}
		entries[id] = n
	}
	if err == nil {
		err = h.row(ctx, &garbage, "SELECT COUNT(*) FROM garbage")
	}
	if err != nil {
		return nil, 0, fmt.Errorf("count entries: %w", err)
	}
	return entries, garbage, nil
}

// locked is a head row that the transaction has locked against all others.
type locked struct {
	readable, building, generations uint32
	life                            uint64
}

// live are the generations that adds and removals go to.
func (l *locked) live() (live []uint32) {
	for _, g := range []uint32{l.readable, l.building} {
		if g != 0 {
			live = append(live, g)
		}
	}
	return live
}

// counted is the generation whose entries are the index's.
func (l *locked) counted() uint32 {
	if l.readable != 0 {
		return l.readable
	}
	return l.building
}

// lockHead locks an index's head row. Whatever changes entries, marks or generations begins there.
func lockHead(ctx context.Context, tx *sql.Tx, id catalog.IndexID, l *locked) (found bool, err error) {
	err = tx.QueryRowContext(ctx, "SELECT readable, building, generations, life FROM heads WHERE idx = ? FOR UPDATE", id).
		Scan(&l.readable, &l.building, &l.generations, &l.life)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// CreateIndex gives a new index a building generation, and none to read. It returns its number.
// storage.ErrIndexExists where the home has one of this number, or still has what one left behind.
func (h *Home) CreateIndex(ctx context.Context, id catalog.IndexID) (generation uint32, err error) {
	if err := h.PlaceIndex(ctx, id, 1); err != nil {
		return 0, err
	}
	return 1, nil
}

// PlaceIndex is CreateIndex of one that other homes have had, or this one: its building generation has
// a number of its own, and later ones higher ones.
func (h *Home) PlaceIndex(ctx context.Context, id catalog.IndexID, generation uint32) error {
	err := h.transaction(ctx, func(tx *sql.Tx) error {
		_, err := exec(ctx, tx, "INSERT INTO heads (idx, building, generations, life) SELECT ?, ?, ?, life FROM home LOCK IN SHARE MODE", id, generation, generation)
		if err != nil {
			return err
		}
		var left int
		err = tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM garbage WHERE idx = ? AND generation >= ? LOCK IN SHARE MODE", id, generation).Scan(&left)
		if err == nil && left > 0 {
			err = storage.ErrIndexExists
		}
		return err
	})
	if errorNumber(err) == errDuplicate {
		err = storage.ErrIndexExists
	}
	if err != nil {
		return fmt.Errorf("create virtual index %d: %w", id, err)
	}
	return nil
}

// change changes an index's head row, which is locked.
func (h *Home) change(ctx context.Context, verb string, id catalog.IndexID, fn func(tx *sql.Tx, head *locked) error) error {
	err := h.transaction(ctx, func(tx *sql.Tx) error {
		var head locked
		found, err := lockHead(ctx, tx, id, &head)
		if err == nil && !found {
			err = storage.ErrNoIndex
		}
		if err != nil {
			return err
		}
		return fn(tx, &head)
	})
	if err != nil {
		return fmt.Errorf("%s virtual index %d: %w", verb, id, err)
	}
	return nil
}

// discard has DeleteGarbage delete a generation. REQUIRES: the head row, which is locked, names it no more
// when the transaction ends.
func discard(ctx context.Context, tx *sql.Tx, id catalog.IndexID, generation uint32) error {
	if generation == 0 {
		return nil
	}
	_, err := tx.ExecContext(ctx, "INSERT IGNORE INTO garbage (idx, generation) VALUES (?, ?)", id, generation)
	return err
}

// StartBuild opens an empty building generation, dropping an unfinished one, and returns its
// number. Reads stay on the readable generation if there is one; Add writes to both from now on.
//
// REQUIRES: as storage.Store.StartBuild: what was open when it returned isn't in the generation.
func (h *Home) StartBuild(ctx context.Context, id catalog.IndexID) (generation uint32, err error) {
	err = h.change(ctx, "start a build of", id, func(tx *sql.Tx, head *locked) error {
		if err := discard(ctx, tx, id, head.building); err != nil {
			return err
		}
		generation = head.generations + 1
		_, err := exec(ctx, tx, "UPDATE heads SET building = ?, generations = ? WHERE idx = ?", generation, generation, id)
		return err
	})
	return generation, err
}

// FinishBuild makes the building generation the readable one, with the floors that its scans have
// found: epochs that began after their snapshots. storage.ErrNotBuilding where none is building,
// storage.ErrSuperseded where it is another one, storage.ErrNoIndex.
func (h *Home) FinishBuild(ctx context.Context, id catalog.IndexID, generation uint32, floors map[catalog.ShardID]storage.Epoch) error {
	return h.change(ctx, "finish the build of", id, func(tx *sql.Tx, head *locked) error {
		switch head.building {
		case 0:
			return storage.ErrNotBuilding
		case generation:
		default:
			return superseded("generation %d is built, and not %d", head.building, generation)
		}
		if err := discard(ctx, tx, id, head.readable); err != nil {
			return err
		}
		if len(floors) > 0 {
			var args []any
			for shard, e := range floors {
				args = append(args, id, shard, uint64(e))
			}
			_, err := exec(ctx, tx, "INSERT INTO shards (idx, shard, floor) "+h.flavour.values(len(floors), 3)+
				" ON DUPLICATE KEY UPDATE floor = GREATEST(shards.floor, VALUES(floor))", args...)
			if err != nil {
				return err
			}
		}
		_, err := exec(ctx, tx, "UPDATE heads SET readable = building, building = 0, removals = removals + 1 WHERE idx = ?", id)
		return err
	})
}

// DropIndex forgets an index with its entries and marks. storage.ErrNoIndex.
func (h *Home) DropIndex(ctx context.Context, id catalog.IndexID) error {
	return h.change(ctx, "drop", id, func(tx *sql.Tx, head *locked) error {
		for _, g := range head.live() {
			if err := discard(ctx, tx, id, g); err != nil {
				return err
			}
		}
		for _, table := range []string{"marks", "shards", "heads"} {
			if _, err := exec(ctx, tx, "DELETE FROM "+table+" WHERE idx = ?", id); err != nil {
				return err
			}
		}
		return nil
	})
}

// DeleteGarbage deletes up to slice entries (at least one) of generations that are no longer live,
// and says whether there may be more. Nobody adds to such a generation: Add has the head's lock.
func (h *Home) DeleteGarbage(ctx context.Context, slice int) (more bool, err error) {
	slice = max(slice, 1)
	err = h.transaction(ctx, func(tx *sql.Tx) error {
		var id catalog.IndexID
		var generation uint32
		err := tx.QueryRowContext(ctx, "SELECT idx, generation FROM garbage ORDER BY idx, generation LIMIT 1 FOR UPDATE").Scan(&id, &generation)
		if more = err == nil; errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		n, err := exec(ctx, tx, "DELETE FROM entries WHERE idx = ? AND generation = ? ORDER BY idx, generation, k, shard LIMIT ?", id, generation, slice)
		if err == nil && n < int64(slice) {
			_, err = exec(ctx, tx, "DELETE FROM garbage WHERE idx = ? AND generation = ?", id, generation)
		}
		return err
	})
	if err != nil {
		return true, fmt.Errorf("delete old generations: %w", err)
	}
	return more, nil
}

// Life is the home's life.
func (h *Home) Life(ctx context.Context) (life uint64, err error) {
	if err := h.row(ctx, &life, "SELECT life FROM home"); err != nil {
		return 0, fmt.Errorf("read the home's life: %w", err)
	}
	return life, nil
}

// InUse reports that the server which answers is the home. One that was opened by OpenAny may not be.
func (h *Home) InUse(ctx context.Context) (is bool, err error) {
	if err := h.row(ctx, &is, "SELECT server = "+h.flavour.server+" FROM home"); err != nil {
		return false, fmt.Errorf("see which server is the home: %w", err)
	}
	return is, nil
}

// NewLife says that another server, or a store that went back, is the home: what it has of its
// indexes may lack entries and marks. In one transaction its life is raised, every index is marked
// on the shards given, in their present epochs, and builds under way are dropped. Nothing happens
// where its life is that already, or a later one.
//
// REQUIRES: nobody uses the server that was in use before, and life is later than all of its.
func (h *Home) NewLife(ctx context.Context, life uint64, shards map[catalog.ShardID]storage.Epoch) error {
	err := h.transaction(ctx, func(tx *sql.Tx) error {
		var had uint64
		var same bool
		err := tx.QueryRowContext(ctx, "SELECT life, server = "+h.flavour.server+" FROM home FOR UPDATE").Scan(&had, &same)
		if err == nil && had >= life && !same {
			err = fmt.Errorf("it has been in life %d: %w", had, ErrOtherServer)
		}
		if err != nil || had >= life {
			return err
		}
		var ids []catalog.IndexID
		err = each(ctx, tx, func(rows *sql.Rows) error {
			var id catalog.IndexID
			err := rows.Scan(&id)
			ids = append(ids, id)
			return err
		}, "SELECT idx FROM heads ORDER BY idx FOR UPDATE")
		if err != nil {
			return err
		}
		var marks []markRow
		for _, id := range ids {
			for shard, e := range shards {
				marks = append(marks, markRow{id, shard, []byte{}, e})
			}
		}
		if len(marks) > 0 {
			for _, p := range h.pieces(len(marks), func(int) int { return 0 }) {
				if err := h.markPiece(ctx, tx, marks[p[0]:p[1]]); err != nil {
					return err
				}
			}
		}
		for _, q := range []string{
			"INSERT IGNORE INTO garbage (idx, generation) SELECT idx, building FROM heads WHERE building > 0",
			"UPDATE heads SET building = 0",
		} {
			if _, err := exec(ctx, tx, q); err != nil {
				return err
			}
		}
		for _, q := range []string{"UPDATE heads SET life = ?", "UPDATE home SET life = ?, server = " + h.flavour.server} {
			if _, err := exec(ctx, tx, q, life); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("begin life %d of the home: %w", life, err)
	}
	return nil
}
