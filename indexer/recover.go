package indexer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// recover makes the store right again after whatever ended the process before.
// When it returns, statements may be served: every key that may have been lost
// is behind a mark.
func (x *Indexer) recover(context.Context) error {
	type place struct{ schema, table string }
	indexes := map[place][]storage.IndexDef{}
	byID := map[storage.IndexID]storage.IndexDef{}
	for _, def := range x.store.Indexes() {
		p := place{def.Schema, def.Table}
		indexes[p] = append(indexes[p], def)
		byID[def.ID] = def
	}
	jobs := map[storage.Pair][]storage.IndexID{}
	due := func(p storage.Pair, id storage.IndexID) {
		if slices.Contains(jobs[p], id) {
			return
		}
		jobs[p] = append(jobs[p], id)
	}
	// A power loss: adds and marks that were not synced may be gone.
	var marks []storage.Mark
	for _, p := range x.store.Lost() {
		for _, def := range indexes[place{p.Schema, p.Table}] {
			marks = append(marks, storage.Mark{Index: def.ID, Shard: p.Shard, Epoch: x.store.Epoch()})
			due(p, def.ID)
		}
		x.log.Warn("power loss: index entries may have been lost; reads go to the shard until it is scanned",
			"schema", p.Schema, "table", p.Table, "shard", x.shardName(catalog.ShardID(p.Shard)))
	}
	if len(marks) > 0 {
		if err := x.store.Mark(marks); err != nil {
			return fmt.Errorf("mark what a power loss may have lost: %w", err)
		}
	}
	// A dead process: nothing is lost, but what was added for a statement that
	// was never sent is stale.
	for _, p := range x.store.Unclean() {
		for _, def := range indexes[place{p.Schema, p.Table}] {
			due(p, def.ID)
		}
	}
	// A mark's job may not have made it into the store.
	for _, m := range x.store.AllMarks() {
		if def, ok := byID[m.Index]; ok {
			due(storage.Pair{Schema: def.Schema, Table: def.Table, Shard: m.Shard}, m.Index)
		}
	}
	for p, ids := range jobs {
		_, err := x.store.Enqueue(storage.Job{
			Type: storage.MaintainIndex, Schema: p.Schema, Table: p.Table, Operation: "RECOVERY",
			Shards: storage.Only(p.Shard), Indexes: ids, NotBefore: x.clock.Now(),
		})
		if err != nil {
			return fmt.Errorf("enqueue job: %w", err)
		}
	}
	if err := x.store.Recovered(); err != nil {
		return fmt.Errorf("finish recovery: %w", err)
	}
	return x.resumeBuilds()
}

// resumeBuilds makes a job for each index that is being built and has none.
func (x *Indexer) resumeBuilds() error {
	has := map[storage.IndexID]bool{}
	for _, j := range x.store.Jobs() {
		if j.Type == storage.BuildIndex {
			for _, id := range j.Indexes {
				has[id] = true
			}
		}
	}
	for _, def := range x.store.Indexes() {
		altered, err := x.altered(def)
		if err != nil {
			return err
		}
		needed := (def.HasBuild || def.Status == storage.Building) && def.Status != storage.Failed || altered
		if !needed || has[def.ID] {
			continue
		}
		if !def.HasBuild {
			if err := x.store.StartBuild(def.ID, def.Partitions); err != nil {
				return fmt.Errorf("start build of index %s: %w", def.Name, err)
			}
		}
		if err := x.enqueueBuild(def, "RECOVERY"); err != nil {
			return err
		}
	}
	return nil
}

// altered reports an index whose columns have been changed since its keys were made,
// by DDL behind Shunt's back or that an earlier life had sent. Nobody reads by it.
func (x *Indexer) altered(def storage.IndexDef) (bool, error) {
	c := x.opts.Catalog()
	if c == nil || !def.Readable || def.HasBuild || def.Status != storage.Ready {
		return false, nil
	}
	t := c.Table(def.Schema, def.Table)
	if t == nil || t.Differs != "" {
		return false, nil
	}
	for _, ix := range t.Indexes {
		if ix.ID != uint32(def.ID) || len(ix.Columns) == 0 {
			continue
		}
		now := ix.Definition(c.MariaDB)
		if def.Keyed == "" { // a store of before there was this
			return false, x.store.UpdateIndex(def.ID, func(d *storage.IndexDef) { d.Keyed = now })
		}
		return def.Keyed != now, nil
	}
	return false, nil
}

// mend makes the jobs that could not be made when they should have been, for
// lack of disk space most likely: of builds, and of the deletion of old
// generations. REQUIRES: x.admin is held.
func (x *Indexer) mend() {
	err := x.resumeBuilds()
	if x.store.Stats().Garbage > 0 {
		err = errors.Join(err, x.enqueueGarbage("", ""))
	}
	if err != nil {
		x.log.Warn("maintenance jobs could not be made; this is tried again each minute", "error", err)
	}
}

const mendEvery = time.Minute

// mendAtTimes mends each minute, and when a catalog has been published: a table that was
// altered behind Shunt's back, or that shards had in other ways until now, may have an index to be
// built. It is the dispatcher's, and so doesn't wait for an operator's statement, which may
// wait for a job.
func (x *Indexer) mendAtTimes(now time.Time) (next time.Time) {
	w := &x.work
	var version uint64
	if c := x.opts.Catalog(); c != nil {
		version = c.Version
	}
	switch {
	case w.mend.IsZero(): // recover has
	case now.Before(w.mend) && (version == w.mended || x.fencing()): // DDL of our own builds what it alters
		return w.mend
	case !x.admin.TryLock():
		return now.Add(time.Second)
	default:
		x.mend()
		x.admin.Unlock()
	}
	w.mend, w.mended = now.Add(mendEvery), version
	return w.mend
}

// Published tells that there is another catalog.
func (x *Indexer) Published() { x.work.wakeUp() }
