package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// # Copies that differ
//
// The copies of a reference table may come to differ: a COMMIT was lost on one shard, somebody has
// written to one alone, a server was restored. Which shard answers then decides what is answered. So
// copies are compared, by sums of their rows, at start, behind a COMMIT that has failed, and every
// compareEvery; and where they differ
//
//  1. it is noted, durably, which shard's copy counts, while writes of reference tables wait. The
//     catalog has the table as one of that shard alone from then on: it is read and written there, and
//     joins gather. The other copies fall behind.
//  2. They are copied anew, as those of a new shard are, if most of the shards have had the copy that
//     counts, or if they are empty. Otherwise nobody knows which rows are right, and they wait for an
//     operator: who makes them alike, or empties those that are wrong, which are filled then.
//  3. DDL and writes of reference tables wait, what was written meanwhile is copied, all are compared
//     once more, and the note goes before the catalog is published by which all are read and written.
//
// A crash leaves the note, and so the table on the shard that counts.

// Unlike is a reference table whose copies differ.
type Unlike struct {
	// Home is the shard whose copy counts.
	Home string
	// Mend: most have had it so, or the operator has emptied the others; the other copies may be
	// overwritten.
	Mend bool
}

const (
	compareEvery = time.Hour
	// compareDuty is the share of the time in which copies are being compared.
	compareDuty = 0.1
	// startRows of a table are compared before anything is served, and startTime is how long that
	// may take.
	startRows = 1000
	startTime = 5 * time.Second
	maxLook   = 1 << 30
)

// comparison compares copies.
type comparison struct {
	p *Proxy
	// conns are to the shards that answer, in their order.
	shards []catalog.Shard
	conns  []*shard.Conn
}

func (p *Proxy) comparison(ctx context.Context) (*comparison, error) {
	x := &comparison{p: p}
	for _, s := range p.opts.Directory.Catalog().Shards {
		conn, err := p.pool(s.ID).Dial(ctx)
		if err != nil {
			continue
		}
		x.shards, x.conns = append(x.shards, s), append(x.conns, conn)
		if err := execAll(ctx, conn, setUp); err != nil {
			x.close()
			return nil, err
		}
	}
	return x, nil
}

func (x *comparison) close() {
	for _, conn := range x.conns {
		_ = conn.Close()
	}
}

func (p *Proxy) references() []*catalog.Table { return references(p.opts.Directory.Catalog()) }

// references are the reference tables whose copies could be compared.
func references(c *catalog.Catalog) []*catalog.Table {
	var tables []*catalog.Table
	for t := range c.Tables() {
		if isReference(t) && t.Differs == "" {
			tables = append(tables, t)
		}
	}
	slices.SortFunc(tables, byName)
	return tables
}

// isReference reports a table that has a copy on every shard, be they alike or not.
func isReference(t *catalog.Table) bool {
	return (t.Placement == catalog.Reference || t.Unlike) && !t.IsView && len(t.Columns) > 0
}

// sums are those of all copies.
func (x *comparison) sums(ctx context.Context, sql string) ([]string, error) {
	sums, errs := make([]string, len(x.conns)), make([]error, len(x.conns))
	atOnce(len(x.conns), func(i int) {
		var res *shard.QueryResult
		if res, errs[i] = x.conns[i].Query(ctx, sql); errs[i] == nil {
			sums[i] = sumText(res)
		}
	})
	return sums, errors.Join(errs...)
}

func alike(sums []string) bool {
	return !slices.ContainsFunc(sums, func(s string) bool { return s != sums[0] })
}

// FirstLook compares the beginning of each reference table, before anything is served, and has
// those compared that come later.
func (p *Proxy) FirstLook(ctx context.Context) {
	if tables := p.references(); len(tables) > 0 {
		p.lookAt(ctx, tables, startRows, true)
		if err := p.opts.Directory.Republish(ctx); err != nil {
			p.opts.Logger.Error("publish which copies differ", "error", err)
		}
	}
	p.opts.Directory.Look(func(ctx context.Context, tables []*catalog.Table) { p.lookAt(ctx, tables, maxLook, true) })
}

// lookNow compares the copies of those among tables that are reference tables, and publishes which
// differ: behind a statement that was sent to one shard by its hint, before it is answered. Nothing is
// mended: the other shards may be about to get it.
func (p *Proxy) lookNow(ctx context.Context, tables []*catalog.Table) {
	tables = slices.DeleteFunc(slices.Clone(tables), func(t *catalog.Table) bool { return !isReference(t) || t.Unlike || t.Differs != "" })
	if !p.lookAt(ctx, tables, maxLook, false) {
		return
	}
	if err := p.opts.Directory.Republish(ctx); err != nil {
		p.opts.Logger.Error("publish which copies differ", "error", err)
	}
}

