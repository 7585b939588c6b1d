package indexer

import (
	"context"
	"fmt"
	"slices"

	"github.com/shunt-sql/shunt/cluster"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// kind is what jobs of a type are: one struct for each, in the file of what it does.
// How the queue splits and merges them is in the store's table of the same name. A job
// waits while one of the shards that it names is down.
type kind struct {
	typ string
	// One of these does it: alone without its table, table with that, shard with each of
	// its shards. The last two are not called for a table that has no virtual index: such a
	// job is done.
	alone func(x *Indexer, ctx context.Context, j *storage.Job) error
	table func(x *Indexer, ctx context.Context, t *catalog.Table, j *storage.Job) error
	shard func(x *Indexer, ctx context.Context, t *catalog.Table, id catalog.ShardID, j *storage.Job) error
	// scans: it scans its shards, one such job at a time each. retires: it relies on
	// the entries of its (table, shard), and removes some, beside no other one.
	scans, retires bool
	// urgent reports that it waits for the shorter rest of a shard's duty cycle, and not for the
	// longer one. nil: it waits for neither.
	urgent func(x *Indexer, j *storage.Job) bool
	// all: it is for all indexes of its table, though it names none.
	all bool
	// again: when its table is renamed, a job of the same kind is asked for under the new name.
	// Without it the indexes that the job names are scanned there.
	again bool
	// finished is called when it was done and is out of the queue; may be nil.
	finished func(x *Indexer, j *storage.Job)
}

// jobKinds are all kinds of jobs.
func jobKinds() []kind {
	return []kind{buildIndex, maintainIndex, verifyKeys, reconcile, dropIndex}
}

// JobTypes are those of all kinds.
func JobTypes() (types []string) {
	for _, k := range jobKinds() {
		types = append(types, k.typ)
	}
	return types
}

// kindOf finds a job's kind. One of another version's is nothing that can be done.
func (x *Indexer) kindOf(j *storage.Job) *kind {
	for i := range x.kinds {
		if x.kinds[i].typ == j.Type {
			return &x.kinds[i]
		}
	}
	return &kind{alone: func(*Indexer, context.Context, *storage.Job) error {
		return fmt.Errorf("jobs of type %s are not known", j.Type)
	}}
}

// scanGate admits one scan to a shard.
func scanGate(id catalog.ShardID) cluster.Gate { return cluster.Gate{Shard: id} }

// retireGate admits one maintain or verify to (table, shard): a scan relies on
// the entries that it finds, so nothing may remove them beside it.
func retireGate(schema, table string, id catalog.ShardID) cluster.Gate {
	return cluster.Gate{Schema: schema, Table: table, Shard: id}
}

// gates are those that a job holds while it runs.
func (k *kind) gates(j *storage.Job) []cluster.Gate {
	var gs []cluster.Gate
	for id := range j.Shards.All {
		if k.scans {
			gs = append(gs, scanGate(id))
		}
		if k.retires {
			gs = append(gs, retireGate(j.Schema, j.Table, id))
		}
	}
	return gs
}

// concerns reports whether a job is about an index.
func (k *kind) concerns(j *storage.Job, def storage.IndexRecord) bool {
	return slices.Contains(j.Indexes, def.ID) || slices.ContainsFunc(j.Keys, func(of storage.JobKey) bool { return of.Index == def.ID }) ||
		k.all && j.Schema == def.Schema && j.Table == def.Table
}
