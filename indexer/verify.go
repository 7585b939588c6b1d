package indexer

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// verify asks a shard about some keys of a table's indexes: keys that it has
// are added if missing, entries of others are removed. It returns a *HeldBack
// if everything but the removals could be done.
//
// REQUIRES: no maintain of (table, shard) runs beside it; see there.
func (x *Indexer) verify(ctx context.Context, t *catalog.Table, id catalog.ShardID, probes []Probe) error {
	if len(probes) == 0 {
		return nil
	}
	conn, l, err := x.reach(ctx, t, id)
	if err != nil {
		return err
	}
	defer conn.Close()
	// Each SELECT has a snapshot of its own; all lie between the bounds.
	var present, absent []Probe
	b, err := x.around(id, func() error {
		for _, p := range probes {
			if !x.asks(p) {
				continue
			}
			found, err := exists(ctx, conn, p)
			if err != nil {
				return err
			}
			if found {
				present = append(present, p)
			} else {
				absent = append(absent, p)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(present) > 0 {
		entries := make([]storage.Entry, len(present))
		for i, p := range present {
			entries[i] = storage.Entry{Index: storage.IndexID(p.Index.ID), Key: p.Key, Shard: storage.ShardID(id), Epoch: b.after}
		}
		if err := x.store.Add(entries); err != nil {
			return fmt.Errorf("add entries: %w", err)
		}
		if err := x.store.Intend([]storage.Pair{pairOf(t, id)}); err != nil {
			return fmt.Errorf("set write-intent: %w", err)
		}
	}
	if len(absent) == 0 || !l.snapshots {
		return nil
	}
	if err := x.passed(ctx, b); err != nil {
		return err
	}
	removed := 0
	for _, p := range absent {
		n, err := x.store.Remove(storage.IndexID(p.Index.ID), storage.ShardID(id), [][]byte{p.Key}, b.horizon)
		if err != nil {
			return fmt.Errorf("remove stale entries: %w", err)
		}
		removed += n
	}
	count(x.opts.Metrics.Removed, removed)
	return nil
}

// asks reports whether `columns = values` is true exactly for rows with the
// probe's key. It is not where the values were cut when they were stored, or
// where the column changed since the probe was made.
func (x *Indexer) asks(p Probe) bool {
	if len(p.Values) != len(p.Index.Columns) {
		return false
	}
	r, err := x.newReading(p.Index)
	if err != nil {
		return false
	}
	var key []byte
	for i, v := range p.Values {
		var ok bool
		if v.IsNull() {
			if i == 0 {
				return false
			}
			key, ok = r.codecs[i].Scanned(key, nil)
		} else {
			key, ok = r.codecs[i].Equal(key, v)
		}
		if !ok {
			return false
		}
	}
	return bytes.Equal(key, p.Key)
}

// exists asks a shard for a row with the probe's values.
func exists(ctx context.Context, conn Conn, p Probe) (bool, error) {
	var b strings.Builder
	b.WriteString("SELECT 1 FROM " + catalog.QuoteTable(p.Index.Table.Schema, p.Index.Table.Name) + " WHERE ")
	for i, c := range p.Index.Columns {
		if i > 0 {
			b.WriteString(" AND ")
		}
		b.WriteString(catalog.QuoteName(c.Name))
		if p.Values[i].IsNull() {
			b.WriteString(" IS NULL")
		} else {
			b.WriteString(" = " + p.Values[i].Literal())
		}
	}
	b.WriteString(" LIMIT 1")
	found := false
	err := conn.Stream(ctx, b.String(), func([][]byte) error {
		found = true
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("ask for a key: %w", err)
	}
	return found, nil
}