// lookAt compares some rows of the copies of tables, and notes those that differ.
func (p *Proxy) lookAt(ctx context.Context, tables []*catalog.Table, rows int, mend bool) (noted bool) {
	if len(tables) == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	x, err := p.comparison(ctx)
	if err != nil {
		return false // Compare will tell
	}
	defer x.close()
	for _, t := range tables {
		text, err := newCopyText(t)
		if err != nil || t.Unlike {
			continue
		}
		sums, err := x.sums(ctx, text.sum(text.first(rows)))
		if err == nil && len(sums) > 1 && !alike(sums) {
			err, noted = x.note(ctx, t, text, mend), true
		}
		if err != nil && ctx.Err() == nil {
			p.opts.Logger.Warn("copies of a reference table not compared", "table", t.Schema+"."+t.Name, "error", err)
		}
	}
	return noted
}

// Compare compares copies, and mends them, until ctx ends.
func (p *Proxy) Compare(ctx context.Context) {
	next := time.Time{} // at once: what ended the last life may have been in the middle of a write
	told := map[catalog.TableName]string{}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var of *catalog.Catalog
	var tables []*catalog.Table
	for {
		if c := p.opts.Directory.Catalog(); c != of {
			of, tables = c, references(c)
		}
		for _, t := range tables {
			var err error
			name, what := catalog.TableName{Schema: t.Schema, Name: t.Name}, ""
			switch doubtful, hinted := p.copies.doubtful(name); {
			case t.Unlike:
				err = p.mendCopies(ctx, t)
			case doubtful, time.Now().After(next):
				err = p.compareTable(ctx, t, !hinted)
			default:
				continue
			}
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				what = err.Error()
			}
			if what != "" && told[name] != what {
				p.opts.Logger.Warn("copies of a reference table", "table", t.Schema+"."+t.Name, "error", err)
			}
			told[name] = what
		}
		if time.Now().After(next) {
			next = time.Now().Add(compareEvery)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// compareTable compares the copies of a table chunk by chunk. What differs while writes go on is
// looked at again without them.
func (p *Proxy) compareTable(ctx context.Context, t *catalog.Table, mend bool) error {
	text, err := newCopyText(t)
	if err != nil {
		return err
	}
	x, err := p.comparison(ctx)
	if err != nil {
		return err
	}
	defer x.close()
	if len(x.conns) < 2 {
		return nil
	}
	err = chunks(ctx, x.conns[0], text, func(where string) error {
		began := time.Now()
		sums, err := x.sums(ctx, text.sum(where))
		if err != nil || alike(sums) {
			pause(ctx, time.Duration(float64(time.Since(began))*(1/compareDuty-1)))
			return err
		}
		if err := p.copies.close(ctx, shareWait); err != nil {
			return err
		}
		defer p.copies.reopen()
		if sums, err = x.sums(ctx, text.sum(where)); err != nil || alike(sums) {
			return err
		}
		if err := x.note(ctx, t, text, mend); err != nil {
			return err
		}
		if err := p.opts.Directory.Republish(ctx); err != nil {
			return err
		}
		return errNoted
	})
	if errors.Is(err, errNoted) {
		return nil
	}
	return err
}

// errNoted: the rest of a table need not be compared.
var errNoted = errors.New("its copies differ")

// UnlikeCopies has an error for each reference table whose copies differ, on those servers that can be
// dialed. A Shunt may be writing to them: what differs is looked at several times. show is told how far it is.
func UnlikeCopies(ctx context.Context, c *catalog.Catalog, dial func(context.Context, catalog.ShardID) (*shard.Conn, error), show func(what string, done, all int64)) (failures []error) {
	x := &comparison{}
	defer x.close()
	for _, s := range c.Shards {
		conn, err := dial(ctx, s.ID)
		if err != nil {
			continue
		}
		x.shards, x.conns = append(x.shards, s), append(x.conns, conn)
		if err := execAll(ctx, conn, setUp); err != nil {
			return []error{fmt.Errorf("compare copies on shard %s: %w", s.Name, err)}
		}
	}
	if len(x.conns) < 2 {
		return nil
	}
	tables := references(c)
	for i, t := range tables {
		show("comparing copies of "+t.Schema+"."+t.Name, int64(i), int64(len(tables)))
		text, err := newCopyText(t)
		if err == nil {
			err = chunks(ctx, x.conns[0], text, func(where string) error { return x.differ(ctx, text.sum(where)) })
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("copies of %s.%s differ, or can't be compared: %w", t.Schema, t.Name, err))
		}
	}
	return failures
}

// differ is an error for copies whose sums stay different.
func (x *comparison) differ(ctx context.Context, sql string) error {
	for try := 0; ; try++ {
		sums, err := x.sums(ctx, sql)
		switch {
		case err != nil:
			return err
		case alike(sums):
			return nil
		case try == joinRounds:
			i := slices.IndexFunc(sums, func(s string) bool { return s != sums[0] })
			return fmt.Errorf("that of %s isn't as that of %s; serve reads one alone until they are alike", x.shards[i].Name, x.shards[0].Name)
		}
		pause(ctx, time.Second/20)
	}
}

// note takes step 1; a catalog follows. mend: the copies that most shards lack may be overwritten. Writes that are on their way go to all copies, and so to the
// one that counts.
func (x *comparison) note(ctx context.Context, t *catalog.Table, text *copyText, mend bool) error {
	sums, err := x.sums(ctx, text.sum(""))
	if err != nil || alike(sums) {
		return err
	}
	// Of several that none outnumbers, the first: COMMIT goes there first. Rule empty copies don't
	// vote: a table is restored on one shard, and made anew on the others.
	home, votes, voters := 0, 0, len(x.p.opts.Directory.Catalog().Shards)
	for i, s := range sums {
		if emptySum(s) {
			voters--
			continue
		}
		n := 0
		for _, other := range sums {
			if other == s {
				n++
			}
		}
		if n > votes {
			home, votes = i, n
		}
	}
	how := Unlike{Home: x.shards[home].Name, Mend: mend && 2*votes > voters}
	if err := x.p.opts.Apart.SetUnlike(t.Schema, t.Name, &how); err != nil {
		return err
	}
	what := "most shards have it so: the others' copies are made anew"
	if !how.Mend {
		what = "nobody can tell which is right: DELETE the rows of the wrong copies, with a hint /* shunt: shard=NAME */, and they are filled anew; or make them alike"
	}
	x.p.opts.Logger.Error("the copies of a reference table differ; it is read and written on one shard alone until they are alike", "table", t.Schema+"."+t.Name, "shard", how.Home, "next", what)
	return nil
}

// mendCopies takes steps 2 and 3.
func (p *Proxy) mendCopies(ctx context.Context, t *catalog.Table) error {
	how, err := p.opts.Apart.Unlike(t.Schema, t.Name)
	if err != nil || how == nil {
		return err
	}
	text, err := newCopyText(t)
	if err != nil {
		return err
	}
	x, err := p.comparison(ctx)
	if err != nil {
		return err
	}
	defer x.close()
	home := slices.IndexFunc(x.shards, func(s catalog.Shard) bool { return s.Name == how.Home })
	if len(x.shards) < len(p.opts.Directory.Catalog().Shards) || home < 0 {
		return errors.New("not all shards answer")
	}
	sums, err := x.sums(ctx, text.sum(""))
	if err != nil {
		return err
	}
	var fill []newcomer
	for i := range x.conns {
		switch {
		case sums[i] == sums[home]:
		case how.Mend || emptySum(sums[i]):
			fill = append(fill, newcomer{p: p, shard: x.shards[i], source: x.shards[home], from: x.conns[home], to: x.conns[i]})
		default:
			return nil // the operator's turn
		}
	}
	if len(fill) > 0 && !how.Mend {
		// The operator has chosen. Noted: a copy that is half filled isn't empty.
		how.Mend = true
		if err := p.opts.Apart.SetUnlike(t.Schema, t.Name, how); err != nil {
			return err
		}
	}
	for _, j := range fill {
		if _, err := j.copyUntilSame(ctx, t); err != nil {
			return err
		}
	}
	return x.unite(ctx, t, text, fill)
}

// unite takes step 3. fill are the copies that may be overwritten: what was written since they were
// filled is copied now.
//
// Counter-example without that: the table is written all the time; a copy that is filled meanwhile
// lacks the last rows, is no longer empty, and stays as it is.
func (x *comparison) unite(ctx context.Context, t *catalog.Table, text *copyText, fill []newcomer) error {
	if err := x.p.takeTurnBehind(ctx, &UnfinishedDDL{Tables: []catalog.TableName{{Schema: t.Schema, Name: t.Name}}, Schemas: []string{t.Schema}}); err != nil {
		return err
	}
	defer x.p.opts.Cluster.GiveTurn()
	if err := x.p.copies.close(ctx, shareWait); err != nil {
		return err
	}
	defer x.p.copies.reopen()
	for _, j := range fill {
		if _, err := j.copyUntilSame(ctx, t); err != nil {
			return err
		}
	}
	if sums, err := x.sums(ctx, text.sum("")); err != nil || !alike(sums) {
		return err
	}
	if err := x.p.opts.Apart.SetUnlike(t.Schema, t.Name, nil); err != nil {
		return err
	}
	x.p.opts.Logger.Info("the copies of a reference table are alike, and are all read again", "table", t.Schema+"."+t.Name)
	return x.p.opts.Directory.Republish(ctx)
}

// unlikeOn is what SHOW SHARDS tells of a shard whose copies don't count.
func (p *Proxy) unlikeOn(name string) string {
	var tables []string
	for t := range p.opts.Directory.Catalog().Tables() {
		if t.Unlike && p.opts.Directory.Catalog().ShardName(t.Shards.First()) != name {
			tables = append(tables, t.Schema+"."+t.Name)
		}
	}
	if len(tables) == 0 {
		return ""
	}
	slices.Sort(tables)
	return fmt.Sprintf("its copies of %s differ from another shard's, and are not read", strings.Join(tables, ", "))
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
