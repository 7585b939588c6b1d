package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/schema"
)

// ErrNoShard: none has told its schema.
var ErrNoShard = errors.New("no shard answers")

// Directory owns the current catalog: it reads the shards' schemas, builds a
// snapshot with the configured placements and the virtual indexes, and
// publishes it. Everybody else only loads the pointer.
type Directory struct {
	opts    DirectoryOptions
	current atomic.Pointer[catalog.Catalog]
	watch   atomic.Pointer[func()]

	soon chan struct{}
	// versions are those that shards told when they were connected to.
	versions sync.Map

	// asking is held while the shards are asked, which takes as long as the
	// slowest; it comes before mu. opts.Placements is changed under both.
	asking sync.Mutex
	// began is when the shards began to be asked for facts, if all have answered; asking's.
	began time.Time
	// failed is why Reread failed last, at failedAt; asking's.
	failed   error
	failedAt time.Time
	// reread is what each shard had told when the first catalog was made, or when Reread
	// asked it last; asking's.
	reread map[catalog.ShardID]*schema.Facts

	mu sync.Mutex
	// Invariant: version is that of current.
	version uint64
	read    time.Time // when the shards were last asked for all
	inPart  bool      // they have been asked for some tables since
	// changed is when they, or the configuration, were last seen to say something
	// new. It is set before the catalog that has it is published.
	changed atomic.Pointer[time.Time]
	facts   map[catalog.ShardID]*schema.Facts
	// counting is a column that is AUTO_INCREMENT, whatever the shards say, "" for none.
	counting struct {
		table  planner.TableName
		column string
	}
	// untold are the shards of which it has been logged that they don't answer.
	untold map[catalog.ShardID]bool
}

// DirectoryOptions is what a Directory reads from.
type DirectoryOptions struct {
	Shards     []catalog.Shard
	Slots      [catalog.Slots]catalog.ShardID
	Placements schema.Placements
	// Open borrows a connection for information_schema.
	Open func(context.Context, catalog.ShardID) (schema.Querier, func(), error)
	// Indexes are the virtual indexes as the store has them now.
	Indexes func() []schema.IndexDef
	// Check looks at a catalog before it is published, whenever the shards were
	// asked. configured are the placements that it was built by. complete: each
	// shard has told its schema. refuse: the first catalog, or new placements; an
	// error then keeps it from being published. At any other time what is wrong is
	// told by Check itself, since without a new catalog no DDL would show. changed: what
	// Kept answers is otherwise now for a table of the catalog.
	Check func(ctx context.Context, c *catalog.Catalog, configured schema.Placements, complete, refuse bool) (changed bool, err error)
	// Kept is that of schema.Sources.
	Kept   func(schema, table string) (p schema.TablePlacement, ok bool, err error)
	Logger *slog.Logger
}

// NewDirectory returns a Directory with an empty catalog; Refresh fills it.
func NewDirectory(opts DirectoryOptions) *Directory {
	d := &Directory{opts: opts, soon: make(chan struct{}, 1), facts: map[catalog.ShardID]*schema.Facts{}, untold: map[catalog.ShardID]bool{}}
	d.current.Store(&catalog.Catalog{Shards: opts.Shards})
	return d
}

// Catalog is the current snapshot.
func (d *Directory) Catalog() *catalog.Catalog { return d.current.Load() }

// Changed is the time by which all that the current catalog has was so on the
// shards.
func (d *Directory) Changed() time.Time {
	if t := d.changed.Load(); t != nil {
		return *t
	}
	return time.Now() // nothing is known yet
}

// Refresh asks all shards again and publishes what they say. A shard that does
// not answer keeps what it said last; an error is returned only when none
// answers, or when the configuration doesn't fit what they say. Of several at once,
// most find that the shards have been asked since they were called.
func (d *Directory) Refresh(ctx context.Context) error {
	_, err := d.RefreshTold(ctx, nil)
	return err
}

// RefreshTold is Refresh, and tells which shards did not answer. With names they are asked
// for these tables alone, and some seconds later for all.
func (d *Directory) RefreshTold(ctx context.Context, names []catalog.TableName) (untold catalog.ShardSet, err error) {
	called := time.Now()
	d.asking.Lock()
	defer d.asking.Unlock()
	if d.began.After(called) {
		return untold, nil
	}
	if err := d.refresh(ctx, d.opts.Placements, false, names); err != nil {
		return untold, err
	}
	for id, silent := range d.untold {
		if silent {
			untold.Add(id)
		}
	}
	return untold, nil
}

