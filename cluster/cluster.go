package cluster

import (
	"context"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// Cluster is all of it.
type Cluster interface {
	Processes
	Catalogs
	Turn
	Tables
	Epochs
	Registrations
	Lives
	Connections
	Gates
	Duties
	Fences
	Changes
}

// Processes that have the store, or had it.
type Processes interface {
	// Join says what is to be called when others have done something, before all else. Parts
	// of it may come from several callers.
	Join(Member)
	// Self names this life of this process, by letters and digits. Gone reports that
	// one is over, and nothing of it runs on any shard; false where that can't be told.
	Self() string
	Gone(ctx context.Context, life string) bool
	// ConnectionID numbers a client's connection, as none that is open anywhere, until
	// EndConnection.
	ConnectionID() uint32
	EndConnection(id uint32)
}

// Catalogs that processes go by.
type Catalogs interface {
	// Adopted returns when all go by the catalog of a version, or a later one. This one has
	// published it.
	Adopted(ctx context.Context, version uint64) error
}

// Turn of DDL.
type Turn interface {
	// TakeTurn waits until no DDL of anybody's runs, or for ctx, whose cause is the error.
	// Then none runs until GiveTurn.
	TakeTurn(context.Context) error
	GiveTurn()
	// TurnKept is nil while the turn is this process's. It is asked with the connection
	// at hand over which DDL is sent then: the turn of a process that was fenced may be
	// another's, who has waited for the end of connections that are older than that.
	TurnKept() error
}

// Tables have turns of their own: those of DDL that shards do while another has the turn of DDL. Of what this process itself
// has nothing is told here.
type Tables interface {
	// TakeTables takes the turns of tables. REQUIRES: the turn of DDL, in which TablesHeld has named nobody who has one of them.
	// kept is TurnKept of them; nil where nothing is taken, since a member of another version might not heed it.
	TakeTables(context.Context, ...catalog.TableName) (kept func() error, give func(), err error)
	// TablesHeld names, for people, another process that has the turn of one of some tables; "" for none.
	TablesHeld(context.Context, catalog.Scope) (holder string, err error)
	// AwaitTables waits until there is none, or for ctx, whose cause the error wraps.
	AwaitTables(context.Context, catalog.Scope) error
}

// Member is what a process does for the others. All are called without locks.
type Member struct {
	// Freed: a gate was left, a fence is gone, or the oldest registration of a shard
	// that somebody asked about has ended.
	Freed func()
	// Interrupt ends those of this process's jobs that are on such a table, or build such
	// an index (0: none), and returns when they have ended.
	Interrupt func(ctx context.Context, hit func(on catalog.TableName, builds catalog.IndexID) bool) error
	// Admit looks at a shard that this process is about to join, which is in an epoch: its
	// server may have forgotten later ones. What is known of the shard elsewhere, floors
	// and gates of its indexes, may be behind none of them; else Admit marks the shard's
	// indexes and raises its epoch. After an error the shard isn't joined. nil: an epoch
	// that is lower than this process has heard of is refused (ErrWentBack).
	Admit func(ctx context.Context, shard catalog.ShardID, e storage.Epoch) error
	// Lost: a join is over, since this process was fenced (ErrFenced), the shard's epoch went back
	// (ErrWentBack), or another server is in use for the shard (ErrReplaced). Connections that were noted
	// under it are closed, whatever they do.
	Lost func(shard catalog.ShardID, join uint64, why error)
	// Adopt has this process go by the catalog of a version, or a later one, and
	// returns when none of its statements is planned by an earlier one any more,
	// unless it was registered before.
	Adopt func(ctx context.Context, version uint64) error
}

// add takes over what is set.
func (m *Member) add(more Member) {
	if more.Freed != nil {
		m.Freed = more.Freed
	}
	if more.Interrupt != nil {
		m.Interrupt = more.Interrupt
	}
	if more.Admit != nil {
		m.Admit = more.Admit
	}
	if more.Lost != nil {
		m.Lost = more.Lost
	}
	if more.Adopt != nil {
		m.Adopt = more.Adopt
	}
}

// Epochs of a shard rise, and never repeat, also after a power loss.
type Epochs interface {
	Epoch(catalog.ShardID) storage.Epoch
	// Advance begins another one.
	Advance(context.Context, catalog.ShardID) (storage.Epoch, error)
}

// Registration is something open on a shard: a statement, or a transaction.
type Registration struct {
	Shard catalog.ShardID
	Epoch storage.Epoch
	// Join is the number under which this process was on the shard. A statement is sent
	// only over a connection that was noted under the same one: else the process was
	// fenced in between, and what it registered counts as ended.
	Join uint64
}

// Registrations are those of statements and transactions.
type Registrations interface {
	// Register begins one, in the shard's present epoch.
	Register(catalog.ShardID) Registration
	End(Registration)
	// Horizon is the oldest epoch in which something still open on the shard was
	// registered, or the current epoch if nothing is open.
	Horizon(context.Context, catalog.ShardID) (storage.Epoch, error)
	// Passed reports whether everything that was registered on the shard before epoch
	// min has ended. If not, Member.Freed will be called.
	Passed(shard catalog.ShardID, min storage.Epoch) bool
	// Wait waits until everything that was registered on the shard before epoch min has
	// ended, or ctx, whose cause is the error.
	Wait(ctx context.Context, shard catalog.ShardID, min storage.Epoch) error
	// Still is nil if all that was registered under a join has counted until now. It asks the shard: a process that was fenced
	// may not have heard of it.
	Still(ctx context.Context, shard catalog.ShardID, join uint64) error
}

// Lives tell what processes that are gone may have left running on a shard. A shard that
// isn't settled has an open registration at epoch 0, which stands for all of it.
type Lives interface {
	// ToSettle reports that this registration is open, and which one it is.
	ToSettle(catalog.ShardID) (unsettled int, open bool)
	// Settle ends it: nothing of a previous life runs there. unsettled is what ToSettle
	// told before that was found out.
	Settle(shard catalog.ShardID, unsettled int)
	// Unsettle begins it anew.
	Unsettle(catalog.ShardID)
}

// Connections to shards tell whose threads what was sent may still be on its way to.
type Connections interface {
	// NoteThread is called before anything is sent over a connection, and returns the
	// join that it belongs to. After an error nothing may be sent over it.
	NoteThread(context.Context, catalog.ShardID, storage.Thread) (join uint64, err error)
	// ForgetThread: the connection's thread has ended.
	ForgetThread(catalog.ShardID, storage.Thread) error
	// Thread is the connection that was noted last under a thread's number.
	Thread(shard catalog.ShardID, id uint32) (t storage.Thread, known bool)
	// OldThreads are those of processes that are gone.
	OldThreads(catalog.ShardID) []storage.Thread
}

// Gates are what one job of this process at a time may hold. What scans of several may take away is guarded where the
// index is (storage.Gate), and the queue has one of them at a job.
type Gates interface {
	// TryEnter holds all of the gates, or none if one of them is held.
	TryEnter(...Gate) bool
	// Enter waits until it holds the gate, or for ctx, whose cause is the error.
	Enter(context.Context, Gate) error
	Leave(...Gate)
}

// Gate is of a shard where it has no table, else of (table, shard).
type Gate struct {
	Schema, Table string
	Shard         catalog.ShardID
}

// Duties are what one process does for all, as long as it is there: two would do no harm, but do it twice.
type Duties interface {
	// Hold waits until a duty is this process's, or for ctx, whose cause is the error: a free one is had all the same. held ends with ctx, and when another
	// has taken the duty over, since this process was fenced. release is called once when nothing is at work on it any more.
	Hold(ctx context.Context, duty string) (held context.Context, release func(), err error)
}

// Fences keep jobs off tables.
type Fences interface {
	// Fence keeps them off until the next Fence or Unfence, and returns when none is
	// at work on these tables. DDL that has its turn calls it, so that there is one.
	Fence(context.Context, ...catalog.TableName) error
	Unfence()
	Fenced(catalog.TableName) bool
	// Fencing reports that there is a fence.
	Fencing() bool
	// Dismiss has no build of an index begin until readmit, and returns when none is at
	// work. One index at a time.
	Dismiss(context.Context, catalog.IndexID) (readmit func(), err error)
	Dismissed(catalog.IndexID) bool
}

// Changes of indexes, by operators and by DDL, are made by one at a time.
type Changes interface {
	// LockChanges waits for the others, or for ctx, whose cause is the error.
	LockChanges(context.Context) error
	// TryLockChanges is LockChanges where that needn't wait for others.
	TryLockChanges(context.Context) bool
	UnlockChanges()
}
