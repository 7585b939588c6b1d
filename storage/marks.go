package storage

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// maxPartialMarks bounds the marks with known components of one (index,
// shard): more collapse to one that knows nothing, since every lookup walks
// them.
const maxPartialMarks = 64

// markSet is all marks of an index; nil when there are none, so that a lookup
// pays one atomic load then. It is immutable.
type markSet struct {
	// full are the shards with a mark that knows nothing, and isn't logged; logged those with one that is.
	full, logged catalog.ShardSet
	// partial are the other marks.
	partial []Mark
	// byShard holds all of them, by shard.
	byShard map[catalog.ShardID][]Mark
}

func newMarkSet(byShard map[catalog.ShardID][]Mark) *markSet {
	m := &markSet{byShard: byShard}
	for shard, marks := range byShard {
		if len(marks) == 0 {
			delete(byShard, shard)
			continue
		}
		for _, mark := range marks {
			switch {
			case mark.Known != nil:
				m.partial = append(m.partial, mark)
			case mark.Logged:
				m.logged.Add(shard)
			default:
				m.full.Add(shard)
			}
		}
	}
	if len(byShard) == 0 {
		return nil
	}
	slices.SortFunc(m.partial, func(a, b Mark) int { return cmp.Compare(a.Shard, b.Shard) })
	return m
}

// shards is the set of all shards with a mark.
func (m *markSet) shards() (set catalog.ShardSet) {
	if m != nil {
		for shard := range m.byShard {
			set.Add(shard)
		}
	}
	return set
}

// widened is set and the shards whose marks don't contradict components.
func (m *markSet) widened(set catalog.ShardSet, components [][]byte) Found {
	if m == nil {
		return Found{Shards: set}
	}
	set = set.Union(m.full)
	logged := m.logged
	for i := range m.partial {
		switch p := &m.partial[i]; {
		case set.Has(p.Shard) || p.Contradicts(components):
		case p.Logged:
			logged.Add(p.Shard)
		default:
			set.Add(p.Shard)
		}
	}
	return Found{Shards: set.Union(logged), Logged: logged.Minus(set)}
}

// Contradicts reports whether a component is known on both sides and differs: no key with these
// components is one that the mark stands for.
func (m *Mark) Contradicts(components [][]byte) bool {
	for i, c := range components {
		if i < len(m.Known) && m.Known[i] != nil && c != nil && !bytes.Equal(m.Known[i], c) {
			return true
		}
	}
	return false
}

// covers reports whether m is there with an epoch of at least m's.
func (s *markSet) covers(m Mark) bool {
	if s == nil {
		return false
	}
	for _, have := range s.byShard[m.Shard] {
		if have.Epoch >= m.Epoch && have.standsFor(m) && (have.Known == nil || sameKnown(have.Known, m.Known)) {
			return true
		}
	}
	return false
}

// standsFor reports that have stays at least as long as m has to.
func (have *Mark) standsFor(m Mark) bool { return m.Logged || !have.Logged }

func sameKnown(a, b [][]byte) bool {
	return (a == nil) == (b == nil) && slices.EqualFunc(a, b, func(x, y []byte) bool {
		return (x == nil) == (y == nil) && bytes.Equal(x, y)
	})
}

// normal returns a copy of known without unknown components at its end; nil if
// no component is known.
func normal(known [][]byte) [][]byte {
	n := len(known)
	for n > 0 && known[n-1] == nil {
		n--
	}
	if n == 0 {
		return nil
	}
	out := make([][]byte, n)
	for i, c := range known[:n] {
		if c != nil {
			out[i] = append([]byte{}, c...)
		}
	}
	return out
}

// merge returns the marks of one shard with m among them.
func merge(marks []Mark, m Mark) []Mark {
	out := make([]Mark, 0, len(marks)+1)
	partial := 0
	for _, have := range marks {
		if have.Logged == m.Logged && sameKnown(have.Known, m.Known) {
			m.Epoch = max(m.Epoch, have.Epoch)
			continue
		}
		// A mark that knows nothing covers all others that are no younger.
		if m.Known == nil && have.Epoch <= m.Epoch && m.standsFor(have) {
			continue
		}
		out = append(out, have)
	}
	out = append(out, m)
	top, logged := Epoch(0), true
	for _, have := range out {
		top, logged = max(top, have.Epoch), logged && have.Logged
		if have.Known != nil {
			partial++
		}
	}
	if partial > maxPartialMarks {
		return []Mark{{Index: m.Index, Shard: m.Shard, Epoch: top, Logged: logged}}
	}
	return out
}

func (s *Store) loadMarks(indexes map[catalog.IndexID]*index) error {
	byIndex := map[catalog.IndexID]map[catalog.ShardID][]Mark{}
	err := s.scan([]byte{kindMark}, func(key, val []byte) (bool, error) {
		if len(key) != 6 {
			return false, errCorrupt
		}
		id := catalog.IndexID(uint32(key[1])<<24 | uint32(key[2])<<16 | uint32(key[3])<<8 | uint32(key[4]))
		shard := catalog.ShardID(key[5])
		marks, err := decodeMarks(id, shard, val)
		if err != nil {
			return false, err
		}
		if byIndex[id] == nil {
			byIndex[id] = map[catalog.ShardID][]Mark{}
		}
		byIndex[id][shard] = marks
		return true, nil
	})
	for id, byShard := range byIndex {
		if ix := indexes[id]; ix != nil {
			s.showMarks(ix, byShard)
		}
	}
	return err
}

