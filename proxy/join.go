package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/schema"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// # Adding a shard
//
// A shard that is new in the configuration is apart at first: it has a pool, which is barred, and no
// place in the catalog's Shards, so that no statement goes there, nor is one refused for it. Join
// brings it in:
//
//  1. The shard must be empty: no table may have rows, but one that is placed on this shard alone or
//     anywhere, and copies; and what is there must be as on the others. Only then is it noted,
//     durably, that copies there are Shunt's own making.
//  2. Schemas, functions, procedures, tables and views are made as the first shard has them; those
//     that some of the others lack aren't. Triggers and events come last: they would change what is
//     copied.
//  3. Reference tables are copied, chunk by chunk: a chunk whose sum differs is deleted and copied
//     anew. Writes go on, and so this is done until a round finds nothing, or several times.
//  4. DDL waits from here on. If the schema has changed since step 2, it begins there again.
//  5. Writes of reference tables wait: see copies. Those that have begun end; where one takes longer
//     than shareWait, all go on, and this is tried again later.
//  6. Tables that were written since step 3 are compared again, and triggers and events made.
//  7. That the shard serves is noted, durably; the pool is opened, and the catalog published that
//     has the shard. What waited in steps 4 and 5 plans by it, and so writes the new copies too.
//
// A write of a reference table is so in the first shard's copy before step 6, or goes to the new one
// itself. Rows of other tables are found: whoever puts some there does so behind step 7, by a catalog
// that has the shard. Where there are some already, as behind the loss of data_dir, the indexes are
// built anew.
//
// A crash leaves before step 1's note a shard of which nothing is known; behind it one whose tables
// Shunt may drop, make and fill anew, which it does; behind step 7's note one whose copies are whole,
// since what waited was never sent. A statement of a process that has died may still run on the new
// shard: it has the lock by name joinLock there, which the next one waits for.
//
// A shard that is left out of the configuration is apart as in step 2 when it is put back: its copies
// are old. Leave takes it out: if it has no rows, the catalog without it is published, so that nobody
// puts rows there; when all that was open there has ended it is looked for rows again, and if there are
// any it is taken back: a row that is put there at this moment is not seen for a moment. A crash in
// between leaves it serving.
//
// # Several processes
//
// All have the shard apart until each has it in its configuration; then one of them takes the steps (Begin). Before step 5 it has
// the others close their copies (Hold), behind which also writes wait of tables that are placed anywhere, and those sent by hints:
//
//	note      before step 3: each notes which tables it writes from here on, as does who comes later before it serves anybody
//	hold      all others have closed their copies, and said what they have written since
//	5 to 7    as above, for what all have written. Where one has gone, or hasn't said, that may be anything
//	          with step 7 each takes the shard in before it tells that it goes by that
//	release   when all go by it
//
// Counter-examples. Without the hold: another writes a reference table behind step 6, by a catalog without the shard, whose copy
// lacks that. Without it for tables that are placed anywhere: one puts a row on the shard, and another, which hasn't taken it in
// yet, looks for the row on the others. If the release doesn't wait: the same.
//
// Where one of them can't take the shard in, step 7 is taken back, and the release waits until all go by that: the shard's copies
// are read by those that have it. Who has held may die: another one ends its hold, behind the same wait. One that stands still
// meanwhile finds, at step 7, that the hold isn't its own any more.
//
// A shard is taken out while one process alone serves, and copies that differ are mended by none of several.

// Apart is where it is kept which shards don't serve, and how far they are, and whose copies don't
// count. All survive a power loss.
type Apart interface {
	// Begin returns when this process is the one that adds a shard, until held ends or end is called.
	Begin(ctx context.Context, shard catalog.Shard) (held context.Context, end func(), err error)
	// Note has all other processes note from now on which tables they write (NoteCopies).
	Note(ctx context.Context) error
	// Hold has all other processes close their copies (HoldCopies). End must follow.
	Hold(ctx context.Context, shard string) (Adding, error)
	// Ours reports that a shard's tables are Shunt's own making.
	Ours(shard string) (bool, error)
	// Take notes that they are.
	Take(shard string) error
	// Unlike is what SetUnlike has kept of a reference table: nil for one whose copies are alike.
	Unlike(schema, table string) (*Unlike, error)
	SetUnlike(schema, table string, how *Unlike) error
	// Joined notes that the shard serves from now on, while this process is alone. after is the catalog that has it; before, if
	// not nil, the one of whose rows the indexes' keys are, which are all rows.
	Joined(shard string, before, after *catalog.Catalog) error
	// Mark are the statements by which a server shows, to a Shunt with another store, that it has all
	// tables and copies, Unmark those that end that.
	Mark() []string
	Unmark() []string
	// Leaves is called before the catalog after is published, which hasn't the shard; Take follows.
	Leaves(before, after *catalog.Catalog) error
}

