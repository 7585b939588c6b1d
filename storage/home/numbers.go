package home

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// Sequences hand out the numbers of AUTO_INCREMENT columns, none twice, to all members. A member
// takes many at a time and hands them out from memory; those of one that dies are left out.
//
// Invariant of a row: no number at or over next was handed out, but for the ones before a restart.
//
//	started   TakeNumbers may take; else the table is to be asked first
//	restart   the next StartSequence may begin lower
//	doubted   next says nothing of what is in the table: the sequence isn't Kept
//	late      if above 0, how many more times numbers are taken behind answers of before a doubt
//	restarts  another number for each life of the name and each restart; of a new row a random one
//	doubts    another number for each doubt
type sequence struct {
	next                      uint64
	started, restart, doubted bool
	late                      int
	restarts, doubts          uint64
}

// readSequence reads a table's sequence; lock is "FOR UPDATE" or nothing.
func readSequence(ctx context.Context, on runs, t catalog.TableName, lock string) (q sequence, found bool, err error) {
	err = on.QueryRowContext(ctx, "SELECT next, started, restart, doubted, late, restarts, doubts FROM numbers WHERE schema_name = ? AND table_name = ? "+lock, nameArgs(t)...).
		Scan(&q.next, &q.started, &q.restart, &q.doubted, &q.late, &q.restarts, &q.doubts)
	if errors.Is(err, sql.ErrNoRows) {
		return sequence{}, false, nil
	}
	return q, err == nil, err
}

func (q sequence) write(ctx context.Context, tx *sql.Tx, t catalog.TableName) error {
	_, err := exec(ctx, tx, "UPDATE numbers SET next = ?, started = ?, restart = ?, doubted = ?, late = ?, restarts = ?, doubts = ? WHERE schema_name = ? AND table_name = ?",
		append([]any{q.next, q.started, q.restart, q.doubted, q.late, q.restarts, q.doubts}, nameArgs(t)...)...)
	return err
}

func nameArgs(t catalog.TableName) []any { return []any{[]byte(t.Schema), []byte(t.Name)} }

// changeSequence changes a sequence, which is locked, where there is one.
func (h *Home) changeSequence(ctx context.Context, verb string, t catalog.TableName, fn func(q *sequence) error) error {
	err := h.transaction(ctx, func(tx *sql.Tx) error {
		q, found, err := readSequence(ctx, tx, t, "FOR UPDATE")
		if err != nil || !found {
			return err
		}
		had := q
		if err := fn(&q); err != nil || q == had {
			return err
		}
		return q.write(ctx, tx, t)
	})
	if err != nil {
		return fmt.Errorf("%s the sequence of %s.%s: %w", verb, t.Schema, t.Name, err)
	}
	return nil
}

// TakeNumbers hands out numbers of a table's sequence, and returns the first. take is told the lowest
// that was never handed out, and returns the one after the last that it takes, which is no less. It
// may be called more than once; the last time counts. storage.ErrUnstarted where StartSequence is to be
// called first. After another error the numbers may be taken, and are left out.
func (h *Home) TakeNumbers(ctx context.Context, t catalog.TableName, take func(next uint64) (end uint64)) (first uint64, err error) {
	started := false
	err = h.changeSequence(ctx, "take numbers of", t, func(q *sequence) error {
		if started = q.started && !q.restart; !started {
			return nil
		}
		end := take(q.next)
		if end < q.next {
			return fmt.Errorf("%d is less than %d", end, q.next)
		}
		first, q.next = q.next, end
		if q.late > 0 {
			q.late--
			q.started = q.late > 0
		}
		return nil
	})
	if err == nil && !started {
		err = storage.ErrUnstarted
	}
	if err != nil {
		return 0, err
	}
	return first, nil
}

// StartSequence asks the table from where on no number is in it. The sequence goes on there, or higher
// where it stands higher, but for one that has been restarted, which begins there.
//
// Rule late answer: as of storage.Store.StartSequence, over all members. What was answered to who asked
// before a restart has no effect; the next TakeNumbers is storage.ErrUnstarted again.
func (h *Home) StartSequence(ctx context.Context, t catalog.TableName, ask func() (from uint64, err error)) error {
	asked, err := h.sequenceOf(ctx, t)
	if err != nil {
		return fmt.Errorf("start the sequence of %s.%s: %w", t.Schema, t.Name, err)
	}
	from, err := ask()
	if err != nil {
		return err
	}
	return h.changeSequence(ctx, "start", t, func(q *sequence) error {
		if q.restarts != asked.restarts {
			return nil
		}
		if q.restart {
			q.next, q.restart = from, false
		}
		q.next = max(q.next, from)
		switch late := q.doubts != asked.doubts; {
		case !late:
			q.started, q.doubted, q.late = true, false, 0
		case !q.started || q.late > 0:
			q.started = true
			q.late++
		}
		return nil
	})
}

