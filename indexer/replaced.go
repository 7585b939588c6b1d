package indexer

import (
	"fmt"

	"github.com/shunt-sql/shunt/cluster"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// MarkShard marks a shard in all indexes: its rows may be others than they were. When
// it returns, lookups go to the shard. The next Start scans it.
//
// A scan under way is of the rows of before. It may still remove entries, which the
// mark makes up for, and clears no mark of this epoch: its horizon is no later.
func MarkShard(store Store, epochs cluster.Epochs, id catalog.ShardID) error {
	var marks []storage.Mark
	for _, def := range store.Indexes() {
		marks = append(marks, storage.Mark{Index: def.ID, Shard: id, Epoch: epochs.Epoch(id)})
	}
	if len(marks) == 0 {
		return nil
	}
	if err := store.Mark(marks); err != nil {
		return fmt.Errorf("mark the shard: %w", err)
	}
	return nil
}

// Replaced is MarkShard, and has the shard scanned: it has become another server.
func (x *Indexer) Replaced(id catalog.ShardID) error {
	if err := MarkShard(x.store, x.cluster, id); err != nil {
		return err
	}
	type table struct{ schema, name string }
	indexes := map[table][]catalog.IndexID{}
	for _, def := range x.store.Indexes() {
		t := table{def.Schema, def.Table}
		indexes[t] = append(indexes[t], def.ID)
	}
	for t, ids := range indexes {
		_, err := x.store.Enqueue(storage.Job{
			Type: storage.MaintainIndex, Schema: t.schema, Table: t.name, Operation: "REPLACED",
			Shards: catalog.Only(id), Indexes: ids, NotBefore: x.clock.Now(),
		})
		if err != nil {
			x.afterError(err) // the mark stays until the next start
		}
	}
	return nil
}

// Retaken is Replaced of a shard that another Shunt had: what it has sent may still run
// there, as of a previous life.
func (x *Indexer) Retaken(id catalog.ShardID) error {
	x.cluster.Unsettle(id)
	x.doubts.lookAgain()
	return x.Replaced(id)
}
