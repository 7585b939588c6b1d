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
	id     storage.IndexID
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
	r := &reading{ix: ix, id: storage.IndexID(ix.ID)}
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
func (x *Indexer) load(r *reading, id catalog.ShardID) error {
	r.ledger = newLedger(x.ledgerLimit)
	def, ok := x.store.Index(r.id)
	if !ok {
		return storage.ErrNoIndex
	}
	// A key that the readable generation has may be missing in a building one
	// whose scan of this shard is over already.
	if def.HasBuild || !def.Readable {
		r.blind = true
		return nil
	}
	return x.store.Entries(r.id, nil, false, func(key []byte, pairs []storage.ShardEpoch) bool {
		for _, p := range pairs {
			if p.Shard == storage.ShardID(id) {
				r.ledger.has(key)
			}
		}
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
	// wrote: something was given to the store since the last intend.
	wrote bool
}

func (x *Indexer) newScan(conn Conn, t *catalog.Table, b bounds, readings []*reading) *scan {
	return &scan{x: x, opened: x.clock.Now(), conn: conn, table: t, bounds: b, readings: readings, adds: &slice{}, adder: newAdder(x.store.Add, x.adders)}
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
			if err := s.conn.Stream(ctx, sql, func(row [][]byte) error { return s.row(r, row) }); err != nil {
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
	err := s.conn.Stream(ctx, "SELECT "+catalog.QuoteColumns(columns)+from, func(row [][]byte) error {
		for _, r := range s.readings {
			if err := s.row(r, row); err != nil {
				return err
			}
		}
		return nil
	})
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
	e := storage.Entry{Index: r.id, Shard: storage.ShardID(s.bounds.shard), Epoch: s.bounds.after}
	if r.ledger != nil {
		if known := r.ledger.see(key); known && !r.blind {
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
			marks = append(marks, storage.Mark{Index: r.id, Shard: storage.ShardID(s.bounds.shard), Epoch: s.bounds.after})
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
	if err := s.x.store.Intend([]storage.Pair{pairOf(s.table, s.bounds.shard)}); err != nil {
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
	var readings []*reading
	marked := false
	for _, ix := range indexes {
		marked = marked || x.toClear([]storage.IndexID{storage.IndexID(ix.ID)}, catalog.Only(id))
		r, err := x.newReading(ix)
		if err == nil {
			err = x.load(r, id)
		}
		if err != nil {
			return fmt.Errorf("index %s: %w", ix.Name, err)
		}
		readings = append(readings, r)
	}
	if len(readings) == 0 {
		return nil
	}
	conn, l, err := x.reach(ctx, t, id)
	if err != nil {
		return err
	}
	defer conn.Close()
	b, err := x.openSnapshot(ctx, conn, id)
	if err != nil {
		return err
	}
	s := x.newScan(conn, t, b, readings)
	defer s.adder.stop()
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