// Mark sets unknown marks. When it returns, lookups include the marked shards,
// and the marks survive the death of the process. A mark that is there gets
// the higher epoch; where it has that already nothing is written. Marks of an
// unknown index are ignored. An error may leave some of several marks set.
//
// REQUIRES: the caller has registered its statement in an epoch no later than
// the marks' (see Add).
func (s *Store) Mark(marks []Mark) error {
	if !s.gate.enter() {
		return ErrClosed
	}
	defer s.gate.leave()
	if err := s.space.writable(); err != nil {
		return err
	}
	for len(marks) > 0 {
		// A run of marks of one index is one write.
		n := 1
		for n < len(marks) && marks[n].Index == marks[0].Index {
			n++
		}
		if err := s.markIndex(s.find(marks[0].Index), marks[:n]); err != nil {
			return fmt.Errorf("mark virtual index %d: %w", marks[0].Index, err)
		}
		marks = marks[n:]
	}
	return nil
}

func (s *Store) markIndex(ix *index, marks []Mark) error {
	if ix == nil {
		return nil
	}
	// Known in the form of the store, if it isn't already.
	covered := func(set *markSet) bool {
		for _, m := range marks {
			if n := len(m.Known); m.Known != nil && (n == 0 || m.Known[n-1] == nil) {
				m.Known = normal(m.Known)
			}
			if !set.covers(m) {
				return false
			}
		}
		return true
	}
	if !covered(ix.marks.Load()) {
		if err := s.writeMarks(ix, marks, covered); err != nil {
			return err
		}
	}
	for _, m := range marks {
		if err := s.intents.ensure(s, ix.pair(m.Shard)); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) writeMarks(ix *index, marks []Mark, covered func(*markSet) bool) error {
	ix.markMu.Lock()
	defer ix.markMu.Unlock()
	old := ix.marks.Load()
	if ix.dropped || covered(old) {
		return nil
	}
	byShard := map[catalog.ShardID][]Mark{}
	if old != nil {
		maps.Copy(byShard, old.byShard)
	}
	var changed catalog.ShardSet
	for _, m := range marks {
		m.Index, m.Known = ix.id, normal(m.Known)
		byShard[m.Shard] = merge(byShard[m.Shard], m)
		changed.Add(m.Shard)
	}
	return s.keepMarks(ix, byShard, changed)
}

// keepMarks writes the marks of the changed shards and then shows byShard to
// lookups. Callers hold ix.markMu and, after setting marks, may return only
// when it has.
func (s *Store) keepMarks(ix *index, byShard map[catalog.ShardID][]Mark, changed catalog.ShardSet) error {
	err := s.update(func(w *changes) error {
		for shard := range changed.All {
			if len(byShard[shard]) == 0 {
				if err := w.delete(markKey(ix.id, shard)); err != nil {
					return err
				}
				continue
			}
			val := appendMarks(nil, byShard[shard])
			if len(val) > maxValue {
				return fmt.Errorf("marks of shard %d take %d bytes", shard, len(val))
			}
			if err := w.set(markKey(ix.id, shard), val); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.showMarks(ix, byShard)
	return nil
}

// showMarks makes marks those that lookups go by.
func (s *Store) showMarks(ix *index, byShard map[catalog.ShardID][]Mark) {
	if ix.marks.Load().shards().Empty() {
		ix.markedSince.Store(s.opt.Now().UnixNano())
	}
	ix.marks.Store(newMarkSet(byShard))
}

// clearMarks removes the marks of (index, shard) whose epoch is less than
// before, or those of them that are logged, and returns how many. Survives the death of the process.
func (s *Store) clearMarks(id catalog.IndexID, shard catalog.ShardID, before Epoch, logged bool) (int, error) {
	if !s.gate.enter() {
		return 0, ErrClosed
	}
	defer s.gate.leave()
	ix := s.find(id)
	if ix == nil || ix.marks.Load() == nil {
		return 0, nil
	}
	if err := s.space.reclaimable(); err != nil {
		return 0, err
	}
	ix.markMu.Lock()
	defer ix.markMu.Unlock()
	old := ix.marks.Load()
	if ix.dropped || old == nil {
		return 0, nil
	}
	var left []Mark
	for _, m := range old.byShard[shard] {
		if m.Epoch >= before || logged && !m.Logged {
			left = append(left, m)
		}
	}
	n := len(old.byShard[shard]) - len(left)
	if n == 0 {
		return 0, nil
	}
	byShard := map[catalog.ShardID][]Mark{}
	maps.Copy(byShard, old.byShard)
	byShard[shard] = left
	if err := s.keepMarks(ix, byShard, catalog.Only(shard)); err != nil {
		return 0, fmt.Errorf("clear marks of virtual index %d: %w", id, err)
	}
	return n, nil
}

// Marks returns the marks of an index by shard. The slices in them must not
// be changed.
func (s *Store) Marks(id catalog.IndexID) []Mark {
	ix := s.find(id)
	if ix == nil {
		return nil
	}
	return ix.marks.Load().list()
}

// AllMarks returns the marks of all indexes by index and shard.
func (s *Store) AllMarks() []Mark {
	var all []Mark
	for _, d := range s.Indexes() {
		all = append(all, s.Marks(d.ID)...)
	}
	return all
}

func (m *markSet) list() (list []Mark) {
	for shard := range m.shards().All {
		list = append(list, m.byShard[shard]...)
	}
	return list
}
