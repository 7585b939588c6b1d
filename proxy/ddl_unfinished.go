package proxy

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/schema"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// UnfinishedDDL is DDL of several shards that isn't known to be done on all of them.
type UnfinishedDDL struct {
	// Op is the plan's, Schema the one that it was sent in, Text the statement, for being
	// shown: a long one is cut.
	Op, Schema, Text string
	// Tables are those that it names, by old and new names; Schemas those that it is of.
	Tables  []catalog.TableName
	Schemas []string
	// Shards are all that it goes to. Done are those that have it. Unknown are those that it
	// was sent to and that didn't answer: there "already exists" means that they have it.
	Shards, Done, Unknown catalog.ShardSet
	// Others are those of Unknown that were found to have something else than Done.
	Others catalog.ShardSet
	At     time.Time
	// By is the process that has kept it. Running: it is at it.
	By      string
	Running bool
}

// UnfinishedStore keeps such statements over the end of the process.
type UnfinishedStore interface {
	// Refresh has Unfinished return what other processes have kept by now. others: there may be some.
	Refresh(context.Context) (others bool, err error)
	Unfinished() (map[string]UnfinishedDDL, error)
	// KeepUnfinished survives the death of the process; synced also a power loss.
	KeepUnfinished(key string, u UnfinishedDDL, synced bool) error
	ForgetUnfinished(key string) error
}

// nowhere keeps nothing.
type nowhere struct{}

func (nowhere) Refresh(context.Context) (bool, error)            { return false, nil }
func (nowhere) Unfinished() (map[string]UnfinishedDDL, error)    { return nil, nil } //nolint:nilnil // none
func (nowhere) KeepUnfinished(string, UnfinishedDDL, bool) error { return nil }
func (nowhere) ForgetUnfinished(string) error                    { return nil }

// Lives of processes that have kept such statements, as package cluster has them.
type Lives interface {
	Self() string
	Gone(ctx context.Context, life string) bool
}

// Unfinished has the DDL that may be done on some shards only: it is under way, has failed
// on some, or Shunt has ended in it. The same statement sent again goes to those that lack it.
//
// It is kept before the first shard gets it, with all shards as unknown, and once more when
// that has done it. A crash leaves what was so then; a power loss may leave what was so before.
// What else changes the same tables, or a shard alone, has it forgotten:
//
//	CREATE TABLE t (..)   done on s0, s1; s2 is down
//	DROP TABLE t
//	CREATE TABLE t (..)   must go to all of them
//
// So a crash or a cut leaves one table limited, and no riddle: which shards have it is found
// out (look). Exchanges of names, which would be undone by being done twice, are left to the
// operator. Until all have it the table's columns are those of a shard that lacks it
// (wantedSource in package schema): else DROP COLUMN could not be sent again.
//
// Of several processes each knows what any has left, by what is kept (Follow). What another one
// is at is its own, as long as that lives.
type Unfinished struct {
	store UnfinishedStore
	lives Lives // nil: what is kept is an earlier life's
	log   *slog.Logger

	mu sync.Mutex
	// Invariant: a try in here isn't changed, but replaced.
	open map[string]*try
}

// try is one statement.
type try struct {
	key string
	UnfinishedDDL
	// unkept: the store may not have it as it is here.
	unkept bool
	// lacks are shards that lack what it drops, since making that has failed there.
	lacks catalog.ShardSet
}

const (
	// maxUnfinished bounds how many statements are remembered: the oldest go. While a shard is
	// down each CREATE TABLE is one.
	maxUnfinished = 1000
	// maxUnfinishedText bounds, in bytes, what is kept of a statement to be shown.
	maxUnfinishedText = 16 << 10
)

// NewUnfinished returns what earlier lives have left.
func NewUnfinished(ctx context.Context, store UnfinishedStore, lives Lives, log *slog.Logger) (*Unfinished, error) {
	u := &Unfinished{store: store, lives: lives, log: log, open: map[string]*try{}}
	if _, err := store.Refresh(ctx); err != nil {
		return nil, err
	}
	return u, u.read(ctx, nil)
}

