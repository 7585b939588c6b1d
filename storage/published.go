package storage

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// published is the state of the database that lookups read: one snapshot, shared by
// all until the next commit of entries.
//
// Invariant: an entry that Add has returned for, and that is in the database, is in
// the snapshot. So whoever commits entries publishes before he says so; and
// Add finds entries in place nowhere else.
type published struct {
	db  *engine
	now atomic.Pointer[snapshot]
	// mu: a snapshot never makes place for an older one.
	mu sync.Mutex
}

// snapshot is one that ends when it is neither published nor read.
type snapshot struct {
	*pebble.Snapshot
	users atomic.Int64
}

// publishAge bounds how long a snapshot keeps old versions of other records
// from being compacted.
const publishAge = 10 * time.Second

func (p *published) open(db *engine) {
	p.db = db
	p.publish()
}

// publish shows what was committed before the call.
func (p *published) publish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := &snapshot{Snapshot: p.db.NewSnapshot()}
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
		_ = sn.Close() // never fails
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
			p.renew()
		}
	}
}

// renew is publish where the database can be read.
func (p *published) renew() {
	p.db.use.RLock()
	defer p.db.use.RUnlock()
	if p.db.intact() == nil { // a damaged one that can't be made anew is closed
		p.publish()
	}
}

// close ends the last snapshot. REQUIRES: nobody reads any more.
func (p *published) close() {
	if sn := p.now.Load(); sn != nil {
		sn.release()
	}
}
