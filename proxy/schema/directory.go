package schema

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

	"github.com/shunt-sql/shunt/planner/catalog"
)

// ErrNoShard: none has told its schema.
var ErrNoShard = errors.New("no shard answers")

// Directory owns the current catalog: it reads the shards' schemas, builds a
// snapshot with the configured placements and the virtual indexes, and
// publishes it. Everybody else only loads the pointer.
//
// Schemas are read at start until each shard has answered once, behind DDL through Shunt
// (hinted DDL too), and on errors that show a change, such as an unknown column. Behind DDL
// the shards that have got it are asked for the tables that it names or affects
// (Facts.Affected). All shards are asked for all tables when there has been no DDL for
// a minute (restFor). A shard that is down keeps what it said last.
type Directory struct {
	opts    DirectoryOptions
	current atomic.Pointer[catalog.Catalog]
	watch   atomic.Pointer[func()]
	virtual atomic.Pointer[func() []*catalog.VirtualColumn]
	look    atomic.Pointer[func(context.Context, []*catalog.Table)]

	soon chan struct{}
	// versions are those that shards told when they were connected to.
	versions sync.Map

	// asking is held while the shards are asked, which takes as long as the
	// slowest; it comes before mu. opts.Placements, Shards and Joining are changed under both.
	asking sync.Mutex
	// began is when the shards began to be asked for facts, if all have answered; asking's.
	began time.Time
	// failed is why Reread of a shard failed last; asking's.
	failed map[catalog.ShardID]failure
	// reread is what each shard had told when the first catalog was made, or when Reread
	// asked it last; asking's.
	reread map[catalog.ShardID]*Facts

	mu sync.Mutex
	// Invariant: version is that of current.
	version uint64
	// snapshot has current, and what the next one is made of.
	snapshot *Snapshot
	read     time.Time // when the shards were last asked for all
	// inPart is when they were last asked for some tables, if that was since then.
	inPart time.Time
	// changed is when they, or the configuration, were last seen to say something
	// new. It is set before the catalog that has it is published.
	changed  atomic.Pointer[time.Time]
	facts    map[catalog.ShardID]*Facts
	counting Counting
	news     news
	// untold are the shards of which it has been logged that they don't answer.
	untold map[catalog.ShardID]bool
}

// DirectoryOptions is what a Directory reads from.
type DirectoryOptions struct {
	// Shards are those that serve; Joining are configured too, and wait for Admit.
	Shards, Joining []catalog.Shard
	Slots           [catalog.Slots]catalog.ShardID
	Placements      Placements
	// Open borrows a connection for information_schema.
	Open func(context.Context, catalog.ShardID) (Querier, func(), error)
	// Indexes are the virtual indexes as the store has them now.
	Indexes func() []catalog.IndexDef
	// Unlike are the reference tables whose copies differ; nil: none are.
	Unlike func() (map[catalog.TableName]string, error)
	// Check looks at a catalog before it is published, whenever the shards were
	// asked. configured are the placements that it was built by. complete: each
	// shard has told its schema. refuse: the first catalog, or new placements; an
	// error then keeps it from being published. At any other time what is wrong is
	// told by Check itself, since without a new catalog no DDL would show. only are the
	// tables that may be otherwise than at the last time, nil for all. changed: what
	// Kept answers is otherwise now for a table of the catalog.
	Check func(ctx context.Context, c *catalog.Catalog, configured Placements, only []catalog.TableName, complete, refuse bool) (changed bool, err error)
	// Kept is that of Sources.
	Kept func(schema, table string) (p TablePlacement, ok bool, err error)
	// Unfinished is that of Sources; nil: there is none.
	Unfinished func() map[catalog.TableName]Unfinished
	// Adopted returns when all processes that serve go by the catalog of a version, or a
	// later one. nil: there is no other process.
	Adopted func(ctx context.Context, version uint64) error
	Logger  *slog.Logger
}

