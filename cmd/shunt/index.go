package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/shunt-sql/shunt/planner/plan"

	"github.com/shunt-sql/shunt/indexer"
	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy"
	"github.com/shunt-sql/shunt/proxy/schema"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/storage"
	"github.com/shunt-sql/shunt/storage/shared"
)

// virtualIndexes is the indexer as the proxy sees it. The two don't import each
// other.
type virtualIndexes struct {
	indexer   *indexer.Indexer
	store     store
	directory *schema.Directory
	// configured are told of indexes that DDL drops.
	configured *configuredIndexes
	logs       *binlogs // nil: none is followed
}

var (
	_ proxy.Index      = virtualIndexes{}
	_ proxy.IndexAdmin = virtualIndexes{}
	_ proxy.Asked      = open{}
)

func (v virtualIndexes) Lookup(ix *catalog.Index, key []byte, components [][]byte) (catalog.ShardSet, error) {
	return v.indexer.Lookup(ix, key, components)
}

func (v virtualIndexes) Range(ix *catalog.Index, from, to []byte, limit int) (catalog.ShardSet, bool, error) {
	return v.indexer.Range(ix, from, to, limit)
}

func (v virtualIndexes) Removals() uint64 { return v.indexer.Removals() }

// askedIndexes are those of a store that several have.
type askedIndexes struct{ virtualIndexes }

var (
	_ proxy.Guessing = askedIndexes{}
	_ proxy.Beside   = askedIndexes{}
)

func (a askedIndexes) Ask(ctx context.Context, questions []plan.Question) error {
	return a.indexer.Ask(ctx, questions)
}

func (a askedIndexes) Guess(questions []plan.Question) (holds func(context.Context) bool) {
	return a.indexer.Guess(questions)
}

func (a askedIndexes) AddBeside(o proxy.Open, adds []plan.Entry) (wait func() error, err error) {
	added, err := a.indexer.AddBeside(o.(open).Open, adds)
	if added == nil {
		return nil, storeError(err)
	}
	return func() error { return storeError(added()) }, nil
}

// open adapts a registration.
type open struct{ *indexer.Open }

func (o open) Fits(id catalog.ShardID, conn *shard.Conn) bool { return o.Join(id) == conn.Join }

func (o open) InDoubt(id catalog.ShardID, conn *shard.Conn, after []plan.Maintenance) {
	o.Open.InDoubt(id, threadOf(conn), after...)
}

func (o open) DDLInDoubt(id catalog.ShardID, conn *shard.Conn) {
	o.Open.DDLInDoubt(id, threadOf(conn))
}

func (v virtualIndexes) Begin(set catalog.ShardSet) proxy.Open { return open{v.indexer.Begin(set)} }

func (v virtualIndexes) Passing(ctx context.Context, o proxy.Open) plan.Indexes {
	of, _ := o.(open)
	return v.indexer.Passing(ctx, of.Open)
}

func (v virtualIndexes) AwaitOpen(ctx context.Context, set catalog.ShardSet) error {
	return v.indexer.AwaitOpen(ctx, set)
}

func (v virtualIndexes) Prepare(ctx context.Context, o proxy.Open, adds []plan.Entry, marks []plan.Mark, tables []*catalog.Table, shards catalog.ShardSet) error {
	return storeError(v.indexer.Prepare(ctx, o.(open).Open, adds, marks, tables, shards))
}

// storeError says in the proxy's words why the store refused.
func storeError(err error) error {
	out, isOut := errors.AsType[*shared.OutError](err)
	switch {
	case isOut:
		return mysqlerr.New(mysqlerr.ShardDown, out.Error()+"; nothing was changed. Statements that need no new entries of virtual indexes are served")
	case errors.Is(err, storage.ErrNoHomes), errors.Is(err, shared.ErrPartitions):
		return mysqlerr.New(mysqlerr.NotSupportedYet, err.Error())
	case errors.Is(err, storage.ErrStoreFull):
		return fmt.Errorf("%w: %w", proxy.ErrIndexFull, err)
	case errors.Is(err, storage.ErrReadOnly):
		return fmt.Errorf("%w: %w", proxy.ErrIndexReadOnly, err)
	}
	return err
}

func (v virtualIndexes) After(list []plan.Maintenance) { v.indexer.After(list...) }

func (v virtualIndexes) Observe(probes []plan.Probe, routed, empty catalog.ShardSet) {
	for _, p := range probes {
		v.indexer.Observe(p, routed, routed, empty)
	}
}

func (v virtualIndexes) CreateIndex(ctx context.Context, t *catalog.Table, ix plan.VirtualIndex, homes []string) error {
	if len(ix.Include) > 0 {
		return storeError(v.indexer.CreateCovering(ctx, t.Schema, t.Name, ix.Name, ix.Columns, ix.Include, ix.Partitions))
	}
	return storeError(v.indexer.CreateIndex(ctx, t.Schema, t.Name, ix.Name, ix.Columns, ix.Partitions, storage.JoinNames(homes)))
}

func (v virtualIndexes) DropIndex(ctx context.Context, ix *catalog.Index) error {
	return v.indexer.DropIndex(ctx, ix.Table.Schema, ix.Table.Name, ix.Name)
}

