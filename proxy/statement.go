package proxy

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// view is a command's bytes without a copy. They last until the next command is
// read: what may be kept for longer must be cloned.
func view(payload []byte) string { return unsafe.String(unsafe.SliceData(payload), len(payload)) }

// query answers a COM_QUERY: one statement, or several where the client asked
// for multi-statements. text is a view.
func (s *session) query(ctx context.Context, text string) error {
	defer s.shape.Clear()
	one := text
	cut := strings.TrimRight(text, " \t\n\v\f\r")
	if strings.HasSuffix(cut, ";") {
		one = cut[:len(cut)-1] // as Split has it
		cut = strings.TrimRight(one, " \t\n\v\f\r")
	}
	if cut == "" {
		return errEmptyQuery
	}
	if s.shape.Read(one, &s.settings.planning) { // it is one statement
		s.more, s.failed = 0, false
		return s.statement(ctx, one, true)
	}
	text = s.client.Keep(text)
	statements, err := planner.Split(text, s.settings.planning)
	if err != nil {
		if told := s.syntaxError(ctx, text); told != nil {
			return told
		}
		return err
	}
	if len(statements) > 1 && s.client.Capabilities&mysql.CLIENT_MULTI_STATEMENTS == 0 {
		if told := s.syntaxError(ctx, text); told != nil {
			return told
		}
		return sqlError{codeSyntax, "42000", "You have an error in your SQL syntax: several statements in one query need the client option for multi-statements, near '" + excerpt(statements[1]) + "'"}
	}
	if len(statements) == 0 {
		return errEmptyQuery
	}
	defer func() { s.more = 0 }()
	split := s.settings.planning
	for i, sql := range statements {
		s.more, s.failed = 0, false
		if i < len(statements)-1 {
			s.more = mysql.SERVER_MORE_RESULTS_EXISTS
		}
		shaped := len(statements) > 1 && s.shape.Read(sql, &s.settings.planning)
		if err := s.statement(ctx, sql, shaped); err != nil {
			return err // an error ends the list, as on a server
		}
		if s.failed {
			return nil // so does one that the client has got from a shard
		}
		// A list must not change its order by what it sets: the next one is
		// split already, under the settings of its beginning. Servers parse one
		// by one; where that would differ, sql_mode was changed in the list.
		if i < len(statements)-1 && s.settings.planning != split {
			if s.splitChanged(text, statements) {
				return refuse("a SET sql_mode that changes how text is read must be sent alone, not in a list of statements")
			}
			split = s.settings.planning
		}
	}
	return nil
}

// splitChanged reports whether the text would now be split differently.
func (s *session) splitChanged(text string, before []string) bool {
	if !containsFold(text, "sql_mode") {
		return false
	}
	now, err := planner.Split(text, s.settings.planning)
	if err != nil || len(now) != len(before) {
		return true
	}
	for i := range now {
		if now[i] != before[i] {
			return true
		}
	}
	return false
}

func excerpt(sql string) string {
	if len(sql) > 80 {
		return sql[:80]
	}
	return sql
}

// request is one statement on its way to the shards: its text, its plan, and
// for a prepared one its parameters.
type request struct {
	sql string
	// written is what the client wrote, where that isn't sql.
	written  string
	plan     *planner.Rows
	values   []keys.Value
	prepared *preparedStatement // nil: text protocol
	// shape, if not nil, is whose plan it is and values are its literals.
	shape  *planner.Shape
	params []wire.Param
	// generated are the AUTO_INCREMENT values that follow params in a prepared
	// statement's own.
	generated []uint64
	// part: the rows are some of those of the client's statement.
	part bool
	// found says what FOUND_ROWS() tells afterwards.
	found planner.FoundRows
	// sent: by the client, not by Shunt for a statement of the client's.
	sent bool
	// givesID: see mayGiveID.
	givesID bool
	// retyped: it was planned again because shards answered other types.
	retyped bool
	// inTurn: a write's shards are asked one after the other. again: it was rolled back for
	// a deadlock.
	inTurn, again bool
	start         time.Time
}