type failure struct {
	err error
	at  time.Time
}

// NewDirectory returns a Directory with an empty catalog; Refresh fills it.
func NewDirectory(opts DirectoryOptions) *Directory {
	if opts.Unfinished == nil {
		opts.Unfinished = func() map[catalog.TableName]Unfinished { return nil }
	}
	if opts.Adopted == nil {
		opts.Adopted = func(context.Context, uint64) error { return nil }
	}
	d := &Directory{opts: opts, soon: make(chan struct{}, 1), facts: map[catalog.ShardID]*Facts{}, untold: map[catalog.ShardID]bool{}, failed: map[catalog.ShardID]failure{}}
	d.current.Store(&catalog.Catalog{Shards: opts.Shards, Joining: opts.Joining})
	return d
}

// Catalog is the current snapshot.
func (d *Directory) Catalog() *catalog.Catalog { return d.current.Load() }

// Put has a catalog that no shard was asked for be the current one: for tests.
func (d *Directory) Put(c *catalog.Catalog) { d.current.Store(c) }

// Open borrows a connection of a shard for information_schema, and returns what gives it back.
func (d *Directory) Open(ctx context.Context, id catalog.ShardID) (Querier, func(), error) {
	return d.opts.Open(ctx, id)
}

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
	_, err := d.RefreshTold(ctx, Part{}, catalog.ShardSet{})
	return err
}

// RefreshTold is Refresh, and tells which shards did not answer. Some shards may be
// asked for a part alone, and all for all when there has been no DDL for restFor.
func (d *Directory) RefreshTold(ctx context.Context, part Part, of catalog.ShardSet) (untold catalog.ShardSet, err error) {
	called := time.Now()
	err = d.asks(ctx, func() error {
		if d.began.After(called) {
			return nil
		}
		if err := d.ask(ctx, d.now(), d.affected(part, of)); err != nil {
			return err
		}
		for id, silent := range d.untold {
			if silent {
				untold.Add(id)
			}
		}
		return nil
	})
	return untold, err
}

// asks runs fn, which asks the shards: one at a time. When asks returns, all go by what they
// said.
func (d *Directory) asks(ctx context.Context, fn func() error) error {
	err := func() error {
		d.asking.Lock()
		defer d.asking.Unlock()
		return fn()
	}()
	if err != nil {
		return err
	}
	return d.adopted(ctx) // others may have this process ask meanwhile: see Follow
}

// Follow is Refresh for the sake of another process, which waits for it to go by what the
// shards say by now: all of them.
//
// Counter-example to what Refresh needs, one answer: a member that was fenced on s0 and s1, where a table
// was altered meanwhile, reads s1 alone. It tells that it goes by the ALTER, and plans by s0's table of
// before. A shard that nothing is sent to (on) needn't answer: before that changes, Follow is called for it.
func (d *Directory) Follow(ctx context.Context, on func(catalog.ShardID) bool) error {
	return d.follow(ctx, d.now, on)
}

// FollowPlaced is Follow with other placements, which are the same for all tables that there are.
func (d *Directory) FollowPlaced(ctx context.Context, p Placements, on func(catalog.ShardID) bool) error {
	return d.follow(ctx, func() configured { return d.placed(p) }, on)
}

// FollowServing is Follow where other shards serve: those of the configured ones that serves names. ready is called before what
// goes by that is published. A shard that serves from then on must answer.
func (d *Directory) FollowServing(ctx context.Context, serves func(catalog.Shard) bool, ready func() error, on func(catalog.ShardID) bool) error {
	return d.follow(ctx, func() configured {
		next := d.serving(serves)
		next.ready = func(*catalog.Catalog) error { return ready() }
		return next
	}, on)
}

// placed is now with other placements.
func (d *Directory) placed(p Placements) configured {
	next := d.now()
	next.Placements = p
	return next
}

