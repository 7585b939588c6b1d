package indexer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/storage"
)

// Check compares the rows of each shard with the index, in a snapshot, and
// calls row for each shard.
//
// The check is registered as a reader from before its snapshot opens until the
// shard is done: a row that is not covered, by floors neither, is a row that some read
// would have missed, whatever is written beside the check. Rows that floors alone cover
// are looked for again. An entry counts as stale only if it is older than everything open
// when the snapshot opened.
func (x *Indexer) Check(ctx context.Context, schema, table, name string, row func(plan.CheckRow) error) error {
	ix, definition, err := x.readable(schema, table, name)
	if err != nil {
		return err
	}
	for id := range ix.Table.Shards.All {
		r, err := x.checkShard(ctx, ix, id)
		if r.Missing > 0 {
			// Keys may be of another definition meanwhile, from the same rows.
			if _, now, err := x.readable(schema, table, name); err != nil {
				return err
			} else if now != definition {
				return beingBuilt(name)
			}
		}
		if err != nil {
			return fmt.Errorf("check shard %s: %w", x.shardName(id), err)
		}
		if err := row(r); err != nil {
			return err
		}
	}
	return nil
}

// readable returns an index whose entries have the keys of its definition.
func (x *Indexer) readable(schema, table, name string) (ix *catalog.Index, definition string, err error) {
	def, err := x.find(schema, table, name)
	if err != nil {
		return nil, "", err
	}
	c := x.opts.Catalog()
	t := c.Table(def.Schema, def.Table)
	if t == nil {
		return nil, "", fmt.Errorf("table %s.%s is not known", schema, table)
	}
	if ix = t.Index(def.Name); ix == nil || len(ix.Columns) == 0 {
		return nil, "", fmt.Errorf("virtual index %s is not in the catalog", name)
	}
	definition = ix.Definition(c.MariaDB)
	// What DDL has unsettled may be readable still, but nobody reads it.
	if !def.Readable || def.Status == catalog.Building || def.Keyed != "" && def.Keyed != definition {
		return nil, "", beingBuilt(name)
	}
	return ix, definition, nil
}

func beingBuilt(name string) error { return fmt.Errorf("virtual index %s is being built", name) }

func (x *Indexer) checkShard(ctx context.Context, ix *catalog.Index, id catalog.ShardID) (result plan.CheckRow, err error) {
	result.Shard = id
	r, err := x.newReading(ix)
	if err != nil {
		return result, err
	}
	r.ledger = newLedger(x.ledgerLimit)
	r.at = positions(ix.Columns, ix.Columns)
	conn, err := x.connect(ctx, id)
	if err != nil {
		return result, err
	}
	defer conn.Close()
	c := checking{x: x, conn: conn, r: r, row: &result}
	b, err := c.read(ctx)
	if err != nil {
		return result, err
	}
	// Rows of these keys may be gone since, and so the entries.
	for range maxRechecks {
		if len(c.past) == 0 {
			break
		}
		c.again, c.past = c.past, nil
		if _, err := c.read(ctx); err != nil {
			return result, err
		}
	}
	result.Stale, err = x.countStale(ctx, b, r)
	return result, err
}

// maxRechecks bounds the snapshots in which keys are looked for whose entries have gone
// since the snapshot before was opened.
const maxRechecks = 3

// checking is the check of one shard.
type checking struct {
	x    *Indexer
	conn Conn
	r    *reading
	row  *plan.CheckRow
	// past are keys of rows of which no entry is left, by the evidence of a younger
	// snapshot; again, if not nil, are those to look for once more.
	past, again map[string]struct{}
}

// read reads the rows in a snapshot of their own.
func (c *checking) read(ctx context.Context) (b bounds, err error) {
	x, ix, id, r := c.x, c.r.ix, c.row.Shard, c.r
	b.shard = id
	// So that entries of statements that ended just now are older than this.
	if _, err := x.cluster.Advance(ctx, id); err != nil {
		return b, err
	}
	o := x.Begin(catalog.Only(id))
	defer o.End()
	if err := b.openSnapshot(ctx, x, c.conn); err != nil {
		return b, err
	}
	var key []byte
	components := make([][]byte, len(r.at))
	err = c.conn.Stream(ctx, "SELECT "+catalog.QuoteColumns(ix.Columns)+" FROM "+catalog.QuoteTable(ix.Table.Schema, ix.Table.Name), func(row [][]byte) error {
		if row[0] == nil {
			return nil
		}
		key = key[:0]
		clear(components)
		whole := true
		for i, at := range r.at {
			n := len(key)
			out, ok := r.codecs[i].Scanned(key, row[at])
			if whole = whole && ok; ok {
				key, components[i] = out, out[n:]
			}
		}
		if c.again != nil {
			if _, ok := c.again[string(key)]; !whole || !ok {
				return nil
			}
			delete(c.again, string(key))
			return c.look(o, key)
		}
		c.row.Checked++
		if !whole { // it has no key; only a mark covers it
			if x.marked(r.id, id, components) {
				return nil
			}
			retired, err := o.retired(ix, id)
			if !retired {
				c.row.Missing++
			}
			return err
		}
		if r.ledger.see(x.store.Kept(key)) {
			return nil
		}
		return c.look(o, key)
	})
	if err != nil {
		return b, err
	}
	if err := c.conn.Exec(ctx, "COMMIT"); err != nil {
		return b, fmt.Errorf("close snapshot: %w", err)
	}
	return b, nil
}

// look looks up the key of a row.
func (c *checking) look(o *Open, key []byte) error {
	ix, id := c.r.ix, c.row.Shard
	if covered, err := c.x.Lookup(ix, key, nil); err != nil || covered.Has(id) {
		return err
	}
	retired, err := o.retired(ix, id)
	switch {
	case err != nil:
		return err
	case !retired:
		c.row.Missing++
	default:
		if c.past == nil {
			c.past = map[string]struct{}{}
		}
		c.past[string(key)] = struct{}{}
	}
	return nil
}

// marked reports a mark that covers a row with these components, nil where they aren't
// known.
func (x *Indexer) marked(index catalog.IndexID, id catalog.ShardID, components [][]byte) bool {
	return slices.ContainsFunc(x.store.Marks(index), func(m storage.Mark) bool {
		if m.Shard != id {
			return false
		}
		for i, known := range m.Known {
			if known != nil && !bytes.Equal(known, components[i]) {
				return false
			}
		}
		return true
	})
}

func (x *Indexer) countStale(ctx context.Context, b bounds, r *reading) (stale int64, err error) {
	var from []byte
	for more := true; more; {
		if ctx.Err() != nil {
			return stale, context.Cause(ctx)
		}
		more = false
		visited := 0
		err := x.store.Entries(r.id, from, false, func(key []byte, pairs []storage.ShardEpoch) bool {
			if visited++; visited > visitSize {
				from, more = bytes.Clone(key), true
				return false
			}
			for _, p := range pairs {
				if p.Shard == b.shard && p.Epoch < b.horizon && !r.ledger.saw(key) {
					stale++
				}
			}
			return true
		})
		if err != nil && !errors.Is(err, storage.ErrNoIndex) {
			return stale, err
		}
	}
	return stale, nil
}
