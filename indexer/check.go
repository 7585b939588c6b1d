package indexer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// Check compares the rows of each shard with the index, in a snapshot, and
// calls row for each shard.
//
// The check is registered as a reader from before its snapshot opens until the
// shard is done: no entry or mark of a row that it may see can be retired
// meanwhile, so a row that is not covered is a row that some read would have
// missed, whatever is written beside the check. An entry counts as stale only
// if it is older than everything open when the snapshot opened.
func (x *Indexer) Check(ctx context.Context, schema, table, name string, row func(CheckRow) error) error {
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
	if !def.Readable || def.Status == storage.Building || def.Keyed != "" && def.Keyed != definition {
		return nil, "", beingBuilt(name)
	}
	return ix, definition, nil
}

func beingBuilt(name string) error { return fmt.Errorf("virtual index %s is being built", name) }

func (x *Indexer) checkShard(ctx context.Context, ix *catalog.Index, id catalog.ShardID) (CheckRow, error) {
	result := CheckRow{Shard: id}
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
	// So that entries of statements that ended just now are older than this.
	if _, err := x.store.Advance(); err != nil {
		return result, fmt.Errorf("advance epoch: %w", err)
	}
	o := x.Begin(catalog.Only(id))
	defer o.End()
	b, err := x.openSnapshot(ctx, conn, id)
	if err != nil {
		return result, err
	}
	var key []byte
	components := make([][]byte, len(r.at))
	err = conn.Stream(ctx, "SELECT "+catalog.QuoteColumns(ix.Columns)+" FROM "+catalog.QuoteTable(ix.Table.Schema, ix.Table.Name), func(row [][]byte) error {
		if row[0] == nil {
			return nil
		}
		result.Checked++
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
		if !whole { // it has no key; only a mark covers it
			if !x.marked(r.id, id, components) {
				result.Missing++
			}
			return nil
		}
		if r.ledger.see(key) {
			return nil
		}
		covered, err := x.Lookup(ix, key, nil)
		if err != nil {
			return err
		}
		if !covered.Has(id) {
			result.Missing++
		}
		return nil
	})
	if err != nil {
		return result, err
	}
	if err := conn.Exec(ctx, "COMMIT"); err != nil {
		return result, fmt.Errorf("close snapshot: %w", err)
	}
	result.Stale, err = x.countStale(ctx, b, r)
	return result, err
}

// marked reports a mark that covers a row with these components, nil where they aren't
// known.
func (x *Indexer) marked(index storage.IndexID, id catalog.ShardID, components [][]byte) bool {
	return slices.ContainsFunc(x.store.Marks(index), func(m storage.Mark) bool {
		if m.Shard != storage.ShardID(id) {
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
				if p.Shard == storage.ShardID(b.shard) && p.Epoch < b.horizon && !r.ledger.saw(key) {
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
