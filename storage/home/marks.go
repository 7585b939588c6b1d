package home

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

const (
	// maxKnown bounds what is known of a mark, encoded. One with more says that nothing is.
	maxKnown = 1000
	// maxPartialMarks bounds the marks with known components of one (index, shard): more become
	// one that knows nothing, since every lookup reads them.
	maxPartialMarks = 64
)

// Mark sets unknown marks. When it returns, lookups that begin include the marked shards. A mark
// that is there gets the higher epoch. Marks of an unknown index are ignored. An error may leave
// some of several marks set.
//
// REQUIRES: as of Add.
func (h *Home) Mark(ctx context.Context, marks []storage.Mark) error {
	if len(marks) == 0 {
		return nil
	}
	rows := make([]markRow, len(marks))
	var partial []any
	for i, m := range marks {
		rows[i] = markRow{m.Index, m.Shard, encodeMark(m), m.Epoch}
		if len(rows[i].known) > 0 {
			partial = append(partial, m.Index)
		}
	}
	slices.SortFunc(rows, func(a, b markRow) int {
		return cmp.Or(cmp.Compare(a.index, b.index), cmp.Compare(a.shard, b.shard), bytes.Compare(a.known, b.known))
	})
	for _, p := range h.pieces(len(rows), func(i int) int { return len(rows[i].known) }) {
		if err := h.transaction(ctx, func(tx *sql.Tx) error { return h.markPiece(ctx, tx, rows[p[0]:p[1]]) }); err != nil {
			return fmt.Errorf("mark virtual indexes: %w", err)
		}
	}
	if len(partial) > 0 {
		if err := h.collapse(ctx, partial); err != nil {
			return fmt.Errorf("put marks of virtual indexes together: %w", err)
		}
	}
	return nil
}

type markRow struct {
	index catalog.IndexID
	shard catalog.ShardID
	known []byte
	epoch storage.Epoch
}

