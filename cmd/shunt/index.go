package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/shunt-sql/shunt/indexer"
	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy"
	"github.com/shunt-sql/shunt/proxy/schema"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/storage"
)

// virtualIndexes is the indexer as the proxy sees it. The two don't import each
// other; here their words for the same things meet.
type virtualIndexes struct {
	indexer   *indexer.Indexer
	store     *storage.Store
	directory *proxy.Directory
}

var (
	_ proxy.Index      = virtualIndexes{}
	_ proxy.IndexAdmin = virtualIndexes{}
)

func (v virtualIndexes) Lookup(ix *catalog.Index, key []byte, components [][]byte) (catalog.ShardSet, error) {
	return v.indexer.Lookup(ix, key, components)
}

func (v virtualIndexes) Range(ix *catalog.Index, from, to []byte, limit int) (catalog.ShardSet, bool, error) {
	return v.indexer.Range(ix, from, to, limit)
}

func (v virtualIndexes) Hold(set catalog.ShardSet) planner.Held { return v.indexer.Begin(set) }

// open adapts a registration.
type open struct{ *indexer.Open }

func (o open) InDoubt(id catalog.ShardID, conn *shard.Conn, after []planner.Maintenance) {
	o.Open.InDoubt(id, threadOf(conn), maintenance(after)...)
}

func (o open) DDLInDoubt(id catalog.ShardID, conn *shard.Conn) {
	o.Open.DDLInDoubt(id, threadOf(conn))
}

func (v virtualIndexes) Begin(set catalog.ShardSet) proxy.Open { return open{v.indexer.Begin(set)} }

func (v virtualIndexes) AwaitOpen(ctx context.Context, set catalog.ShardSet) error {
	return v.indexer.AwaitOpen(ctx, set)
}

func (v virtualIndexes) Prepare(o proxy.Open, adds []planner.Entry, marks []planner.Mark, tables []*catalog.Table, shards catalog.ShardSet) error {
	// Room for most statements' on the stack.
	var fewAdds [8]indexer.Add
	var fewMarks [4]indexer.Mark
	a, m := fewAdds[:0], fewMarks[:0]
	for _, e := range adds {
		a = append(a, indexer.Add(e))
	}
	for _, e := range marks {
		m = append(m, indexer.Mark(e))
	}
	return storeError(v.indexer.Prepare(o.(open).Open, a, m, tables, shards))
}

// storeError says in the proxy's words why the store refused.
func storeError(err error) error {
	switch {
	case errors.Is(err, storage.ErrStoreFull):
		return fmt.Errorf("%w: %w", proxy.ErrIndexFull, err)
	case errors.Is(err, storage.ErrReadOnly):
		return fmt.Errorf("%w: %w", proxy.ErrIndexReadOnly, err)
	}
	return err
}

func (v virtualIndexes) After(list []planner.Maintenance) {
	var few [2]indexer.Maintenance
	v.indexer.After(appendMaintenance(few[:0], list)...)
}

func maintenance(list []planner.Maintenance) []indexer.Maintenance {
	return appendMaintenance(nil, list)
}

func appendMaintenance(dst []indexer.Maintenance, list []planner.Maintenance) []indexer.Maintenance {
	for _, m := range list {
		one := indexer.Maintenance{Table: m.Table, Operation: m.Operation, Shards: m.Shards, Indexes: m.Indexes, Columns: m.Columns}
		for _, p := range m.Keys {
			one.Keys = append(one.Keys, indexer.Probe(p))
		}
		dst = append(dst, one)
	}
	return dst
}

func (v virtualIndexes) Observe(probes []planner.Probe, routed, empty catalog.ShardSet) {
	for _, p := range probes {
		v.indexer.Observe(indexer.Probe(p), routed, routed, empty)
	}
}

func (v virtualIndexes) CreateIndex(ctx context.Context, t *catalog.Table, name string, columns []string, partitions int) error {
	return v.indexer.CreateIndex(ctx, t.Schema, t.Name, name, columns, partitions)
}

func (v virtualIndexes) DropIndex(ctx context.Context, ix *catalog.Index) error {
	return v.indexer.DropIndex(ctx, ix.Table.Schema, ix.Table.Name, ix.Name)
}

func (v virtualIndexes) RebuildIndex(ctx context.Context, ix *catalog.Index) error {
	return v.indexer.RebuildIndex(ctx, ix.Table.Schema, ix.Table.Name, ix.Name)
}

func (v virtualIndexes) Repartition(ctx context.Context, ix *catalog.Index, partitions int) error {
	return v.indexer.RepartitionIndex(ctx, ix.Table.Schema, ix.Table.Name, ix.Name, partitions)
}

func (v virtualIndexes) EnableIndex(ctx context.Context, ix *catalog.Index, enabled bool) error {
	if enabled {
		return v.indexer.EnableIndex(ctx, ix.Table.Schema, ix.Table.Name, ix.Name)
	}
	return v.indexer.DisableIndex(ctx, ix.Table.Schema, ix.Table.Name, ix.Name)
}

