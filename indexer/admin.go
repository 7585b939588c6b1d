package indexer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// ErrUnknownIndex: there is no such virtual index.
var ErrUnknownIndex = errors.New("no such virtual index")

// CreateIndex makes a virtual index and enqueues its build; it returns when the
// index is published, so that writes maintain it. partitions 0: 1. home "": any.
func (x *Indexer) CreateIndex(ctx context.Context, schema, table, name string, columns []string, partitions int, home string) error {
	return x.create(ctx, catalog.IndexDef{Schema: schema, Table: table, Name: name, Columns: columns, Partitions: partitions, Home: home})
}

// create is CreateIndex of what is said of an index.
func (x *Indexer) create(ctx context.Context, def catalog.IndexDef) error {
	if err := x.cluster.LockChanges(ctx); err != nil {
		return err
	}
	defer x.cluster.UnlockChanges()
	c := x.opts.Catalog()
	if c == nil {
		return errors.New("there is no catalog yet: no shard has answered")
	}
	t := c.Table(def.Schema, def.Table)
	if t == nil || len(t.Columns) == 0 && !t.IsView {
		return fmt.Errorf("table %s.%s is not known", def.Schema, def.Table)
	}
	var err error
	def.Columns, err = indexable(t, def.Columns, c.MariaDB, x.codec)
	if err == nil && len(def.Include) > 0 {
		def.Include, err = x.coverable(ctx, t, def.Include)
	}
	switch {
	case err != nil:
		return err
	case t.Differs != "":
		return fmt.Errorf("table %s is not the same on all shards: %s", t.Name, t.Differs)
	case t.Index(def.Name) != nil:
		return fmt.Errorf("create virtual index %s on %s: %w", def.Name, t.Name, storage.ErrIndexExists)
	}
	def.Schema, def.Table, def.Status = t.Schema, t.Name, catalog.Building
	made, err := x.store.CreateIndex(def)
	if err != nil {
		return err
	}
	// The build begins when every new plan maintains the index. If this fails
	// the next start makes the job.
	if err := x.opts.Publish(ctx); err != nil {
		return fmt.Errorf("publish catalog: %w", err)
	}
	return x.enqueueBuild(made, "CREATE")
}

// Indexable says why a virtual index can't be on a table's columns.
func Indexable(t *catalog.Table, columns []string, mariaDB bool) error {
	_, err := indexable(t, columns, mariaDB, columnCodec)
	return err
}

// indexable returns the columns by the names that the table has for them.
func indexable(t *catalog.Table, columns []string, mariaDB bool, codecOf func(*catalog.Column, bool) (codec, error)) (names []string, err error) {
	switch {
	case t.IsView:
		return nil, fmt.Errorf("%s.%s is a view", t.Schema, t.Name)
	case t.Placement == catalog.Reference:
		return nil, fmt.Errorf("table %s is on every shard, so a virtual index has nothing to tell", t.Name)
	case len(columns) == 0:
		return nil, errors.New("a virtual index needs a column")
	}
	for i, column := range columns {
		col := t.Column(column)
		if col == nil {
			return nil, fmt.Errorf("table %s has no column %s", t.Name, column)
		}
		if col.Varies {
			return nil, fmt.Errorf("column %s can't be in a virtual index: it is VIRTUAL, and what it is depends on the session that reads it; make it STORED", column)
		}
		if _, err := codecOf(col, mariaDB); err != nil {
			return nil, fmt.Errorf("column %s can't be in a virtual index: %w", column, err)
		}
		if slices.ContainsFunc(columns[:i], func(have string) bool { return strings.EqualFold(have, column) }) {
			return nil, fmt.Errorf("column %s is named twice", column)
		}
		names = append(names, col.Name)
	}
	return names, nil
}

// find returns the definition of an index by its names.
func (x *Indexer) find(schema, table, name string) (storage.IndexRecord, error) {
	for _, d := range x.store.Indexes() {
		if strings.EqualFold(d.Name, name) && x.same(d.Schema, schema) && x.same(d.Table, table) {
			return d, nil
		}
	}
	return storage.IndexRecord{}, fmt.Errorf("%s on %s.%s: %w", name, schema, table, ErrUnknownIndex)
}

// same compares names of schemas and tables as the servers do.
func (x *Indexer) same(a, b string) bool {
	if c := x.opts.Catalog(); c != nil && c.LowerCaseNames {
		return strings.EqualFold(a, b)
	}
	return a == b
}

// DropIndex removes a virtual index; its entries are deleted in the background.
func (x *Indexer) DropIndex(ctx context.Context, schema, table, name string) error {
	return x.change(ctx, schema, table, name, func(def storage.IndexRecord) error { return x.drop(ctx, def) })
}