// Reread is Refresh that needs a shard's answer. changed: something is otherwise than was
// known, or the shard tells something else than at the last Reread, or at first.
//
// Counter-example to looking at this Refresh alone: CREATE TRIGGER of an earlier life ends on
// the shard. A transaction writes by the old plan; another session asks for an unknown table,
// and the shards are read for it. Nothing is new then, but the transaction made no entries for
// what the trigger wrote.
func (d *Directory) Reread(ctx context.Context, id catalog.ShardID) (changed bool, err error) {
	d.asking.Lock()
	defer d.asking.Unlock()
	if time.Since(d.failedAt) < unsureFor { // whoever needs it asks again and again
		return false, d.failed
	}
	before := d.Changed()
	if err := d.refresh(ctx, d.opts.Placements, false, nil); err != nil {
		d.failed, d.failedAt = err, time.Now()
		return false, err
	}
	if d.untold[id] {
		return false, errors.New("the shard doesn't answer")
	}
	was := d.reread[id]
	d.reread[id] = d.facts[id]
	return !d.Changed().Equal(before) || !reflect.DeepEqual(was, d.facts[id]), nil
}

// refresh asks the shards, with names for these tables alone, if nothing else changes with
// them on any shard. REQUIRES: d.asking is held.
func (d *Directory) refresh(ctx context.Context, p schema.Placements, refuse bool, names []catalog.TableName) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if slices.ContainsFunc(d.opts.Shards, func(s catalog.Shard) bool { return !d.facts[s.ID].Alone(names) }) {
		names = nil
	}
	began := time.Now()
	facts, errs := schema.ReadAll(ctx, d.opts.Shards, d.opts.Open, d.facts, names)
	if len(facts) == 0 {
		var all []error
		for _, s := range d.opts.Shards {
			all = append(all, errs[s.ID])
		}
		return fmt.Errorf("%w: %w", ErrNoShard, errors.Join(all...))
	}
	for _, s := range d.opts.Shards {
		if err := errs[s.ID]; err != nil && !d.untold[s.ID] {
			d.opts.Logger.Warn("schema of shard not read", "shard", s.Name, "error", err)
		}
		d.untold[s.ID] = errs[s.ID] != nil
	}
	d.mu.Lock()
	told := maps.Clone(d.facts)
	maps.Copy(told, facts)
	refuse, version := refuse || d.version == 0, d.version
	complete := len(told) == len(d.opts.Shards)
	first := version == 0 && complete
	c, err := d.build(p, told, first)
	d.mu.Unlock()
	if err != nil {
		return err
	}
	// Check may ask shards too. What it judges are tables and placements, which
	// nobody publishes but who is asking; an index that was made meanwhile is in
	// what is built again.
	changed, err := d.opts.Check(ctx, c, p, complete, refuse)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if changed || version != d.version {
		if c, err = d.build(p, told, first); err != nil {
			return err
		}
	}
	now := time.Now()
	if d.changed.Load() == nil || !reflect.DeepEqual(d.facts, told) || !reflect.DeepEqual(d.opts.Placements, p) {
		d.changed.Store(&now)
		d.tellChanged(told)
	}
	if d.reread == nil {
		d.reread = maps.Clone(told)
	}
	d.opts.Placements, d.facts = p, told
	d.publish(c)
	if d.inPart = names != nil; d.inPart {
		return nil
	}
	if d.read = now; len(errs) == 0 {
		d.began = began
	}
	return nil
}

// tellChanged logs which shards have told of something new: replicas that are behind
// aren't read from until they have it. REQUIRES: d.mu is held.
func (d *Directory) tellChanged(told map[catalog.ShardID]*schema.Facts) {
	for _, s := range d.opts.Shards {
		if was, is := d.facts[s.ID], told[s.ID]; was != nil && is != nil && !reflect.DeepEqual(was, is) {
			d.opts.Logger.Info("the schema of a shard has changed", "shard", s.Name, "in", strings.Join(was.Changed(is), ", "))
		}
	}
}

// RefreshUnlessFresh refreshes, unless that was done within the last second: a
// client that asks for a table that isn't there must not keep the shards busy.
func (d *Directory) RefreshUnlessFresh(ctx context.Context) error {
	d.asking.Lock()
	defer d.asking.Unlock()
	d.mu.Lock()
	fresh := time.Since(d.read) < time.Second
	d.mu.Unlock()
	if fresh {
		return nil
	}
	return d.refresh(ctx, d.opts.Placements, false, nil)
}

// SetPlacements replaces the configured placements and refreshes. Placements
// that don't fit the shards' tables are refused, and the old ones stay.
func (d *Directory) SetPlacements(ctx context.Context, p schema.Placements) error {
	d.asking.Lock()
	defer d.asking.Unlock()
	return d.refresh(ctx, p, true, nil)
}

