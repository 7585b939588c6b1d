package storage

import "errors"

var (
	// ErrNoIndex: the index is unknown or has no generation that is complete
	// enough to read. The caller scatters.
	ErrNoIndex = errors.New("virtual index is not built yet, or was dropped")
	// ErrIndexExists: an index of this table already has the name.
	ErrIndexExists = errors.New("virtual index already exists")
	// ErrNotBuilding: FinishBuild without a building generation.
	ErrNotBuilding = errors.New("virtual index has no building generation")
	// ErrBusy: the index is being built or repartitioned.
	ErrBusy = errors.New("virtual index is being built or repartitioned")
	// ErrSuperseded: a build or a drop ended the Repartition, or another build this one.
	ErrSuperseded = errors.New("superseded by a build or drop of the index")

	// ErrStoreFull: free space is under the limit; nothing was written.
	// Reads work, and writes work again once there is space.
	ErrStoreFull = errors.New("index store is out of disk space")
	// ErrReadOnly: a write to the store failed, so that what is on disk is in
	// doubt, or its directory can't be written. Reads work; writes are refused, after a
	// failed one until the process restarts.
	ErrReadOnly = errors.New("index store is read-only")
	// ErrClosed: the store is closed.
	ErrClosed = errors.New("index store is closed")

	// ErrLocked: another process has the store's directory open.
	ErrLocked = errors.New("index store is in use by another process")
	// ErrFormat: the store was written by a version that this one can't read.
	ErrFormat = errors.New("index store has an unknown format")
	// ErrUnreadable: the directory holds something that can't be opened.
	ErrUnreadable = errors.New("index store is unreadable")

	// ErrDamaged: the store's files are damaged, and being made anew. The caller asks all shards.
	ErrDamaged = errors.New("index store is damaged")

	// ErrLeaseLost: the job is not (or no longer) claimed by this worker.
	ErrLeaseLost = errors.New("job lease is lost")
	// ErrKeyTooLong: a key is longer than MaxKey.
	ErrKeyTooLong = errors.New("index key is too long")
	// ErrTooManyShards: all MaxShards shard numbers are given out.
	ErrTooManyShards = errors.New("no shard number left")
)
