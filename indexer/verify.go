package indexer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/shunt-sql/shunt/planner/plan"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

var verifyKeys = kind{
	typ: storage.VerifyKeys, retires: true,
	shard: func(x *Indexer, ctx context.Context, t *catalog.Table, id catalog.ShardID, j *storage.Job) error {
		return x.verifyJob(ctx, t, id, j)
	},
}

func (x *Indexer) verifyJob(ctx context.Context, t *catalog.Table, id catalog.ShardID, j *storage.Job) error {
	away := func(k storage.JobKey) bool { return x.away(k.Index) }
	here := slices.DeleteFunc(slices.Clone(j.Keys), away)
	if len(here) == 0 || len(here) == len(j.Keys) {
		return x.verify(ctx, t, id, probes(t, j.Keys))
	}
	err := x.later(storage.Job{
		Type: storage.VerifyKeys, Schema: t.Schema, Table: t.Name, Operation: j.Operation, Shards: catalog.Only(id),
		Keys: slices.DeleteFunc(slices.Clone(j.Keys), func(k storage.JobKey) bool { return !away(k) }), NotBefore: x.clock.Now().Add(awayDelay),
	})
	if err != nil {
		return err
	}
	return x.verify(ctx, t, id, probes(t, here))
}

// verify asks a shard about some keys of a table's indexes: keys that it has
// are added if missing, entries of others are removed. It returns a *HeldBack where what was
// open may have kept it from that: see retire.
//
// REQUIRES: no maintain of (table, shard) runs beside it; see there.
func (x *Indexer) verify(ctx context.Context, t *catalog.Table, id catalog.ShardID, probes []plan.Probe) error {
	if len(probes) == 0 {
		return nil
	}
	conn, l, err := x.reach(ctx, t, id)
	if err != nil {
		return err
	}
	defer conn.Close()
	var indexes []*catalog.Index
	for _, p := range probes {
		if !slices.Contains(indexes, p.Index) {
			indexes = append(indexes, p.Index)
		}
	}
	b, err := x.begin(ctx, id, indexes)
	if err != nil {
		return err
	}
	// Each SELECT has a snapshot of its own; all lie between the bounds.
	var present, absent []plan.Probe
	err = b.around(ctx, x, func() error {
		asked := slices.DeleteFunc(slices.Clone(probes), func(p plan.Probe) bool { return !x.asks(p) })
		for some := range slices.Chunk(asked, askedAtOnce) {
			found, err := exist(ctx, conn, some)
			if err != nil {
				return err
			}
			for i, p := range some {
				if found[i] {
					present = append(present, p)
				} else {
					absent = append(absent, p)
				}
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
			entries[i] = storage.Entry{Index: p.Index.ID, Key: p.Key, Shard: id, Epoch: b.after}
		}
		if err := x.store.Add(entries); err != nil {
			return fmt.Errorf("add entries: %w", err)
		}
		if _, err := x.store.Intend([]storage.Pair{pairOf(t, id)}); err != nil {
			return fmt.Errorf("set write-intent: %w", err)
		}
	}
	if len(absent) == 0 || !l.snapshots {
		return nil
	}
	open := x.heldOpen(b)
	removed, held := 0, false
	for _, ix := range indexes {
		var stale [][]byte
		for _, p := range absent {
			if p.Index == ix {
				stale = append(stale, p.Key)
			}
		}
		if len(stale) == 0 {
			continue
		}
		n, _, err := x.store.Retire(b.retirement(ix.ID, stale, false))
		if err != nil {
			return fmt.Errorf("index %s: remove stale entries: %w", ix.Name, err)
		}
		removed += n
		if open && n < len(stale) && !held {
			if held, err = x.anyThere(ctx, ix.ID, id, stale); err != nil {
				return fmt.Errorf("index %s: look for stale entries: %w", ix.Name, err)
			}
		}
	}
	count(x.opts.Metrics.Removed, removed)
	if held {
		return &HeldBack{Shard: id, After: b.after}
	}
	return nil
}

// anyThere reports that the store has an entry of one of some keys on a shard. Where that is marked a scan
// looks for all.
func (x *Indexer) anyThere(ctx context.Context, index catalog.IndexID, shard catalog.ShardID, keys [][]byte) (bool, error) {
	if slices.ContainsFunc(x.store.Marks(index), func(m storage.Mark) bool { return m.Shard == shard }) {
		return false, nil
	}
	questions := make([]storage.Question, len(keys))
	for i, key := range keys {
		questions[i] = storage.Question{Index: index, Key: key}
	}
	if store, ok := x.store.(Asked); ok {
		if err := store.Ask(ctx, questions); err != nil {
			return false, err
		}
	} else {
		for i, q := range questions {
			questions[i].Found, questions[i].Err = x.store.Lookup(index, q.Key, nil)
		}
	}
	var errs []error
	there := slices.ContainsFunc(questions, func(q storage.Question) bool {
		errs = append(errs, q.Err)
		return q.Found.Shards.Has(shard)
	})
	return there, errors.Join(errs...)
}

// asks reports whether `columns = values` is true exactly for rows with the
// probe's key. It is not where the values were cut when they were stored, or
// where the column changed since the probe was made.
func (x *Indexer) asks(p plan.Probe) bool {
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

// askedAtOnce is how many keys one statement asks for: a follower has one for each row that an UPDATE or DELETE has changed.
const askedAtOnce = 32

// exist asks a shard for a row of each probe's values.
func exist(ctx context.Context, conn Conn, probes []plan.Probe) (found []bool, err error) {
	var b strings.Builder
	for n, p := range probes {
		if n > 0 {
			b.WriteString(" UNION ALL ")
		}
		fmt.Fprintf(&b, "(SELECT %d FROM %s WHERE ", n+1, catalog.QuoteTable(p.Index.Table.Schema, p.Index.Table.Name))
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
		b.WriteString(" LIMIT 1)")
	}
	found = make([]bool, len(probes))
	err = conn.Stream(ctx, b.String(), func(row [][]byte) error {
		n, err := strconv.Atoi(string(row[0]))
		if err == nil && (n < 1 || n > len(found)) {
			err = fmt.Errorf("%d of %d keys", n, len(found))
		}
		if err == nil {
			found[n-1] = true
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ask for keys: %w", err)
	}
	return found, nil
}