// Adding is a shard that is being added, while all other processes have closed their copies.
type Adding interface {
	// Written are the tables that the others have written since Note.
	Written() Written
	// Joined is Apart's for all processes, Back what takes that back.
	Joined(before, after *catalog.Catalog) error
	Back() error
	// End returns when all go by that, and open their copies again.
	End()
}

// Errors of Apart.Begin: there is nothing to add, or it isn't time yet.
var (
	ErrServes = errors.New("the shard serves")
	ErrWaits  = errors.New("waiting")
)

const (
	joinLock = "shunt_joining"
	// joinAgain is the pause behind a failure, doubled up to joinPause.
	joinAgain = 250 * time.Millisecond
	joinPause = 10 * time.Second
	// waitPause is the pause where others are waited for.
	waitPause = time.Second
	// shareWait is how long writes of reference tables wait for those that have begun.
	shareWait = 2 * time.Second
	// finishTime bounds how long they wait in all, and DDL.
	finishTime = 30 * time.Second
	// joinRounds is how often copies are compared before writes have to wait.
	joinRounds = 5
)

// Join has a shard that is apart serve, however long that takes, or until ctx ends.
func (p *Proxy) Join(ctx context.Context, s catalog.Shard) {
	j := newcomer{p: p, shard: s, pool: p.pool(s.ID), log: p.opts.Logger.With("shard", s.Name), made: map[object]string{}}
	told := ""
	for pause := joinAgain; ; pause = min(2*pause, joinPause) {
		err := j.inTurn(ctx)
		switch {
		case err == nil:
			j.log.Info("the shard has its tables and copies, and serves")
			p.opts.Directory.Soon() // triggers were made since it was asked
			return
		case ctx.Err() != nil, errors.Is(err, ErrServes):
			return
		case errors.Is(err, ErrWaits):
			pause = waitPause
		}
		if err.Error() != told {
			told = err.Error()
			j.log.Warn("the shard can't be added yet; this is tried again", "error", err)
		}
		j.say("not yet: %v", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// Leave has a shard serve no more, unless it has rows that no other has.
func (p *Proxy) Leave(ctx context.Context, s catalog.Shard) error {
	if err := p.takeTurnBehind(ctx, nil); err != nil {
		return err
	}
	defer p.opts.Cluster.GiveTurn()
	d, apart := p.opts.Directory, p.opts.Apart
	before := d.Catalog()
	if err := p.rowless(ctx, s, before); err != nil {
		return err
	}
	if err := d.Dismiss(ctx, s.ID, func(after *catalog.Catalog) error { return apart.Leaves(before, after) }); err != nil {
		return err
	}
	waiting, cancel := context.WithTimeoutCause(ctx, leaveTime, errors.New("transactions are open there"))
	defer cancel()
	err := p.opts.Index.AwaitOpen(waiting, catalog.Only(s.ID))
	if err == nil {
		err = p.rowless(ctx, s, before)
	}
	if err == nil {
		err = p.unmark(ctx, s)
	}
	if err == nil {
		err = apart.Take(s.Name)
	}
	if err == nil {
		p.pool(s.ID).Bar(errors.New("the shard is not in the configuration any more"))
		return nil
	}
	back := func(after *catalog.Catalog) error { return apart.Joined(s.Name, d.Catalog(), after) }
	if again := d.Admit(context.WithoutCancel(ctx), s.ID, back); again != nil {
		// It serves again with the next start.
		return errors.Join(err, fmt.Errorf("take it back: %w", again))
	}
	return err
}

// unmark has a server not show any more that it serves.
func (p *Proxy) unmark(ctx context.Context, s catalog.Shard) error {
	conn, err := p.pool(s.ID).Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return execAll(ctx, conn, p.opts.Apart.Unmark())
}

// rowless refuses a shard that has rows which no other has.
func (p *Proxy) rowless(ctx context.Context, s catalog.Shard, c *catalog.Catalog) error {
	conn, err := p.pool(s.ID).Dial(ctx)
	if err != nil {
		return fmt.Errorf("it isn't known whether it has rows: %w", err)
	}
	defer conn.Close()
	if _, err := conn.Exec(ctx, "SET SESSION innodb_lock_wait_timeout = 5, lock_wait_timeout = 5"); err != nil {
		return err
	}
	objects, err := listed(ctx, conn, "TABLE")
	if err != nil {
		return err
	}
	var rows []string
	for _, o := range objects {
		if t := c.Table(o.schema, o.name); t != nil && isReference(t) {
			continue
		}
		// The locking read waits for a statement whose connection was lost.
		res, err := conn.Query(ctx, "SELECT 1 FROM "+o.quoted()+" LIMIT 1 LOCK IN SHARE MODE")
		if err != nil {
			return fmt.Errorf("look for rows of %s.%s: %w", o.schema, o.name, err)
		}
		if len(res.Rows) > 0 {
			rows = append(rows, o.schema+"."+o.name)
		}
	}
	if objects, err = listed(ctx, conn, "SEQUENCE"); err != nil {
		return err
	}
	for _, o := range objects {
		rows = append(rows, o.schema+"."+o.name)
	}
	if len(rows) > 0 {
		return fmt.Errorf("it has rows of %s, which would be gone", strings.Join(rows, ", "))
	}
	return nil
}

// leaveTime bounds how long what is open on a shard that leaves is waited for.
const leaveTime = 10 * time.Second

// newcomer adds one shard.
type newcomer struct {
	p     *Proxy
	shard catalog.Shard
	pool  *shard.Pool
	log   *slog.Logger
	// from is a connection to the shard that is copied, to one to the new shard.
	source   catalog.Shard
	from, to *shard.Conn
	// made has the statements by which objects were made: a server of another version may show
	// them otherwise.
	made map[object]string
	// adopts: it has rows that the indexes don't know.
	adopts bool
}

// say tells how far it is, in SHOW SHARDS and to whoever asks for the shard, unless another process has it serve by now.
func (j *newcomer) say(format string, args ...any) { j.pool.Rebar(j.told(format, args...)) }

func (*newcomer) told(format string, args ...any) error {
	return fmt.Errorf("the shard is being added, "+format, args...)
}

// inTurn takes all steps when that is this process's to do.
func (j *newcomer) inTurn(ctx context.Context) error {
	held, end, err := j.p.opts.Apart.Begin(ctx, j.shard)
	if err != nil {
		return err
	}
	defer end()
	return j.once(held)
}

// once takes all steps.
func (j *newcomer) once(ctx context.Context) error {
	if err := j.connect(ctx); err != nil {
		return err
	}
	defer j.from.Close()
	defer j.to.Close()
	if err := j.own(ctx); err != nil {
		return err
	}
	d := j.p.opts.Directory
	for {
		changed := d.Changed()
		for _, t := range j.p.references() {
			if t.Unlike {
				return fmt.Errorf("the copies of %s.%s differ: first they must be alike", t.Schema, t.Name)
			}
		}
		if err := j.structure(ctx); err != nil {
			return err
		}
		j.p.copies.restart()
		if err := j.p.opts.Apart.Note(ctx); err != nil {
			return err
		}
		if err := j.copyAll(ctx); err != nil {
			return err
		}
		if done, err := j.finish(ctx, changed); done || err != nil {
			return err
		}
	}
}

// setUp makes values travel and statements mean the same on both sides.
var setUp = []string{
	"SET NAMES utf8mb4", "SET time_zone = '+00:00'", "SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO'", "SET foreign_key_checks = 0", "SET unique_checks = 0",
	"SET SESSION innodb_lock_wait_timeout = 5", "SET SESSION lock_wait_timeout = 10",
}

func (j *newcomer) connect(ctx context.Context) (err error) {
	j.say("connecting")
	if j.to, err = j.pool.Dial(ctx); err != nil {
		return err
	}
	err = schema.ErrNoShard
	for _, s := range j.p.opts.Directory.Catalog().Shards {
		if j.from, err = j.p.pool(s.ID).Dial(ctx); err == nil {
			j.source = s
			break
		}
	}
	if err != nil {
		j.to.Close()
		return err
	}
	for _, conn := range []*shard.Conn{j.from, j.to} {
		if err = execAll(ctx, conn, setUp); err != nil {
			break
		}
	}
	if err == nil {
		var res *shard.QueryResult
		if res, err = j.to.Query(ctx, "SELECT GET_LOCK('"+joinLock+"', 5)"); err == nil && string(res.Rows[0][0]) != "1" {
			err = errors.New("a statement of an earlier attempt still runs there")
		}
	}
	if err != nil {
		j.from.Close()
		j.to.Close()
	}
	return err
}

// own is step 1.
func (j *newcomer) own(ctx context.Context) error {
	ours, err := j.p.opts.Apart.Ours(j.shard.Name)
	if err != nil {
		return err
	}
	if err := j.vacant(ctx, ours); err != nil || ours {
		return err
	}
	if err := j.fits(ctx); err != nil {
		return err
	}
	return j.p.opts.Apart.Take(j.shard.Name)
}

// vacant refuses a shard that has rows where these aren't looked for. Copies of reference tables may
// be there that are ours, or as the first shard's.
func (j *newcomer) vacant(ctx context.Context, ours bool) error {
	c := j.p.opts.Directory.Catalog()
	objects, err := listed(ctx, j.to, "TABLE")
	if err != nil {
		return err
	}
	for _, o := range objects {
		res, err := j.to.Query(ctx, "SELECT 1 FROM "+o.quoted()+" LIMIT 1")
		if err != nil {
			return fmt.Errorf("look for rows of %s.%s: %w", o.schema, o.name, err)
		}
		if len(res.Rows) == 0 {
			continue
		}
		t := c.Table(o.schema, o.name)
		switch {
		case t == nil:
		case j.alone(t):
			continue
		case t.Placement == catalog.Anywhere:
			j.adopts = true
			continue
		case t.Placement == catalog.Reference && len(t.Columns) > 0:
			same := ours
			if !ours {
				if same, err = j.same(ctx, t); err != nil {
					return err
				}
			}
			if same {
				continue
			}
		}
		return fmt.Errorf("its table %s.%s has rows: a shard that is added must be empty, or its rows would be among the others', which are placed without them; drop the table there, or take the shard out of the configuration", o.schema, o.name)
	}
	return nil
}

// alone reports a table that is on the new shard alone.
func (j *newcomer) alone(t *catalog.Table) bool {
	return t != nil && t.Placement == catalog.Single && !t.Unlike && t.Shards.Has(j.shard.ID)
}

// finish is steps 4 to 7; done is false where the schema has changed.
func (j *newcomer) finish(ctx context.Context, changed time.Time) (done bool, err error) {
	j.say("waiting for DDL to end")
	if err := j.p.takeTurnBehind(ctx, nil); err != nil {
		return false, err
	}
	defer j.p.opts.Cluster.GiveTurn()
	d := j.p.opts.Directory
	if !d.Changed().Equal(changed) || slices.ContainsFunc(j.p.references(), func(t *catalog.Table) bool { return t.Unlike }) {
		return false, nil
	}
	j.say("taking over")
	adding, err := j.p.opts.Apart.Hold(ctx, j.shard.Name)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, finishTime)
	defer cancel()
	alone, noted := false, false
	defer func() {
		adding.End() // first: what was taken back is so here, too, behind that
		if alone {
			j.p.copies.reopen()
		}
	}()
	err = d.Admit(ctx, j.shard.ID, func(after *catalog.Catalog) error {
		if err := j.p.copies.close(ctx, shareWait); err != nil {
			return err
		}
		alone = true
		if err := j.last(ctx, adding.Written()); err != nil {
			return err
		}
		if err := execAll(ctx, j.to, j.p.opts.Apart.Mark()); err != nil {
			j.log.Warn("a standby, or a Shunt whose data_dir was lost, would add the shard again", "error", err)
		}
		before := d.Catalog()
		if j.adopts {
			before = nil
		}
		noted = true // an error may come behind the deed
		if err := adding.Joined(before, after); err != nil {
			return err
		}
		j.pool.Bar(nil)
		return nil
	})
	if err != nil && noted {
		err = errors.Join(err, adding.Back())
		if !slices.Contains(d.Catalog().Shards, j.shard) {
			j.pool.Bar(j.told("not yet: %v", err))
		}
	}
	return err == nil, err
}

// HoldCopies closes this process's copies until ReleaseCopies, since another one adds a shard. An error leaves them open.
func (p *Proxy) HoldCopies(ctx context.Context) error { return p.copies.close(ctx, shareWait) }

// NoteCopies has this process note which tables it writes from now on: WrittenCopies.
func (p *Proxy) NoteCopies() { p.copies.restart() }

// WrittenCopies are the tables that this process has written since NoteCopies.
func (p *Proxy) WrittenCopies() Written { return p.copies.sinceRestart() }

// ReleaseCopies is HoldCopies's end.
func (p *Proxy) ReleaseCopies() { p.copies.reopen() }

// last is step 6. REQUIRES: nobody else shares the copies. The first shard's rows are read with locks,
// which it keeps: a transaction whose connection was lost may still be about to commit.
func (j *newcomer) last(ctx context.Context, others Written) error {
	if err := execAll(ctx, j.from, []string{"SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE", "BEGIN"}); err != nil {
		return err
	}
	for _, t := range j.p.references() {
		name := catalog.TableName{Schema: t.Schema, Name: t.Name}
		if !j.p.copies.take(name) && !others.May(name) {
			continue
		}
		changed, err := j.copyUntilSame(ctx, t)
		if err == nil && changed {
			err = fmt.Errorf("its copy of %s.%s doesn't come out as %s has it", t.Schema, t.Name, j.source.Name)
		}
		if err != nil {
			return err
		}
	}
	return j.programs(ctx)
}