// Stays reports whether a table that is on one shard for the lack of a primary key stays
// there with one.
func (d *Directory) Stays(t *catalog.Table) (bool, error) {
	c, schemaName, name := d.Catalog(), t.Schema, t.Name
	if c.LowerCaseNames {
		schemaName, name = strings.ToLower(schemaName), strings.ToLower(name)
	}
	kept, ok, err := d.opts.Kept(schemaName, name)
	return ok && kept == schema.TablePlacement{Placement: catalog.Single, Shard: c.ShardName(t.Shards.First())}, err
}

// Republish builds a snapshot again from what the shards said last: for a
// change of a virtual index, which the shards know nothing of.
func (d *Directory) Republish() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, err := d.build(d.opts.Placements, d.facts, false)
	if err != nil {
		return err
	}
	d.publish(c)
	return nil
}

// Count publishes a snapshot in which a column is AUTO_INCREMENT before the shards are told, ""
// for none.
func (d *Directory) Count(t planner.TableName, column string) error {
	d.mu.Lock()
	d.counting.table, d.counting.column = t, column
	d.mu.Unlock()
	return d.Republish()
}

// build makes the next snapshot. REQUIRES: d.mu is held.
func (d *Directory) build(p schema.Placements, facts map[catalog.ShardID]*schema.Facts, first bool) (*catalog.Catalog, error) {
	c, err := schema.Build(schema.Sources{
		Version: d.version + 1, Shards: d.opts.Shards, Slots: d.opts.Slots, Placements: p,
		Indexes: d.opts.Indexes(), Facts: facts,
		Kept: d.opts.Kept, First: first,
	})
	if err != nil {
		return nil, err
	}
	if t := c.Table(d.counting.table.Schema, d.counting.table.Name); t != nil {
		if col := t.Column(d.counting.column); col != nil {
			col.AutoIncrement, col.Unannounced = true, true
		}
	}
	return c, nil
}

func (d *Directory) publish(c *catalog.Catalog) {
	for _, u := range c.Unlike {
		switch {
		case slices.Contains(d.current.Load().Unlike, u):
		case u.Able:
			d.opts.Logger.Warn("the shards have different global settings; sessions begin with the first shard's", "setting", u.Name, "value", u.Value, "shard", u.Shard, "has", u.Other)
		default:
			d.opts.Logger.Error("the shards have different global settings, so statements may be answered differently: make them equal", "setting", u.Name, "value", u.Value, "shard", u.Shard, "has", u.Other)
		}
	}
	d.version++
	d.current.Store(c)
	if f := d.watch.Load(); f != nil {
		(*f)()
	}
}

// Watch has f called behind each catalog that is published. It must not wait.
func (d *Directory) Watch(f func()) { d.watch.Store(&f) }

// Missing lists the shards whose schema has never been read.
func (d *Directory) Missing() []catalog.ShardID {
	d.mu.Lock()
	defer d.mu.Unlock()
	var ids []catalog.ShardID
	for _, s := range d.opts.Shards {
		if d.facts[s.ID] == nil {
			ids = append(ids, s.ID)
		}
	}
	return slices.Clip(ids)
}

// unsureFor is how long what a shard could not tell for a lock is left so, and what it was not
// asked for behind DDL.
const unsureFor = 5 * time.Second

// unsure reports that it is time to ask again.
func (d *Directory) unsure() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.read) <= unsureFor {
		return false
	}
	for _, f := range d.facts {
		if f.Unsure {
			return true
		}
	}
	return d.inPart
}

// Soon asks Run for a Refresh: something has hinted at a change behind our
// back. It doesn't wait.
func (d *Directory) Soon() {
	select {
	case d.soon <- struct{}{}:
	default:
	}
}

// SawVersion asks for a refresh when a shard's server has another version than
// when it was connected to before.
func (d *Directory) SawVersion(id catalog.ShardID, version string) {
	if before, seen := d.versions.Swap(id, version); seen && before != version {
		d.Soon()
	}
}

// Run refreshes when Soon asks, at most once a second, and while a shard's
// schema has never been read. It returns when ctx ends.
func (d *Directory) Run(ctx context.Context) {
	pause := time.NewTicker(time.Second)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		select {
		case <-d.soon:
		default:
			if len(d.Missing()) == 0 && !d.unsure() {
				continue
			}
		}
		if err := d.Refresh(ctx); err != nil && ctx.Err() == nil {
			d.opts.Logger.Warn("read the schema again", "error", err)
		}
	}
}
