package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// ErrUnstarted: it isn't known yet in this life of the store where a sequence
// stands; StartSequence says it.
var ErrUnstarted = errors.New("the sequence is not started")

const (
	// sequenceStep is how many numbers the first synced write of a life pays
	// for, and maxSequenceStep how many a later one does: each pays for twice as
	// many as the one before, so that in steady state none waits for an fsync.
	sequenceStep    = 1000
	maxSequenceStep = 100_000
)

// sequences hand out the numbers of AUTO_INCREMENT columns, none twice. What is
// kept of each is a bound, synced before a number at or over the bound of before
// is handed out: no number at or over it ever was. A life of the store after a
// crash begins at the bound and so leaves numbers out; one after a graceful stop
// goes on where the last one ended.
type sequences struct {
	mu sync.Mutex
	of map[catalog.TableName]*sequence
}

type sequence struct {
	mu   sync.Mutex
	name catalog.TableName
	// Invariant: no number at or over next was handed out, but for the ones
	// before a restart; a number from bound on needs a new record first.
	next, bound uint64
	step        uint64
	// loaded: the record has been read. started: StartSequence has been called,
	// and nobody has doubted since.
	loaded, started bool
	// doubted: the record says so too, or is to; see DoubtSequences.
	doubted bool
	// restarts counts what may have set back what the table answers, doubts what may have
	// raised it. late, if above 0, is how many more times numbers are taken behind answers
	// of before a doubt.
	restarts, doubts, late int
	// restart: the next StartSequence may begin lower. It waits until open is 0:
	// numbers of before may still be on their way into the table.
	restart bool
	// open counts those taken and not released.
	open int
	// gone: renamed or dropped; whoever holds it looks it up again.
	gone bool
}

// Taken are numbers that were handed out.
type Taken struct {
	// First is the first number.
	First uint64
	seq   *sequence
}

// Release says that the numbers are where they belong, or lost.
func (t Taken) Release() {
	if t.seq != nil {
		t.seq.mu.Lock()
		if t.seq.open--; t.seq.open == 0 && t.seq.restart {
			t.seq.restarts++ // the table may have been asked before the last of them was in it
		}
		t.seq.mu.Unlock()
	}
}

// sequence returns a table's sequence, locked.
func (s *Store) sequence(t catalog.TableName) *sequence {
	for {
		s.sequences.mu.Lock()
		q := s.sequences.of[t]
		if q == nil {
			q = &sequence{name: t, step: sequenceStep}
			if s.sequences.of == nil {
				s.sequences.of = map[catalog.TableName]*sequence{}
			}
			s.sequences.of[t] = q
		}
		s.sequences.mu.Unlock()
		q.mu.Lock()
		if !q.gone {
			return q
		}
		q.mu.Unlock()
	}
}

// TakeNumbers hands out numbers of a table's sequence. take is told the lowest
// that was never handed out, and returns the one after the last that it takes;
// it must not return less than it was told. The caller releases what it took
// when it has been used. Errors: ErrUnstarted, ErrStoreFull, ErrReadOnly.
func (s *Store) TakeNumbers(t catalog.TableName, take func(next uint64) (end uint64)) (Taken, error) {
	if !s.gate.enter() {
		return Taken{}, ErrClosed
	}
	defer s.gate.leave()
	q := s.sequence(t)
	defer q.mu.Unlock()
	if !q.started || q.restart && q.open == 0 {
		return Taken{}, ErrUnstarted
	}
	end := take(q.next)
	if end < q.next {
		return Taken{}, fmt.Errorf("take numbers of %s.%s: %d is less than %d", t.Schema, t.Name, end, q.next)
	}
	if end > q.bound {
		if err := s.extendSequence(q, end); err != nil {
			return Taken{}, err
		}
	}
	if q.late > 0 {
		q.late--
		q.started = q.late > 0
	}
	first := q.next
	q.next = end
	q.open++
	return Taken{First: first, seq: q}, nil
}

// extendSequence raises the bound over end, durably. REQUIRES: q.mu is held.
func (s *Store) extendSequence(q *sequence, end uint64) error {
	if err := s.space.writable(); err != nil {
		return err
	}
	bound := uint64(math.MaxUint64)
	if end <= math.MaxUint64-q.step {
		bound = end + q.step
	}
	if err := s.keepSequence(q.name, bound, q.doubted); err != nil {
		return err
	}
	if err := s.sync(); err != nil {
		return err
	}
	q.bound = bound
	q.step = min(2*q.step, maxSequenceStep)
	return nil
}

func (s *Store) keepSequence(t catalog.TableName, bound uint64, doubted bool) error {
	err := s.update(func(w *changes) error {
		return w.set(sequenceKey(t), sequenceValue(bound, doubted))
	})
	if err != nil {
		return fmt.Errorf("keep sequence of %s.%s: %w", t.Schema, t.Name, err)
	}
	return nil
}

