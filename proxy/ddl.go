package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shunt-sql/shunt/planner/plan"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/schema"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// ddl executes DDL.
func (s *session) ddl(ctx context.Context, d *plan.DDL, sql string) error {
	if d.As != nil {
		return s.createTableAs(ctx, d, sql)
	}
	if done, err := s.idleDDL(ctx, d, sql); done || err != nil {
		return err
	}
	done, err := s.define(ctx, d, sql)
	if err != nil {
		return err
	}
	return s.answerDDL(done)
}

// defined is DDL that was done on all shards.
type defined struct {
	plan *plan.DDL
	// before is the catalog that it was planned with.
	before *catalog.Catalog
	sum    shard.Summary
	notes  []string // on virtual indexes
}

// define sends DDL to every shard that holds the table, and keeps the virtual
// indexes right:
//
//  1. An open transaction is committed, as on a server.
//  2. A column that becomes AUTO_INCREMENT is counted from now on.
//  3. Indexes whose keys may come to mean something else are taken out of use
//     for reads, durably, before anything is sent: a crash in the middle leaves
//     them unused, never wrong.
//  4. Where writes that are planned with the old catalog could make keys that
//     it does not foresee (a new trigger or foreign key), unknown marks are set
//     before, and again when the new catalog is out, so that no such write
//     outlives them.
//  5. The statement goes to the first shard, and if that accepts it to the
//     others. What most often fails (syntax, names) fails at the first, with
//     nothing changed.
//  6. The catalog is read again; the indexes are rebuilt, moved or dropped.
func (s *session) define(ctx context.Context, d *plan.DDL, sql string) (done defined, err error) {
	if err := s.commitBefore(ctx, sql); err != nil {
		return done, err
	}
	if s.settings.readOnly() {
		return done, s.readOnlyTransaction()
	}
	d, release, err := s.turnOfDDL(ctx, d, sql)
	if err != nil {
		return done, err
	}
	s.activity.outlive()
	own := *d
	d = &own // its shards may turn out to be others
	lost := false
	defer func() { release(lost) }()
	c := s.catalog()
	unmark, err := s.markUnforeseen(ctx, unforeseen(c, d), c.All)
	if err != nil {
		return done, err
	}
	defer unmark()
	// From here on AfterDDL follows, whatever happens.
	admin := s.proxy.opts.Admin
	if err := admin.BeforeDDL(ctx, d); err != nil {
		return done, err
	}

	var sum shard.Summary
	idle := false
	err = s.whileApart(ctx, d, func() (err error) {
		sum, idle, err = s.sendDDL(ctx, d, sql)
		return err
	})
	everywhere := err == nil
	if e, ok := errors.AsType[mysqlerr.Error](err); ok {
		lost = e.Code == mysqlerr.ShardLost
	}
	if part, left := s.without(ctx, redefines(d)); !idle && left {
		known, readErr := s.readAgain(ctx, d.Shards, part)
		lost = lost || !known
		if readErr != nil {
			err = errors.Join(err, fmt.Errorf("%s was sent, but %w", d.Op, readErr))
		}
	}
	// Of the new catalog: an index may have been made while the statement waited.
	if again, markErr := s.markUnforeseen(ctx, unforeseen(s.catalog(), d), c.All); markErr == nil {
		again()
	} else {
		err = errors.Join(err, markErr)
	}
	if err = errors.Join(err, admin.AfterDDL(ctx, d, everywhere)); err != nil {
		return done, flatten(err)
	}
	notes, err := s.virtualIndexes(ctx, d)
	if err != nil {
		return done, err
	}
	return defined{d, c, sum, notes}, nil
}

// answerDDL tells the client of DDL that was done on all shards, and what has changed for
// its session.
func (s *session) answerDDL(done defined) error {
	d, before, sum := done.plan, done.before, done.sum
	ok := wire.OK{Affected: sum.Affected, Warnings: sum.Warnings, Info: sum.Info}
	if d.Op == "DROP DATABASE" && (d.Schema == s.settings.schema || before.LowerCaseNames && strings.EqualFold(d.Schema, s.settings.schema)) {
		// The session has none then.
		s.settings.schema = ""
		s.settings.update(s.catalog())
		s.schemaChanged()
		ok.Status = mysql.SERVER_STATUS_DB_DROPPED
	}
	if s.tableLocks != nil {
		for _, name := range d.Renamed {
			s.tableLocks.named[name] = true
		}
	}
	notes := append(done.notes, indexNotes(before, s.catalog(), d)...)
	notes = append(notes, aloneNote(s.catalog(), d)...)
	notes = append(notes, unfitNote(s.catalog(), d)...)
	if d.Refused != nil {
		notes = append(notes, "until the trigger is dropped, what fires it is refused: "+d.Refused.Message)
	}
	for _, n := range notes {
		ok.Warnings += s.note(mysqlerr.UnknownError, n)
	}
	return s.answerOK(ok)
}