// serving is now with other shards that serve.
func (d *Directory) serving(serves func(catalog.Shard) bool) configured {
	next := d.now()
	next.shards, next.joining = nil, nil
	for _, s := range slices.Concat(d.opts.Shards, d.opts.Joining) {
		if serves(s) {
			next.shards = append(next.shards, s)
		} else {
			next.joining = append(next.joining, s)
		}
	}
	return next
}

func (d *Directory) follow(ctx context.Context, by func() configured, on func(catalog.ShardID) bool) error {
	d.asking.Lock()
	defer d.asking.Unlock()
	if err := d.ask(ctx, by(), nil); err != nil {
		return err
	}
	for _, s := range d.opts.Shards {
		if d.untold[s.ID] && on(s.ID) {
			return fmt.Errorf("shard %s hasn't told its schema", s.Name)
		}
	}
	return nil
}

// Told reports that a shard has told its schema when it was asked last.
func (d *Directory) Told(id catalog.ShardID) bool {
	d.asking.Lock()
	defer d.asking.Unlock()
	return !d.untold[id]
}

// Reread is Refresh of one shard, whose answer it needs. changed: something is otherwise than was
// known, or the shard tells something else than at the last Reread, or at first.
//
// Counter-example to looking at this Refresh alone: CREATE TRIGGER of an earlier life ends on
// the shard. A transaction writes by the old plan; another session asks for an unknown table,
// and the shards are read for it. Nothing is new then, but the transaction made no entries for
// what the trigger wrote.
func (d *Directory) Reread(ctx context.Context, id catalog.ShardID) (changed bool, err error) {
	err = d.asks(ctx, func() error {
		if f, ok := d.failed[id]; ok && time.Since(f.at) < unsureFor { // whoever needs it asks again and again
			return f.err
		}
		before := d.Changed()
		if err := d.ask(ctx, d.now(), map[catalog.ShardID]Part{id: {}}); err != nil {
			d.failed[id], d.untold[id] = failure{err, time.Now()}, d.untold[id] || errors.Is(err, ErrNoShard)
			return err
		}
		was := d.reread[id]
		d.reread[id] = d.facts[id]
		changed = !d.Changed().Equal(before) || !was.Equal(d.facts[id])
		return nil
	})
	return changed, err
}

// affected is what some shards have to be asked for when a part has changed there, nil for
// all. REQUIRES: d.asking is held.
func (d *Directory) affected(part Part, of catalog.ShardSet) map[catalog.ShardID]Part {
	only := map[catalog.ShardID]Part{}
	for id := range of.All {
		if only[id] = d.facts[id].Affected(part); only[id].whole() {
			return nil
		}
	}
	if len(only) == 0 {
		return nil
	}
	return only
}

// configured is what a catalog is built by besides what the shards say.
type configured struct {
	Placements
	shards, joining []catalog.Shard
	// refuse: what doesn't fit it keeps it from being taken over.
	refuse bool
	// ready, if not nil, is called with the catalog before it is published; its error keeps it from
	// being.
	ready func(*catalog.Catalog) error
}

// now is what the current catalog is built by.
func (d *Directory) now() configured {
	return configured{Placements: d.opts.Placements, shards: d.opts.Shards, joining: d.opts.Joining}
}

// Admit has a shard that is joining serve. All shards are asked first; the new one must answer.
func (d *Directory) Admit(ctx context.Context, id catalog.ShardID, ready func(*catalog.Catalog) error) error {
	return d.asks(ctx, func() error {
		next := d.serving(func(s catalog.Shard) bool { return s.ID == id || slices.Contains(d.opts.Shards, s) })
		next.refuse, next.ready = true, ready
		return d.ask(ctx, next, nil)
	})
}

// Dismiss has a shard that serves join anew, as far as the catalog goes.
func (d *Directory) Dismiss(ctx context.Context, id catalog.ShardID, ready func(*catalog.Catalog) error) error {
	return d.asks(ctx, func() error {
		next := d.serving(func(s catalog.Shard) bool { return s.ID != id && slices.Contains(d.opts.Shards, s) })
		next.refuse, next.ready = true, ready
		return d.ask(ctx, next, nil)
	})
}

