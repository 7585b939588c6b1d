package cluster

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// Store is what Local needs of the store.
type Store interface {
	// Epoch and Advance are one clock for all shards.
	Epoch() storage.Epoch
	Advance() (storage.Epoch, error)
	// The others are as Connections has them, of one process.
	NoteThread(catalog.ShardID, storage.Thread) error
	ForgetThread(shard catalog.ShardID, id uint32) error
	Thread(shard catalog.ShardID, id uint32) (t storage.Thread, known bool)
	OldThreads(catalog.ShardID) []storage.Thread
}

// Local is a process that is alone.
type Local struct {
	registrations
	gates
	duties duties
	store  Store
	member Member
	self   string

	mu        sync.Mutex
	fenced    map[catalog.TableName]bool
	dismissed catalog.IndexID

	// changes and turn have an element while they are somebody's.
	changes, turn chan struct{}

	connection atomic.Uint32
}

var _ Cluster = (*Local)(nil)

// NewLocal returns the process that has the store. No shard is settled yet.
func NewLocal(store Store) *Local {
	l := &Local{store: store, self: strconv.FormatInt(time.Now().UnixMilli(), 36), changes: make(chan struct{}, 1), turn: make(chan struct{}, 1)}
	l.now, l.registrations.freed = store.Epoch, l.freed
	l.start(l.freed)
	return l
}

// Join is Processes'.
func (l *Local) Join(m Member) { l.member.add(m) }

func (l *Local) freed() {
	if l.member.Freed != nil {
		l.member.Freed()
	}
}

// Self is Processes'.
func (l *Local) Self() string { return l.self }

// Gone is Processes': all lives but this one are over.
func (l *Local) Gone(_ context.Context, life string) bool { return life != l.self }

// NoteThread is Connections'. Without the note a next life judges the thread by what it
// does.
func (l *Local) NoteThread(_ context.Context, id catalog.ShardID, t storage.Thread) (join uint64, err error) {
	_ = l.store.NoteThread(id, t)
	return 0, nil
}

// ForgetThread is Connections'.
func (l *Local) ForgetThread(shard catalog.ShardID, t storage.Thread) error {
	return l.store.ForgetThread(shard, t.ID)
}

// Thread is Connections'.
func (l *Local) Thread(shard catalog.ShardID, id uint32) (t storage.Thread, known bool) {
	return l.store.Thread(shard, id)
}

// OldThreads is Connections'.
func (l *Local) OldThreads(shard catalog.ShardID) []storage.Thread { return l.store.OldThreads(shard) }

// Epoch is Epochs'.
func (l *Local) Epoch(catalog.ShardID) storage.Epoch { return l.store.Epoch() }

// Advance is Epochs'.
func (l *Local) Advance(context.Context, catalog.ShardID) (storage.Epoch, error) {
	e, err := l.store.Advance()
	if err != nil {
		return 0, fmt.Errorf("advance epoch: %w", err)
	}
	return e, nil
}

// Fence is Fences'.
func (l *Local) Fence(ctx context.Context, tables ...catalog.TableName) error {
	fenced := make(map[catalog.TableName]bool, len(tables))
	for _, t := range tables {
		fenced[t] = true
	}
	l.mu.Lock()
	l.fenced = fenced // which nobody changes
	l.mu.Unlock()
	l.freed() // what this one leaves out
	return l.interrupt(ctx, func(t catalog.TableName, _ catalog.IndexID) bool { return fenced[t] })
}

func (l *Local) interrupt(ctx context.Context, hit func(catalog.TableName, catalog.IndexID) bool) error {
	if l.member.Interrupt == nil {
		return nil
	}
	return l.member.Interrupt(ctx, hit)
}

// Unfence is Fences'.
func (l *Local) Unfence() {
	l.mu.Lock()
	l.fenced = nil
	l.mu.Unlock()
	l.freed()
}

// Fenced is Fences'.
func (l *Local) Fenced(t catalog.TableName) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fenced[t]
}

// Fencing is Fences'.
func (l *Local) Fencing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.fenced) > 0
}

// Dismiss is Fences'.
func (l *Local) Dismiss(ctx context.Context, id catalog.IndexID) (readmit func(), err error) {
	set := func(id catalog.IndexID) {
		l.mu.Lock()
		l.dismissed = id
		l.mu.Unlock()
	}
	set(id)
	readmit = func() {
		set(0)
		l.freed()
	}
	if err := l.interrupt(ctx, func(_ catalog.TableName, builds catalog.IndexID) bool { return builds == id }); err != nil {
		readmit()
		return nil, err
	}
	return readmit, nil
}

// Dismissed is Fences'.
func (l *Local) Dismissed(id catalog.IndexID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return id != 0 && l.dismissed == id
}

// LockChanges is Changes'.
func (l *Local) LockChanges(ctx context.Context) error { return take(ctx, l.changes) }

// TryLockChanges is Changes'.
func (l *Local) TryLockChanges(context.Context) bool {
	select {
	case l.changes <- struct{}{}:
		return true
	default:
		return false
	}
}

// UnlockChanges is Changes'.
func (l *Local) UnlockChanges() { <-l.changes }

// take waits for a channel of one to be free, or for ctx. What is free is had even if ctx
// has ended.
func take(ctx context.Context, one chan struct{}) error {
	select {
	case one <- struct{}{}:
		return nil
	default:
	}
	select {
	case one <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// TakeTurn is Turn's.
func (l *Local) TakeTurn(ctx context.Context) error { return take(ctx, l.turn) }

// GiveTurn is Turn's.
func (l *Local) GiveTurn() { <-l.turn }

// TurnKept is Turn's.
func (l *Local) TurnKept() error { return nil }

// Adopted is Catalogs': this process goes by a catalog once it is published.
func (l *Local) Adopted(context.Context, uint64) error { return nil }

// ConnectionID is Processes'.
func (l *Local) ConnectionID() uint32 { return l.connection.Add(1) }

// EndConnection is Processes'.
func (l *Local) EndConnection(uint32) {}

// Still is Registrations': nobody takes a process that is alone off a shard.
func (l *Local) Still(context.Context, catalog.ShardID, uint64) error { return nil }