// StartSequence asks the table from where on no number is in it. The sequence goes on
// there, or higher where it stands higher, but for one that has been restarted, which
// begins there.
//
// Rule late answer: what the table answers to who asked before a restart begins no
// restarted sequence. Behind an answer of before a doubt numbers are taken once, and the
// table is asked again: not at once, since doubts may come faster than answers do.
// Counter-example: two sessions ask an empty table; one begins with 1, and its row is in
// the table when an ALTER TABLE restarts the sequence; the other's answer is 1.
func (s *Store) StartSequence(t catalog.TableName, ask func() (from uint64, err error)) error {
	asked := s.sequence(t)
	restarts, doubts := asked.restarts, asked.doubts
	asked.mu.Unlock()
	from, err := ask()
	if err != nil {
		return err
	}
	if !s.gate.enter() {
		return ErrClosed
	}
	defer s.gate.leave()
	q := s.sequence(t)
	defer q.mu.Unlock()
	kept, _, err := s.sequenceRecord(t)
	if err != nil {
		return err
	}
	current := q == asked && q.restarts == restarts
	late := !current || q.doubts != doubts
	switch {
	case q.restart && q.open == 0:
		if !current {
			return nil
		}
		// The next TakeNumbers writes the record anew.
		q.next, q.bound, q.restart = from, from, false
		q.step = sequenceStep
	case !q.loaded:
		q.next = max(from, kept)
		q.bound = q.next
	case from > q.next:
		q.next = from
		q.bound = max(q.bound, from)
	}
	q.loaded = true
	switch {
	case !late:
		q.started, q.doubted, q.late = true, false, 0
	case !q.started || q.late > 0:
		q.started = true
		q.late++
	}
	return nil
}

// SequenceKept reports whether the store knows of numbers that were handed out
// for the table, be it in an earlier life.
func (s *Store) SequenceKept(t catalog.TableName) (bool, error) {
	if !s.gate.enter() {
		return false, ErrClosed
	}
	defer s.gate.leave()
	q := s.sequence(t)
	defer q.mu.Unlock()
	if q.restart {
		return false, nil
	}
	bound, doubted, err := s.sequenceRecord(t)
	return bound > 0 && !doubted, err
}

// sequenceRecord is what is kept; 0 if there is none.
func (s *Store) sequenceRecord(t catalog.TableName) (bound uint64, doubted bool, err error) {
	val, err := s.get(sequenceKey(t))
	if err == nil && val != nil {
		n, l := binary.Uvarint(val)
		if l > 0 {
			return n, len(val) > l, nil
		}
		err = errCorrupt
	}
	if err != nil {
		return 0, false, fmt.Errorf("read sequence of %s.%s: %w", t.Schema, t.Name, err)
	}
	return 0, false, nil
}

// sequenceValue is a record. A doubted one has a byte behind the bound.
func sequenceValue(bound uint64, doubted bool) []byte {
	val := binary.AppendUvarint(nil, bound)
	if doubted {
		val = append(val, 1)
	}
	return val
}

// DoubtSequence says that the table may hold higher numbers than the sequence
// knows of: the next TakeNumbers is ErrUnstarted.
func (s *Store) DoubtSequence(t catalog.TableName) {
	q := s.sequence(t)
	q.doubt()
	q.mu.Unlock()
}

// doubt has the table be asked again. REQUIRES: mu is held.
func (q *sequence) doubt() {
	q.started, q.late = false, 0
	q.doubts++
}

// DoubtSequences is DoubtSequence of all, and for later lives too: none is Kept until
// it has been started again. Survives a power loss.
func (s *Store) DoubtSequences() error {
	if !s.gate.enter() {
		return ErrClosed
	}
	defer s.gate.leave()
	names, err := s.sequenceNames(nil)
	if err != nil {
		return err
	}
	for t := range names {
		if err := s.doubtKept(t); err != nil {
			return err
		}
	}
	return s.sync()
}

func (s *Store) doubtKept(t catalog.TableName) error {
	q := s.sequence(t)
	defer q.mu.Unlock()
	q.doubt()
	q.doubted = true
	bound, doubted, err := s.sequenceRecord(t)
	if err != nil || bound == 0 || doubted {
		return err
	}
	if err := s.space.writable(); err != nil {
		return err
	}
	return s.keepSequence(t, bound, true)
}