// Follow takes over what others have left, and forgets what they have finished. turn: the turn of DDL of such names is this
// process's, so that nobody else is at any of that; nil: none.
//
// Counter-example: a member has altered a table on s0 and dies; the statement comes again, by
// another member, which sends it to s0: 1060, the column is there.
func (u *Unfinished) Follow(ctx context.Context, turn *UnfinishedDDL) error {
	others, err := u.store.Refresh(ctx)
	if err != nil || !others {
		return err // what there is this process has kept itself
	}
	return u.read(ctx, turn)
}

func (u *Unfinished) read(ctx context.Context, turn *UnfinishedDDL) error {
	kept, err := u.store.Unfinished()
	if err != nil {
		return err
	}
	gone := map[string]bool{}
	for _, x := range kept {
		if _, asked := gone[x.By]; x.Running && !asked {
			gone[x.By] = u.lives == nil || u.lives.Gone(ctx, x.By)
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if kept, err = u.store.Unfinished(); err != nil { // as of u.open
		return err
	}
	for key, x := range kept {
		was := u.open[key]
		if was != nil && (was.Running || was.unkept) {
			continue
		}
		if x.Running && !gone[x.By] && (turn == nil || !turn.overlaps(&x)) {
			delete(u.open, key) // somebody is at it
			continue
		}
		x.Running = false
		if now := (&try{key: key, UnfinishedDDL: x}); was == nil || was.state() != now.state() {
			u.open[key] = now
		}
	}
	for key, x := range u.open {
		if _, there := kept[key]; !there && !x.Running && !x.unkept {
			delete(u.open, key)
		}
	}
	return nil
}

// state is what may change of a statement.
func (x *try) state() string {
	return fmt.Sprint(x.key, x.Shards, x.Done, x.Unknown, x.Others)
}

// keep has the store keep one. REQUIRES: u.mu is held, or it is Running.
func (u *Unfinished) keep(x *try, synced bool, told string) {
	if u.lives != nil {
		x.By = u.lives.Self()
	}
	err := u.store.KeepUnfinished(x.key, x.UnfinishedDDL, synced)
	if x.unkept = err != nil; x.unkept {
		u.log.Warn(told, "statement", x.Op, "error", err)
	}
}

// tryKey is what a statement is known by.
func tryKey(schemaName, sql string) string {
	sum := sha256.Sum256([]byte(schemaName + "\x00" + strings.TrimSpace(sql)))
	return hex.EncodeToString(sum[:16])
}

// namesOf is a statement that is sent in a schema, by what it names.
func namesOf(schemaName string, d *plan.DDL) *UnfinishedDDL {
	out := &UnfinishedDDL{Op: d.Op, Schema: schemaName, Shards: d.Shards}
	schemas := []string{d.Schema}
	for _, name := range slices.Concat(d.Tables, d.Renamed) {
		if name.Name != "" {
			out.Tables, schemas = append(out.Tables, name), append(schemas, name.Schema)
		}
	}
	for _, name := range schemas {
		if name != "" && !slices.Contains(out.Schemas, name) {
			out.Schemas = append(out.Schemas, name)
		}
	}
	return out
}

// begin returns what is known of a statement, and forgets the others that its tables had.
func (u *Unfinished) begin(schemaName, sql string, d *plan.DDL) try {
	sql = strings.TrimSpace(sql)
	now := &try{key: tryKey(schemaName, sql), UnfinishedDDL: *namesOf(schemaName, d)}
	now.Text, now.At = sql[:min(len(sql), maxUnfinishedText)], time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	for key, was := range u.open {
		switch {
		case key == now.key:
			now.Done, now.Unknown = was.Done, was.Unknown
			now.Shards = now.Shards.Union(was.Shards) // a view is planned for those that have it
		case was.Running: // it waits on the shards for this one's table locks
		case now.overlaps(&was.UnfinishedDDL):
			if d.Undoes && !was.Done.Empty() {
				now.lacks = now.lacks.Union(was.Shards.Minus(was.Done))
			}
			u.drop(key)
		}
	}
	if now.unfilled() {
		now.Done = catalog.ShardSet{} // somebody else has filled it
	}
	if d.Op == "TRUNCATE TABLE" || d.TruncatesPartitions {
		now.Done = catalog.ShardSet{} // rows may have come since
	}
	return *now
}

// unfilled: it is CREATE TABLE ... SELECT, which has made the table, and no rows of it.
func (u *UnfinishedDDL) unfilled() bool { return u.Done.Contains(u.Shards) }

// made keeps CREATE TABLE ... SELECT until its rows are in the table: filled.
func (u *Unfinished) made(x try) { u.sent(x, catalog.ShardSet{}, false) }

// filled ends a statement that made has kept.
func (u *Unfinished) filled(schemaName, sql string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.drop(tryKey(schemaName, sql))
}

// leftUnfilled: an earlier life ended between making the statement's table and filling it.
func (u *Unfinished) leftUnfilled(schemaName, sql string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	x := u.open[tryKey(schemaName, sql)]
	return x != nil && !x.Running && x.unfilled()
}

// overlaps: what one of them leaves isn't what the other was about.
func (u *UnfinishedDDL) overlaps(o *UnfinishedDDL) bool {
	switch {
	case !slices.ContainsFunc(u.Schemas, func(s string) bool {
		return slices.ContainsFunc(o.Schemas, func(t string) bool { return strings.EqualFold(s, t) })
	}):
		return false
	case u.kind() == "DATABASE", o.kind() == "DATABASE":
		return true
	case len(u.Tables) == 0 || len(o.Tables) == 0:
		return u.kind() == o.kind() // of triggers and programs the names aren't known
	}
	return slices.ContainsFunc(u.Tables, o.names)
}

// kind is what it makes, changes or drops: TABLE.
func (u *UnfinishedDDL) kind() string { return u.Op[strings.LastIndex(u.Op, " ")+1:] }

func (u *UnfinishedDDL) names(t catalog.TableName) bool {
	return slices.ContainsFunc(u.Tables, func(n catalog.TableName) bool {
		return strings.EqualFold(n.Schema, t.Schema) && strings.EqualFold(n.Name, t.Name)
	})
}

// sent keeps a statement before it goes to shards, synced if it is the first that
// is kept of it.
func (u *Unfinished) sent(x try, to catalog.ShardSet, synced bool) {
	if x.Shards.Len() < 2 {
		return // a server does it as a whole
	}
	x.Unknown, x.Others, x.Running = x.Unknown.Union(to), catalog.ShardSet{}, true
	now := x
	u.mu.Lock()
	u.put(&now)
	u.mu.Unlock()
	u.keep(&x, synced, "what DDL is under way is not kept: if Shunt ends in it, nothing tells which shards have it")
}

// put has it among the open ones. REQUIRES: u.mu is held.
func (u *Unfinished) put(x *try) {
	u.open[x.key] = x
	if len(u.open) > maxUnfinished {
		oldest := slices.MinFunc(slices.Collect(maps.Values(u.open)), func(a, b *try) int { return cmp.Or(a.At.Compare(b.At), strings.Compare(a.key, b.key)) })
		u.drop(oldest.key)
	}
}

// end keeps a statement that failed somewhere, and is done elsewhere or may be.
func (u *Unfinished) end(x try, failed int) {
	if x.Shards.Len() < 2 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if failed == 0 || x.Done.Empty() && x.Unknown.Empty() {
		u.drop(x.key)
		return
	}
	x.Running = false
	x.Others = x.Others.Intersect(x.Unknown)
	u.keep(&x, false, notKept)
	u.put(&x)
}

const notKept = "which shards have done DDL is not kept"

// drop forgets one. REQUIRES: u.mu is held.
func (u *Unfinished) drop(key string) {
	if u.open[key] == nil {
		return
	}
	delete(u.open, key)
	if err := u.store.ForgetUnfinished(key); err != nil {
		u.log.Warn("DDL that is done is still kept as unfinished", "error", err)
	}
}

// forget forgets all of them.
func (u *Unfinished) forget() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for key := range u.open {
		u.drop(key)
	}
}

// left are those that aren't under way, the oldest first.
func (u *Unfinished) left() []*try {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []*try
	for _, x := range u.open {
		if !x.Running {
			out = append(out, x)
		}
	}
	slices.SortFunc(out, func(a, b *try) int { return cmp.Or(a.At.Compare(b.At), strings.Compare(a.key, b.key)) })
	return out
}

// Tables are the Unfinished of schema.Sources.
func (u *Unfinished) Tables() map[catalog.TableName]schema.Unfinished {
	out := map[catalog.TableName]schema.Unfinished{}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, x := range u.open {
		for _, t := range x.Tables {
			by := x.Done
			if x.Op == "ALTER TABLE" {
				by = x.Shards.Minus(x.Done)
			}
			out[t] = schema.Unfinished{By: by, State: x.state(), Tell: x.Tell}
		}
	}
	return out
}

// Tell says which shards have a statement, and what to do.
func (u *UnfinishedDDL) Tell(c *catalog.Catalog) string {
	var parts []string
	for _, part := range []struct {
		how string
		on  catalog.ShardSet
	}{{"is done on", u.Done}, {"may be done on", u.Unknown.Minus(u.Others)}, {"is not done on", u.Shards.Minus(u.Done).Minus(u.Unknown.Minus(u.Others))}} {
		var names []string
		for id := range part.on.All {
			names = append(names, c.ShardName(id))
		}
		if len(names) > 0 {
			parts = append(parts, part.how+" "+strings.Join(names, ", "))
		}
	}
	if u.unfilled() {
		parts = []string{"has made the table, and not filled it"}
	}
	in := ""
	if u.Schema != "" {
		in = " in schema " + u.Schema
	}
	return fmt.Sprintf("%s %s: send the same statement%s again, it goes to the shards that lack it: %s", u.Op, strings.Join(parts, ", "), in, excerptOf(u.Text, 200))
}

func excerptOf(text string, n int) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "..."
}

