package main

import (
	"github.com/shunt-sql/shunt/indexer"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
	"github.com/shunt-sql/shunt/storage/shared"
)

// store is what is kept: by this process alone in data_dir (storage.Store), or by several in
// schema shunt_store of servers (shared.Store).
type store interface {
	indexer.Store
	layoutStore
	sequenceStore
	unfinishedStore
	// Writable is why it can't be written to; nil if it can.
	Writable() error
	// Sync has what was written before survive a power loss.
	Sync() error
	Close() error
}

// layoutStore keeps where rows are.
type layoutStore interface {
	Shards() map[string]catalog.ShardID
	ShardID(name string) (catalog.ShardID, error)
	SlotMap() ([]byte, error)
	KeepSlotMap(m []byte) (kept []byte, err error)
	Placement(catalog.TableName) (string, error)
	Placements() (map[catalog.TableName]string, error)
	SetPlacements(map[catalog.TableName]string) error
	Apart() (map[string]string, error)
	SetApart(name, how string) error
	Unlike() (map[catalog.TableName]string, error)
	SetUnlike(t catalog.TableName, how string) error
}

// sequenceStore keeps the numbers of AUTO_INCREMENT columns and sequences.
type sequenceStore interface {
	TakeNumbers(t catalog.TableName, take func(next uint64) (end uint64)) (storage.Taken, error)
	StartSequence(t catalog.TableName, ask func() (from uint64, err error)) error
	// RaiseSequence has no number below next be handed out.
	RaiseSequence(t catalog.TableName, next uint64) error
	RestartSequence(catalog.TableName)
	SequenceKept(catalog.TableName) (bool, error)
	DoubtSequence(catalog.TableName)
	DoubtSequences() error
	DropSequence(catalog.TableName) error
	DropSequences(schema string) error
	RenameSequence(from, to catalog.TableName) error
	// Sequences are the numbers from which on none was ever handed out.
	Sequences() (map[catalog.TableName]uint64, error)
}

// unfinishedStore keeps the DDL that isn't done on all shards.
type unfinishedStore interface {
	Unfinished() (map[string]storage.UnfinishedDDL, error)
	KeepUnfinished(key string, u storage.UnfinishedDDL, synced bool) error
	ForgetUnfinished(key string) error
}

var (
	_ store = (*storage.Store)(nil)
	_ store = (*shared.Store)(nil)
)