// sequenceNames are those that there are whose keys begin so.
func (s *Store) sequenceNames(prefix []byte) (map[catalog.TableName]bool, error) {
	names := map[catalog.TableName]bool{}
	err := s.scan(append([]byte{kindSequence}, prefix...), func(key, _ []byte) (bool, error) {
		schema, name, ok := bytes.Cut(key[1:], []byte{0})
		if !ok {
			return false, errCorrupt
		}
		names[catalog.TableName{Schema: string(schema), Name: string(name)}] = true
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("read sequences: %w", err)
	}
	s.sequences.mu.Lock()
	defer s.sequences.mu.Unlock()
	for t := range s.sequences.of {
		if bytes.HasPrefix(sequenceKey(t)[1:], prefix) {
			names[t] = true
		}
	}
	return names, nil
}

// Sequences returns for each table the number from which on none was ever handed out.
func (s *Store) Sequences() (map[catalog.TableName]uint64, error) {
	if !s.gate.enter() {
		return nil, ErrClosed
	}
	defer s.gate.leave()
	names, err := s.sequenceNames(nil)
	if err != nil {
		return nil, err
	}
	out := map[catalog.TableName]uint64{}
	for t := range names {
		bound, _, err := s.sequenceRecord(t)
		if err != nil {
			return nil, err
		}
		if bound > 0 {
			out[t] = bound
		}
	}
	return out, nil
}

// RaiseSequence has no number below next be handed out for the table, in later lives either. Survives a power loss.
func (s *Store) RaiseSequence(t catalog.TableName, next uint64) error {
	if !s.gate.enter() {
		return ErrClosed
	}
	defer s.gate.leave()
	q := s.sequence(t)
	defer q.mu.Unlock()
	kept, doubted, err := s.sequenceRecord(t)
	if err != nil {
		return err
	}
	if kept < next {
		if err := s.space.writable(); err != nil {
			return err
		}
		if err := s.keepSequence(t, next, doubted); err != nil {
			return err
		}
	}
	if q.next < next {
		q.next, q.bound = next, max(q.bound, next)
	}
	return s.sync()
}

// RestartSequence says that the sequence may begin anew, since the table was
// emptied or its counter was set. It does when all numbers taken before have
// been released; until then it goes on.
func (s *Store) RestartSequence(t catalog.TableName) {
	q := s.sequence(t)
	q.restart = true
	q.restarts++
	q.mu.Unlock()
}

// DropSequence forgets a table's sequence: the table is gone.
func (s *Store) DropSequence(t catalog.TableName) error {
	if !s.gate.enter() {
		return ErrClosed
	}
	defer s.gate.leave()
	q := s.sequence(t)
	defer q.mu.Unlock()
	q.restart = true
	q.restarts++
	if q.open > 0 {
		return nil
	}
	if err := s.update(func(w *changes) error { return w.delete(sequenceKey(t)) }); err != nil {
		return fmt.Errorf("drop sequence of %s.%s: %w", t.Schema, t.Name, err)
	}
	s.forget(q)
	return nil
}

// forget takes a sequence out of the table. REQUIRES: q.mu is held.
func (s *Store) forget(q *sequence) {
	q.gone = true
	s.sequences.mu.Lock()
	if s.sequences.of[q.name] == q {
		delete(s.sequences.of, q.name)
	}
	s.sequences.mu.Unlock()
}

// DropSequences forgets those of all tables of a schema.
func (s *Store) DropSequences(schema string) error {
	if !s.gate.enter() {
		return ErrClosed
	}
	defer s.gate.leave()
	names, err := s.sequenceNames(append([]byte(schema), 0))
	if err != nil {
		return err
	}
	for t := range names {
		if err := s.DropSequence(t); err != nil {
			return err
		}
	}
	return nil
}

// RenameSequence moves a sequence to a table's new name. Survives a power loss.
func (s *Store) RenameSequence(from, to catalog.TableName) error {
	if !s.gate.enter() {
		return ErrClosed
	}
	defer s.gate.leave()
	if from == to {
		return nil
	}
	if err := s.DropSequence(to); err != nil {
		return err
	}
	q := s.sequence(from)
	defer q.mu.Unlock()
	bound, doubted, err := s.sequenceRecord(from)
	if err != nil {
		return err
	}
	if q.loaded {
		bound = min(bound, q.next)
	}
	err = s.update(func(w *changes) error {
		if err := w.delete(sequenceKey(from)); err != nil || bound == 0 {
			return err
		}
		return w.set(sequenceKey(to), sequenceValue(bound, doubted))
	})
	if err != nil {
		return fmt.Errorf("rename sequence of %s.%s: %w", from.Schema, from.Name, err)
	}
	// The new one asks where it stands, and finds the bound.
	s.forget(q)
	return s.sync()
}

// finishSequences lets the next life go on where this one ends. REQUIRES:
// nobody takes numbers any more.
func (s *Store) finishSequences() error {
	s.sequences.mu.Lock()
	defer s.sequences.mu.Unlock()
	var all []*sequence
	for _, q := range s.sequences.of {
		if q.restart || q.loaded {
			all = append(all, q)
		}
	}
	return s.updateEach(len(all), func(w *changes, i int) error {
		if q := all[i]; !q.restart {
			return w.set(sequenceKey(q.name), sequenceValue(q.next, q.doubted))
		}
		return w.delete(sequenceKey(all[i].name))
	})
}

func sequenceKey(t catalog.TableName) []byte {
	return bytes.Join([][]byte{append([]byte{kindSequence}, t.Schema...), []byte(t.Name)}, []byte{0})
}