// markPiece sets marks, and says in the heads that it has: lookups keep marks in memory.
func (h *Home) markPiece(ctx context.Context, tx *sql.Tx, rows []markRow) error {
	args := make([]any, 0, 4*len(rows))
	var ids []any
	for _, r := range rows {
		args = append(args, r.index, r.shard, r.known, uint64(r.epoch))
		if len(ids) == 0 || ids[len(ids)-1] != r.index {
			ids = append(ids, r.index)
		}
	}
	if _, err := tx.ExecContext(ctx, "UPDATE heads SET marked = marked + 1 WHERE idx IN ("+marksOf(len(ids))+") ORDER BY idx", ids...); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO marks (idx, shard, known, epoch)
		SELECT h.idx, v.shard, v.known, v.epoch FROM `+h.flavour.table(len(rows), "idx", "shard", "known", "epoch")+` v
		STRAIGHT_JOIN heads h FORCE INDEX (PRIMARY) ON h.idx = v.idx LOCK IN SHARE MODE
		ON DUPLICATE KEY UPDATE epoch = GREATEST(marks.epoch, VALUES(epoch))`, args...)
	return err
}

// collapse puts one mark that knows nothing in the place of too many that know something.
func (h *Home) collapse(ctx context.Context, ids []any) error {
	var many []markRow
	err := h.each(ctx, func(rows *sql.Rows) error {
		var m markRow
		err := rows.Scan(&m.index, &m.shard)
		many = append(many, m)
		return err
	}, `SELECT idx, shard FROM marks WHERE known <> '' AND idx IN (`+marksOf(len(ids))+`)
		GROUP BY idx, shard HAVING COUNT(*) > ?`, append(ids, maxPartialMarks)...)
	if err != nil {
		return err
	}
	for _, m := range many {
		err := h.transaction(ctx, func(tx *sql.Tx) error {
			if ok, err := lockHead(ctx, tx, m.index, new(locked)); err != nil || !ok {
				return err
			}
			if err := tx.QueryRowContext(ctx, "SELECT COALESCE(MAX(epoch), 0) FROM marks WHERE idx = ? AND shard = ?", m.index, m.shard).Scan(&m.epoch); err != nil {
				return err
			}
			m.known = []byte{}
			if err := h.markPiece(ctx, tx, []markRow{m}); err != nil {
				return err
			}
			// What has come since has a later epoch, or is covered.
			_, err := tx.ExecContext(ctx, "DELETE FROM marks WHERE idx = ? AND shard = ? AND known <> '' AND epoch <= ?", m.index, m.shard, uint64(m.epoch))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Marks returns the marks of an index by shard.
func (h *Home) Marks(ctx context.Context, id catalog.IndexID) ([]storage.Mark, error) {
	return h.marks(ctx, "WHERE idx = ?", id)
}

// AllMarks returns the marks of all indexes by index and shard.
func (h *Home) AllMarks(ctx context.Context) ([]storage.Mark, error) { return h.marks(ctx, "") }

func (h *Home) marks(ctx context.Context, where string, args ...any) (marks []storage.Mark, err error) {
	err = h.each(ctx, func(rows *sql.Rows) error {
		var m storage.Mark
		var known []byte
		if err := rows.Scan(&m.Index, &m.Shard, &known, &m.Epoch); err != nil {
			return err
		}
		err := decodeMark(known, &m)
		marks = append(marks, m)
		return err
	}, "SELECT idx, shard, known, epoch FROM marks "+where+" ORDER BY idx, shard, known", args...)
	if err != nil {
		return nil, fmt.Errorf("read marks: %w", err)
	}
	return marks, nil
}

// Clear removes those marks of (index, shard) that are logged and whose epoch is less than before.
func (h *Home) Clear(ctx context.Context, id catalog.IndexID, shard catalog.ShardID, before storage.Epoch) (cleared int, err error) {
	err = h.transaction(ctx, func(tx *sql.Tx) error {
		cleared = 0
		if found, err := lockHead(ctx, tx, id, new(locked)); err != nil || !found {
			return err
		}
		var logged []any
		err := each(ctx, tx, func(rows *sql.Rows) error {
			var known []byte
			var m storage.Mark
			if err := rows.Scan(&known); err != nil {
				return err
			}
			err := decodeMark(known, &m)
			if m.Logged {
				logged = append(logged, known)
			}
			return err
		}, "SELECT known FROM marks WHERE idx = ? AND shard = ? AND epoch < ? FOR UPDATE", id, shard, uint64(before))
		if err != nil || len(logged) == 0 {
			return err
		}
		n, err := exec(ctx, tx, "DELETE FROM marks WHERE idx = ? AND shard = ? AND known IN ("+marksOf(len(logged))+")", append([]any{id, shard}, logged...)...)
		cleared = int(n)
		if err == nil {
			_, err = exec(ctx, tx, "UPDATE heads SET marked = marked + 1 WHERE idx = ?", id)
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("clear marks of virtual index %d: %w", id, err)
	}
	return cleared, nil
}

// Unlog makes marks of (index, shard) that are logged marks that aren't, and reports that there were some.
func (h *Home) Unlog(ctx context.Context, id catalog.IndexID, shard catalog.ShardID) (had bool, err error) {
	marks, err := h.marks(ctx, "WHERE idx = ? AND shard = ?", id, shard)
	if err != nil {
		return false, err
	}
	marks = slices.DeleteFunc(marks, func(m storage.Mark) bool { return !m.Logged })
	for i := range marks {
		marks[i].Logged = false
	}
	return len(marks) > 0, h.Mark(ctx, marks)
}

// encodeMark is what is known of a mark: for each component 0, or its length + 1 and itself. It has no
// unknown ones at its end, so the same knowledge has one form, but for one where the mark is logged.
// Empty: nothing is known.
func encodeMark(m storage.Mark) []byte {
	known := m.Known
	n := len(known)
	for n > 0 && known[n-1] == nil {
		n--
	}
	out := []byte{}
	for _, c := range known[:n] {
		if c == nil {
			out = append(out, 0)
			continue
		}
		out = append(binary.AppendUvarint(out, uint64(len(c))+1), c...)
	}
	if len(out) >= maxKnown {
		out = out[:0]
	}
	if m.Logged {
		out = append(out, 0)
	}
	return out
}

var errKnown = errors.New("what is known of a mark can't be read")

func decodeMark(b []byte, m *storage.Mark) error {
	for len(b) > 0 {
		n, l := binary.Uvarint(b)
		if l <= 0 || n > 0 && n-1 > uint64(len(b)-l) {
			return errKnown
		}
		b = b[l:]
		switch {
		case n > 0:
			m.Known = append(m.Known, append([]byte{}, b[:n-1]...))
			b = b[n-1:]
		case len(b) > 0:
			m.Known = append(m.Known, nil)
		default:
			m.Logged = true
		}
	}
	return nil
}
