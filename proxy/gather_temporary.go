package proxy

import (
	"context"
	"errors"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
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

const (
	codeReopen       = 1137 // ER_CANT_REOPEN_TABLE
	codeFull         = mysql.ER_RECORD_FILE_FULL
	codeLogFormat    = 3745 // ER_TEMP_TABLE_PREVENTS_SWITCH_SESSION_BINLOG_FORMAT
	codeSchemaDenied = mysql.ER_DBACCESS_DENIED_ERROR
	codeTableDenied  = mysql.ER_TABLEACCESS_DENIED_ERROR
	codeDenied       = mysql.ER_SPECIFIC_ACCESS_DENIED_ERROR
)

// unlessOrdinary is errNotTemporary for what the server would not say of
// ordinary tables.
func (g *gathering) unlessOrdinary(err error) error {
	if !g.temporary {
		return err
	}
	switch serverCode(err) {
	// A session may have set pseudo_thread_id, by which the server knows whose a
	// temporary table is, or binlog_format, which MySQL doesn't change beside one. Where
	// temporary tables are too large ordinary ones may have room.
	case codeReopen, codeNoTable, codeFull, codeLogFormat:
		return errNotTemporary
	}
	return err
}

// makeTemporary takes step 3.
func (g *gathering) makeTemporary(ctx context.Context, unique bool) error {
	conn, err := g.at.pool.Get(ctx, false)
	if err != nil {
		return shardDown(err)
	}
	g.home = conn
	settings := append([]string{scratchSettings[1]}, scratchWishes...)
	var creates []string
	if g.at.own && conn.Schema != planner.ScratchSchema {
		// A temporary table can be in a schema that isn't there; the session can't.
		creates = append(creates, createScratchSchema)
	}
	for i, name := range g.tables {
		if name != "" {
			creates = append(creates, "CREATE TEMPORARY TABLE "+scratchTable(name)+" ("+g.plan.Refs[i].Definition(unique)+") ENGINE=InnoDB")
		}
	}
	run := conn.ExecAll
	if conn.State != "" {
		run = conn.ResetWith
	}
	refused, err := run(ctx, append(settings, creates...)...)
	conn.State = scratchState
	if err != nil {
		return g.serverError(err)
	}
	if refused[0] != nil {
		return g.serverError(refused[0])
	}
	refused = refused[len(settings):]
	var again []string
	for i, e := range refused {
		if e != nil && e.Code == codeNoSchema {
			again = append(again, creates[i])
			refused[i] = nil
		}
	}
	if len(again) > 0 && first(refused) == nil {
		if refused, err = conn.ExecAll(ctx, append([]string{createScratchSchema}, again...)...); err != nil {
			return g.serverError(err)
		}
	}
	failed := first(refused)
	switch {
	case failed == nil:
		return nil
	case failed.Code == codeSchemaDenied, failed.Code == codeTableDenied, failed.Code == codeDenied:
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

// scratchUndone makes the settings that scratchSettings and scratchWishes change
// those of a new connection, as a reset would if it left the tables.
var scratchUndone = []string{
	"SET SESSION sql_mode = DEFAULT, SESSION time_zone = DEFAULT, SESSION foreign_key_checks = DEFAULT, SESSION lock_wait_timeout = DEFAULT",
	"SET SESSION sql_log_bin = 1",
	"SET SESSION sql_require_primary_key = DEFAULT",
}

// settle gives home the client's settings, in place of those for copying.
func (g *gathering) settle(ctx context.Context, s *settings) error {
	todo := append([]string(nil), scratchUndone...)
	if s.schema != "" && g.home.Schema != s.schema {
		todo = append(todo, "USE "+catalog.QuoteName(s.schema))
	}
	wishes := len(scratchWishes) // may be refused both ways
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
			g.at.pool.Discard(conn)
			return
		}
		if err := conn.Reset(ctx); err != nil {
			g.s.log.Info("drop a gather's temporary tables", "server", g.at.name, "error", err)
		}
	}
	g.put(g.at.pool, conn)
}

const createScratchSchema = "CREATE DATABASE IF NOT EXISTS " + "`" + planner.ScratchSchema + "`"