// statement runs one statement of the text protocol, a view. shaped: s.shape is its.
// Only a SELECT whose shape is known is run from the view: nothing of it is kept.
func (s *session) statement(ctx context.Context, sql string, shaped bool) error {
	start := time.Now()
	if err := s.mayText(sql); err != nil {
		return err
	}
	if !shaped && s.setStatement == nil {
		one, rest, err := planner.SplitSetStatement(sql, s.settings.planning, s.catalog())
		if err != nil {
			return err
		}
		if one != nil {
			undo, err := s.forOne(one)
			if err != nil {
				return err
			}
			defer undo()
			rest = strings.Clone(rest)
			return s.statement(ctx, rest, s.shape.Read(rest, &s.settings.planning))
		}
	}
	if !shaped {
		text, back, done, err := s.preparedByText(ctx, sql)
		defer back()
		if err != nil || done {
			return err
		}
		if text != "" {
			return s.statement(ctx, text, s.shape.Read(text, &s.settings.planning))
		}
		if done, err := s.selectInto(ctx, sql); err != nil || done {
			return err
		}
	}
	var known *planner.Rows
	if shaped {
		known = s.planned()
	}
	switch {
	case !shaped: // a copy already
	case known == nil:
		sql = strings.Clone(sql)
	case known.Kind != planner.Select:
		sql = s.shape.Keep()
	}
	s.activity.doing("Query", s.settings.schema, sql, start)
	if known != nil {
		s.counts.spliced = 0
		s.begun()
		return s.run(ctx, known, request{sql: sql, sent: true, shape: &s.shape, values: s.shape.Values(), start: start})
	}
	s.proxy.metrics.planMisses.Inc()
	written := sql
	sql, err := s.ofSession(sql, false)
	if err != nil {
		return err
	}
	s.begun()
	plan, err := s.plan(ctx, sql)
	if err != nil {
		if e, ok := errors.AsType[*planner.Error](err); ok && e.Commits && s.tableLocks == nil {
			if err := s.commitImplicitly(ctx); err != nil {
				return err
			}
		}
		return s.readOnlyFirst(sql, err)
	}
	if rows, ok := plan.(*planner.Rows); ok && rows.Params > 0 {
		return sqlError{codeSyntax, "42000", "You have an error in your SQL syntax near '?': only a statement that is prepared has parameters"}
	}
	return s.run(ctx, plan, request{sql: sql, written: written, sent: true, start: start})
}

// planned is the plan that s.shape has already, or gets now. What only the session
// knows is in no such statement (ofSession), nor may its catalog be its own.
func (s *session) planned() *planner.Rows {
	if s.temporary != nil {
		return nil
	}
	return s.proxy.planner.Find(&s.shape, s.catalog())
}

// asksFileCharset finds who asks back for what SET character_set_database has set.
var asksFileCharset = regexp.MustCompile(`(?i)@@(session\.|local\.)?(character_set_database|collation_database)\s*($|[^\s:=])`)

// sessionWords: one of them is in any text that ofSession is for, in lower case.
var sessionWords = []string{
	"warning_count", "error_count", "row_count", "found_rows", "user", "connection_id", "timeout", "completion_type", "sql_select_limit",
	"@@autocommit", ".autocommit", "gtid_", "resultset_metadata", "shunt_",
}

// changing are values that may be others when a prepared statement is executed,
// beside the counts and Shunt's own variables.
var changing = []string{"found_rows", "shunt_read_from", "resultset_metadata", "completion_type", "autocommit", "sql_select_limit"}

// ofSession puts what only this session knows into a statement: its user and
// number, and those of warnings and errors. In one that is prepared these may change.
func (s *session) ofSession(sql string, prepared bool) (string, error) {
	s.counts.spliced = 0
	if s.settings.fileCharset != "" && asksFileCharset.MatchString(sql) {
		return "", refuse("@@character_set_database after SET character_set_database is not supported: no shard's connection has that value")
	}
	asks := func(word string) bool { return containsFold(sql, word) }
	if !slices.ContainsFunc(sessionWords, asks) && (planner.IsCurrent(s.settings.schema, s.catalog()) || !asks("database") && !asks("schema")) {
		return sql, nil
	}
	counted := false
	out, err := planner.SpliceSession(sql, s.settings.planning, s.catalog(), func(what string) string {
		if what == "found_rows" {
			s.counts.spliced++
		}
		counted = counted || strings.HasSuffix(what, "_count") || s.settings.own.named(what) != nil || slices.Contains(changing, what)
		if what == "autocommit" && s.settings.autocommit && s.tx == nil && !prepared {
			return planner.AsItIs // so it is with every connection of the pools
		}
		if what == "row_count" {
			return fmt.Sprint(s.counts.changed) // the statement before, until this one has begun
		}
		return fmt.Sprint(s.told(what))
	})
	if err == nil && counted && prepared {
		return "", refuse("ROW_COUNT(), FOUND_ROWS(), @@warning_count, @@error_count, @@autocommit, @@completion_type, @@wait_timeout (and the like) and @@shunt_read_from in a prepared statement with other expressions are not supported: ask for them alone")
	}
	if err == nil && s.counts.spliced > 0 && s.counts.found == noFound {
		err = errFound
	}
	return out, err
}

