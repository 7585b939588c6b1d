package indexer

import (
	"errors"
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
	if err := x.rescan(id, "REPLACED"); err != nil {
		x.afterError(err) // the mark stays until the next start
	}
	return nil
}

// rescan has a shard scanned for all indexes. After a power loss their tables are marked, and scanned all the same: else
// the jobs could be lost.
func (x *Indexer) rescan(id catalog.ShardID, operation string) error {
	indexes := map[storage.Pair][]catalog.IndexID{}
	for _, def := range x.store.Indexes() {
		p := storage.Pair{Schema: def.Schema, Table: def.Table, Shard: id}
		indexes[p] = append(indexes[p], def.ID)
	}
	var errs []error
	for p, ids := range indexes {
		_, err := x.store.Enqueue(storage.Job{
			Type: storage.MaintainIndex, Schema: p.Schema, Table: p.Table, Operation: operation,
			Shards: catalog.Only(id), Indexes: ids, NotBefore: x.clock.Now(),
		})
		if err == nil {
			_, err = x.store.Intend([]storage.Pair{p})
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Retaken is Replaced of a shard that another Shunt had: what it has sent may still run
// there, as of a previous life.
func (x *Indexer) Retaken(id catalog.ShardID) error {
	x.cluster.Unsettle(id)
	x.doubts.lookAgain()
	return x.Replaced(id)
}
