package deadlock

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
)

const (
	// every is the least time between two looks, and how long a statement must have
	// been under way to be taken for one that waits. Servers compute INNODB_TRX anew
	// after 100 ms (see again). While the same ones wait, and in no circle, the time grows.
	every, slow = 110 * time.Millisecond, time.Second
	// ask bounds how long a shard may take to tell.
	ask = 2 * time.Second
	// rest is for how long a shard that refused to tell isn't asked again, and
	// an idle connection is kept.
	rest = time.Minute
)

// Err is what servers answer.
var Err = new(shard.ServerError(mysqlerr.New(mysqlerr.LockDeadlock, "Deadlock found when trying to get lock; try restarting transaction")))

// Transaction is one of the proxy's. Values are equal if they are the same one.
type Transaction interface {
	// Waiting is what its statement waits for.
	Waiting() Waiting
	// End fails the statement that has been under way since then, if it still is: what it waits for
	// outside of shards, and what it does on the threads that wait for others.
	End(ctx context.Context, since time.Time, waits func(Thread) bool)
}

// Waiting is a transaction whose statement has been under way for some time.
type Waiting struct {
	Since time.Time
	// On are the shards whose answers it waits for.
	On catalog.ShardSet
}

// Spread knows the transactions that are open on several shards.
type Spread struct {
	mu     sync.Mutex
	spread map[Transaction]Open
	// wake has an element when there may be several of them.
	wake chan struct{}
	// met are tables (by catalog.TableName) that writes over several shards have met at,
	// with the time.
	met sync.Map
}

// Open is a transaction that is open on several shards, or waits to be.
type Open struct {
	Began   time.Time
	Threads []Thread
}

// Thread is a server's.
type Thread struct {
	Shard catalog.ShardID
	ID    uint32
}

// NewSpread knows none.
func NewSpread() *Spread {
	return &Spread{spread: map[Transaction]Open{}, wake: make(chan struct{}, 1)}
}

// fearFor is for how long a table's shards are asked in turn after writes that asked
// them at once have met.
const fearFor = 10 * time.Second

// Fear notes that a write over several shards was a victim.
func (d *Spread) Fear(tables []*catalog.Table) {
	for _, t := range tables {
		d.met.Store(catalog.TableName{Schema: t.Schema, Name: t.Name}, time.Now())
	}
}

// Feared reports that a write had better ask its shards in turn: it then meets others on
// the first shard that both need, and waits there.
func (d *Spread) Feared(tables []*catalog.Table) bool {
	for _, t := range tables {
		if at, ok := d.met.Load(catalog.TableName{Schema: t.Schema, Name: t.Name}); ok && time.Since(at.(time.Time)) < fearFor {
			return true
		}
	}
	return false
}

// Joined notes by which thread a transaction has joined its last shard, and its first one: it is of
// no concern before it is on two.
func (d *Spread) Joined(tx Transaction, began time.Time, first, last Thread) {
	d.mu.Lock()
	x, known := d.spread[tx]
	if !known {
		x = Open{began, []Thread{first}}
	}
	x.Threads = append(x.Threads, last)
	d.spread[tx] = x
	several := len(d.spread) > 1
	d.mu.Unlock()
	if several {
		d.Wake()
	}
}

// Wake has deadlocks looked for.
func (d *Spread) Wake() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Left forgets a transaction's connection to a shard before it may become another's.
func (d *Spread) Left(tx Transaction, id catalog.ShardID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	x, known := d.spread[tx]
	if !known {
		return
	}
	// Who looks for deadlocks may be reading the list.
	x.Threads = slices.DeleteFunc(slices.Clone(x.Threads), func(t Thread) bool { return t.Shard == id })
	d.spread[tx] = x
	if len(x.Threads) < 2 {
		delete(d.spread, tx)
	}
}

// Ended forgets a transaction before its connections may become others'.
func (d *Spread) Ended(tx Transaction) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.spread, tx)
}

// open returns those that are open.
func (d *Spread) open() map[Transaction]Open {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.spread)
}