// plan makes a statement's plan under the current settings and catalog. A table
// or schema that the catalog lacks may have been made behind Shunt's back, and those
// about which shards disagreed may be alike by now: the shards are asked once more
// before the client is told.
func (s *session) plan(ctx context.Context, sql string) (planner.Plan, error) {
	plan, err := s.planOnce(ctx, sql)
	var e *planner.Error
	if err == nil || !errors.As(err, &e) {
		return plan, err
	}
	switch e.Code {
	case codeNotSupported:
		if e.Differs {
			return s.planAnew(ctx, sql)
		}
		if !e.Unread {
			s.proxy.metrics.refused.Inc()
			break
		}
		fallthrough
	case codeSyntax:
		if e.Own {
			break
		}
		if told := s.syntaxError(ctx, sql); told != nil {
			return nil, told
		}
		if e.Code == codeNotSupported {
			s.proxy.metrics.refused.Inc()
		}
	case codeNoTable, codeBadTable, codeNoView, codeNoSchema:
		return s.planAnew(ctx, sql)
	}
	return nil, err
}

// planAnew plans once more by what the shards say now.
func (s *session) planAnew(ctx context.Context, sql string) (planner.Plan, error) {
	if err := s.proxy.opts.Directory.RefreshUnlessFresh(ctx); err != nil {
		return nil, err
	}
	return s.planOnce(ctx, sql)
}

func (s *session) planOnce(ctx context.Context, sql string) (planner.Plan, error) {
	leave, err := s.roomToPlan(ctx, sql)
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.proxy.planner.Plan(sql, s.settings.planning, s.catalog())
}

// syntaxError is what a server says is wrong with a statement that Shunt can't
// read; nil where it finds nothing wrong, or can't be asked. Preparing a statement
// executes nothing.
func (s *session) syntaxError(ctx context.Context, sql string) error {
	if len(sql) > maxAsked {
		return nil
	}
	id := s.anyShard()
	conn, err := s.borrowPooled(ctx, id)
	if err != nil {
		return nil // what Shunt itself says is as true
	}
	defer s.putBack(id, conn)
	s.activity.sent(id, conn)
	if !s.keeps(id) {
		// MySQL opens some statements' tables. Counter-example: ALTER TABLE t of somebody else
		// waits for our transaction; so would this for that, and we for this.
		conn.Unclean = true
		if _, err := conn.Exec(ctx, "SET lock_wait_timeout = 1"); err != nil {
			return nil
		}
	}
	st, err := conn.PrepareOnce(ctx, sql)
	s.activity.done(conn)
	if err == nil {
		conn.Forget(st)
		return nil
	}
	if server, ok := errors.AsType[*shard.ServerError](err); ok && server.Code == codeSyntax {
		return sqlError{server.Code, server.State, server.Message}
	}
	return nil
}

// maxAsked bounds the bytes of a statement that is only sent to hear what is
// wrong with it.
const maxAsked = 1 << 20

// run executes a plan.
func (s *session) run(ctx context.Context, plan planner.Plan, r request) (err error) {
	if err := s.mayRun(plan, r.sql); err != nil {
		return err
	}
	if r.sent {
		s.markTransaction(plan, r)
		defer func() { s.marked(err != nil || s.failed) }()
	}
	before := s.last.warnings
	err = s.runPlan(ctx, plan, r)
	if s.tx != nil && s.tx.victim != nil {
		s.endVictim(ctx, err)
	}
	if err == nil && !s.failed {
		s.conditionsAfter(plan, r.sql, before)
	}
	return err
}

