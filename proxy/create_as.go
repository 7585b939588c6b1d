package proxy

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// createTableAs executes CREATE TABLE ... SELECT whose rows come from other shards than
// they go to:
//
//  1. The query is run as a client's own.
//  2. The table is made by the same statement with LIMIT 0, as any.
//  3. The rows are inserted, all or none; without them it is dropped again.
//
// Between the last two others see it empty, and a crash leaves it so: sent again, the statement
// drops it if it still is. Where the table is there already the shards come first: mostly that is
// an error, and no query's worth.
func (s *session) createTableAs(ctx context.Context, d *plan.DDL, sql string) (err error) {
	defer s.unlimited()()
	// A server ends the transaction before it reads.
	if err = s.commitBefore(ctx, sql); err != nil {
		return err
	}
	name, exists := d.Tables[0], d.As.Exists
	if exists {
		if exists, err = s.notUnfilled(ctx, name, sql); err != nil {
			return err
		}
	}
	var rows content
	defer func() { rows.drop() }()
	if !exists {
		if rows, err = s.collectFor(ctx, name, d.As); err != nil {
			return err
		}
	}
	done, err := s.define(ctx, d, sql)
	if err != nil {
		return err
	}
	defer s.proxy.opts.Unfinished.filled(s.settings.schema, sql)
	made := s.diag.warnings
	if existed(made) {
		return s.answerDDL(done)
	}
	if exists { // only on some shards
		rows, err = s.collectFor(ctx, name, d.As)
	}
	var filled wire.OK
	if err == nil {
		filled, err = s.fill(ctx, &rows)
	}
	if err == nil {
		err = s.commitImplicitly(ctx) // without autocommit it is of a transaction
	}
	if err != nil {
		if dropErr := s.dropUnfilled(context.WithoutCancel(ctx), name); dropErr != nil {
			s.log.Warn("drop a table that was not filled", "table", quoted(name), "error", dropErr)
		}
		return err
	}
	s.diag.replace(append(made, s.diag.warnings...)...)
	done.sum.Affected, done.sum.Info = filled.Affected, filled.Info
	done.sum.Warnings += filled.Warnings
	return s.answerDDL(done)
}

// notUnfilled drops the table if an earlier life has made it by the same statement, and nobody has
// filled it.
func (s *session) notUnfilled(ctx context.Context, name catalog.TableName, sql string) (exists bool, err error) {
	if !s.proxy.opts.Unfinished.leftUnfilled(s.settings.schema, sql) {
		return true, nil
	}
	rows, err := s.collect(ctx, "SELECT 1 FROM "+quoted(name)+" LIMIT 1")
	if err != nil {
		return true, err
	}
	defer rows.drop()
	if rows.count > 0 {
		return true, nil
	}
	return false, s.dropUnfilled(ctx, name)
}

// dropUnfilled drops a table that the statement has made, though that was killed.
func (s *session) dropUnfilled(ctx context.Context, name catalog.TableName) error {
	s.activity.resume()
	sql := "DROP TABLE " + quoted(name)
	planned, err := s.plan(ctx, sql)
	if err != nil {
		return err
	}
	d, ok := planned.(*plan.DDL)
	if !ok {
		return fmt.Errorf("%s: plan is %T", sql, planned)
	}
	_, err = s.define(ctx, d, sql)
	return err
}

// content is the rows that a new table is to have.
type content struct {
	*collected
	name catalog.TableName
	as   *plan.CreateAs
	// head stands before them in an INSERT.
	head string
}