// sequenceOf returns a table's sequence, which it makes if there is none.
func (h *Home) sequenceOf(ctx context.Context, t catalog.TableName) (q sequence, err error) {
	for range maxAttempts {
		q, found, err := readSequence(ctx, h.db, t, "")
		if err != nil || found {
			return q, h.told(err)
		}
		_, err = h.exec(ctx, "INSERT IGNORE INTO numbers (schema_name, table_name, restarts) VALUES (?, ?, ?)", append(nameArgs(t), newRestarts())...)
		if err != nil {
			return sequence{}, err
		}
	}
	return sequence{}, errors.New("it is dropped again and again")
}

// newRestarts is a number that no row before had. It leaves room for restarts.
func newRestarts() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint64(b[:]) >> 1
}

// Sequences returns for each table the number from which on none was ever handed out.
func (h *Home) Sequences(ctx context.Context) (map[catalog.TableName]uint64, error) {
	out := map[catalog.TableName]uint64{}
	err := h.each(ctx, func(rows *sql.Rows) error {
		var schema, name []byte
		var next uint64
		err := rows.Scan(&schema, &name, &next)
		out[catalog.TableName{Schema: string(schema), Name: string(name)}] = next
		return err
	}, "SELECT schema_name, table_name, next FROM numbers WHERE next > 0")
	if err != nil {
		return nil, fmt.Errorf("read the sequences: %w", err)
	}
	return out, nil
}

// SequenceKept reports whether the home knows of numbers that were handed out for the table.
func (h *Home) SequenceKept(ctx context.Context, t catalog.TableName) (bool, error) {
	q, _, err := readSequence(ctx, h.db, t, "")
	if err != nil {
		return false, fmt.Errorf("read the sequence of %s.%s: %w", t.Schema, t.Name, h.told(err))
	}
	return q.next > 0 && !q.restart && !q.doubted, nil
}

// DoubtSequence says that the table may hold higher numbers than the sequence knows of: the next
// TakeNumbers is storage.ErrUnstarted. Numbers that members have in memory are theirs to doubt.
func (h *Home) DoubtSequence(ctx context.Context, t catalog.TableName) error {
	return h.changeSequence(ctx, "doubt", t, func(q *sequence) error {
		q.started, q.late = false, 0
		q.doubts++
		return nil
	})
}

// DoubtSequences is DoubtSequence of all, and none is Kept until it has been started again.
func (h *Home) DoubtSequences(ctx context.Context) error {
	if _, err := h.exec(ctx, "UPDATE numbers SET started = 0, late = 0, doubts = doubts + 1, doubted = IF(next > 0, 1, doubted)"); err != nil {
		return fmt.Errorf("doubt the sequences: %w", err)
	}
	return nil
}

// RestartSequence says that the sequence may begin anew, since the table was emptied or its counter was
// set.
//
// REQUIRES: no member has numbers of it, be it in memory or on their way into the table.
// Counter-example: one that was taken before is written behind the restart, and comes again.
func (h *Home) RestartSequence(ctx context.Context, t catalog.TableName) error {
	return h.changeSequence(ctx, "restart", t, func(q *sequence) error {
		q.restart = true
		q.restarts++
		return nil
	})
}

// DropSequence forgets a table's sequence: the table is gone.
//
// REQUIRES: as of RestartSequence.
func (h *Home) DropSequence(ctx context.Context, t catalog.TableName) error {
	if _, err := h.exec(ctx, "DELETE FROM numbers WHERE schema_name = ? AND table_name = ?", nameArgs(t)...); err != nil {
		return fmt.Errorf("drop the sequence of %s.%s: %w", t.Schema, t.Name, err)
	}
	return nil
}

// DropSequences forgets those of all tables of a schema.
//
// REQUIRES: as of RestartSequence.
func (h *Home) DropSequences(ctx context.Context, schema string) error {
	if _, err := h.exec(ctx, "DELETE FROM numbers WHERE schema_name = ?", []byte(schema)); err != nil {
		return fmt.Errorf("drop the sequences of %s: %w", schema, err)
	}
	return nil
}

// RenameSequence moves a sequence to a table's new name. The new one asks where it stands.
func (h *Home) RenameSequence(ctx context.Context, from, to catalog.TableName) error {
	if from == to {
		return nil
	}
	err := h.transaction(ctx, func(tx *sql.Tx) error {
		_, err := exec(ctx, tx, "DELETE FROM numbers WHERE schema_name = ? AND table_name = ?", nameArgs(to)...)
		if err == nil {
			_, err = exec(ctx, tx, "UPDATE numbers SET schema_name = ?, table_name = ?, started = 0, late = 0, restarts = ? WHERE schema_name = ? AND table_name = ?",
				append(append(nameArgs(to), newRestarts()), nameArgs(from)...)...)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("rename the sequence of %s.%s: %w", from.Schema, from.Name, err)
	}
	return nil
}
