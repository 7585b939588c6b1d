package home

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// Question asks for the shards of a key, or of the keys in a range.
type Question struct {
	Index catalog.IndexID
	// Key is asked for, where Range is false. Components are the key's, by position; nil ones, or
	// nil at all, are unknown.
	Key        []byte
	Components [][]byte
	// Range: the keys in [From, To) are asked for, nil To being the end of the index. Where they
	// have more than Limit entries the answer is not OK.
	Range    bool
	From, To []byte
	Limit    int
	// Floors are wanted in the answer.
	Floors bool
}

// Found answers a Question.
type Found struct {
	// Shards may hold the key, or keys of the range: those of the entries, and those with a mark
	// that doesn't contradict the components.
	Shards catalog.ShardSet
	// OK is false where the caller is to ask all shards: there is nothing to read, as NoIndex
	// says, or too much in the range.
	OK, NoIndex bool
	// Floors are those of the index that are above 0, by shard.
	Floors []storage.ShardEpoch
	// Generation is the one read. Removals changes with whatever may have taken something away
	// from the index since; Life with the server.
	Generation     uint32
	Life, Removals uint64
}

// Lookup answers all questions as of one moment. An error means that the home hasn't answered,
// and is never "there is no entry".
//
// Keys of one index are asked for together with those of other callers, and by their entries
// alone: the marks and floors that were read last stand while the index's head says that they do.
//
// Rule one moment: marks, entries, generations and floors are read in one snapshot. A mover adds
// a row's new entry before it removes the old one, and a scan adds what it found before it clears
// the mark; two moments could see neither.
func (h *Home) Lookup(ctx context.Context, questions []Question) ([]Found, error) {
	if len(questions) == 0 {
		return nil, nil
	}
	if ofKeys(questions) {
		found, err := h.lookUpTogether(ctx, questions)
		if err != nil {
			return nil, fmt.Errorf("look up in a virtual index: %w", err)
		}
		return found, nil
	}
	l := h.newLookup(questions)
	if err := h.read(ctx, l); err != nil {
		return nil, fmt.Errorf("look up in virtual indexes: %w", err)
	}
	return l.found(), nil
}

// lookup is one call of Lookup.
type lookup struct {
	questions []Question
	heads     map[catalog.IndexID]*headRow
	// of are the questions by index and kept key.
	of map[askedKey][]int
	// sets and counts are what entries say of each question.
	sets       []catalog.ShardSet
	counts     []uint64
	statements []statement
}

type askedKey struct {
	index catalog.IndexID
	key   string
}

// headRow is what is known of an index as a whole.
type headRow struct {
	version
	marks  []storage.Mark
	floors []storage.ShardEpoch
}

// version is that of an index's marks and floors: another one when they are others.
type version struct {
	readable               uint32
	life, removals, marked uint64
}

type statement struct {
	text strings.Builder
	args []any
	size int
}

// The kinds of rows that a lookup reads: what, idx or question, shard, a, b, c, d, text.
const (
	rowHead  = iota // idx, -, readable, life, removals, marked, -
	rowFloor        // idx, shard, floor, -, -, -, -
	rowMark         // idx, shard, -, -, -, -, known
	rowEntry        // idx, shard, as rowHead, key
	rowRange        // question, shard, entries, -, -, -, -
)

func (h *Home) newLookup(questions []Question) *lookup {
	l := &lookup{
		questions: questions, heads: map[catalog.IndexID]*headRow{}, of: map[askedKey][]int{},
		sets: make([]catalog.ShardSet, len(questions)), counts: make([]uint64, len(questions)),
	}
	var ids, floors []any
	floorsOf := map[catalog.IndexID]bool{}
	keys := map[catalog.IndexID][][]byte{}
	for i, q := range questions {
		if l.heads[q.Index] == nil {
			l.heads[q.Index] = &headRow{}
			ids = append(ids, q.Index)
		}
		if q.Floors && !floorsOf[q.Index] {
			floorsOf[q.Index] = true
			floors = append(floors, q.Index)
		}
		if q.Range {
			continue
		}
		k := Kept(q.Key)
		asked := askedKey{q.Index, string(k)}
		if l.of[asked] == nil {
			keys[q.Index] = append(keys[q.Index], k)
		}
		l.of[asked] = append(l.of[asked], i)
	}
	// Whatever needs several statements has one snapshot for them all, so their order is no matter.
	var headed []any // the heads of others come with their entries
	for _, id := range ids {
		if len(keys[id.(catalog.IndexID)]) == 0 {
			headed = append(headed, id)
		}
	}
	if len(headed) > 0 {
		l.part(h, headed, `SELECT `+fmt.Sprint(rowHead)+`, idx, 0, readable, life, removals, marked, '' FROM heads WHERE idx IN (`+marksOf(len(headed))+`)`+h.flavour.cluster.reads())
	}
	l.part(h, ids, `SELECT `+fmt.Sprint(rowMark)+`, idx, shard, 0, 0, 0, 0, known FROM marks WHERE idx IN (`+marksOf(len(ids))+`)`)
	if len(floors) > 0 {
		l.part(h, floors, `SELECT `+fmt.Sprint(rowFloor)+`, idx, shard, floor, 0, 0, 0, '' FROM shards WHERE idx IN (`+marksOf(len(floors))+`) AND floor > 0`)
	}
	for _, id := range ids {
		l.exact(h, id.(catalog.IndexID), keys[id.(catalog.IndexID)])
	}
	for i, q := range questions {
		if q.Range {
			l.ranged(h, i, q)
		}
	}
	return l
}