// collectFor runs the query of CREATE TABLE ... SELECT.
func (s *session) collectFor(ctx context.Context, name catalog.TableName, as *plan.CreateAs) (_ content, err error) {
	rows, err := s.collect(ctx, as.Query)
	if err != nil {
		return content{}, err
	}
	defer func() {
		if err != nil {
			rows.drop()
		}
	}()
	names := make([]string, len(rows.columns))
	for i, c := range rows.columns {
		if !strings.HasPrefix(s.settings.charset, "utf8") && strings.ContainsFunc(c.Name, func(r rune) bool { return r >= utf8.RuneSelf }) {
			return content{}, refuse("CREATE TABLE ... SELECT of a column named %s, in a session of the character set %s, is not supported: SET NAMES utf8mb4", c.Name, s.settings.charset)
		}
		names[i] = c.Name
	}
	if err := as.Lacks(names); err != nil {
		return content{}, err
	}
	for i := range names {
		names[i] = catalog.QuoteName(names[i])
	}
	return content{rows, name, as, as.Insert + quoted(name) + " (" + strings.Join(names, ", ") + ") VALUES "}, nil
}

// fill inserts the rows into the table, all or none. REQUIRES: it is made, since only then it is
// known of what types its columns are.
func (s *session) fill(ctx context.Context, c *content) (wire.OK, error) {
	if t := s.catalog().Table(c.name.Schema, c.name.Name); t != nil { // else the INSERT says so
		names := make([]string, len(c.columns))
		for i := range names {
			names[i] = c.columns[i].Name
		}
		var err error
		if c.collected, err = s.asStored(ctx, c.as.Query, c.collected, c.as.Into(t, names), c.as.Lenient); err != nil {
			return wire.OK{}, err
		}
	}
	done, err := s.insertCollected(ctx, c.collected, c.head, "")
	done.LastInsertID = 0
	return done, err
}

func quoted(name catalog.TableName) string {
	return catalog.QuoteTable(name.Schema, name.Name)
}

// createTemporaryAs executes CREATE TEMPORARY TABLE ... SELECT: as it is on the
// shard that answers its query alone, or else
//
//	1 the query is run as a client's own
//	2 the table is made by the same statement with LIMIT 0
//	3 the rows are inserted
func (s *session) createTemporaryAs(ctx context.Context, p *plan.Temporary, sql string) (wire.OK, error) {
	defer s.unlimited()()
	name := p.Tables[0]
	if t := s.catalog().Table(name.Schema, name.Name); t != nil && t.Temporary && !t.Lost {
		return s.onPinned(ctx, p, p.Shards, p.As.Make) // what a server says of that
	}
	planned, err := s.plan(ctx, p.As.Query)
	if err != nil {
		return wire.OK{}, err
	}
	rows, ok := planned.(*plan.Rows)
	if !ok {
		return wire.OK{}, refuse("CREATE TEMPORARY TABLE from this kind of query is not supported: write SELECT")
	}
	r := &request{sql: p.As.Query, plan: rows}
	defer r.ids.release()
	if err := s.bind(ctx, r); err != nil {
		return wire.OK{}, err
	}
	b := r.bound
	if b.Refuse != nil {
		return wire.OK{}, b.Refuse
	}
	if len(b.Statements) == 1 && b.Merge == nil && b.Gather == nil && b.System == nil {
		one := b.Alternatives
		one.Add(b.Statements[0].Shard)
		if one = one.Intersect(p.Shards); !one.Empty() {
			return s.onPinned(ctx, p, one, sql)
		}
	}
	from, err := s.collectFor(ctx, name, p.As)
	if err != nil {
		return wire.OK{}, err
	}
	defer from.drop()
	made, err := s.onPinned(ctx, p, p.Shards, p.As.Make)
	if err != nil {
		return wire.OK{}, err
	}
	done, err := s.fill(ctx, &from)
	if err != nil {
		drop := &plan.Temporary{Tables: p.Tables, Renamed: p.Renamed}
		if _, dropErr := s.onPinned(ctx, drop, p.Shards, "DROP TEMPORARY TABLE "+quoted(name)); dropErr != nil {
			s.log.Info("drop a temporary table that was not filled", "error", dropErr)
		}
		return wire.OK{}, err
	}
	done.Warnings += made.Warnings
	return done, nil
}