// adopted returns when all go by the catalog, or by a later one.
func (d *Directory) adopted(ctx context.Context) error {
	if err := d.opts.Adopted(ctx, d.Catalog().Version); err != nil {
		return fmt.Errorf("have all go by the new catalog: %w", err)
	}
	return nil
}

// ask asks the shards: where only isn't nil, those that are in it for these parts.
// REQUIRES: d.asking is held.
func (d *Directory) ask(ctx context.Context, by configured, only map[catalog.ShardID]Part) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	asked := by.shards
	var names []catalog.TableName // of the parts, nil for all
	if only != nil {
		asked = slices.DeleteFunc(slices.Clone(asked), func(s catalog.Shard) bool { _, is := only[s.ID]; return !is })
		if !slices.ContainsFunc(slices.Collect(maps.Values(only)), Part.whole) {
			names = []catalog.TableName{}
		}
		for _, part := range only {
			names = append(names, part.Tables...)
		}
	}
	began := time.Now()
	facts, errs := ReadAll(ctx, asked, d.opts.Open, d.facts, only)
	if len(facts) == 0 {
		var all []error
		for _, s := range d.opts.Shards {
			all = append(all, errs[s.ID])
		}
		return fmt.Errorf("%w: %w", ErrNoShard, errors.Join(all...))
	}
	for _, s := range asked {
		if err := errs[s.ID]; err != nil && !slices.Contains(d.opts.Shards, s) {
			return err
		}
	}
	for _, s := range asked {
		if err := errs[s.ID]; err != nil && !d.untold[s.ID] {
			d.opts.Logger.Warn("schema of shard not read", "shard", s.Name, "error", err)
		}
		d.untold[s.ID] = errs[s.ID] != nil
	}
	d.mu.Lock()
	told := maps.Clone(d.facts)
	maps.Copy(told, facts)
	maps.DeleteFunc(told, func(id catalog.ShardID, _ *Facts) bool {
		return !slices.ContainsFunc(by.shards, func(s catalog.Shard) bool { return s.ID == id })
	})
	refuse, version := by.refuse || d.version == 0, d.version
	complete := len(told) == len(by.shards)
	first := version == 0 && complete
	next, err := d.build(by, told, first)
	d.mu.Unlock()
	if err != nil {
		return err
	}
	// Check may ask shards too. What it judges are tables and placements, which
	// nobody publishes but who is asking; an index that was made meanwhile is in
	// what is built again.
	compared := d.compareNew(ctx, next.Catalog, names)
	changed, err := d.opts.Check(ctx, next.Catalog, by.Placements, names, complete, refuse)
	if err == nil && by.ready != nil {
		changed, err = true, by.ready(next.Catalog)
	}
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if changed {
		d.snapshot = nil // it was made by other records
	}
	if changed || compared || version != d.version {
		if next, err = d.build(by, told, first); err != nil {
			return err
		}
	}
	now := time.Now()
	if d.changed.Load() == nil || !maps.EqualFunc(d.facts, told, (*Facts).Equal) || !reflect.DeepEqual(d.opts.Placements, by.Placements) {
		d.changed.Store(&now)
		d.noteChanged(now, told)
	}
	if d.reread == nil {
		d.reread = maps.Clone(told)
	}
	for _, s := range by.shards {
		if !slices.Contains(d.opts.Shards, s) {
			d.reread[s.ID] = told[s.ID] // nobody has planned for it by anything else
		}
	}
	d.opts.Placements, d.opts.Shards, d.opts.Joining, d.facts = by.Placements, by.shards, by.joining, told
	d.publish(next)
	if only != nil {
		if names != nil {
			d.inPart = now
		}
		return nil
	}
	d.inPart = time.Time{}
	if d.read = now; len(errs) == 0 {
		d.began = began
	}
	return nil
}