// change runs fn with an index, which nobody else changes meanwhile.
func (x *Indexer) change(ctx context.Context, schema, table, name string, fn func(storage.IndexRecord) error) error {
	if err := x.cluster.LockChanges(ctx); err != nil {
		return err
	}
	defer x.cluster.UnlockChanges()
	def, err := x.find(schema, table, name)
	if err != nil {
		return err
	}
	return fn(def)
}

func (x *Indexer) drop(ctx context.Context, def storage.IndexRecord) error {
	if err := x.dismiss(ctx, def.ID); err != nil {
		return err
	}
	if x.store.Outage(def.ID) != nil {
		if err := x.unread(ctx, def); err != nil {
			return err
		}
	}
	if err := x.store.DropIndex(def.ID); err != nil && !errors.Is(err, storage.ErrNoIndex) {
		return fmt.Errorf("drop virtual index %s: %w", def.Name, err)
	}
	if err := x.opts.Publish(ctx); err != nil {
		return fmt.Errorf("publish catalog: %w", err)
	}
	return x.enqueueGarbage(def.Schema, def.Table)
}

// unread has nobody read by an index, so that it may be added to no more.
//
// Counter-example: its server is away, and it is dropped. One process goes by that, and inserts a row
// without an entry. The server is back, and another process, which is late, looks the row up there.
func (x *Indexer) unread(ctx context.Context, def storage.IndexRecord) error {
	if def.Status == catalog.Ready {
		if err := x.setStatus(ctx, def.ID, catalog.Building, ""); err != nil {
			return err
		}
	}
	return x.everyone(ctx) // who has changed the status may have died before all knew of it
}

// everyone waits until all go by the indexes that this process knows, or later ones.
func (x *Indexer) everyone(ctx context.Context) error {
	if x.opts.Everyone == nil {
		return nil
	}
	return x.opts.Everyone(ctx)
}

// RebuildIndex builds the index anew; reads use the old entries meanwhile. home says where, "": where
// it is.
func (x *Indexer) RebuildIndex(ctx context.Context, schema, table, name, home string) error {
	return x.change(ctx, schema, table, name, func(def storage.IndexRecord) error {
		if home != "" {
			return x.rehome(ctx, def, home)
		}
		return x.rebuild(ctx, def, "REBUILD")
	})
}

// rehome builds an index on another server. One that is lost with its server is wide until that is done.
func (x *Indexer) rehome(ctx context.Context, def storage.IndexRecord, home string) error {
	if err := x.dismiss(ctx, def.ID); err != nil {
		return err
	}
	if err := x.endMove(ctx, def.ID); err != nil {
		return err
	}
	lost := x.store.Outage(def.ID) != nil
	if lost {
		if err := x.unread(ctx, def); err != nil {
			return err
		}
	}
	if err := x.store.Move(def.ID, home, lost); err != nil {
		return err
	}
	if def.Status == catalog.Failed {
		if err := x.setStatus(ctx, def.ID, catalog.Building, ""); err != nil {
			return err
		}
	}
	if err := x.opts.Publish(ctx); err != nil {
		return fmt.Errorf("publish catalog: %w", err)
	}
	return x.enqueueBuild(def, "MOVE")
}

// endMove ends a move whose build has ended, as soon as all read the index where it is now.
func (x *Indexer) endMove(ctx context.Context, id catalog.IndexID) error {
	if def, ok := x.store.Index(id); !ok || def.Former == "" {
		return nil
	}
	if err := x.everyone(ctx); err != nil {
		return err
	}
	if err := x.store.EndMove(id); err != nil {
		return fmt.Errorf("end the move of virtual index %d: %w", id, err)
	}
	return nil
}

// rebuild opens a new building generation and enqueues its build. What an
// older build has done is void: its scans did not fill this generation.
func (x *Indexer) rebuild(ctx context.Context, def storage.IndexRecord, operation string) error {
	if err := x.dismiss(ctx, def.ID); err != nil {
		return err
	}
	if err := x.store.StartBuild(def.ID, 0); err != nil {
		return err
	}
	if def.Status == catalog.Failed {
		if err := x.setStatus(ctx, def.ID, catalog.Building, ""); err != nil {
			return err
		}
	}
	return x.enqueueBuild(def, operation)
}

// dismiss ends the index's build jobs. One that went on after a StartBuild would read
// for nothing: it can't finish a generation that it has not filled.
func (x *Indexer) dismiss(ctx context.Context, id catalog.IndexID) error {
	superseded := func(j *storage.Job) bool { return builds(j) == id }
	readmit, err := x.cluster.Dismiss(ctx, id) // none starts from here on
	if err != nil {
		return err
	}
	defer readmit()
	for {
		// Whatever its backoff, it is claimable in the far future.
		j, err := x.store.Claim(x.work.name, leaseTime, x.clock.Now().AddDate(100, 0, 0), superseded)
		if err != nil {
			return fmt.Errorf("end a superseded build: %w", err)
		}
		if j == nil {
			return nil
		}
		if err := x.store.Finish(j.ID, x.work.name); err != nil {
			return fmt.Errorf("end a superseded build: %w", err)
		}
		x.work.mu.Lock()
		delete(x.work.held, j.ID)
		x.work.mu.Unlock()
	}
}

