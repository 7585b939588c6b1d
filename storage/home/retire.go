package home

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// OpenGate lets the scan that began in the epoch e of the shard remove what it finds gone, and no
// earlier one: gate = GREATEST(gate, e). The scan loads what the index has after that. Unknown
// indexes have no part in the answer.
func (h *Home) OpenGate(ctx context.Context, ids []catalog.IndexID, shard catalog.ShardID, e storage.Epoch) (map[catalog.IndexID]storage.Gate, error) {
	gates := map[catalog.IndexID]storage.Gate{}
	if len(ids) == 0 {
		return gates, nil
	}
	of := make([]any, len(ids))
	for i, id := range ids {
		of[i] = id
	}
	_, err := h.exec(ctx, `INSERT INTO shards (idx, shard, gate)
		SELECT h.idx, ?, ? FROM heads h WHERE h.idx IN (`+marksOf(len(ids))+`) LOCK IN SHARE MODE
		ON DUPLICATE KEY UPDATE gate = GREATEST(shards.gate, VALUES(gate))`, append([]any{shard, uint64(e)}, of...)...)
	if err == nil {
		err = h.each(ctx, func(rows *sql.Rows) error {
			var id catalog.IndexID
			var g storage.Gate
			var readable, building uint32
			err := rows.Scan(&id, &g.Epoch, &g.Life, &readable, &building)
			g.Generation, g.Sole = max(readable, building), readable != 0 && building == 0
			gates[id] = g
			return err
		}, `SELECT h.idx, s.gate, h.life, h.readable, h.building FROM heads h JOIN shards s ON s.idx = h.idx AND s.shard = ? WHERE h.idx IN (`+marksOf(len(ids))+`)`,
			append([]any{shard}, of...)...)
	}
	if err != nil {
		return nil, fmt.Errorf("open a scan's gate: %w", err)
	}
	return gates, nil
}

// Retire removes the entries (of all live generations) and marks, and says how many went; of
// entries those of the readable generation, or of the building one if there is no other. Where
// anything went, the floor is After at least, and removals has changed: all of it in one
// transaction. storage.ErrSuperseded if a later scan has opened its gate, the home has a new life,
// or the index is gone. The caller bounds Keys to some thousand: adds to the index wait meanwhile.
//
// Rule gate: the scan's evidence is checked where the removal is made, under the head's lock.
// Counter-example: a scan is held up before its removal; a later one finds the row that has come
// since, sees its entry in place with the epoch of long ago, and ends; then the first one removes it.
func (h *Home) Retire(ctx context.Context, r storage.Retirement) (removed, cleared int, err error) {
	err = h.transaction(ctx, func(tx *sql.Tx) error {
		removed, cleared = 0, 0
		var head locked
		found, err := lockHead(ctx, tx, r.Index, &head)
		if err != nil {
			return err
		}
		var gate storage.Epoch
		if found {
			err = tx.QueryRowContext(ctx, "SELECT gate FROM shards WHERE idx = ? AND shard = ? FOR UPDATE", r.Index, r.Shard).Scan(&gate)
		}
		switch {
		case err != nil && !errors.Is(err, sql.ErrNoRows):
			return err
		case !found:
			return superseded("the index was dropped")
		case gate != r.Gate.Epoch:
			return superseded("the scan of epoch %d may not remove: the gate is %d", r.Gate.Epoch, gate)
		case head.life != r.Gate.Life:
			return superseded("the scan began in life %d of the home, which is in life %d", r.Gate.Life, head.life)
		case max(head.readable, head.building) > r.Gate.Generation:
			return superseded("the scan knows nothing of generation %d", max(head.readable, head.building))
		}
		gone := false
		for _, g := range head.live() {
			n, err := h.removeFrom(ctx, tx, r, g)
			if err != nil {
				return err
			}
			gone = gone || n > 0
			if g == head.counted() {
				removed = n
			}
		}
		if r.Marks {
			n, err := exec(ctx, tx, "DELETE FROM marks WHERE idx = ? AND shard = ? AND epoch < ?", r.Index, r.Shard, uint64(r.Before))
			if err != nil {
				return err
			}
			cleared = int(n)
		}
		if !gone && cleared == 0 {
			return nil
		}
		if _, err := exec(ctx, tx, "UPDATE shards SET floor = GREATEST(floor, ?) WHERE idx = ? AND shard = ?", uint64(r.After), r.Index, r.Shard); err != nil {
			return err
		}
		_, err = exec(ctx, tx, "UPDATE heads SET removals = removals + 1 WHERE idx = ?", r.Index)
		return err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("retire from virtual index %d: %w", r.Index, err)
	}
	return removed, cleared, nil
}

func (h *Home) removeFrom(ctx context.Context, tx *sql.Tx, r storage.Retirement, generation uint32) (removed int, err error) {
	if len(r.Keys) == 0 {
		return 0, nil
	}
	for _, p := range h.pieces(len(r.Keys), func(i int) int { return len(r.Keys[i]) }) {
		args := make([]any, 0, p[1]-p[0]+4)
		for _, k := range r.Keys[p[0]:p[1]] {
			if len(k) > maxKept { // Entries gives those that are as long as they are kept
				k = Kept(k)
			}
			args = append(args, bytesOf(k))
		}
		n, err := exec(ctx, tx, "DELETE e FROM "+h.flavour.table(len(args), "k")+` v STRAIGHT_JOIN entries e FORCE INDEX (PRIMARY)
			ON e.idx = ? AND e.generation = ? AND e.k = v.k AND e.shard = ? WHERE e.epoch < ?`,
			append(args, r.Index, generation, r.Shard, uint64(r.Before))...)
		if err != nil {
			return 0, err
		}
		removed += int(n)
	}
	return removed, nil
}

// Highest is the highest epoch of a shard by which something was removed, or may be, or is marked: the
// shard's own is no lower, unless its server has forgotten some.
func (h *Home) Highest(ctx context.Context, shard catalog.ShardID) (storage.Epoch, error) {
	var e uint64
	err := h.db.QueryRowContext(ctx, `SELECT GREATEST(COALESCE((SELECT MAX(GREATEST(floor, gate)) FROM shards WHERE shard = ?), 0),
		COALESCE((SELECT MAX(epoch) FROM marks WHERE shard = ?), 0))`, shard, shard).Scan(&e)
	if err != nil {
		return 0, fmt.Errorf("read the epochs of a shard: %w", err)
	}
	return storage.Epoch(e), nil
}