// conditionsAfter is what SHOW WARNINGS tells after a statement that succeeded:
// MariaDB keeps what was told before where a statement names no tables and warns of
// nothing. MySQL forgets it, though the statement still reads @@warning_count.
func (s *session) conditionsAfter(plan planner.Plan, sql string, before [][][]byte) {
	tells := false
	switch plan := plan.(type) {
	case *planner.Rows:
		if plan.Kind != planner.Select || len(plan.Tables) > 0 {
			return
		}
	case *planner.Session:
		if plan.Op == planner.ShowWarnings || plan.Op == planner.ShowErrors {
			return
		}
	case *planner.Admin:
		// SHOW COUNT(*) WARNINGS leaves all as it is, as SHOW WARNINGS does.
		if tells = plan.Op == planner.TellSession && !strings.HasPrefix(strings.ToLower(strings.TrimSpace(sql)), "show"); !tells {
			return
		}
	default:
		return
	}
	switch {
	case s.mariaDB() && len(s.last.warnings) == 0:
		s.last.warnings = before
	case !s.mariaDB() && tells && len(before) > 0 && len(s.last.warnings) > 0 && &before[0] == &s.last.warnings[0]:
		s.last.warnings = nil
	}
}

func (s *session) runPlan(ctx context.Context, plan planner.Plan, r request) error {
	var kind string
	var err error
	if s.tableLocks != nil {
		if err := s.underLocks(plan); err != nil {
			return err
		}
	}
	switch plan := plan.(type) {
	case *planner.Rows:
		r.plan = plan
		if plan.Kind == planner.Other {
			s.proxy.tries.forget() // what it does to a shard is not known
		}
		return s.rows(ctx, r)
	case *planner.Session:
		if plan.Op != planner.ShowWarnings && plan.Op != planner.ShowErrors {
			s.last.warnings = nil
		}
		for ; s.counts.spliced > 0 && !s.mariaDB(); s.counts.spliced-- {
			s.last.warnings = append(s.last.warnings, deprecatedFound())
		}
		kind, err = "session", s.sessionStatement(ctx, plan)
	case *planner.DDL:
		kind, err = "ddl", s.ddl(ctx, plan, r.sql)
	case *planner.Temporary:
		kind, err = "ddl", s.temporaryTable(ctx, plan, r.sql)
	case *planner.Load:
		kind, err = "load", s.load(ctx, plan)
	case *planner.LockTables:
		kind, err = "session", s.lockTables(ctx, plan, r.sql)
	case *planner.Admin:
		kind, err = "admin", s.admin(ctx, plan)
		if plan.Op != planner.ShowProcesslist && plan.Op != planner.ShowGrants && err == nil {
			s.findAnswered()
		}
	default:
		return fmt.Errorf("plan %T has no executor", plan)
	}
	s.proxy.metrics.local(kind, r.start)
	return err
}

// sessionStatement changes the session or its transaction.
func (s *session) sessionStatement(ctx context.Context, p *planner.Session) error {
	var err error
	switch p.Op {
	case planner.Begin:
		err = s.beginTransaction(ctx, p)
	case planner.Commit, planner.Rollback:
		err = s.endTransaction(ctx, p)
	case planner.Savepoint, planner.RollbackTo, planner.ReleaseSavepoint:
		err = s.savepoint(ctx, p)
	case planner.Use:
		err = s.use(ctx, p.Schema)
	case planner.SetVariables, planner.SetNames:
		err = s.set(ctx, p)
	case planner.ShowWarnings, planner.ShowErrors:
		return s.showConditions(p)
	case planner.NoOp:
	}
	if err != nil {
		return err
	}
	if p.Op == planner.Begin || s.tx != nil && (p.Op == planner.Commit || p.Op == planner.Rollback) {
		s.begunByClient(p.ConsistentSnapshot)
	}
	if p.Op == planner.Rollback || p.Op == planner.SetVariables {
		return s.answerOK(wire.OK{Warnings: uint16(len(s.last.warnings))})
	}
	return s.answerOK(wire.OK{})
}

// containsFold reports whether s has sub, which is lower case ASCII.
func containsFold(s, sub string) bool {
	for i := 0; i+len(sub) <= len(s); i++ {
		if s[i]|0x20 == sub[0]|0x20 && strings.EqualFold(s[i:i+len(sub)], sub) {
			return true
		}
	}
	return false
}
