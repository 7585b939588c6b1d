package indexer

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/storage"
)

// codec turns a column's value, as a shard sends it, into a key component.
// *keys.Codec is one.
type codec interface {
	Scanned(dst []byte, raw []byte) (out []byte, ok bool)
	Equal(dst []byte, v keys.Value) (out []byte, ok bool)
}

// reading is one index's part in a scan of (table, shard).
type reading struct {
	ix     *catalog.Index
	id     catalog.IndexID
	codecs []codec
	// at are the positions of the index's columns in a row of the stream.
	at []int
	// ledger is nil where nothing will be retired (a build).
	ledger *ledger
	// blind: what the ledger knows does not tell what the store lacks, so every
	// key seen is handed to the store.
	blind bool
	last  []byte
	// odd counts values that have no key: they keep a mark on the shard.
	odd int
}

// newReading prepares to read an index's columns; the error says why one of
// them can't be keyed.
func (x *Indexer) newReading(ix *catalog.Index) (*reading, error) {
	mariaDB := false
	if c := x.opts.Catalog(); c != nil {
		mariaDB = c.MariaDB
	}
	r := &reading{ix: ix, id: ix.ID}
	for _, c := range ix.Columns {
		k, err := x.codec(c, mariaDB)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", c.Name, err)
		}
		r.codecs = append(r.codecs, k)
	}
	return r, nil
}

// load fills the ledger with the keys that the store has for the shard.
func (x *Indexer) load(r *reading, b bounds) error {
	r.ledger = newLedger(x.ledgerLimit)
	// A key that the readable generation has may be missing in a building one
	// whose scan of this shard is over already.
	if !b.gates[r.id].Sole {
		r.blind = true
		return nil
	}
	return x.store.EntriesOf(r.id, b.shard, nil, func(key []byte) bool {
		r.ledger.has(key)
		return r.ledger.bloom == nil
	})
}

// scan reads a table on one shard in one snapshot.
type scan struct {
	x        *Indexer
	conn     Conn
	table    *catalog.Table
	bounds   bounds
	readings []*reading

	rows, added int
	opened      time.Time
	took        time.Duration // from opened until all rows were read
	key         []byte
	adds        *slice
	adder       *adder
	sparing     sparing
	// wrote: something was given to the store since the last intend.
	wrote bool
}

func (x *Indexer) newScan(conn Conn, t *catalog.Table, b bounds, readings []*reading) *scan {
	return &scan{
		x: x, opened: x.clock.Now(), conn: conn, table: t, bounds: b, readings: readings, adds: &slice{}, adder: newAdder(x.store.Add, x.adders),
		sparing: sparing{x: x, shard: b.shard, of: readings},
	}
}

// stop ends what works beside the scan. It must be called.
func (s *scan) stop() {
	s.adder.stop()
	s.sparing.close()
}

// sliceSize is how many entries are given to the store at once.
const sliceSize = 1000

// read streams the readings' columns: distinct values in index order where the
// shard has an index for each, else the columns of all rows, once.
func (s *scan) read(ctx context.Context, l layout) error {
	from := " FROM " + catalog.QuoteTable(s.table.Schema, s.table.Name)
	ordered := true
	for _, r := range s.readings {
		ordered = ordered && l.ordered(r.ix.Columns) != ""
	}
	if ordered {
		for _, r := range s.readings {
			r.at = positions(r.ix.Columns, r.ix.Columns)
			sql := "SELECT DISTINCT " + catalog.QuoteColumns(r.ix.Columns) + from + " FORCE INDEX (" + catalog.QuoteName(l.ordered(r.ix.Columns)) + ")"
			if err := s.conn.Stream(ctx, sql, s.sparing.rows(ctx, func(row [][]byte) error { return s.row(r, row) })); err != nil {
				return fmt.Errorf("read %s: %w", r.ix.Name, err)
			}
		}
		return s.flush()
	}
	var columns []*catalog.Column
	for _, r := range s.readings {
		columns = union(columns, r.ix.Columns)
	}
	for _, r := range s.readings {
		r.at = positions(r.ix.Columns, columns)
	}
	err := s.conn.Stream(ctx, "SELECT "+catalog.QuoteColumns(columns)+from, s.sparing.rows(ctx, func(row [][]byte) error {
		for _, r := range s.readings {
			if err := s.row(r, row); err != nil {
				return err
			}
		}
		return nil
	}))
	if err != nil {
		return fmt.Errorf("read table: %w", err)
	}
	return s.flush()
}