// Told tells of those that aren't under way.
func (u *Unfinished) Told(c *catalog.Catalog) (out []string) {
	for _, x := range u.left() {
		out = append(out, x.Tell(c))
	}
	return out
}

// On tells what a shard lacks, of the schemas that may be seen; "" for nothing.
func (u *Unfinished) On(id catalog.ShardID, c *catalog.Catalog, sees func(schema string) bool) string {
	var told []string
	for _, x := range u.left() {
		if slices.ContainsFunc(x.Schemas, func(schema string) bool { return !sees(schema) }) {
			continue
		}
		if x.Shards.Minus(x.Done).Has(id) || x.unfilled() && x.Shards.Has(id) {
			told = append(told, x.Tell(c))
		}
	}
	if len(told) > 3 {
		told = append(told[:3], fmt.Sprintf("and %d statements more", len(told)-3))
	}
	return strings.Join(told, "; ")
}

func (u *Unfinished) gauge() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "shunt_unfinished_ddl", Help: "DDL statements that are done on some shards and not known to be on others."},
		func() float64 { return float64(len(u.left())) })
}

const (
	// lookForDDLEvery is how often LookForDDL looks at the shards, and looksAtOnce for how many
	// statements.
	lookForDDLEvery = 5 * time.Second
	looksAtOnce     = 16
)