func (v virtualIndexes) RebuildIndex(ctx context.Context, ix *catalog.Index, homes []string) error {
	return storeError(v.indexer.RebuildIndex(ctx, ix.Table.Schema, ix.Table.Name, ix.Name, storage.JoinNames(homes)))
}

func (v virtualIndexes) Repartition(ctx context.Context, ix *catalog.Index, partitions int) error {
	return storeError(v.indexer.RepartitionIndex(ctx, ix.Table.Schema, ix.Table.Name, ix.Name, partitions))
}

func (v virtualIndexes) EnableIndex(ctx context.Context, ix *catalog.Index, enabled bool) error {
	if enabled {
		return v.indexer.EnableIndex(ctx, ix.Table.Schema, ix.Table.Name, ix.Name)
	}
	return v.indexer.DisableIndex(ctx, ix.Table.Schema, ix.Table.Name, ix.Name)
}

func (v virtualIndexes) CheckIndex(ctx context.Context, ix *catalog.Index) (rows []plan.CheckRow, err error) {
	err = v.indexer.Check(ctx, ix.Table.Schema, ix.Table.Name, ix.Name, func(r plan.CheckRow) error {
		rows = append(rows, r)
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
			Schema: d.Schema, Table: d.Table, Name: d.Name, Columns: d.Columns, Include: d.Include, Partitions: d.Partitions, Home: d.Home,
			Status: string(d.Status), Progress: s.Progress, Entries: uint64(max(0, s.Entries)),
			UnknownShards: v.shardNames(s.Unknown.Intersect(v.directory.Catalog().All)), PendingJobs: s.PendingJobs, LastScan: timeText(d.LastScan), Error: d.Error,
			Bytes: s.Bytes, UnknownSince: timeText(s.UnknownSince), Lag: -1,
			Reads: s.Fanout.Reads, ReadShards: s.Fanout.Shards, VainShards: s.Fanout.Vain,
		}
		if d.Status == catalog.Ready {
			row.Status, row.Error = v.published(d)
		}
		if row.Error == "" {
			row.Error = s.Waiting
		}
		if row.Error == "" && d.Forsaken {
			server := "its server " + d.Home
			if d.Partitions > 1 {
				server = "one of its servers (" + d.Home + ")"
			}
			row.Error = server + " is away, or takes no writes: the index is built anew when that ends, or where REBUILD VIRTUAL INDEX ... HOME says"
		}
		if row.Error == "" && d.Target != "" {
			row.Error = "moving to " + d.Target
		}
		if t := v.directory.Catalog().Table(d.Schema, d.Table); t != nil {
			row.Lag = v.logs.lagOf(t.Shards)
			if row.Error == "" {
				row.Error = leadsEverywhere(s.Fanout, t.Shards.Len())
			}
		}
		rows = append(rows, row)
	}
	return rows
}

const (
	// judgedReads are how many reads tell what an index is worth.
	judgedReads = 1000
	// nearlyAll is the share of a table's shards from which on to be led there saves nothing.
	nearlyAll = 0.9
)

// leadsEverywhere says of an index that nearly all shards have rows of the values that are asked for.
func leadsEverywhere(f indexer.Fanout, shards int) string {
	if f.Reads < judgedReads || shards < 2 {
		return ""
	}
	if have := float64(f.Shards-f.Vain) / float64(f.Reads); have >= nearlyAll*float64(shards) {
		return fmt.Sprintf("saves nothing: of %d shards %.1f have rows of a value that is asked for; drop it, or add a column that tells more", shards, have)
	}
	return ""
}

// published is the status of an index that is ready in the store, as sessions see it: not ready
// where they don't know it yet, or can't use it (shards that disagree about the table, a column that
// is gone).
func (v virtualIndexes) published(d storage.IndexRecord) (status, why string) {
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
	names := map[catalog.IndexID]string{}
	for _, d := range v.store.Indexes() {
		names[d.ID] = d.Name
	}
	var rows []proxy.JobRow
	for _, j := range v.indexer.Jobs() {
		row := proxy.JobRow{
			ID: j.ID, Type: j.Type, Schema: j.Schema, Table: j.Table, Shards: v.shardNames(j.Shards),
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
	err := v.store.Entries(ix.ID, from, false, func(key []byte, pairs []storage.ShardEpoch) bool {
		if to != nil && string(key) >= string(to) || len(rows) == limit {
			return false
		}
		row := proxy.EntryRow{Key: hex.EncodeToString(key)}
		for _, p := range pairs {
			row.Shards = append(row.Shards, v.shardName(p.Shard))
			row.Epochs = append(row.Epochs, uint64(p.Epoch))
		}
		rows = append(rows, row)
		return true
	})
	return rows, err
}

func (v virtualIndexes) BeforeDDL(ctx context.Context, d *plan.DDL) error {
	return v.indexer.BeforeDDL(ctx, d)
}

func (v virtualIndexes) AfterDDL(ctx context.Context, d *plan.DDL, done bool) error {
	before := v.store.Indexes()
	err := v.indexer.AfterDDL(ctx, d, done)
	v.configured.dropped(before, v.store.Indexes())
	return errors.Join(err, sequences{v.store, v.directory}.afterDDL(d))
}

// indexDefs are the definitions that the catalog is built from.
func indexDefs(store store) []catalog.IndexDef {
	var out []catalog.IndexDef
	for _, d := range store.Indexes() {
		out = append(out, d.IndexDef)
	}
	return out
}