// row takes one row into one index.
func (s *scan) row(r *reading, row [][]byte) error {
	s.rows++
	if row[r.at[0]] == nil {
		return nil // rows whose first column is NULL are not indexed
	}
	key := s.key[:0]
	for i, at := range r.at {
		var ok bool
		if key, ok = r.codecs[i].Scanned(key, row[at]); !ok {
			r.odd++
			return nil
		}
	}
	if s.key = key; len(key) > storage.MaxKey {
		r.odd++
		return nil
	}
	// Only an exact comparison may skip a key: a filter would lose entries.
	if r.last != nil && bytes.Equal(key, r.last) {
		return nil
	}
	r.last = append(r.last[:0], key...)
	e := storage.Entry{Index: r.id, Shard: s.bounds.shard, Epoch: s.bounds.after}
	if r.ledger != nil {
		if known := r.ledger.see(s.x.store.Kept(key)); known && !r.blind {
			return nil
		}
		if r.blind || r.ledger.bloom != nil {
			// It is probably there; raising its epoch would rewrite the whole
			// index in each scan.
			e.Epoch = 0
		}
	}
	n := len(s.adds.arena)
	s.adds.arena = append(s.adds.arena, key...)
	e.Key = s.adds.arena[n:len(s.adds.arena):len(s.adds.arena)]
	if s.adds.entries = append(s.adds.entries, e); len(s.adds.entries) == sliceSize {
		return s.flush()
	}
	return nil
}

// flush gives the collected entries to the adder.
func (s *scan) flush() (err error) {
	n := len(s.adds.entries)
	if n == 0 {
		return nil
	}
	s.wrote = true
	if s.adds, err = s.adder.give(s.adds); err != nil {
		return fmt.Errorf("add entries: %w", err)
	}
	s.added += n
	return nil
}

// secure makes sure that a power loss does not go unnoticed by what is written
// on the strength of this scan's entries: cleared marks, a checkpoint, a
// finished build.
func (s *scan) secure() error {
	if err := s.flush(); err != nil {
		return err
	}
	if err := s.adder.drain(); err != nil {
		return fmt.Errorf("add entries: %w", err)
	}
	var marks []storage.Mark
	for _, r := range s.readings {
		if r.odd > 0 {
			marks = append(marks, storage.Mark{Index: r.id, Shard: s.bounds.shard, Epoch: s.bounds.after})
		}
	}
	if len(marks) > 0 {
		if err := s.x.store.Mark(marks); err != nil {
			return fmt.Errorf("mark values that have no key: %w", err)
		}
		s.wrote = true
	}
	if !s.wrote {
		return nil
	}
	s.wrote = false
	if _, err := s.x.store.Intend([]storage.Pair{pairOf(s.table, s.bounds.shard)}); err != nil {
		return fmt.Errorf("set write-intent: %w", err)
	}
	return nil
}

// close ends the snapshot: the server keeps old row versions for it.
func (s *scan) close(ctx context.Context) error {
	s.took = s.x.clock.Now().Sub(s.opened)
	if err := s.conn.Exec(ctx, "COMMIT"); err != nil {
		return fmt.Errorf("close snapshot: %w", err)
	}
	return nil
}

var maintainIndex = kind{
	typ: storage.MaintainIndex, scans: true, retires: true,
	// Marks widen every lookup.
	urgent: func(x *Indexer, j *storage.Job) bool { return x.toClear(j.Indexes, j.Shards) },
	shard:  (*Indexer).maintainJob,
}

func (x *Indexer) maintainJob(ctx context.Context, t *catalog.Table, id catalog.ShardID, j *storage.Job) error {
	here, away := x.answering(x.affected(t, j))
	if len(here) == 0 || len(away) == 0 {
		return x.maintain(ctx, t, id, append(here, away...)) // which says what is away, if all are
	}
	later := storage.Job{
		Type: storage.MaintainIndex, Schema: t.Schema, Table: t.Name, Operation: j.Operation,
		Shards: catalog.Only(id), NotBefore: x.clock.Now().Add(awayDelay),
	}
	for _, ix := range away {
		later.Indexes = append(later.Indexes, ix.ID)
	}
	if err := x.later(later); err != nil {
		return err
	}
	return x.maintain(ctx, t, id, here)
}

