package indexer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/shunt-sql/shunt/cluster"
	"github.com/shunt-sql/shunt/cover"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/storage"
)

// Trail is where a follower is in the log of changes that a shard writes.
type Trail interface {
	// Shown returns when all changes that were handed over before the call are visible on the shard: a
	// change may be handed over before its transaction is.
	Shown(context.Context) error
	// CaughtUp returns when all changes of statements that had ended before the call have been handed
	// over, and dealt with.
	CaughtUp(context.Context) error
	// Abreast is CaughtUp for all changes that were visible before the call, their statements ended or not. Many
	// may wait for it at once.
	Abreast(context.Context) error
	// Live reports that the log is being read.
	Live() bool
	// At is a place in the log: all that comes before it has been dealt with. "" where none can be told.
	At() string
}

// ErrNoPlace: a log hasn't got a place any more, or it may be another log.
var ErrNoPlace = errors.New("the log may lack what came since it was read last")

// Logs are the logs of changes of the shards.
type Logs interface {
	// Fit is nil where a shard's log can be followed as its server is set up.
	Fit(ctx context.Context, shard catalog.ShardID) error
	// Follow hands over all changes of a shard behind a place in its log; "": those that become visible after it
	// has called begin. It goes on until ctx ends, or an error behind which something would be missing. Who
	// goes on begins at a place, without one after ErrNoPlace.
	Follow(ctx context.Context, shard catalog.ShardID, from string, begin func(Trail) Reader) error
}

// Reader is handed what a log has, by one goroutine. After an error of its own Follow ends.
type Reader interface {
	Change(on catalog.TableName, c RowChange) error
	// Doubt: rows of a table may have changed in a way that the log doesn't tell. Without a name it is any of
	// the schema's, without a schema any.
	Doubt(on catalog.TableName) error
	// End of a transaction: what was handed over has been dealt with when it returns.
	End() error
	// Resumed: the log goes on where it was, and its server may have started anew meanwhile. It is called
	// before the Trail answers for the server as it is now.
	Resumed()
	// Stopped: the log isn't being read, or may not be, until it is Resumed.
	Stopped()
	// Defined: tables were defined anew, or what an XA transaction has changed has come to be visible. Names as Doubt's.
	Defined([]catalog.TableName)
}

// Image is a row, before or after a change.
type Image interface {
	// Column is a column's value as a scan reads it; nil: NULL. ok is false where the log doesn't have it.
	Column(*catalog.Column) (raw []byte, ok bool)
}

// RowChange is of one row. Before is nil where it is new, After where it is gone.
type RowChange struct{ Before, After Image }

// now is the row of a table after the change: what its image lacks is as it was, unless it may have changed.
func (c RowChange) now(t *catalog.Table) Image {
	if c.Before == nil || c.After == nil {
		return c.After
	}
	return updated{c, t}
}

type updated struct {
	RowChange
	t *catalog.Table
}

func (u updated) Column(c *catalog.Column) (raw []byte, ok bool) {
	return u.t.Updated(c, u.Before.Column, u.After.Column)
}

// keeps reports an update whose new image has none of some columns, which are as they were.
func (c RowChange) keeps(t *catalog.Table, columns []*catalog.Column) bool {
	if c.Before == nil || c.After == nil {
		return false
	}
	return !slices.ContainsFunc(columns, func(col *catalog.Column) bool {
		_, set := c.After.Column(col)
		return set || t.Changed(col, c.Before.Column, c.After.Column)
	})
}

