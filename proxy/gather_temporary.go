package proxy

import (
	"context"
	"errors"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/scratch"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// Copies are TEMPORARY tables where that serves: one is made and dropped in a
// tenth of the time of an ordinary table, is filled without a redo log, and goes
// with its connection, whatever becomes of this process. Since no other
// connection sees them, one connection makes them, is written to and runs the
// query:
//
//	get ── scratch settings, CREATE TEMPORARY TABLE .. ── INSERT .. ── the client's settings, the query ── reset
//
// The server opens a temporary table only once in a query. Each reference has a
// copy of its own, so that is enough but for a WITH query that is named twice.
// The server says so before it answers a row; the gather is then done once more
// with ordinary tables (errNotTemporary).

// errNotTemporary: this gather needs ordinary tables.
var errNotTemporary = errors.New("temporary tables don't serve here")

// largeHome: a connection whose copies were larger is closed after use, or the
// server would keep the space of its temporary tables.
const largeHome = 16 << 20

// unlessOrdinary is errNotTemporary for what the server would not say of
// ordinary tables.
func (g *gathering) unlessOrdinary(err error) error {
	if !g.temporary {
		return err
	}
	switch shard.Code(err) {
	// A session may have set pseudo_thread_id, by which the server knows whose a
	// temporary table is, or binlog_format, which MySQL doesn't change beside one. Where
	// temporary tables are too large ordinary ones may have room.
	case mysqlerr.CantReopenTable, mysqlerr.NoSuchTable, mysqlerr.TableFull, mysqlerr.TempTablePreventsBinlogFormat:
		return errNotTemporary
	}
	return err
}

// makeTemporary takes step 3.
func (g *gathering) makeTemporary(ctx context.Context, unique bool) error {
	conn, err := g.at.Pool.Get(ctx, false)
	if err != nil {
		return shard.Down(err)
	}
	g.home = conn
	settings := append([]string{scratch.Settings[1]}, scratch.Wishes...)
	var creates []string
	if g.at.Own && conn.Schema != catalog.ScratchSchema {
		// A temporary table can be in a schema that isn't there; the session can't.
		creates = append(creates, scratch.CreateSchema)
	}
	for i, name := range g.tables {
		if name != "" {
			creates = append(creates, "CREATE TEMPORARY TABLE "+scratch.Table(name)+" ("+g.plan.Refs[i].Definition(unique)+") ENGINE=InnoDB")
		}
	}
	run := conn.ExecAll
	if conn.State != "" {
		run = conn.ResetWith
	}
	refused, err := run(ctx, append(settings, creates...)...)
	conn.State = scratch.State
	if err != nil {
		return g.serverError(err)
	}
	if refused[0] != nil {
		return g.serverError(refused[0])
	}
	refused = refused[len(settings):]
	var again []string
	for i, e := range refused {
		if e != nil && e.Code == mysqlerr.BadDB {
			again = append(again, creates[i])
			refused[i] = nil
		}
	}
	if len(again) > 0 && first(refused) == nil {
		if refused, err = conn.ExecAll(ctx, append([]string{scratch.CreateSchema}, again...)...); err != nil {
			return g.serverError(err)
		}
	}
	failed := first(refused)
	switch {
	case failed == nil:
		return nil
	case failed.Code == mysqlerr.DBAccessDenied, failed.Code == mysqlerr.TableAccessDenied, failed.Code == mysqlerr.SpecificAccessDenied:
		return errNotTemporary // a right of its own
	}
	return g.createFailed(g.unlessOrdinary(failed))
}

func first(refused []*shard.ServerError) *shard.ServerError {
	for _, e := range refused {
		if e != nil {
			return e
		}
	}
	return nil
}

// settle gives home the client's settings, in place of those for copying.
func (g *gathering) settle(ctx context.Context, s *settings) error {
	todo := append([]string(nil), scratch.Undone...)
	if s.schema != "" && g.home.Schema != s.schema {
		todo = append(todo, "USE "+catalog.QuoteName(s.schema))
	}
	wishes := len(scratch.Wishes) // may be refused both ways
	refused, err := g.home.ExecAll(ctx, append(todo, s.statements...)...)
	if err != nil {
		return err
	}
	if refused[0] != nil {
		return refused[0]
	}
	if failed := first(refused[1+wishes:]); failed != nil {
		return g.unlessOrdinary(failed)
	}
	g.home.State = s.fingerprint
	if s.schema != "" {
		g.home.Schema = s.schema
	}
	return nil
}

// leaveHome drops the temporary tables, and gives their connection back.
func (g *gathering) leaveHome(ctx context.Context) {
	conn := g.home
	if conn == nil {
		return
	}
	g.home = nil
	if !conn.Busy() && !conn.Broken {
		if g.bytes.Load() > largeHome {
			g.at.Pool.Discard(conn)
			return
		}
		if err := conn.Reset(ctx); err != nil {
			g.s.log.Info("drop a gather's temporary tables", "server", g.at.Name, "error", err)
		}
	}
	g.put(g.at.Pool, conn)
}