// awayDelay is when indexes are looked at again whose server was away.
const awayDelay = 10 * time.Second

// answering are the indexes whose servers answer, and the others. They are maintained apart: else one
// that is away keeps the entries and marks of all.
func (x *Indexer) answering(indexes []*catalog.Index) (here, away []*catalog.Index) {
	for _, ix := range indexes {
		if x.away(ix.ID) {
			away = append(away, ix)
		} else {
			here = append(here, ix)
		}
	}
	return here, away
}

// away reports that an index can't be maintained now: a server of its doesn't answer, or it was given up there.
func (x *Indexer) away(id catalog.IndexID) bool {
	def, _ := x.store.Index(id)
	return def.Forsaken || x.store.Outage(id) != nil
}

func (x *Indexer) later(j storage.Job) error {
	if _, err := x.store.Enqueue(j); err != nil {
		return fmt.Errorf("enqueue job: %w", err)
	}
	return nil
}

// affected are the indexes that a maintenance job scans for: those it names,
// or all. One whose column can't be keyed (any more) is left as it is: nobody
// reads by it.
func (x *Indexer) affected(t *catalog.Table, j *storage.Job) []*catalog.Index {
	var indexes []*catalog.Index
	for _, ix := range t.Indexes {
		named := len(j.Indexes) == 0
		for _, id := range j.Indexes {
			named = named || id == ix.ID
		}
		if !named || len(ix.Columns) == 0 {
			continue
		}
		if _, err := x.newReading(ix); err != nil {
			continue
		}
		indexes = append(indexes, ix)
	}
	return indexes
}

// maintain scans (table, shard) for some of the table's indexes: it adds what
// is missing, removes what is stale and clears marks. It returns a *HeldBack
// if everything but the removals could be done.
//
// REQUIRES: no other maintain or verify of (table, shard) runs beside it. Else
// this scan could rely on an entry that the other one is about to remove.
func (x *Indexer) maintain(ctx context.Context, t *catalog.Table, id catalog.ShardID, indexes []*catalog.Index) error {
	// Reading the index costs no less than reading the table: it counts for the
	// duty cycle.
	began := x.clock.Now()
	if len(indexes) == 0 {
		return nil
	}
	b, err := x.begin(ctx, id, indexes)
	if err != nil {
		return err
	}
	var readings []*reading
	marked := false
	for _, ix := range indexes {
		marked = marked || x.toClear([]catalog.IndexID{ix.ID}, catalog.Only(id))
		r, err := x.newReading(ix)
		if err == nil {
			err = x.load(r, b)
		}
		if err != nil {
			return fmt.Errorf("index %s: %w", ix.Name, err)
		}
		readings = append(readings, r)
	}
	conn, l, err := x.reach(ctx, t, id)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := b.openSnapshot(ctx, x, conn); err != nil {
		return err
	}
	s := x.newScan(conn, t, b, readings)
	defer s.stop()
	s.sparing.urgent = marked
	if err := s.read(ctx, l); err != nil {
		return err
	}
	if err := s.close(ctx); err != nil {
		return err
	}
	if err := s.secure(); err != nil {
		return err
	}
	x.counted(id, s)
	x.rest(id, x.clock.Now().Sub(began), marked)
	if !l.snapshots {
		return nil
	}
	return x.retire(ctx, b, readings)
}

// union appends the columns of b that a lacks.
func union(a, b []*catalog.Column) []*catalog.Column {
next:
	for _, c := range b {
		for _, have := range a {
			if have == c {
				continue next
			}
		}
		a = append(a, c)
	}
	return a
}

// positions says where in all the columns are.
func positions(columns, all []*catalog.Column) []int {
	at := make([]int, len(columns))
	for i, c := range columns {
		for j, x := range all {
			if strings.EqualFold(x.Name, c.Name) {
				at[i] = j
			}
		}
	}
	return at
}