// follower keeps the indexes of one shard by the shard's log: keys that changes make are added, keys that
// they leave are looked for, and the marks of statements whose changes it has seen are cleared.
//
// change, doubt and flush are called by who reads the log, clear by another goroutine.
//
// Rule seen from the beginning: a mark that was there when the follower began may stand for rows that
// were written before. So it, and all that are logged then, are for scans to clear (vouch).
//
// Rule seen but not shown: what a follower adds, it adds in the epoch of a registration of its own, which
// ends when all that it has seen by then is visible. Counter-example: an UPDATE of an unknown key is in
// the log, and not yet visible; the follower adds the key in epoch 3. A verify of that key computes the
// horizon 5, which is the UPDATE's, finds no row, and removes the entry. The UPDATE ends, and its mark is
// cleared, since the follower has seen it.
//
// Rule of one start: what a server has committed and not logged when it ended (a table without transactions; a
// log that wasn't synced) is never seen. So marks that are there when it is followed again are for scans.
//
// Rule ended, then passed: marks are cleared that are older than a horizon, when the follower has passed
// what was visible after that was computed. What set them has ended by then, and is seen.
//
// Where it is in the log is kept for the next start (keep), which goes on from there: what was changed on the shard
// meanwhile comes by the log. A start without a place has all that is there scanned.
//
// Rule asked behind: what a change has left is looked for when the follower is registered in a later epoch than those in
// which it has added, and the change is visible. Counter-example: a row comes and goes. Its key is added in epoch 3, which
// is the follower's own, and verified while that is the horizon: 3 isn't below 3, the entry stays, and nobody looks again.
//
// Clearing needs no gate and no floor: nothing that the follower relies on is left unconfirmed, and each
// version of a row, in any snapshot, had its key added when it was made.
type follower struct {
	x     *Indexer
	shard catalog.ShardID
	trail Trail
	// late is until when no read waits for it (ns): one has waited in vain.
	late atomic.Int64
	// heard: the log had something since a place was kept.
	heard atomic.Bool

	mu sync.Mutex
	// open is its registration on the shard; ending are those before, while it isn't known that all is
	// visible that was added in their epochs.
	open   *Open
	ending []*Open
	// vouched are the indexes whose logged marks are of statements that it sees.
	vouched map[catalog.IndexID]bool
	// begun counts how often none was.
	begun int
	// left is what changes have left, by table, until it is looked for.
	left map[*catalog.Table]unsought
	// owes: rows may have changed before it began to follow, or it may have lost what it added. A scan finds them.
	owes bool
	// kept is the place that the store has; who calls keep.
	kept string

	// answers that are kept are told of all changes; nil: none are.
	answers *cover.Stream
	// readings are kept from change to change.
	readings map[*catalog.Index]*reading
	// What flush gives away, of one table.
	table  *catalog.Table
	adds   []storage.Entry
	gone   []plan.Probe
	doubts []*catalog.Index // by a change that can't be read, of the index's marks
	search []*catalog.Index // an entry is stale, and it isn't known which
}

// unsought is what is to be looked for in a table: keys, and indexes of which it isn't known which.
type unsought struct {
	keys   []plan.Probe
	search []*catalog.Index
}

// maxLeft bounds the keys of a table that wait. Where there are more, the table is scanned.
const maxLeft = 100_000

// lookLater has something be looked for behind the next registration.
func (f *follower) lookLater(t *catalog.Table, keys []plan.Probe, search []*catalog.Index) {
	if len(keys)+len(search) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left == nil {
		f.left = map[*catalog.Table]unsought{}
	}
	of := f.left[t]
	of.keys = append(of.keys, keys...)
	for _, ix := range search {
		of.search = appendNew(of.search, ix)
	}
	if len(of.keys) > maxLeft {
		of = unsought{search: slices.Clone(t.Indexes)}
	}
	f.left[t] = of
}

// looks reports that something waits to be looked for.
func (f *follower) looks() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.left) > 0
}

// look has something be looked for now.
func (f *follower) look(left map[*catalog.Table]unsought) {
	for t, of := range left {
		m := plan.Maintenance{Table: t, Operation: "LOG", Shards: catalog.Only(f.shard)}
		if len(of.keys) > 0 {
			keys := m
			keys.Keys = of.keys
			f.x.After(keys)
		}
		if len(of.search) > 0 {
			m.Indexes = of.search
			f.x.After(m)
		}
	}
}

// newFollower begins to follow. REQUIRES: what is handed over is all behind a place that was kept, or all that becomes
// visible from now on; then from is "".
func (x *Indexer) newFollower(shard catalog.ShardID, from string, trail Trail) *follower {
	return &follower{x: x, shard: shard, kept: from, owes: from == "" && !x.unbegun(shard), trail: trail, open: x.Begin(catalog.Only(shard)), vouched: map[catalog.IndexID]bool{}, readings: map[*catalog.Index]*reading{}, answers: x.answersOf(shard)}
}

// close ends it. Marks that it would have cleared are for scans.
func (f *follower) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended()
	f.open.End()
	f.Stopped()
}

