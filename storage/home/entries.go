package home

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

const (
	// pieceKeys and pieceBytes bound the keys of one statement.
	pieceKeys  = 500
	pieceBytes = 1 << 20
)

// Add makes the entries exist with at least their epochs, in every live generation of their
// indexes. When it returns they are as durable as the home makes what it commits. Entries of an
// unknown index are ignored. All or none, but for an error of the last step: then it isn't known
// which.
//
// Rule add under the head's lock: which generations are live is read under a lock that StartBuild,
// FinishBuild and DropIndex wait for. Counter-example: Add reads that there is no building
// generation; a build starts, scans the shard and ends; Add's entry goes into the old generation,
// which nobody reads, or into one whose garbage has been deleted.
//
// REQUIRES: the caller has registered its statement on the shard in an epoch no later than the
// entries'.
func (h *Home) Add(ctx context.Context, entries []storage.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	kept := make([]storage.Entry, len(entries))
	size := 0
	for i, e := range entries {
		if err := checkKey(e.Key); err != nil {
			return fmt.Errorf("add to virtual index %d: %w: %d bytes", e.Index, err, len(e.Key))
		}
		kept[i] = e
		kept[i].Key = Kept(e.Key)
		size += len(kept[i].Key)
	}
	// The caller may leave before they are sent.
	for i, all := 0, make([]byte, 0, size); i < len(kept); i++ {
		all = append(all, kept[i].Key...)
		kept[i].Key = all[len(all)-len(kept[i].Key):]
	}
	if err := h.adds.do(ctx, kept); err != nil {
		return fmt.Errorf("add entries: %w", err)
	}
	return nil
}

// addAll adds all or none.
func (h *Home) addAll(ctx context.Context, entries []storage.Entry) error {
	// All callers lock in the same order, so that few of them wait in a circle.
	sortEntries(entries)
	pieces := h.pieces(len(entries), func(i int) int { return len(entries[i].Key) })
	if len(pieces) == 1 {
		return h.one(ctx, func(on runs) error { return h.addPiece(ctx, on, entries) })
	}
	return h.transaction(ctx, func(tx *sql.Tx) error {
		for _, p := range pieces {
			if err := h.addPiece(ctx, tx, entries[p[0]:p[1]]); err != nil {
				return err
			}
		}
		return nil
	})
}

func sortEntries(entries []storage.Entry) {
	slices.SortFunc(entries, func(a, b storage.Entry) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), bytes.Compare(a.Key, b.Key), cmp.Compare(a.Shard, b.Shard))
	})
}

// addPiece adds entries in one statement.
func (h *Home) addPiece(ctx context.Context, on runs, entries []storage.Entry) error {
	args := make([]any, 0, 4*len(entries))
	for _, e := range entries {
		args = append(args, e.Index, bytesOf(e.Key), e.Shard, uint64(e.Epoch))
	}
	_, err := on.ExecContext(ctx, `INSERT INTO entries (idx, generation, k, shard, epoch)
		SELECT h.idx, IF(g.building, h.building, h.readable), v.k, v.shard, v.epoch
		FROM `+h.flavour.table(len(entries), "idx", "k", "shard", "epoch")+` v STRAIGHT_JOIN heads h FORCE INDEX (PRIMARY) ON h.idx = v.idx
		STRAIGHT_JOIN (SELECT 0 AS building UNION ALL SELECT 1) g ON IF(g.building, h.building, h.readable) > 0
		LOCK IN SHARE MODE
		ON DUPLICATE KEY UPDATE epoch = GREATEST(entries.epoch, VALUES(epoch))`, args...)
	return err
}

// pieces cuts n things into runs that one statement takes.
func (h *Home) pieces(n int, size func(int) int) (runs [][2]int) {
	from, bytes := 0, 0
	for i := range n {
		if i > from && (i-from == h.piece || bytes+size(i) > pieceBytes) {
			runs = append(runs, [2]int{from, i})
			from, bytes = i, 0
		}
		bytes += size(i)
	}
	return append(runs, [2]int{from, n})
}

// entriesSlice is how many entries a walk reads at a time.
const entriesSlice = 2000

