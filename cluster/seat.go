package cluster

import (
	"context"
	"time"

	"github.com/shunt-sql/shunt/storage"
)

// Seat is what the server of one shard keeps of the members: one life of one process
// each. What a call has done is durable when it returns nil, and may be done or not
// after an error. All may be called at the same time.
type Seat interface {
	Roll
	// Advance begins the shard's next epoch. Once it has returned, the epoch is never
	// forgotten; others may hear of it before that.
	Advance(context.Context) (storage.Epoch, error)
	// Raise has the shard be in an epoch, or a later one.
	Raise(context.Context, storage.Epoch) error
	Notes
	Fencing
}

// Identity of a member.
type Identity struct {
	ID            uint64 // random
	Addr, Version string // for people
}

// Told is what a member tells a shard.
type Told struct {
	// Epoch: what the member has open there was registered in it, or later. It never
	// falls.
	Epoch storage.Epoch
	// Adopted is the epoch that it registers in. With Catalog it shows that a member
	// lives, though it has something open.
	Adopted storage.Epoch
	// Catalog is the version that it goes by, or an earlier one.
	Catalog uint64
	// Open is how many registrations are open, as of then.
	Open int
}

// Row is of a join: a member that is on the shard, or what it was there until it was
// fenced.
type Row struct {
	Identity
	Told
	Join   uint64
	Fenced bool
	// Linked: the server has the connection that the join's heartbeats come by.
	Linked bool
	// Since when it has been there, by the server's clock.
	Since time.Time
	// Connections are those noted.
	Connections int
}

// Beat is what a heartbeat reads.
type Beat struct {
	Epoch storage.Epoch
	// Life is the server's: it rises when another one is taken in use for the shard.
	Life uint64
	// Here: the join's row is there, and isn't fenced.
	Here bool
}

// Roll is the list of joins.
type Roll interface {
	// Join inserts a row that tells epoch 0, and returns its number, which no other has
	// had, here or on any server that has answered for the shard. The row is Linked.
	Join(ctx context.Context, who Identity, catalog uint64) (join uint64, err error)
	// Beat reads, over a connection that others see, for as long as the process lives.
	Beat(ctx context.Context, join uint64) (Beat, error)
	// Tell changes a row, if it is there. What was told before and is higher stays, so
	// that a late or repeated call does no harm.
	Tell(ctx context.Context, join uint64, told Told) error
	// Least is the lowest epoch that a row tells, fenced or not; where there is none, the
	// shard's.
	Least(context.Context) (storage.Epoch, error)
	// Rows also returns the shard's epoch, of the same moment.
	Rows(context.Context) (storage.Epoch, []Row, error)
	// Quiet tells for how long nothing has come by the connections that heartbeats come
	// by, in whole seconds by the server's clock. A join that isn't Linked has none, nor one
	// whose connection this account isn't shown.
	Quiet(context.Context) (byJoin map[uint64]time.Duration, err error)
}

// Thread of a connection, as the server lists it.
type Thread struct {
	// Note is the number of the note that is of it.
	Note uint64
	ID   uint64
	// User and Host (with the port) tell it from one that got its number later.
	User, Host string
	// Busy is for how long it has been executing what it does, where Running tells of it.
	Busy time.Duration
}

// Notes of connections, so that they can be ended.
type Notes interface {
	// Note keeps what the server lists under a thread's number, and then, not before,
	// looks whether the join's row is there, and not fenced. If it isn't, or the server
	// lists no such thread, nothing may be sent over the connection.
	Note(ctx context.Context, join uint64, thread uint32) (note uint64, here bool, err error)
	// Forget: these connections have ended, or nothing was sent over them.
	Forget(ctx context.Context, notes ...uint64) error
	// Threads that a join has noted.
	Threads(ctx context.Context, join uint64) ([]Thread, error)
}

// Fencing of members.
type Fencing interface {
	// SetFenced reports that it was this call.
	SetFenced(ctx context.Context, join uint64) (bool, error)
	// Kill has those end that the server lists as they were noted: one with the same
	// number, but of another user, host or port, is another's.
	Kill(context.Context, ...Thread) error
	// Running are those among them that the server still lists, with their Busy. One that it doesn't list
	// commits nothing any more.
	Running(context.Context, ...Thread) ([]Thread, error)
	// Remove removes a fenced row, and what it has noted. REQUIRES: nothing of it runs.
	Remove(ctx context.Context, join uint64) error
}