// ended ends the registrations that are to end. Callers hold mu.
func (f *follower) ended() {
	for _, o := range f.ending {
		o.End()
	}
	f.ending = nil
}

// flushSize is how many entries, or keys, wait for flush.
const flushSize = 1000

// change takes one change of a row in. Its entries are in the store after flush.
func (f *follower) change(t *catalog.Table, c RowChange) error {
	f.cover(t, c)
	if f.table != t || len(f.adds)+len(f.gone) >= flushSize {
		if err := f.flush(); err != nil {
			return err
		}
		f.table = t
	}
	for _, ix := range t.Indexes {
		r := f.reading(ix)
		if r == nil {
			continue // nobody reads by it
		}
		was, is := r.of(c.Before), r.of(c.now(t))
		same := was.how == keyed && is.how == keyed && bytes.Equal(was.key, is.key) ||
			is.how == partly && c.keeps(t, ix.Columns)
		if same && !moved(t, c) {
			continue
		}
		switch is.how {
		case keyed:
			f.adds = append(f.adds, storage.Entry{Index: ix.ID, Shard: f.shard, Key: is.key})
		case partly, odd:
			f.doubts = appendNew(f.doubts, ix)
		case unkeyed:
		}
		switch {
		case same:
		case was.how == keyed:
			if values, ok := r.values(c.Before); ok {
				f.gone = append(f.gone, plan.Probe{Index: ix, Key: was.key, Values: values})
				continue
			}
			f.search = appendNew(f.search, ix)
		case was.how == partly:
			f.search = appendNew(f.search, ix)
		}
	}
	return nil
}

// reading is an index's, nil where one of its columns can't be keyed.
func (f *follower) reading(ix *catalog.Index) *reading {
	r, known := f.readings[ix]
	if !known {
		if len(f.readings) >= 1000 {
			clear(f.readings) // catalogs have come and gone
		}
		r, _ = f.x.newReading(ix)
		f.readings[ix] = r
	}
	return r
}

// doubt takes in that rows of a table may have changed, and it isn't known which.
func (f *follower) doubt(t *catalog.Table) error {
	f.uncover(t)
	if f.table != t {
		if err := f.flush(); err != nil {
			return err
		}
		f.table = t
	}
	for _, ix := range t.Indexes {
		f.doubts = appendNew(f.doubts, ix)
	}
	return nil
}

// flush puts what was taken in into the store.
func (f *follower) flush() error {
	if f.table == nil {
		return nil
	}
	f.mu.Lock()
	e, ok := f.open.Epoch(f.shard)
	f.mu.Unlock()
	if !ok {
		return ErrNotRegistered
	}
	if len(f.adds) > 0 {
		for i := range f.adds {
			f.adds[i].Epoch = e
		}
		if err := f.x.store.Add(f.adds); err != nil {
			return fmt.Errorf("add entries: %w", err)
		}
	}
	if len(f.doubts) > 0 {
		marks := make([]storage.Mark, len(f.doubts))
		for i, ix := range f.doubts {
			marks[i] = storage.Mark{Index: ix.ID, Shard: f.shard, Epoch: e}
		}
		if err := f.x.store.Mark(marks); err != nil {
			return fmt.Errorf("mark what can't be read of the log: %w", err)
		}
	}
	if len(f.adds)+len(f.doubts) > 0 {
		// As behind a scan: what clear removes relies on it.
		if _, err := f.x.store.Intend([]storage.Pair{pairOf(f.table, f.shard)}); err != nil {
			return fmt.Errorf("set write-intent: %w", err)
		}
	}
	for _, ix := range f.doubts {
		f.search = appendNew(f.search, ix)
	}
	f.lookLater(f.table, f.gone, f.search)
	f.table, f.adds, f.gone, f.doubts, f.search = nil, f.adds[:0], f.gone[:0], f.doubts[:0], f.search[:0]
	return nil
}

