package storage

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// published is the state of Badger that lookups read: one snapshot, shared by
// all until the next commit of entries. A transaction of Badger's own for each
// would wake a goroutine twice, and wait for commits that have just begun.
//
// Invariant: an entry that Add has returned for, and that is in Badger, is in
// the snapshot. So whoever commits entries publishes before he says so; and
// Add finds entries in place nowhere else.
type published struct {
	db  *badger.DB
	now atomic.Pointer[snapshot]
	// mu: a snapshot never makes place for an older one.
	mu sync.Mutex
}

// snapshot is a transaction that ends when it is neither published nor read.
type snapshot struct {
	*badger.Txn
	users atomic.Int64
}

// publishAge bounds how long a snapshot keeps old versions of other records
// from being compacted.
const publishAge = 10 * time.Second

func (p *published) open(db *badger.DB) {
	p.db = db
	p.publish()
}

// publish shows what was committed before the call.
func (p *published) publish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := &snapshot{Txn: p.db.NewTransaction(false)}
	next.users.Store(1)
	if old := p.now.Swap(next); old != nil {
		old.release()
	}
}

// acquire returns the snapshot; the caller releases it. It is for Get only,
// which several may call at once.
func (p *published) acquire() *snapshot {
	for {
		sn := p.now.Load()
		// One that was replaced and let go meanwhile has ended.
		if n := sn.users.Load(); n > 0 && sn.users.CompareAndSwap(n, n+1) {
			return sn
		}
	}
}

func (sn *snapshot) release() {
	if sn.users.Add(-1) == 0 {
		sn.Discard()
	}
}

func (p *published) run(ctx context.Context) {
	t := time.NewTicker(publishAge)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			p.publish()
		}
	}
}

// close ends the last snapshot. REQUIRES: nobody reads any more.
func (p *published) close() {
	if sn := p.now.Load(); sn != nil {
		sn.release()
	}
}
