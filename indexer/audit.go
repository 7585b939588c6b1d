package indexer

import (
	"bytes"
	"context"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/shunt-sql/shunt/planner/plan"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// audits is what reads leave to do in the background.
type audits struct {
	share  float64
	queue  chan *observation
	seed   maphash.Seed
	mu     sync.Mutex
	recent [2]map[uint64]struct{} // keys whose repair was asked for lately
}

// observation is a read by a probe: an audit where audit is set, and a repair
// on the shards in empty.
type observation struct {
	probe  plan.Probe
	routed catalog.ShardSet
	empty  catalog.ShardSet
	audit  bool
}

const (
	observations = 256
	recentKeys   = 4096
)

func (a *audits) init(share float64) {
	a.share = share
	a.queue = make(chan *observation, observations)
	a.seed = maphash.MakeSeed()
	a.recent = [2]map[uint64]struct{}{{}, {}}
}

// fresh reports whether the key on these shards was not repaired lately.
func (a *audits) fresh(p plan.Probe, set catalog.ShardSet) bool {
	var h maphash.Hash
	h.SetSeed(a.seed)
	h.Write(p.Key)
	h.WriteByte(byte(p.Index.ID))
	maphash.WriteComparable(&h, set)
	sum := h.Sum64()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.recent {
		if _, ok := r[sum]; ok {
			return false
		}
	}
	if len(a.recent[0]) >= recentKeys {
		a.recent[0], a.recent[1] = map[uint64]struct{}{}, a.recent[0]
	}
	a.recent[0][sum] = struct{}{}
	return true
}

// forget lets keys be repaired again. It is called now and then.
func (a *audits) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.recent = [2]map[uint64]struct{}{{}, a.recent[0]}
}

// Observe is told of a probe after a read that it routed: the shards that the
// index gave, those asked, and those of them that answered no row. It never
// waits, and keeps nothing of the probe.
func (x *Indexer) Observe(p plan.Probe, routed, asked, empty catalog.ShardSet) {
	o := observation{probe: p, routed: routed, empty: empty.Intersect(routed).Intersect(asked)}
	x.fanouts.count(p.Index.ID, routed.Intersect(asked), o.empty)
	o.audit = x.audits.share > 0 && rand.Float64() < x.audits.share
	if !o.empty.Empty() && !x.audits.fresh(p, o.empty) {
		o.empty = catalog.ShardSet{}
	}
	if !o.audit && o.empty.Empty() {
		return
	}
	kept := o
	kept.probe.Key, kept.probe.Values = bytes.Clone(p.Key), slices.Clone(p.Values)
	for i, v := range kept.probe.Values {
		kept.probe.Values[i] = v.Clone() // its text is the client's packet
	}
	select {
	case x.audits.queue <- &kept:
	default:
		if x.opts.Metrics.Dropped != nil {
			if o.audit {
				x.opts.Metrics.Dropped("audit")
			} else {
				x.opts.Metrics.Dropped("repair")
			}
		}
	}
}

// observe works the queue off, one observation after the other.
func (x *Indexer) observe(ctx context.Context) {
	conns := map[catalog.ShardID]Conn{}
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	for {
		forget, stop := x.clock.After(x.opts.Delay * 10)
		select {
		case <-ctx.Done():
			stop()
			return
		case <-forget:
			x.audits.forget()
		case o := <-x.audits.queue:
			if !o.empty.Empty() {
				x.After(plan.Maintenance{Table: o.probe.Index.Table, Operation: "READ", Shards: o.empty, Keys: []plan.Probe{o.probe}})
			}
			if o.audit {
				x.audit(ctx, conns, o)
			}
		}
		stop()
	}
}

// audit asks the shards that a read skipped.
func (x *Indexer) audit(ctx context.Context, conns map[catalog.ShardID]Conn, o *observation) {
	if !x.asks(o.probe) {
		return
	}
	for id := range o.probe.Index.Table.Shards.Minus(o.routed).All {
		miss, err := x.auditShard(ctx, conns, o.probe, id)
		if err != nil {
			if ctx.Err() == nil {
				x.log.Debug("audit", "index", o.probe.Index.Name, "shard", x.shardName(id), "error", err)
			}
			continue
		}
		if x.opts.Metrics.Audited != nil {
			x.opts.Metrics.Audited(o.probe.Index, miss)
		}
		if miss {
			x.missed(ctx, o.probe, id)
			return
		}
	}
}

// auditShard reports whether a shard has a row that a lookup does not cover.
// The audit is registered as a reader: from before its SELECT until after the
// lookup no entry of a row that it saw can go. So what it reports is no race
// with a writer, and needs no second look.
func (x *Indexer) auditShard(ctx context.Context, conns map[catalog.ShardID]Conn, p plan.Probe, id catalog.ShardID) (miss bool, err error) {
	conn := conns[id]
	if conn == nil {
		if conn, err = x.connect(ctx, id); err != nil {
			return false, err
		}
		conns[id] = conn
	}
	o := x.Begin(catalog.Only(id))
	defer o.End()
	found, err := exist(ctx, conn, []plan.Probe{p})
	if err != nil {
		conn.Close()
		delete(conns, id)
		return false, err
	}
	if !found[0] {
		return false, nil
	}
	if c := x.opts.Catalog(); c == nil || !current(c, p.Index) {
		return false, nil // dropped, disabled or being rebuilt since
	}
	covered, err := x.Lookup(p.Index, p.Key, nil)
	if err != nil {
		return false, nil // an index that can't be read routes nothing
	}
	return !covered.Has(id), nil
}

// current reports whether reads are routed by the index, with the columns that
// it had.
func current(c *catalog.Catalog, ix *catalog.Index) bool {
	t := c.Table(ix.Table.Schema, ix.Table.Name)
	if t == nil {
		return false
	}
	for _, have := range t.Indexes {
		if have.ID != ix.ID || !have.Usable() || len(have.Columns) != len(ix.Columns) {
			continue
		}
		for i, col := range have.Columns {
			if was := ix.Columns[i]; col.Name != was.Name || col.Type != was.Type || col.Collation != was.Collation {
				return false
			}
		}
		return true
	}
	return false
}

// missed takes an index that would have lost a row out of use and rebuilds it.
func (x *Indexer) missed(ctx context.Context, p plan.Probe, id catalog.ShardID) {
	x.log.Error("MISS: a shard has a row that the virtual index does not cover; the index is taken out of use and rebuilt",
		"schema", p.Index.Table.Schema, "table", p.Index.Table.Name, "index", p.Index.Name,
		"shard", x.shardName(id), "key", fmt.Sprintf("%x", p.Key))
	if x.cluster.LockChanges(ctx) != nil {
		return // being closed
	}
	defer x.cluster.UnlockChanges()
	def, ok := x.store.Index(p.Index.ID)
	if !ok || def.Status != catalog.Ready {
		return
	}
	err := x.setStatus(ctx, def.ID, catalog.Building, "an audit found a row on shard "+x.shardName(id)+" that the index did not cover; being rebuilt")
	if err == nil {
		err = x.rebuild(ctx, def, "AUDIT")
	}
	if err != nil {
		x.log.Error("rebuild a virtual index", "index", def.Name, "error", err)
	}
}