// clear clears the marks of statements whose changes were dealt with.
func (f *follower) clear(ctx context.Context) error {
	if err := f.vouch(); err != nil {
		return err
	}
	marked := f.marked()
	if len(marked) == 0 {
		return nil
	}
	// Without a new epoch, what has ended just now would be of the horizon's own.
	if _, err := f.x.cluster.Advance(ctx, f.shard); err != nil {
		return err
	}
	if err := f.renew(ctx); err != nil {
		return err
	}
	horizon, err := f.x.cluster.Horizon(ctx, f.shard)
	if err != nil {
		return fmt.Errorf("ask for the horizon: %w", err)
	}
	if err := f.trail.CaughtUp(ctx); err != nil {
		return err
	}
	if err := f.still(ctx); err != nil {
		return err
	}
	for _, id := range marked {
		f.mu.Lock()
		vouched := f.vouched[id]
		f.mu.Unlock()
		if !vouched {
			continue // it was fenced since
		}
		n, err := f.x.store.Clear(id, f.shard, horizon)
		if err != nil {
			return err
		}
		count(f.x.opts.Metrics.Cleared, n)
	}
	return nil
}

// marked are the indexes with logged marks on the shard.
func (f *follower) marked() (ids []catalog.IndexID) {
	for _, m := range f.x.store.AllMarks() {
		if m.Shard == f.shard && m.Logged {
			ids = appendNew(ids, m.Index)
		}
	}
	return ids
}

// renew registers the follower anew, in the present epoch, and has what changes have left be looked for.
func (f *follower) renew(ctx context.Context) error {
	if f.looks() { // else the present epoch may be the one in which it has added
		if _, err := f.x.cluster.Advance(ctx, f.shard); err != nil {
			return err
		}
	}
	next := f.x.Begin(catalog.Only(f.shard))
	f.mu.Lock()
	left := f.left // what comes from here on may be of the next one's epoch
	f.left = nil
	if f.open.Join(f.shard) != next.Join(f.shard) {
		// The process was fenced meanwhile: nothing held back who removed what it added.
		f.begin()
		f.owes = true
	}
	f.ending = append(f.ending, f.open)
	f.open = next
	f.mu.Unlock()
	err := f.trail.Shown(ctx)
	if err == nil {
		err = f.still(ctx)
	}
	if err != nil {
		for t, of := range left {
			f.lookLater(t, of.keys, of.search)
		}
		return err
	}
	f.mu.Lock()
	f.ended()
	f.mu.Unlock()
	f.look(left)
	return nil
}

// still is nil if the follower's registrations have counted until now: what it has added, and is visible now, stays.
//
// Rule asked at the shard. Counter-example: a row is in the log, and not yet visible. A adds its key, stands still, and is
// fenced, of which it doesn't hear. B verifies the key, finds no row, and removes the entry. The row becomes visible; A goes on,
// and clears the mark of who wrote it, or keeps a place behind it.
func (f *follower) still(ctx context.Context) error {
	f.mu.Lock()
	join := f.open.Join(f.shard)
	f.mu.Unlock()
	err := f.x.cluster.Still(ctx, f.shard, join)
	if errors.Is(err, cluster.ErrFenced) {
		f.mu.Lock()
		f.begin()
		f.owes = true
		f.mu.Unlock()
	}
	return err
}

// keep keeps where the follower is, for the next start, which goes on from there. What comes again then does no harm.
//
// Rule behind the entries: the place that is kept is never ahead of what is in the store. Counter-example: it is kept, and
// the process dies before the entry of a row is added. The next start goes on behind the row. A power loss that takes an
// entry and leaves the place leaves the entry's write-intent, too: the table is marked and scanned (recover).
//
// Rule visible: all that comes before the place is visible. Counter-example: a row is in the log, and not yet visible; its key
// is added, the place behind it kept, and the process dies. A verify of the next life finds no row, and removes the entry: no
// registration of that life is of the epoch in which it was added.
//
// Rule scan first: what is owed is asked for before a place is kept, as durably as entries are. Counter-example: the next start
// goes on from the place, and nobody scans what had changed before the log was followed.
//
// Rule one server: a place names its server (cmd/shunt/binlog.go). Counter-example: a backup is put in the server's place, which
// counts its transactions on from an earlier one; when it has come to the same number, what it has written since looks read.
//
// Of several members the one that follows keeps it, and the next goes on there, whoever that is: what was dealt with stays so
// (still).
func (f *follower) keep(ctx context.Context) error {
	if f.owed() {
		if err := f.x.rescan(f.shard, "LOG"); err != nil {
			return err
		}
		f.mu.Lock()
		f.owes = false
		f.mu.Unlock()
	}
	at := f.trail.At()
	if at == f.kept || at == "" {
		return nil
	}
	if err := f.renew(ctx); err != nil { // what was added is visible then
		return err
	}
	if f.owed() { // fenced
		return nil
	}
	if err := f.x.store.KeepPosition(f.shard, at); err != nil {
		return fmt.Errorf("keep the place in the log: %w", err)
	}
	f.kept = at
	return nil
}