// countBefore has a column counted, and waits until no statement that was
// planned without that is on its way. A shard would give an INSERT that waits there behind
// the ALTER TABLE an id of its own. ErrBusy: who has table locks waits for the turn of DDL.
func (s *session) countBefore(ctx context.Context, d *plan.DDL) (stop func(), err error) {
	directory, behind := s.proxy.opts.Directory, context.WithoutCancel(ctx)
	stop = func() {
		if err := directory.Count(behind, catalog.TableName{}, ""); err != nil {
			s.log.Error("publish the schema after DDL", "error", err)
		}
	}
	ctx, giveWay := context.WithCancelCause(ctx)
	defer giveWay(nil)
	s.proxy.lockedDDL.heed(giveWay)
	defer s.proxy.lockedDDL.heed(nil)
	if err = directory.Count(ctx, d.Tables[0], d.Counts); err == nil {
		err = s.awaitOpen(ctx, d.Shards)
	}
	if err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// awaitOpen waits until all statements and transactions that are open on shards have ended.
func (s *session) awaitOpen(ctx context.Context, shards catalog.ShardSet) error {
	ctx, cancelWait := context.WithTimeoutCause(ctx, meetWait, mysqlerr.New(mysqlerr.LockWaitTimeout, "Lock wait timeout exceeded; try restarting transaction (a transaction has been open all the while: SHOW PROCESSLIST)"))
	defer cancelWait()
	ctx, _, done := s.activity.killable(ctx)
	defer done()
	return s.proxy.opts.Index.AwaitOpen(ctx, shards)
}

// readAgain reads the schema behind a statement that may have changed it on some shards.
// What one of them has isn't known until it has told: the registration that is left
// keeps its marks, and has builds wait. part is what it may have changed.
func (s *session) readAgain(ctx context.Context, shards catalog.ShardSet, part schema.Part) (known bool, err error) {
	untold, err := s.proxy.opts.Directory.RefreshTold(ctx, part, shards)
	if err != nil {
		s.log.Error("read the schema after DDL; trying again", "error", err)
		untold, err = shards, fmt.Errorf("the schema could not be read again: %w", err)
	}
	untold = untold.Intersect(shards)
	for id := range untold.All {
		if h := s.proxy.pool(id).Health(); h != nil && h.Err() != nil {
			continue // it is asked when it is back
		}
		open := s.proxy.opts.Index.Begin(catalog.Only(id))
		open.DDLInDoubt(id, nil)
		open.End()
	}
	return untold.Len() == 0, err
}

// redefines is what DDL may change.
func redefines(d *plan.DDL) schema.Part {
	switch d.Op {
	case "CREATE DATABASE":
		return schema.Part{Lists: schema.SchemaList}
	case "DROP DATABASE":
		return schema.Part{Lists: schema.SchemaList | schema.ProgramList | schema.EventList, Schema: d.Schema}
	case "CREATE PROCEDURE", "ALTER PROCEDURE", "DROP PROCEDURE":
		return schema.Part{Lists: schema.ProgramList}
	case "CREATE FUNCTION", "ALTER FUNCTION", "DROP FUNCTION":
		return schema.Part{Lists: schema.ProgramList, Views: true}
	case "CREATE EVENT", "ALTER EVENT", "DROP EVENT":
		return schema.Part{Lists: schema.EventList}
	case "CREATE TABLE", "ALTER TABLE", "DROP TABLE", "RENAME TABLE", "TRUNCATE TABLE", "CREATE INDEX", "DROP INDEX",
		"CREATE VIEW", "ALTER VIEW", "DROP VIEW", "CREATE TRIGGER", "CREATE SEQUENCE", "ALTER SEQUENCE", "DROP SEQUENCE":
		if d.Op != "ALTER TABLE" || !d.AllColumns { // else it may have been understood in part
			return schema.Part{Tables: slices.DeleteFunc(slices.Concat(d.Tables, d.Renamed), func(n catalog.TableName) bool { return n.Name == "" })}
		}
	}
	return schema.Part{}
}

// redefined takes steps 3 and 5 behind a hinted statement that may be DDL.
//
// Counter-example: /* shunt: shard=s1 */ CREATE TRIGGER ... SET NEW.email = LOWER(NEW.email).
// No write that is planned with the old catalog foresees the key of its row.
func (s *session) redefined(ctx context.Context, id catalog.ShardID) error {
	_, err := s.readAgain(ctx, catalog.Only(id), schema.Part{})
	done, markErr := s.markUnforeseen(ctx, allIndexes(s.catalog()), catalog.Only(id))
	if markErr == nil {
		done()
	}
	s.proxy.lookNow(ctx, s.proxy.references())
	if err != nil {
		err = fmt.Errorf("the statement was sent, but %w", err)
	}
	return errors.Join(err, markErr)
}

// virtualIndexes makes those that the statement has by COMMENT 'virtual'.
func (s *session) virtualIndexes(ctx context.Context, d *plan.DDL) (notes []string, err error) {
	if existed(s.diag.warnings) {
		return nil, nil
	}
	for _, v := range d.Virtual {
		t, err := s.tableForIndex(ctx, v.Table)
		switch {
		case err == nil && t.Index(v.Name) != nil && slices.EqualFunc(t.Index(v.Name).Columns, v.Columns, func(c *catalog.Column, name string) bool { return strings.EqualFold(c.Name, name) }):
			continue // the configuration's, or of CREATE OR REPLACE
		case err == nil && d.Op == "CREATE TABLE" && t.Placement == catalog.Reference:
			// A dump may be of tables that were placed otherwise.
			notes = append(notes, fmt.Sprintf("virtual index %s was not made: %s is on every shard", v.Name, t.Name))
			continue
		case err == nil:
			err = s.proxy.opts.Admin.CreateIndex(ctx, t, v, nil)
			if err != nil && len(v.Include) > 0 { // a dump may be of another Shunt's
				plain := v
				plain.Include = nil
				if s.proxy.opts.Admin.CreateIndex(ctx, t, plain, nil) == nil {
					notes, err = append(notes, fmt.Sprintf("virtual index %s was made without INCLUDE: %v", v.Name, err)), nil
				}
			}
		}
		if err != nil {
			made := "index"
			if d.Op != "CREATE INDEX" {
				made = "table"
			}
			return notes, fmt.Errorf("%s was done on the shards, but the virtual index %s of this %s was not made: %w", d.Op, v.Name, made, err)
		}
	}
	return notes, nil
}

// existed reports warnings of IF NOT EXISTS: there is a table or index of that name.
func existed(warnings [][][]byte) bool {
	return slices.ContainsFunc(warnings, func(w [][]byte) bool {
		return codeOf(w) == mysqlerr.TableExists || codeOf(w) == mysqlerr.DupKeyName
	})
}

// turnOfDDL waits until it is a statement's turn (see ddlTurns), and gives it back as it is planned now; the turn of all is its
// own then until release. lost: a shard may have done it, and isn't known to.
//
// Who has to wait for other sessions first gives the turn up where these may wait for it.
// Counter-example: a session that has LOCK TABLES t WRITE is inside of the read lock's gate, which
// emptyTable can't close, and is registered, for which countBefore waits; its own DDL waits for its turn.
func (s *session) turnOfDDL(ctx context.Context, d *plan.DDL, sql string) (_ *plan.DDL, release func(lost bool), err error) {
	waiting, done := s.waitForReadLock(ctx)
	defer done()
	for {
		if err := s.lockDDL(ctx); err != nil {
			return nil, nil, err
		}
		filled, stop := func() {}, func() {} // the table may be, again; counting its column
		if d, err = s.plannedAlone(ctx, d, sql); err == nil {
			var x *earlierDDL
			if x, err = s.inTheWay(ctx, d); x != nil {
				s.proxy.opts.Cluster.GiveTurn()
				if err := s.awaitTurnOf(ctx, x); err != nil {
					return nil, nil, err
				}
				continue
			}
		}
		if err == nil {
			filled, err = s.emptyTable(waiting, d)
		}
		if err == nil && d.Counts != "" {
			if stop, err = s.countBefore(ctx, d); err != nil {
				filled()
			}
		}
		if err == nil {
			return d, func(lost bool) {
				if !lost {
					stop()
				}
				filled()
				s.proxy.copies.touch() // TRUNCATE TABLE
				s.proxy.opts.Cluster.GiveTurn()
			}, nil
		}
		s.proxy.opts.Cluster.GiveTurn()
		if !errors.Is(err, ErrBusy) {
			return nil, nil, err
		}
		select {
		case <-time.After(emptyPatience):
		case <-waiting.Done():
			return nil, nil, context.Cause(waiting)
		}
	}
}

// plannedAlone is DDL as it is planned when no other runs.
func (s *session) plannedAlone(ctx context.Context, d *plan.DDL, sql string) (*plan.DDL, error) {
	c := s.catalog()
	if d.Catalog.Version != c.Version {
		planned, err := s.plan(ctx, sql)
		if err != nil {
			return nil, err
		}
		again, ok := planned.(*plan.DDL)
		if !ok || (again.As == nil) != (d.As == nil) {
			return nil, errors.New("the schema changed while the statement was planned; try again")
		}
		d = again
	}
	for _, name := range d.Tables {
		if t := c.Table(name.Schema, name.Name); t != nil && t.Unlike {
			return nil, refuse("%s of %s is not supported while its copies differ (SHOW SHARDS and the log tell more): DELETE the rows of the wrong copies, with a hint /* shunt: shard=NAME */, and they are filled anew", d.Op, t.Name)
		}
	}
	return d, s.staysAlone(c, d)
}

// lockDDL waits for the DDL of others, in the order of their coming. That may wait
// for this session's table locks itself.
func (s *session) lockDDL(ctx context.Context) (err error) {
	ctx, _, done := s.activity.killable(ctx)
	defer done()
	turn := ctx
	if s.tableLocks != nil {
		var cancel context.CancelFunc
		turn, cancel = context.WithTimeoutCause(ctx, ddlWait, mysqlerr.New(mysqlerr.LockWaitTimeout, "Lock wait timeout exceeded; try restarting transaction (another session's DDL is under way, which may wait for this session's table locks: UNLOCK TABLES first)"))
		defer cancel()
		defer s.proxy.lockedDDL.wait()()
	}
	// Not inside of the read lock's gate: who has its turn may have to close that (emptyTable). Nor is
	// the turn kept while the gate is closed. Counter-example: FLUSH TABLES WITH READ LOCK waits in it
	// for a session with table locks, and that one for its turn.
	g, outside := &s.proxy.readLock.statements, s.writes == 1
	if outside {
		g.leave()
		defer func() {
			if err != nil { // it is left once more
				g.inside.Add(1)
			}
		}()
	}
	for {
		if err := s.proxy.opts.Cluster.TakeTurn(turn); err != nil {
			return err
		}
		if !outside || g.tryEnter(false) {
			return nil
		}
		s.proxy.opts.Cluster.GiveTurn()
		if err := g.wait(ctx, func() bool { return g.passes(false) }); err != nil {
			return err
		}
	}
}

// lockedDDL are the sessions with table locks that wait for their turn of DDL, and how whose turn it
// is gives it up for them.
type lockedDDL struct {
	mu      sync.Mutex
	waiting int
	giveWay context.CancelCauseFunc
}

// heed has giveWay called with ErrBusy as soon as there is such a session, until heed(nil).
func (l *lockedDDL) heed(giveWay context.CancelCauseFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.giveWay = giveWay; giveWay != nil && l.waiting > 0 {
		giveWay(ErrBusy)
	}
}

// wait notes a session that waits, until done.
func (l *lockedDDL) wait() (done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting++
	if l.giveWay != nil {
		l.giveWay(ErrBusy)
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.waiting--
	}
}

// ddlWait is how long a session that holds table locks waits for DDL of others.
const ddlWait = 6 * besideWait

// flatten keeps the code of the first error of several.
func flatten(err error) error {
	e := coded(err)
	e.Message = strings.ReplaceAll(err.Error(), "\n", "; ")
	return e
}

// staysAlone refuses a primary key for a table that isn't known to stay on its shard
// with it: its record must be in the store. Nor is such a table renamed, since under another
// name it would be placed by its key.
func (s *session) staysAlone(c *catalog.Catalog, d *plan.DDL) error {
	if !d.AddsKey {
		return nil
	}
	t := c.Table(d.Tables[0].Schema, d.Tables[0].Name)
	stays, err := s.proxy.opts.Directory.Stays(t)
	if err != nil {
		return err
	}
	if !stays {
		return refuse("%s can't be given a primary key now: that it is on shard %s alone is not kept in data_dir; Shunt's log says why. Send Shunt a SIGHUP and try again", t.Name, c.ShardName(t.Shards.First()))
	}
	return nil
}

// aloneNote tells of a table that a primary key would have spread, had it been made with it.
func aloneNote(after *catalog.Catalog, d *plan.DDL) []string {
	if !d.AddsKey {
		return nil
	}
	t := after.Table(d.Tables[0].Schema, d.Tables[0].Name)
	if t == nil || t.Placement != catalog.Single || len(t.PrimaryKey) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s stays on shard %s, where its rows are; to spread it over all shards, make it anew with the primary key in CREATE TABLE and copy the rows", t.Name, after.ShardName(t.Shards.First()))}
}

// unfitNote tells of a new table that takes no rows.
func unfitNote(after *catalog.Catalog, d *plan.DDL) []string {
	if d.Op != "CREATE TABLE" {
		return nil
	}
	t := after.Table(d.Tables[0].Schema, d.Tables[0].Name)
	if t == nil {
		return nil
	}
	if why := planner.UnfitKey(after, t); why != "" {
		return []string{fmt.Sprintf("%s takes no rows: %s", t.Name, why)}
	}
	return nil
}

// indexNotes tells what the DDL did to virtual indexes.
func indexNotes(before, after *catalog.Catalog, d *plan.DDL) []string {
	var notes []string
	for i, name := range d.Tables {
		was := before.Table(name.Schema, name.Name)
		if was == nil || strings.HasPrefix(d.Op, "DROP TABLE") {
			continue
		}
		if i < len(d.Renamed) && d.Renamed[i].Name != "" {
			name = d.Renamed[i]
		}
		is := after.Table(name.Schema, name.Name)
		for _, ix := range was.Indexes {
			var now *catalog.Index
			if is != nil {
				now = is.Index(ix.Name)
			}
			switch {
			case now == nil:
				notes = append(notes, fmt.Sprintf("virtual index %s was dropped with %s", ix.Name, d.Op))
			case now.Status != ix.Status:
				notes = append(notes, fmt.Sprintf("virtual index %s is now %s after %s; until it is ready its queries go to all shards", ix.Name, now.Status, d.Op))
			}
		}
	}
	return notes
}

// unforeseen are the indexes in which writes under way may make keys that the
// old catalog doesn't foresee.
func unforeseen(c *catalog.Catalog, d *plan.DDL) []*catalog.Index {
	if d.Op != "CREATE TRIGGER" && !d.References && !d.Unforeseen {
		return nil
	}
	return allIndexes(c)
}

func allIndexes(c *catalog.Catalog) (out []*catalog.Index) {
	for t := range c.Tables() {
		out = append(out, t.Indexes...)
	}
	return out
}

// markUnforeseen sets unknown marks for indexes on those shards that hold them.
// They last at least until done is called.
func (s *session) markUnforeseen(ctx context.Context, indexes []*catalog.Index, on catalog.ShardSet) (done func(), err error) {
	if len(indexes) == 0 {
		return func() {}, nil
	}
	var shards catalog.ShardSet
	var marks []plan.Mark
	var after []plan.Maintenance
	var tables []*catalog.Table
	for _, ix := range indexes {
		held := ix.Table.Shards.Intersect(on)
		shards = shards.Union(held)
		for id := range held.All {
			marks = append(marks, plan.Mark{Index: ix, Shard: id})
		}
		after = append(after, plan.Maintenance{Table: ix.Table, Operation: "UNKNOWN", Shards: held, Indexes: []*catalog.Index{ix}})
		if !slices.Contains(tables, ix.Table) {
			tables = append(tables, ix.Table)
		}
	}
	open := s.proxy.opts.Index.Begin(shards)
	if err := s.proxy.opts.Index.Prepare(ctx, open, nil, marks, tables, shards); err != nil {
		open.End()
		return nil, err
	}
	return func() {
		open.End()
		s.proxy.opts.Index.After(after)
	}, nil
}

// sendDDL sends the statement, first to one shard. Where an earlier try has left
// some shards without it, it goes to those. idle: no definition has changed on any shard.
func (s *session) sendDDL(ctx context.Context, d *plan.DDL, sql string) (sum shard.Summary, idle bool, err error) {
	try, err := s.tryDDL(ctx, d, sql)
	if err != nil {
		return sum, false, err
	}
	if err := s.proxy.stalls.refuse(d.Shards.Minus(try.Done), s.catalog()); err != nil {
		return sum, false, err // before others have done it
	}
	unfinished := s.proxy.opts.Unfinished
	ids := slices.Collect(d.Shards.Minus(try.Done).All)
	if len(ids) == 0 {
		return sum, false, refuse("%s: no shard holds this table", d.Op)
	}
	var (
		mu     sync.Mutex
		wg     sync.WaitGroup
		failed []string
		codes  = map[uint16]bool{} // of the errors
		alone  []catalog.ShardID   // to be tried again, one after the other
		sums   []shard.Summary     // of the others
		allHad = try.Done.Empty()  // no shard is known to have done it, and none has now
		had    error               // what the first one said that had it before
	)
	// outcome notes what came of it on a shard.
	outcome := func(id catalog.ShardID, err error) error {
		mu.Lock()
		defer mu.Unlock()
		e, ok := errors.AsType[mysqlerr.Error](err)
		switch {
		case err == nil, ok && (try.Unknown.Has(id) || try.lacks.Has(id)) && alreadyDone(e.Code):
			if allHad = allHad && err != nil; had == nil {
				had = err
			}
			try.Done.Add(id)
			try.Unknown = try.Unknown.Minus(catalog.Only(id))
			return nil
		case ok && e.Code == mysqlerr.ShardLost:
			try.Unknown.Add(id)
		}
		failed = append(failed, fmt.Sprintf("%s: %v", s.catalog().ShardName(id), err))
		codes[e.Code] = true
		return err
	}
	s.diag.clear()
	var told [][][]byte
	now := time.Now()
	if try.Done.Empty() {
		s.violatedFirst(ctx, d, ids)
	}
	unfinished.sent(try, d.Shards.Minus(try.Done), true)
	sum, err = s.sendDDLTo(ctx, ids[0], d, sql, now, false, false, &told)
	if err == nil {
		s.diag.add(told...)
	}
	err = outcome(ids[0], err)
	some := s.dropsSome(d, err)
	if err != nil && try.Done.Empty() && !some {
		s.diag.above(told)
		unfinished.end(try, len(failed))
		return sum, false, err // nothing was changed, unless the shard was lost
	}
	if d.ByKey && err == nil && try.Done == catalog.Only(ids[0]) {
		if d.Shards, err = s.placedByKey(ctx, d, ids[0]); err != nil {
			return sum, false, err
		}
		if d.Shards.Len() < 2 {
			unfinished.end(try, 0)
		}
		try.Shards = d.Shards
		ids = append(ids[:1], slices.Collect(d.Shards.Minus(try.Done).All)...)
	}
	if len(ids) > 1 {
		unfinished.sent(try, d.Shards.Minus(try.Done), false)
	}
	_, chosen := s.settings.value("@@lock_wait_timeout")
	send := func(id catalog.ShardID, beside bool) error {
		part, err := s.sendDDLTo(ctx, id, d, sql, now, beside, false, nil)
		mu.Lock()
		defer mu.Unlock()
		sums = append(sums, part)
		return err
	}
	for _, id := range ids[1:] {
		if s.tableLocks != nil { // it has its locks, and waits for none
			_ = outcome(id, send(id, false)) // it is in failed
			continue
		}
		wg.Go(func() {
			err := send(id, !chosen)
			if e, ok := errors.AsType[mysqlerr.Error](err); ok && e.Code == mysqlerr.LockWaitTimeout && !chosen {
				mu.Lock()
				defer mu.Unlock()
				alone = append(alone, id)
				return
			}
			_ = outcome(id, err) // it is in failed
		})
	}
	wg.Wait()
	for _, id := range alone {
		_ = outcome(id, send(id, false))
	}
	if len(failed) == 0 && d.As != nil && !allHad {
		unfinished.made(try)
	} else {
		unfinished.end(try, len(failed))
	}
	if len(failed) == 0 {
		if allHad { // whoever has done it: a server says so, too
			return sum, false, had
		}
		idle = d.Keeps || wasIdle(d, told) && !slices.ContainsFunc(sums, func(part shard.Summary) bool { return part.Warnings != sum.Warnings })
		if s.spreads(d) {
			infos := []string{sum.Info}
			for _, part := range sums {
				sum.Affected += part.Affected
				infos = append(infos, part.Info)
			}
			sum.Info = infoWarnings.ReplaceAllString(joinInfo(infos), fmt.Sprintf("Warnings: %d", sum.Warnings))
		}
		return sum, idle, nil
	}
	if some && len(failed) == len(ids) && len(codes) == 1 {
		return sum, false, err
	}
	return sum, false, s.partlyDone(d, try, failed)
}

// violatedFirst brings the shards to the front whose rows the statement would fail for: nothing is changed then. It is
// known of rows that are there now, and no more: others may come before the statement does.
//
// Counter-example: ADD UNIQUE (email), with a duplicate on s1 alone. Done on s0, and refused on s1.
func (s *session) violatedFirst(ctx context.Context, d *plan.DDL, ids []catalog.ShardID) {
	if len(d.Violations) == 0 || len(ids) < 2 {
		return
	}
	var mu sync.Mutex
	var violated catalog.ShardSet
	var wg sync.WaitGroup
	for _, id := range ids {
		wg.Go(func() {
			conn, err := s.connForDDL(ctx, id, d)
			if err != nil {
				return // the statement says so
			}
			defer s.putBack(id, conn)
			s.activity.sent(id, conn)
			defer s.activity.done(conn)
			for _, query := range d.Violations {
				if res, err := conn.Query(ctx, query); err == nil && len(res.Rows) > 0 {
					mu.Lock()
					violated.Add(id)
					mu.Unlock()
					return
				}
			}
		})
	}
	wg.Wait()
	var first, others []catalog.ShardID
	for _, id := range ids {
		if violated.Has(id) {
			first = append(first, id)
		} else {
			others = append(others, id)
		}
	}
	copy(ids, append(first, others...))
}

// placedByKey are the shards of a new table that the first of them has made: see plan.DDL.ByKey.
func (s *session) placedByKey(ctx context.Context, d *plan.DDL, first catalog.ShardID) (shards catalog.ShardSet, err error) {
	conn, err := s.connForDDL(ctx, first, d)
	if err != nil {
		return shards, err
	}
	defer s.putBack(first, conn)
	res, err := conn.Query(ctx, "SHOW INDEX FROM "+quoted(d.Tables[0])+" WHERE Key_name = 'PRIMARY'")
	if err != nil {
		return shards, fmt.Errorf("%s was done on %s, whose primary key can't be read; DROP TABLE, then send it again: %w", d.Op, s.catalog().ShardName(first), err)
	}
	cells := named(res)
	keyed := len(res.Rows) > 0
	for i := range res.Rows {
		keyed = keyed && cells(i, "Column_name") != "" && cells(i, "Sub_part") == ""
	}
	if !keyed {
		return catalog.Only(first), nil
	}
	return s.catalog().All, nil
}

// tryDDL is what is known of a statement that is sent perhaps not for the first time.
func (s *session) tryDDL(ctx context.Context, d *plan.DDL, sql string) (try, error) {
	begin := func() try { return s.proxy.opts.Unfinished.begin(s.settings.schema, sql, d) }
	if err := s.proxy.opts.Unfinished.Follow(ctx, namesOf(s.settings.schema, d)); err != nil {
		return try{}, err
	}
	x := begin()
	lost := x.Unknown.Intersect(d.Shards)
	switch {
	case lost.Empty():
	case inCircle(d):
		name := s.catalog().ShardName(lost.First())
		return x, refuse("%s: the connection to shard %s was lost in it before, and it may have exchanged the tables already; a second time would undo it. Look there (SHOW CREATE TABLE with the hint /* shunt: shard=%s */), and send it with that hint to each shard that has not", d.Op, name, name)
	case d.Op == "ALTER TABLE":
		// ADD INDEX (c) can be done twice.
		if err := s.awaitOpen(ctx, lost); err != nil {
			return x, err
		}
		var same bool
		if x, same = s.proxy.look(ctx, x); same {
			s.proxy.opts.Unfinished.end(x, 0)
			return begin(), nil
		}
	}
	return x, nil
}

// dropsSome reports an error with which MariaDB has dropped the other tables of a
// statement: all shards do so then.
//
// Counter-example: DROP TABLE parents, children, where a foreign key refers to parents.
// The first shard had no children then, and the others did.
func (s *session) dropsSome(d *plan.DDL, err error) bool {
	e, ok := errors.AsType[mysqlerr.Error](err)
	return ok && e.Code != mysqlerr.ShardLost && e.Code != mysqlerr.LockWaitTimeout && s.catalog().MariaDB && len(d.Tables) > 1 && (d.Op == "DROP TABLE" || d.Op == "DROP VIEW")
}

// partlyDone is the error of DDL that some shards have done and others not; failed says
// of each of these why.
func (s *session) partlyDone(d *plan.DDL, try try, failed []string) error {
	slices.Sort(failed)
	var done []string
	for id := range try.Done.Intersect(d.Shards).All {
		done = append(done, s.catalog().ShardName(id))
		s.diag.below(condition("Note", mysqlerr.UnknownError, s.catalog().ShardName(id)+": done"))
	}
	for _, f := range failed {
		s.diag.below(condition("Error", mysqlerr.UnknownError, f))
	}
	s.log.Warn("DDL is not done on all shards", "statement", try.Tell(s.catalog()), "failed", strings.Join(failed, "; "))
	return mysqlerr.Newf(mysqlerr.UnknownError, "%s was done on %s, and failed on %s. Mend the cause, then send the same statement again: it goes to the shards that lack it. Or send it to each with the hint /* shunt: shard=NAME */",
		d.Op, strings.Join(done, ", "), strings.Join(failed, "; "))
}

// inCircle is whether the DDL only exchanges names: it can be done twice.
func inCircle(d *plan.DDL) bool {
	for _, to := range d.Renamed {
		if !slices.Contains(d.Tables, to) {
			return false
		}
	}
	return len(d.Renamed) > 0
}

// spreads reports DDL of one table whose rows are spread over the shards: each tells
// how many it has written anew.
func (s *session) spreads(d *plan.DDL) bool {
	if len(d.Tables) != 1 {
		return false
	}
	t := d.Catalog.Table(d.Tables[0].Schema, d.Tables[0].Name)
	return t != nil && (t.Placement == catalog.Hash || t.Placement == catalog.Anywhere)
}

// connForDDL is the connection that holds the session's table locks, or else one of
// the pool's.
func (s *session) connForDDL(ctx context.Context, id catalog.ShardID, d *plan.DDL) (*shard.Conn, error) {
	if conn := s.lockedConn(id); conn != nil {
		return s.borrowLocked(ctx, id, conn)
	}
	pool := s.proxy.pool(id)
	conn, err := pool.GetFor(ctx, s.holder(), s.countsFound(), s.settings.fingerprint)
	if err != nil {
		return nil, shard.Down(err)
	}
	set := s.settings
	// The current schema may be the one that is to be made, or just dropped.
	if strings.HasSuffix(d.Op, "DATABASE") {
		set.schema = ""
	}
	if err := set.applyTo(ctx, conn); err != nil {
		pool.Put(conn)
		return nil, err
	}
	return conn, nil
}

// besideWait is how long DDL waits for a lock while it does so on other shards.
//
// Two transactions that each hold the table on one shard and want it on the
// other's both queue behind DDL that waits on both. No server sees the circle,
// and their timeout is a day. DDL that waits on one shard alone is in no such
// circle: whoever it waits for finds the table free elsewhere.
const besideWait = 5 * time.Second

// sendDDLTo sends the statement to one shard. Where others get it at the same
// time, beside, it gives up after besideWait: with error 1205, unless the
// session has chosen a timeout. now is the statement's time where all take the same. warnings, if
// not nil, is filled with what SHOW WARNINGS answers there, with notes that the session doesn't want if noted.
func (s *session) sendDDLTo(ctx context.Context, id catalog.ShardID, d *plan.DDL, sql string, now time.Time, beside, noted bool, warnings *[][][]byte) (shard.Summary, error) {
	conn, err := s.connForDDL(ctx, id, d)
	if err != nil {
		return shard.Summary{}, err
	}
	defer s.putBack(id, conn)
	s.activity.sent(id, conn)
	defer s.activity.done(conn)
	if s.activity.killed() {
		return shard.Summary{}, errInterrupted
	}
	// Rule turn kept. Counter-example: this process, too slow, was fenced on all shards; another
	// has taken its turn over, and alters the table; this one is back, and goes on.
	kept := s.proxy.opts.Cluster.TurnKept
	if s.turnKept != nil {
		kept = s.turnKept
	}
	if err := kept(); err != nil {
		return shard.Summary{}, err
	}
	var settings, defaults []string
	if beside {
		settings, defaults = append(settings, fmt.Sprintf("lock_wait_timeout = %d", besideWait/time.Second)), append(defaults, "lock_wait_timeout = DEFAULT")
	}
	if noted && !s.wantsNotes() {
		settings, defaults = append(settings, "sql_notes = 1"), append(defaults, "sql_notes = 0")
	}
	if d.SameTime && !s.choseTime() {
		settings, defaults = append(settings, timestamp(now)), append(defaults, "TIMESTAMP = DEFAULT")
	}
	if settings != nil {
		if _, err := conn.Exec(ctx, "SET "+strings.Join(settings, ", ")); err != nil {
			return shard.Summary{}, err
		}
	}
	if text, ok := d.Texts[id]; ok {
		sql = text
	}
	sum, err := conn.Exec(ctx, sql)
	s.activity.done(conn)
	_, refused := errors.AsType[*shard.ServerError](err)
	if (err == nil && sum.Warnings > 0 || refused && !conn.Broken) && warnings != nil {
		if res, err := conn.Query(ctx, "SHOW WARNINGS"); err == nil {
			*warnings = res.Rows
		}
	}
	if settings != nil && !conn.Broken {
		if _, err := conn.Exec(ctx, "SET "+strings.Join(defaults, ", ")); err != nil {
			conn.Broken = true // not for another session
		}
	}
	if err != nil {
		if server, ok := errors.AsType[*shard.ServerError](err); ok {
			return sum, mysqlerr.Error(*server)
		}
		if conn.Broken || conn.Busy() { // else nothing was sent
			open := s.proxy.opts.Index.Begin(catalog.Only(id))
			open.DDLInDoubt(id, conn)
			open.End()
		}
		if why := s.proxy.stalls.why(id); why != "" {
			err = fmt.Errorf("%w (%s)", err, why)
		}
		return sum, mysqlerr.Newf(mysqlerr.ShardLost, "connection lost: %v", err)
	}
	if d.Op == "DROP DATABASE" && strings.EqualFold(conn.Schema, d.Schema) {
		conn.Schema = ""
	}
	return sum, nil
}
