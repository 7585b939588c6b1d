package proxy

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// createTableAs executes CREATE TABLE ... SELECT whose rows come from other shards than
// they go to:
//
//  1. The query is run as a client's own.
//  2. The table is made by the same statement with LIMIT 0, as any.
//  3. The rows are inserted, all or none; without them it is dropped again.
//
// Between the last two others see it empty, and a crash leaves it so. Where the table is
// there already the shards come first: mostly that is an error, and no query's worth.
func (s *session) createTableAs(ctx context.Context, d *planner.DDL, sql string) (err error) {
	defer s.unlimited()()
	// A server ends the transaction before it reads.
	if err = s.commitBefore(ctx, sql); err != nil {
		return err
	}
	name, exists := d.Tables[0], d.As.Exists
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
	made := s.last.warnings
	if existed(made) {
		return s.answerDDL(done)
	}
	if exists { // only on some shards
		rows, err = s.collectFor(ctx, name, d.As)
	}
	var filled wire.OK
	if err == nil {
		filled, err = s.fill(ctx, rows)
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
	s.last.warnings = append(made, s.last.warnings...)
	done.sum.Affected, done.sum.Info = filled.Affected, filled.Info
	done.sum.Warnings += filled.Warnings
	return s.answerDDL(done)
}

// dropUnfilled drops a table that the statement has made, though that was killed.
func (s *session) dropUnfilled(ctx context.Context, name planner.TableName) error {
	s.activity.resume()
	sql := "DROP TABLE " + quoted(name)
	plan, err := s.plan(ctx, sql)
	if err != nil {
		return err
	}
	d, ok := plan.(*planner.DDL)
	if !ok {
		return fmt.Errorf("%s: plan is %T", sql, plan)
	}
	_, err = s.define(ctx, d, sql)
	return err
}

// content is the rows that a new table is to have.
type content struct {
	*collected
	name planner.TableName
	// head stands before them in an INSERT.
	head string
}

// collectFor runs the query of CREATE TABLE ... SELECT.
func (s *session) collectFor(ctx context.Context, name planner.TableName, as *planner.CreateAs) (_ content, err error) {
	rows, err := s.collect(ctx, as.Query)
	if err != nil {
		return content{}, err
	}
	defer func() {
		if err != nil {
			rows.drop()
		}
	}()
	if !as.Lenient {
		if err := strictly(rows.warnings, s.catalog().MariaDB); err != nil {
			return content{}, err
		}
	}
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
	return content{rows, name, as.Insert + quoted(name) + " (" + strings.Join(names, ", ") + ") VALUES "}, nil
}

// fill inserts the rows into the table, all or none. REQUIRES: it is made, since only then it is
// known of what types its columns are.
func (s *session) fill(ctx context.Context, c content) (wire.OK, error) {
	if t := s.catalog().Table(c.name.Schema, c.name.Name); t != nil { // else the INSERT says so
		if err := c.into(func(i int) string { return planner.TargetIn(t, c.columns[i].Name) }, s.catalog()); err != nil {
			return wire.OK{}, err
		}
	}
	done, err := s.insertCollected(ctx, c.collected, c.head, "")
	done.LastInsertID = 0
	return done, err
}

func quoted(name planner.TableName) string {
	return catalog.QuoteTable(name.Schema, name.Name)
}

// createTemporaryAs executes CREATE TEMPORARY TABLE ... SELECT: as it is on the
// shard that answers its query alone, or else
//
//	1 the query is run as a client's own
//	2 the table is made by the same statement with LIMIT 0
//	3 the rows are inserted
func (s *session) createTemporaryAs(ctx context.Context, p *planner.Temporary, sql string) (wire.OK, error) {
	defer s.unlimited()()
	name := p.Tables[0]
	if t := s.catalog().Table(name.Schema, name.Name); t != nil && t.Temporary && !t.Lost {
		return s.onPinned(ctx, p, p.Shards, p.As.Make) // what a server says of that
	}
	plan, err := s.plan(ctx, p.As.Query)
	if err != nil {
		return wire.OK{}, err
	}
	rows, ok := plan.(*planner.Rows)
	if !ok {
		return wire.OK{}, refuse("CREATE TEMPORARY TABLE from this kind of query is not supported: write SELECT")
	}
	var ids counted
	defer ids.release()
	b, err := s.bind(ctx, request{sql: p.As.Query, plan: rows}, &ids)
	if err != nil {
		return wire.OK{}, err
	}
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
	done, err := s.fill(ctx, from)
	if err != nil {
		drop := &planner.Temporary{Tables: p.Tables, Renamed: p.Renamed}
		if _, dropErr := s.onPinned(ctx, drop, p.Shards, "DROP TEMPORARY TABLE "+quoted(name)); dropErr != nil {
			s.log.Info("drop a temporary table that was not filled", "error", dropErr)
		}
		return wire.OK{}, err
	}
	done.Warnings += made.Warnings
	return done, nil
}
