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
	indexes := map[place][]storage.IndexRecord{}
	byID := map[catalog.IndexID]storage.IndexRecord{}
	for _, def := range x.store.Indexes() {
		p := place{def.Schema, def.Table}
		indexes[p] = append(indexes[p], def)
		byID[def.ID] = def
	}
	jobs := map[storage.Pair][]catalog.IndexID{}
	due := func(p storage.Pair, id catalog.IndexID) {
		if slices.Contains(jobs[p], id) {
			return
		}
		jobs[p] = append(jobs[p], id)
	}
	// A power loss: adds and marks that were not synced may be gone.
	var marks []storage.Mark
	for _, p := range x.store.Lost() {
		for _, def := range indexes[place{p.Schema, p.Table}] {
			marks = append(marks, storage.Mark{Index: def.ID, Shard: p.Shard, Epoch: x.cluster.Epoch(p.Shard)})
			due(p, def.ID)
		}
		x.log.Warn("index entries may have been lost by a power loss; reads go to the shard until it is scanned",
			"schema", p.Schema, "table", p.Table, "shard", x.shardName(p.Shard))
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
			Shards: catalog.Only(p.Shard), Indexes: ids, NotBefore: x.clock.Now(),
		})
		if err != nil {
			return fmt.Errorf("enqueue job: %w", err)
		}
	}
	if err := x.store.Recovered(); err != nil {
		return fmt.Errorf("finish recovery: %w", err)
	}
	if err := x.resumeBuilds(); err != nil { // nobody reads by what isn't built
		x.warnUnmade(err)
	}
	return nil
}

// resumeBuilds makes a job for each index that is being built and has none.
func (x *Indexer) resumeBuilds() error {
	jobs := x.store.Jobs()
	var errs []error // one whose server is away holds no other up
	for _, def := range x.store.Indexes() {
		if !slices.ContainsFunc(jobs, isBuildOf(def.ID)) {
			errs = append(errs, x.resumeBuild(def))
		}
	}
	return errors.Join(errs...)
}

func (x *Indexer) resumeBuild(def storage.IndexRecord) error {
	altered, err := x.altered(def)
	if err != nil {
		return err
	}
	build := (def.HasBuild || def.Opening || def.Status == catalog.Building) && def.Status != catalog.Failed || altered
	if !build && def.Former == "" {
		return nil
	}
	if build && !def.HasBuild && x.store.Outage(def.ID) != nil {
		return nil //nolint:nilerr // later
	}
	if build && !def.HasBuild {
		if err := x.store.StartBuild(def.ID, def.Partitions); err != nil {
			return fmt.Errorf("start build of index %s: %w", def.Name, err)
		}
	}
	return x.enqueueBuild(def, "RECOVERY")
}

// altered reports an index whose columns have been changed since its keys were made,
// by DDL behind Shunt's back or that an earlier life had sent. Nobody reads by such an index: a catalog that has it usable
// was made before its record, and says nothing of that.
func (x *Indexer) altered(def storage.IndexRecord) (bool, error) {
	c := x.opts.Catalog()
	if x.opts.Unsettled != nil && x.opts.Unsettled() { // or a catalog was made of new records, and the shards of before
		return false, nil
	}
	if c == nil || !def.Readable || def.HasBuild || def.Status != catalog.Ready {
		return false, nil
	}
	t := c.Table(def.Schema, def.Table)
	if t == nil || t.Differs != "" {
		return false, nil
	}
	for _, ix := range t.Indexes {
		if ix.ID != def.ID || len(ix.Columns) == 0 {
			continue
		}
		now := ix.Definition(c.MariaDB)
		if def.Keyed == "" { // a store of before there was this
			return false, x.store.UpdateIndex(def.ID, func(d *storage.IndexRecord) { d.Keyed = now })
		}
		return def.Keyed != now && !ix.Usable(), nil
	}
	return false, nil
}

// mend makes the jobs that could not be made when they should have been, for
// lack of disk space most likely: of builds, and of the deletion of old
// generations. REQUIRES: LockChanges.
func (x *Indexer) mend() {
	x.work.forgetFailed(x.store.Jobs())
	err := x.resumeBuilds()
	if x.store.Stats().Garbage > 0 {
		err = errors.Join(err, x.enqueueGarbage("", ""))
	}
	if err != nil {
		x.warnUnmade(err)
	}
}

func (x *Indexer) warnUnmade(err error) {
	x.log.Warn("maintenance jobs could not be made; this is tried again each minute", "error", err)
}

const mendEvery = time.Minute

// mendAtTimes mends each minute, and when a catalog has been published: a table that was
// altered behind Shunt's back, or that shards had in other ways until now, may have an index to be
// built. It is the dispatcher's, and so doesn't wait for an operator's statement, which may
// wait for a job.
func (x *Indexer) mendAtTimes(ctx context.Context, now time.Time) (next time.Time) {
	w := &x.work
	var version uint64
	if c := x.opts.Catalog(); c != nil {
		version = c.Version
	}
	switch {
	case w.mend.IsZero(): // recover has
	case now.Before(w.mend) && (version == w.mended || x.cluster.Fencing()): // DDL of our own builds what it alters
		return w.mend
	case !x.cluster.TryLockChanges(ctx):
		return now.Add(time.Second)
	default:
		if err := x.store.Sweep(ctx); err != nil { // which reads what others have changed
			x.log.Warn("what dropped virtual indexes have left could not be removed; this is tried again each minute", "error", err)
		}
		x.mend()
		x.cluster.UnlockChanges()
	}
	w.mend, w.mended = now.Add(mendEvery), version
	return w.mend
}

// Published tells that there is another catalog, which may have a shard more.
func (x *Indexer) Published() {
	x.work.wakeUp()
	x.doubts.lookAgain()
}