func (v virtualIndexes) CheckIndex(ctx context.Context, ix *catalog.Index) ([]proxy.CheckRow, error) {
	var rows []proxy.CheckRow
	err := v.indexer.Check(ctx, ix.Table.Schema, ix.Table.Name, ix.Name, func(r indexer.CheckRow) error {
		rows = append(rows, proxy.CheckRow{Index: ix.Name, Shard: v.shardName(r.Shard), Checked: r.Checked, Missing: r.Missing, Stale: r.Stale})
		return nil
	})
	return rows, err
}

func (v virtualIndexes) shardName(id catalog.ShardID) string {
	return v.directory.Catalog().ShardName(id)
}

func (v virtualIndexes) shardNames(set catalog.ShardSet) []string {
	var names []string
	for id := range set.All {
		names = append(names, v.shardName(id))
	}
	return names
}

func (v virtualIndexes) IndexRows() []proxy.IndexRow {
	var rows []proxy.IndexRow
	for _, s := range v.indexer.Status() {
		d := s.Def
		row := proxy.IndexRow{
			Schema: d.Schema, Table: d.Table, Name: d.Name, Columns: d.Columns, Partitions: d.Partitions,
			Status: string(d.Status), Progress: s.Progress, Entries: uint64(max(0, s.Entries)),
			UnknownShards: v.shardNames(s.Unknown), PendingJobs: s.PendingJobs, LastScan: timeText(d.LastScan), Error: d.Error,
		}
		if d.Status == storage.Ready {
			row.Status, row.Error = v.published(d)
		}
		if row.Error == "" {
			row.Error = s.Waiting
		}
		rows = append(rows, row)
	}
	return rows
}

// published is the status of an index that is ready in the store, as sessions see it: not ready
// where they don't know it yet, or can't use it (shards that disagree about the table, a column that
// is gone).
func (v virtualIndexes) published(d storage.IndexDef) (status, why string) {
	t := v.directory.Catalog().Table(d.Schema, d.Table)
	if t == nil || len(t.Columns) == 0 {
		return string(catalog.Failed), "no shard has its table, or has told of it yet"
	}
	if ix := t.Index(d.Name); ix != nil {
		return string(ix.Status), ix.Error
	}
	for _, name := range d.Columns {
		if t.Column(name) == nil {
			return string(catalog.Failed), "its column " + name + " is gone: drop it"
		}
	}
	return string(d.Status), d.Error
}

func (v virtualIndexes) Writable() error { return v.store.Writable() }

func (v virtualIndexes) JobRows() []proxy.JobRow {
	names := map[storage.IndexID]string{}
	for _, d := range v.store.Indexes() {
		names[d.ID] = d.Name
	}
	var rows []proxy.JobRow
	for _, j := range v.indexer.Jobs() {
		row := proxy.JobRow{
			ID: j.ID, Type: j.Type, Schema: j.Schema, Table: j.Table, Shards: v.shardNames(catalog.ShardSet(j.Shards)),
			State: string(j.State), Attempts: j.Attempts, NotBefore: timeText(j.NotBefore), ClaimedBy: j.ClaimedBy,
			Progress: j.Progress, Error: j.Error,
		}
		for _, id := range j.Indexes {
			row.Indexes = append(row.Indexes, names[id])
		}
		rows = append(rows, row)
	}
	return rows
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

func (v virtualIndexes) Entries(ix *catalog.Index, from, to []byte, limit int) ([]proxy.EntryRow, error) {
	var rows []proxy.EntryRow
	err := v.store.Entries(storage.IndexID(ix.ID), from, false, func(key []byte, pairs []storage.ShardEpoch) bool {
		if to != nil && string(key) >= string(to) || len(rows) == limit {
			return false
		}
		row := proxy.EntryRow{Key: hex.EncodeToString(key)}
		for _, p := range pairs {
			row.Shards = append(row.Shards, v.shardName(catalog.ShardID(p.Shard)))
			row.Epochs = append(row.Epochs, uint64(p.Epoch))
		}
		rows = append(rows, row)
		return true
	})
	return rows, err
}

func (v virtualIndexes) BeforeDDL(ctx context.Context, d *planner.DDL) error {
	return v.indexer.BeforeDDL(ctx, change(d))
}

func (v virtualIndexes) AfterDDL(ctx context.Context, d *planner.DDL, done bool) error {
	c := change(d)
	c.Done = done
	return errors.Join(v.indexer.AfterDDL(ctx, c), sequences{v.store, v.directory}.afterDDL(d))
}

func change(d *planner.DDL) indexer.Change {
	c := indexer.Change{Op: d.Op, Schema: d.Schema, Touches: d.Touches, AllColumns: d.AllColumns}
	for _, t := range d.Tables {
		c.Tables = append(c.Tables, indexer.TableName(t))
	}
	for _, t := range d.Renamed {
		c.Renamed = append(c.Renamed, indexer.TableName(t))
	}
	return c
}

// indexDefs are the store's definitions as the catalog is built from.
func indexDefs(store *storage.Store) []schema.IndexDef {
	var out []schema.IndexDef
	for _, d := range store.Indexes() {
		out = append(out, schema.IndexDef{
			ID: uint32(d.ID), Schema: d.Schema, Table: d.Table, Name: d.Name, Columns: d.Columns, Partitions: d.Partitions,
			Status: catalog.IndexStatus(d.Status), Error: d.Error, Keyed: d.Keyed,
		})
	}
	return out
}