// Entries calls fn with the keys of an index from the kept key from on, as they are kept, in
// order, with all their pairs, until it returns false. key and pairs are only valid during the
// call. building reads the building generation instead of the readable one. It reads in slices:
// what is added meanwhile may be left out. Errors: storage.ErrNoIndex; storage.ErrSuperseded if
// the generation has been replaced before the end.
func (h *Home) Entries(ctx context.Context, id catalog.IndexID, from []byte, building bool, fn func(key []byte, pairs []storage.ShardEpoch) (more bool)) error {
	return h.walk(ctx, walk{id: id, building: building, key: from}, fn)
}

// EntriesOf is Entries for the pairs of one shard.
func (h *Home) EntriesOf(ctx context.Context, id catalog.IndexID, shard catalog.ShardID, from []byte, building bool, fn func(key []byte, e storage.Epoch) (more bool)) error {
	return h.walk(ctx, walk{id: id, building: building, key: from, one: true, shard: shard}, func(key []byte, pairs []storage.ShardEpoch) bool {
		return fn(key, pairs[0].Epoch)
	})
}

// walk is where a walk over entries stands.
type walk struct {
	id       catalog.IndexID
	building bool
	// one: of shard alone.
	one   bool
	shard catalog.ShardID
	// generation is that of the slices before, 0 if there was none.
	generation uint32
	// key and next are where the next slice begins.
	key  []byte
	next int
}

func (h *Home) walk(ctx context.Context, w walk, fn func(key []byte, pairs []storage.ShardEpoch) (more bool)) error {
	var key []byte
	var pairs []storage.ShardEpoch
	for {
		var read []storage.Entry
		err := h.slice(ctx, &w, func(k []byte, p storage.ShardEpoch) {
			read = append(read, storage.Entry{Key: bytes.Clone(k), Shard: p.Shard, Epoch: p.Epoch})
		})
		if err != nil {
			return fmt.Errorf("read virtual index %d: %w", w.id, err)
		}
		sortEntries(read) // a union promises no order
		for _, e := range read {
			if len(pairs) > 0 && !bytes.Equal(e.Key, key) {
				if !fn(key, pairs) {
					return nil
				}
				pairs = pairs[:0]
			}
			key, pairs = e.Key, append(pairs, storage.ShardEpoch{Shard: e.Shard, Epoch: e.Epoch})
		}
		if len(read) < h.walked {
			if len(pairs) > 0 {
				fn(key, pairs)
			}
			return nil
		}
		w.key, w.next = key, int(pairs[len(pairs)-1].Shard)+1
	}
}

// slice reads the next entries of a walk.
func (h *Home) slice(ctx context.Context, w *walk, fn func(key []byte, p storage.ShardEpoch)) error {
	column := "readable"
	if w.building {
		column = "building"
	}
	if w.generation == 0 {
		err := h.row(ctx, &w.generation, "SELECT "+column+" FROM heads WHERE idx = ?", w.id)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if w.generation == 0 {
			return storage.ErrNoIndex
		}
	}
	// The generation is named, so that the index gives the order. It is shown to be live in the same
	// snapshot.
	query := `SELECT 1, '', 0, 0 FROM heads WHERE idx = ? AND ` + column + ` = ? UNION ALL
		(SELECT 0, k, shard, epoch FROM entries FORCE INDEX (PRIMARY) WHERE idx = ? AND generation = ? AND k >= ? AND (k > ? OR shard >= ?)`
	args := []any{w.id, w.generation, w.id, w.generation, bytesOf(w.key), bytesOf(w.key), w.next}
	if w.one {
		query += " AND shard = ?"
		args = append(args, w.shard)
	}
	query += " ORDER BY idx, generation, k, shard LIMIT ?)"
	live := false
	err := h.each(ctx, func(rows *sql.Rows) error {
		var head bool
		var k sql.RawBytes
		var p storage.ShardEpoch
		if err := rows.Scan(&head, &k, &p.Shard, &p.Epoch); err != nil {
			return err
		}
		if head {
			live = true
			return nil
		}
		fn(k, p)
		return nil
	}, query, append(args, h.walked)...)
	if err == nil && !live {
		err = superseded("generation %d is no longer there", w.generation)
	}
	return err
}