func (f *follower) owed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.owes
}

// old reports that the follower's registration is of an epoch that is over.
func (f *follower) old() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	e, _ := f.open.Epoch(f.shard)
	return e < f.x.cluster.Epoch(f.shard) || len(f.ending) > 0
}

// begin has marks that are there be from before. Callers hold mu.
func (f *follower) begin() {
	clear(f.vouched)
	f.begun++
}

// vouch leaves the marks that may be from before the follower began to scans.
func (f *follower) vouch() error {
	for _, def := range f.x.store.Indexes() {
		f.mu.Lock()
		vouched, begun := f.vouched[def.ID], f.begun
		f.mu.Unlock()
		t, ix := f.x.indexOf(def)
		if vouched || ix == nil { // not this process's yet: what is logged of it passes by
			continue
		}
		had, err := f.x.store.Unlog(def.ID, f.shard)
		if err != nil {
			return fmt.Errorf("leave marks to scans: %w", err)
		}
		f.mu.Lock()
		if f.begun == begun { // else marks that have come since may be from before
			f.vouched[def.ID] = true
		}
		f.mu.Unlock()
		if had {
			f.x.After(plan.Maintenance{Table: t, Operation: "UNKNOWN", Shards: catalog.Only(f.shard), Indexes: []*catalog.Index{ix}})
		}
	}
	return nil
}

// indexOf finds an index in the catalog.
func (x *Indexer) indexOf(def storage.IndexRecord) (*catalog.Table, *catalog.Index) {
	c := x.opts.Catalog()
	if c == nil {
		return nil, nil
	}
	t := c.Table(def.Schema, def.Table)
	if t == nil {
		return nil, nil
	}
	for _, ix := range t.Indexes {
		if ix.ID == def.ID {
			return t, ix
		}
	}
	return nil, nil
}

func appendNew[T comparable](list []T, v T) []T {
	if slices.Contains(list, v) {
		return list
	}
	return append(list, v)
}

// rowKey is what an image tells of its row's key in an index.
type rowKey struct {
	how knowledge
	key []byte
}

type knowledge int

const (
	unkeyed knowledge = iota // no row, or one whose first column is NULL: it has no entry
	keyed
	odd    // its value has no key
	partly // the image lacks a column
)

// of is the key of a row in the reading's index.
func (r *reading) of(img Image) rowKey {
	if img == nil {
		return rowKey{how: unkeyed}
	}
	var key []byte
	for i, c := range r.ix.Columns {
		raw, ok := img.Column(c)
		switch {
		case !ok:
			return rowKey{how: partly}
		case i == 0 && raw == nil:
			return rowKey{how: unkeyed}
		}
		if key, ok = r.codecs[i].Scanned(key, raw); !ok {
			return rowKey{how: odd}
		}
	}
	if len(key) > storage.MaxKey {
		return rowKey{how: odd}
	}
	return rowKey{keyed, key}
}

// values are those that a shard is asked for to find rows with the key.
func (r *reading) values(img Image) (values []keys.Value, ok bool) {
	for i, c := range r.ix.Columns {
		raw, _ := img.Column(c)
		v := keys.Null()
		if raw != nil {
			want, _ := r.codecs[i].Scanned(nil, raw)
			candidates := []keys.Value{keys.String(raw, "utf8mb4"), keys.Decimal(string(raw)), keys.Hex(raw)}
			at := slices.IndexFunc(candidates, func(v keys.Value) bool {
				got, ok := r.codecs[i].Equal(nil, v)
				return ok && bytes.Equal(got, want)
			})
			if at < 0 {
				return nil, false
			}
			v = candidates[at].Clone()
		}
		values = append(values, v)
	}
	return values, true
}

// moved reports a change of the primary key: who reads the rows in its order may have passed where the row
// is now, and not where it was.
func moved(t *catalog.Table, c RowChange) bool {
	if c.Before == nil || c.After == nil {
		return false
	}
	return slices.ContainsFunc(t.PrimaryKey, func(col *catalog.Column) bool { return t.Changed(col, c.Before.Column, c.After.Column) })
}