// news are changes that are to be logged.
type news struct {
	first, last time.Time
	shards      []string
	what        []string // some of it
}

// A burst of DDL is told of in one line: when there has been no more for newsRest, or it has
// gone on for newsAge.
const (
	newsRest = 2 * time.Second
	newsAge  = time.Minute
	newsMost = 20
)

// noteChanged notes which shards have told of something new: replicas that are behind
// aren't read from until they have it. REQUIRES: d.mu is held.
func (d *Directory) noteChanged(now time.Time, told map[catalog.ShardID]*Facts) {
	n := &d.news
	for _, s := range d.opts.Shards {
		was, is := d.facts[s.ID], told[s.ID]
		if was == nil || is == nil || was.Equal(is) {
			continue
		}
		if n.last = now; n.first.IsZero() {
			n.first = now
		}
		if !slices.Contains(n.shards, s.Name) {
			n.shards = append(n.shards, s.Name)
		}
		if len(n.what) > newsMost {
			continue
		}
		for _, what := range was.Changed(is) {
			if !slices.Contains(n.what, what) && len(n.what) <= newsMost {
				n.what = append(n.what, what)
			}
		}
	}
}

// tellChanged logs what has changed.
func (d *Directory) tellChanged() {
	d.mu.Lock()
	n := d.news
	due := !n.first.IsZero() && (time.Since(n.last) >= newsRest || time.Since(n.first) >= newsAge)
	if due {
		d.news = news{}
	}
	d.mu.Unlock()
	if !due {
		return
	}
	if len(n.what) > newsMost {
		n.what[newsMost] = "..."
	}
	d.opts.Logger.Info("the schema of shards has changed", "shards", strings.Join(n.shards, ", "), "in", strings.Join(n.what, ", "))
}

// RefreshUnlessFresh refreshes, unless that was done within the last second: a
// client that asks for a table that isn't there must not keep the shards busy.
func (d *Directory) RefreshUnlessFresh(ctx context.Context) error {
	return d.asks(ctx, func() error {
		d.mu.Lock()
		fresh := time.Since(d.read) < time.Second
		d.mu.Unlock()
		if fresh {
			return nil
		}
		return d.ask(ctx, d.now(), nil)
	})
}

// SetPlacements replaces the configured placements and refreshes. Placements
// that don't fit the shards' tables are refused, and the old ones stay.
func (d *Directory) SetPlacements(ctx context.Context, p Placements) error {
	return d.asks(ctx, func() error {
		next := d.placed(p)
		next.refuse = true
		return d.ask(ctx, next, nil)
	})
}

// Placed is the catalog that other placements would make of what the shards said last.
func (d *Directory) Placed(p Placements) (*catalog.Catalog, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	next, err := d.build(d.placed(p), d.facts, false)
	if err != nil {
		return nil, err
	}
	return next.Catalog, nil
}

// Stays reports whether a table that is on one shard for the lack of a primary key stays
// there with one.
func (d *Directory) Stays(t *catalog.Table) (bool, error) {
	c, schemaName, name := d.Catalog(), t.Schema, t.Name
	if c.LowerCaseNames {
		schemaName, name = strings.ToLower(schemaName), strings.ToLower(name)
	}
	kept, ok, err := d.opts.Kept(schemaName, name)
	return ok && kept == TablePlacement{Placement: catalog.Single, Shard: c.ShardName(t.Shards.First())}, err
}

// Republish builds a snapshot again from what the shards said last: for a
// change of a virtual index, which the shards know nothing of. When it returns, all go
// by that.
func (d *Directory) Republish(ctx context.Context) error {
	if err := d.Rebuild(); err != nil {
		return err
	}
	return d.adopted(ctx)
}

// Rebuild is Republish that waits for nobody.
func (d *Directory) Rebuild() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	next, err := d.build(d.now(), d.facts, false)
	if err != nil {
		return err
	}
	d.publish(next)
	return nil
}