// LookForDDL tells what earlier lives have left half-done, and finds out which shards have what
// wasn't known, until ctx ends: what a dead process has sent may still be done there.
func (p *Proxy) LookForDDL(ctx context.Context) {
	u := p.opts.Unfinished
	self, told := "", map[string]bool{}
	if u.lives != nil {
		self = u.lives.Self()
	}
	tick := time.NewTicker(lookForDDLEvery)
	defer tick.Stop()
	for {
		left := u.left()
		for _, x := range left {
			if x.By != self && !told[x.key] {
				u.log.Warn("DDL is not known to be done on all shards", "statement", x.Tell(p.opts.Directory.Catalog()))
				p.opts.Directory.Soon()
			}
			told[x.key] = true
		}
		for _, x := range left[:min(len(left), looksAtOnce)] {
			p.lookAgain(ctx, x)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := u.Follow(ctx, nil); err != nil && ctx.Err() == nil {
			u.log.Warn("what DDL others have left half-done can't be read", "error", err)
		}
	}
}

// lookAgain looks at what has become of a statement that isn't under way: an operator may have
// finished it, and it may still be running on a shard where that isn't known.
func (p *Proxy) lookAgain(ctx context.Context, x *try) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if x.unfilled() || !x.Unknown.Empty() && p.opts.Index.AwaitOpen(ctx, x.Unknown) != nil {
		return
	}
	now, same := p.look(ctx, *x)
	if now.Done == x.Done && now.Others == x.Others && !same {
		return
	}
	u := p.opts.Unfinished
	if p.takeTurnBehind(ctx, &x.UnfinishedDDL) != nil { // it may be sent again, by another one too
		return
	}
	defer p.opts.Cluster.GiveTurn()
	if u.Follow(ctx, &x.UnfinishedDDL) != nil {
		return
	}
	u.mu.Lock()
	again := u.open[x.key] != x
	u.mu.Unlock()
	if again {
		return
	}
	defer p.opts.Directory.Soon()
	if same {
		if err := p.follow(ctx, x); err != nil {
			u.log.Warn("what has become of DDL is not followed yet", "statement", x.Text, "error", err)
			return
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if same {
		u.log.Info("DDL has left all shards the same", "statement", x.Text)
		u.drop(x.key)
		return
	}
	u.keep(&now, false, notKept)
	u.open[x.key] = &now
	u.log.Warn("DDL is not done on all shards", "statement", now.Tell(p.opts.Directory.Catalog()))
}

// follow has virtual indexes go with their tables, where the process that renamed or dropped these died before.
//
// Counter-example: a member dies behind RENAME TABLE users TO people. The index of users was never ready again, and its
// jobs failed for ever.
func (p *Proxy) follow(ctx context.Context, x *try) error {
	from, to := x.renames()
	if x.Op == "DROP TABLE" {
		from, to = x.Tables, make([]catalog.TableName, len(x.Tables))
	}
	if len(from) == 0 {
		return nil
	}
	if untold, err := p.opts.Directory.RefreshTold(ctx, schema.Part{Tables: x.Tables}, x.Shards); err != nil || !untold.Intersect(x.Shards).Empty() {
		return cmp.Or(err, errors.New("a shard hasn't told its schema"))
	}
	d := &plan.DDL{Catalog: p.opts.Directory.Catalog(), Op: x.Op, Tables: from, Renamed: to, Shards: x.Shards}
	if err := p.opts.Admin.BeforeDDL(ctx, d); err != nil {
		return err
	}
	return p.opts.Admin.AfterDDL(ctx, d, false)
}

// renames are the tables that a statement renames, and their new names.
func (u *UnfinishedDDL) renames() (from, to []catalog.TableName) {
	half := len(u.Tables) / 2
	if u.Op != "RENAME TABLE" && u.Op != "ALTER TABLE" || len(u.Tables) != 2*half {
		return nil, nil
	}
	return u.Tables[:half], u.Tables[half:]
}

// look finds out by what the shards have now which of those that aren't known have done a
// statement. same: all of them have the same, so that all have done it, or none.
//
// The first shard is asked before the others get a statement. So one that has not what the
// first has, or what another has that is known to have done it, has not done it itself; one that
// has the same has. If they weren't alike before, it remains unknown.
//
// REQUIRES: nothing of it is still under way on the unknown shards.
func (p *Proxy) look(ctx context.Context, x try) (now try, same bool) {
	found := map[catalog.ShardID]string{}
	for id := range x.Shards.All {
		text, ok := p.definition(ctx, id, &x.UnfinishedDDL)
		if !ok {
			return x, false
		}
		found[id] = text
	}
	first := x.Shards.First()
	if !x.Done.Empty() {
		first = x.Done.First()
	}
	var alike catalog.ShardSet
	for id, text := range found {
		if text == found[first] {
			alike.Add(id)
		}
	}
	if alike == x.Shards {
		return x, true
	}
	x.Done = x.Done.Union(alike.Intersect(x.Unknown))
	x.Unknown = x.Unknown.Minus(alike)
	x.Others = x.Unknown
	return x, false
}

// inCircle: each name is an old one and a new one, so that equal tables look the same behind it.
func (u *UnfinishedDDL) inCircle() bool {
	times := map[catalog.TableName]int{}
	for _, t := range u.Tables {
		times[t]++
	}
	return !slices.Contains(slices.Collect(maps.Values(times)), 1)
}

var autoIncrement = regexp.MustCompile(` AUTO_INCREMENT=\d+`)

// definition is what a shard has of what a statement is about; ok is false where that
// can't be told now, or never.
func (p *Proxy) definition(ctx context.Context, id catalog.ShardID, x *UnfinishedDDL) (text string, ok bool) {
	var asks []string
	switch x.Op {
	case "CREATE DATABASE", "ALTER DATABASE", "DROP DATABASE":
		for _, name := range x.Schemas {
			asks = append(asks, "SHOW CREATE DATABASE "+catalog.QuoteName(name))
		}
	case "RENAME TABLE":
		if x.inCircle() {
			return "", false
		}
		fallthrough
	case "CREATE TABLE", "ALTER TABLE", "DROP TABLE", "CREATE INDEX", "DROP INDEX", "CREATE VIEW", "ALTER VIEW", "DROP VIEW":
		for _, name := range x.Tables {
			asks = append(asks, "SHOW CREATE TABLE "+quoted(name))
		}
	}
	if len(asks) == 0 {
		return "", false
	}
	conn, done, err := p.opts.Directory.Open(ctx, id)
	if err != nil {
		return "", false
	}
	defer done()
	for _, ask := range asks {
		part, err := shownBy(ctx, conn, ask)
		if err != nil {
			return "", false
		}
		text += part + "\x00"
	}
	return text, true
}

// shownBy is what SHOW CREATE answers, "" where there is none.
func shownBy(ctx context.Context, conn schema.Querier, ask string) (string, error) {
	rows, err := conn.Rows(ctx, ask)
	if e, ok := errors.AsType[*shard.ServerError](err); ok && (e.Code == mysqlerr.BadDB || e.Code == mysqlerr.NoSuchTable) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if len(rows) != 1 || len(rows[0]) < 2 {
		return "", errors.New("no definition")
	}
	return autoIncrement.ReplaceAllString(string(rows[0][1]), ""), nil
}

// alreadyDone are the errors of DDL that is done a second time.
func alreadyDone(code uint16) bool {
	switch code {
	case mysqlerr.DBCreateExists, mysqlerr.DBDropExists, // database exists, doesn't
		mysqlerr.TableExists, mysqlerr.BadTable, mysqlerr.NoSuchTable, mysqlerr.UnknownView, mysqlerr.UnknownSequence, // table, view or sequence exists, doesn't
		mysqlerr.DupFieldName, mysqlerr.DupKeyName, mysqlerr.MultiplePrimaryKey, mysqlerr.CantDropFieldOrKey, mysqlerr.FKDupName, mysqlerr.CheckConstraintDupName, // column, key, primary key, can't drop, foreign key, check
		mysqlerr.BadField, mysqlerr.KeyDoesNotExist, mysqlerr.CheckConstraintNotFound, mysqlerr.ConstraintNotFound, // column, key, check, constraint is gone
		mysqlerr.RangeNotIncreasing, mysqlerr.DropPartitionNonExistent, mysqlerr.SameNamePartition, // partition
		mysqlerr.SPAlreadyExists, mysqlerr.SPDoesNotExist, mysqlerr.TriggerAlreadyExists, mysqlerr.TriggerDoesNotExist, mysqlerr.EventAlreadyExists, mysqlerr.EventDoesNotExist: // procedure, trigger, event
		return true
	}
	return false
}