// interrupt cancels the running jobs that it hits, and waits for their ends.
func (x *Indexer) interrupt(ctx context.Context, match func(on catalog.TableName, builds catalog.IndexID) bool) error {
	x.work.mu.Lock()
	var hit []*run
	for _, r := range x.work.runs {
		if match(catalog.TableName{Schema: r.job.Schema, Name: r.job.Table}, builds(r.job)) {
			r.cancel(errDDL)
			hit = append(hit, r)
		}
	}
	x.work.mu.Unlock()
	for _, r := range hit {
		select {
		case <-r.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (x *Indexer) setStatus(ctx context.Context, id catalog.IndexID, s catalog.IndexStatus, why string) error {
	if err := x.store.UpdateIndex(id, func(d *storage.IndexRecord) { d.Status, d.Error = s, why }); err != nil {
		return fmt.Errorf("update index: %w", err)
	}
	if err := x.opts.Publish(ctx); err != nil {
		return fmt.Errorf("publish catalog: %w", err)
	}
	return nil
}

// RepartitionIndex changes the number of partitions, online. It returns when
// the entries have moved.
func (x *Indexer) RepartitionIndex(ctx context.Context, schema, table, name string, partitions int) error {
	def, err := x.find(schema, table, name)
	if err != nil {
		return err
	}
	err = x.store.Repartition(ctx, def.ID, partitions, func(share float64) {
		x.work.mu.Lock()
		defer x.work.mu.Unlock()
		x.work.notes[def.ID] = fmt.Sprintf("moving to %d partitions: %d %%", partitions, int(share*100))
	})
	x.work.mu.Lock()
	delete(x.work.notes, def.ID)
	x.work.mu.Unlock()
	if err != nil {
		return err
	}
	if err := x.opts.Publish(ctx); err != nil {
		return fmt.Errorf("publish catalog: %w", err)
	}
	return x.enqueueGarbage(def.Schema, def.Table)
}

// EnableIndex lets reads use the index again: at once, or when its build is
// finished.
func (x *Indexer) EnableIndex(ctx context.Context, schema, table, name string) error {
	return x.change(ctx, schema, table, name, func(def storage.IndexRecord) error {
		switch {
		case def.Status == catalog.Failed:
			return fmt.Errorf("virtual index %s has failed (%s): rebuild it", name, def.Error)
		case def.Status != catalog.Disabled:
			return nil
		case def.HasBuild || !def.Readable:
			return x.setStatus(ctx, def.ID, catalog.Building, "")
		}
		return x.setStatus(ctx, def.ID, catalog.Ready, "")
	})
}

// DisableIndex keeps the index up to date, but unused by reads.
func (x *Indexer) DisableIndex(ctx context.Context, schema, table, name string) error {
	return x.change(ctx, schema, table, name, func(def storage.IndexRecord) error {
		return x.setStatus(ctx, def.ID, catalog.Disabled, def.Error)
	})
}

// Status lists the indexes, sorted by schema, table and name.
func (x *Indexer) Status() []Status {
	stats, jobs := x.store.Stats(), x.store.Jobs()
	var list []Status
	for _, def := range x.store.Indexes() {
		of := stats.Indexes[def.ID]
		s := Status{
			Def: def, Entries: of.Entries, Bytes: of.Bytes, Unknown: of.Unknown, UnknownSince: of.UnknownSince,
			Fanout: x.fanouts.get(def.ID),
		}
		for _, j := range jobs {
			if !x.kindOf(&j).concerns(&j, def) {
				continue
			}
			s.PendingJobs++
			if builds(&j) == def.ID && def.HasBuild { // not one that is finished, and about to go
				s.Progress = math.Min(j.Progress, 1)
				s.Waiting = j.Error
				if x.held(j.ID) {
					s.Waiting = waiting
				}
			}
		}
		if !def.HasBuild {
			s.Progress = 1
		}
		x.work.mu.Lock()
		if note := x.work.notes[def.ID]; note != "" {
			s.Waiting = note
		}
		x.work.mu.Unlock()
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b Status) int {
		return strings.Compare(a.Def.Schema+"\x00"+a.Def.Table+"\x00"+a.Def.Name, b.Def.Schema+"\x00"+b.Def.Table+"\x00"+b.Def.Name)
	})
	return list
}

// held reports that a job waits for a transaction to end.
func (x *Indexer) held(job uint64) bool {
	x.work.mu.Lock()
	defer x.work.mu.Unlock()
	return x.work.held[job] != nil
}

// Jobs lists the jobs.
func (x *Indexer) Jobs() []storage.Job { return x.store.Jobs() }