// Count publishes a snapshot in which a column is AUTO_INCREMENT before the shards are told, ""
// for none.
func (d *Directory) Count(ctx context.Context, t catalog.TableName, column string) error {
	d.mu.Lock()
	d.counting = Counting{TableName: t, Column: column}
	d.mu.Unlock()
	return d.Republish(ctx)
}

// build makes the next snapshot. REQUIRES: d.mu is held.
func (d *Directory) build(by configured, facts map[catalog.ShardID]*Facts, first bool) (*Snapshot, error) {
	unlike := map[catalog.TableName]string{}
	if d.opts.Unlike != nil {
		var err error
		if unlike, err = d.opts.Unlike(); err != nil {
			return nil, err
		}
	}
	var virtual []*catalog.VirtualColumn
	if columns := d.virtual.Load(); columns != nil {
		virtual = (*columns)()
	}
	return d.snapshot.Next(Sources{
		Unlike:  unlike,
		Version: d.version + 1, Shards: by.shards, Joining: by.joining, Slots: d.opts.Slots, Placements: by.Placements,
		Indexes: d.opts.Indexes(), Virtual: virtual, Counting: d.counting, Facts: facts,
		Kept: d.opts.Kept, Unfinished: d.opts.Unfinished(), First: first,
	})
}

func (d *Directory) publish(next *Snapshot) {
	c := next.Catalog
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
	d.snapshot = next
	d.current.Store(c)
	if f := d.watch.Load(); f != nil {
		(*f)()
	}
}

// compareNew has the copies of reference tables compared that were not read until now: some shards
// lacked them, or had them otherwise, or nobody knew of them. Those that a statement of Shunt's
// has just made on all shards, of the names in made, have no rows.
//
// Counter-example: a table is restored on s0, and made anew on s1. Its next reader may get no rows.
func (d *Directory) compareNew(ctx context.Context, c *catalog.Catalog, made []catalog.TableName) bool {
	look, was := d.look.Load(), d.Catalog()
	if look == nil {
		return false
	}
	among := c.Tables()
	if made != nil {
		among = func(yield func(*catalog.Table) bool) {
			for _, name := range made {
				if t := c.Table(name.Schema, name.Name); t != nil && !yield(t) {
					return
				}
			}
		}
	}
	var tables []*catalog.Table
	for t := range among {
		if t.Placement != catalog.Reference || t.IsView || t.Differs != "" || len(t.Columns) == 0 {
			continue
		}
		if before := was.Table(t.Schema, t.Name); (before == nil || len(before.Columns) == 0) && made == nil || before != nil && before.Differs != "" {
			tables = append(tables, t)
		}
	}
	if len(tables) > 0 {
		(*look)(ctx, tables)
	}
	return len(tables) > 0
}

// Look has f called with reference tables before the catalog is published by which their copies are
// read. It notes those whose copies differ.
func (d *Directory) Look(f func(context.Context, []*catalog.Table)) { d.look.Store(&f) }

// Virtual has f say what virtual columns there are, whenever a catalog is made.
func (d *Directory) Virtual(f func() []*catalog.VirtualColumn) { d.virtual.Store(&f) }

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

const (
	// unsureFor is how long what a shard could not tell for a lock is left so.
	unsureFor = 5 * time.Second
	// restFor is how long there has to have been no DDL before shards are asked for what it should not have
	// changed, which costs a server a third of a millisecond for each table.
	restFor = time.Minute
)

// unsure reports that it is time to ask again.
func (d *Directory) unsure() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.inPart.IsZero() && time.Since(d.inPart) > restFor {
		return true
	}
	if time.Since(d.read) <= unsureFor || time.Since(d.inPart) <= unsureFor {
		return false
	}
	for _, f := range d.facts {
		if f.Unsure {
			return true
		}
	}
	return false
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
		d.tellChanged()
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