// part adds a SELECT to the last statement, or begins another one.
func (l *lookup) part(h *Home, args []any, text string) {
	size := 0
	for _, a := range args {
		if k, ok := a.([]byte); ok {
			size += len(k)
		}
	}
	n := len(l.statements)
	if n == 0 || len(l.statements[n-1].args)+len(args) > h.piece || l.statements[n-1].size+size > pieceBytes {
		l.statements = append(l.statements, statement{})
		n++
	}
	s := &l.statements[n-1]
	if s.text.Len() > 0 {
		s.text.WriteString("\nUNION ALL ")
	}
	s.text.WriteString(text)
	s.args = append(s.args, args...)
	s.size += size
}

func (l *lookup) exact(h *Home, id catalog.IndexID, keys [][]byte) {
	if len(keys) == 0 {
		return
	}
	for _, p := range h.pieces(len(keys), func(i int) int { return len(keys[i]) }) {
		args := make([]any, 0, p[1]-p[0]+1)
		for _, k := range keys[p[0]:p[1]] {
			args = append(args, k)
		}
		from, key := "heads h", "?"
		if len(args) > 1 {
			from, key = h.flavour.table(len(args), "k")+" v STRAIGHT_JOIN heads h FORCE INDEX (PRIMARY)", "v.k"
		}
		l.part(h, append(args, id), fmt.Sprintf(`SELECT IF(e.k IS NULL, %d, %d), h.idx, COALESCE(e.shard, 0), h.readable, h.life, h.removals, h.marked, COALESCE(e.k, '')
			FROM %s LEFT JOIN entries e FORCE INDEX (PRIMARY) ON e.idx = h.idx AND e.generation = h.readable AND e.k = %s WHERE h.idx = ?%s`, rowHead, rowEntry, from, key, h.flavour.cluster.reads()))
	}
}

func (l *lookup) ranged(h *Home, i int, q Question) {
	low, high := keptRange(q.From, q.To)
	args, below := []any{low}, ""
	if high != nil {
		args, below = append(args, high), " AND e.k < ?"
	}
	l.part(h, append(args, q.Index, max(q.Limit, 0)+1), fmt.Sprintf(`SELECT %d, %d, shard, COUNT(*), 0, 0, 0, '' FROM (SELECT e.shard FROM heads h STRAIGHT_JOIN entries e FORCE INDEX (PRIMARY)
		ON e.idx = h.idx AND e.generation = h.readable AND e.k >= ?%s WHERE h.idx = ? LIMIT ?) r%d GROUP BY shard`, rowRange, i, below, i))
}

// read runs the statements, in one snapshot. One alone has its own under READ COMMITTED.
func (h *Home) read(ctx context.Context, l *lookup) error {
	if len(l.statements) == 1 {
		return h.told(l.run(ctx, h.db))
	}
	return h.again(ctx, func() error {
		tx, err := h.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // it has only read
		return l.run(ctx, tx)
	})
}

func (l *lookup) run(ctx context.Context, on runs) error {
	clear(l.sets)
	clear(l.counts)
	for _, head := range l.heads {
		*head = headRow{}
	}
	var what, id, shard, a, b, c, d uint64
	var text sql.RawBytes
	into := []any{&what, &id, &shard, &a, &b, &c, &d, &text}
	for i := range l.statements {
		s := &l.statements[i]
		err := each(ctx, on, func(rows *sql.Rows) error {
			if err := rows.Scan(into...); err != nil {
				return err
			}
			return l.take(what, id, catalog.ShardID(shard), a, b, c, d, text)
		}, s.text.String(), s.args...)
		if err != nil {
			return err
		}
	}
	return nil
}

// take takes in one row.
func (l *lookup) take(what, id uint64, shard catalog.ShardID, a, b, c, d uint64, text []byte) error {
	if what == rowRange {
		l.sets[id].Add(shard)
		l.counts[id] += a
		return nil
	}
	index := catalog.IndexID(id)
	head := l.heads[index]
	if head == nil {
		return fmt.Errorf("the home answers for virtual index %d, which was not asked for", index)
	}
	switch what {
	case rowHead, rowEntry:
		head.version = version{uint32(a), b, c, d}
		if what == rowHead {
			return nil
		}
		for _, i := range l.of[askedKey{index, string(text)}] {
			l.sets[i].Add(shard)
		}
	case rowFloor:
		head.floors = append(head.floors, storage.ShardEpoch{Shard: shard, Epoch: storage.Epoch(a)})
	case rowMark:
		m := storage.Mark{Index: index, Shard: shard}
		if err := decodeMark(text, &m); err != nil {
			return fmt.Errorf("mark of virtual index %d: %w", index, err)
		}
		head.marks = append(head.marks, m)
	}
	return nil
}

func (l *lookup) found() []Found {
	found := make([]Found, len(l.questions))
	for i, q := range l.questions {
		found[i] = l.heads[q.Index].found(q, l.sets[i], l.counts[i])
	}
	return found
}

// found answers a question for which there are count entries, of these shards.
func (r *headRow) found(q Question, shards catalog.ShardSet, count uint64) Found {
	f := Found{Shards: shards, Generation: r.readable, Life: r.life, Removals: r.removals}
	f.NoIndex = r.readable == 0
	f.OK = !f.NoIndex && (!q.Range || count <= uint64(max(q.Limit, 0)))
	if q.Floors {
		f.Floors = r.floors
	}
	components := q.Components
	if q.Range {
		components = nil
	}
	for _, m := range r.marks {
		if !m.Contradicts(components) {
			f.Shards.Add(m.Shard)
		}
	}
	if !f.OK {
		f.Shards = catalog.ShardSet{}
	}
	return f
}
