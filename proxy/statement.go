package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/planner/text"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// view is a command's bytes without a copy. They last until the next command is
// read: what may be kept for longer must be cloned.
func view(payload []byte) string { return unsafe.String(unsafe.SliceData(payload), len(payload)) }

// query answers a COM_QUERY: one statement, or several where the client asked
// for multi-statements. text is a view.
func (s *session) query(ctx context.Context, text string) error {
	err := s.queryText(ctx, text) // no defer, here and below: in functions of many returns it is dear
	s.shape.Clear()
	return err
}

func (s *session) queryText(ctx context.Context, text string) error {
	one := text
	cut := withoutSpace(text)
	if strings.HasSuffix(cut, ";") {
		one = cut[:len(cut)-1] // as Split has it
		cut = withoutSpace(one)
	}
	if cut == "" {
		return errEmptyQuery
	}
	if s.readShape(one) { // it is one statement
		s.more = 0
		s.diag.unanswered()
		err := s.statement(ctx, one, true)
		s.measure(err)
		return err
	}
	return s.list(ctx, s.client.Keep(text))
}

// withoutSpace is a text without the white space at its end.
func withoutSpace(text string) string {
	for n := len(text); n > 0; n-- {
		if c := text[n-1]; c != ' ' && (c < '\t' || c > '\r') {
			return text[:n]
		}
	}
	return ""
}

// list answers a text that has no shape, or is a list of statements.
func (s *session) list(ctx context.Context, src string) error {
	statements, err := text.Split(src, s.settings.planning)
	if err != nil {
		if told := s.syntaxError(ctx, src); told != nil {
			return told
		}
		return err
	}
	if len(statements) > 1 && s.client.Capabilities&mysql.CLIENT_MULTI_STATEMENTS == 0 {
		if told := s.syntaxError(ctx, src); told != nil {
			return told
		}
		return mysqlerr.New(mysqlerr.ParseError, "You have an error in your SQL syntax: several statements in one query need the client option for multi-statements, near '"+excerpt(statements[1])+"'")
	}
	if len(statements) == 0 {
		return errEmptyQuery
	}
	defer func() { s.more = 0 }()
	split := s.settings.planning
	for i, sql := range statements {
		s.more = 0
		s.diag.unanswered()
		if i < len(statements)-1 {
			s.more = mysql.SERVER_MORE_RESULTS_EXISTS
		}
		shaped := len(statements) > 1 && s.readShape(sql)
		err := s.statement(ctx, sql, shaped)
		s.measure(err)
		if err != nil {
			return err // an error ends the list, as on a server
		}
		if s.diag.told {
			return nil // so does one that the client has got from a shard
		}
		// A list must not change its order by what it sets: the next one is
		// split already, under the settings of its beginning. Servers parse one
		// by one; where that would differ, sql_mode was changed in the list.
		if i < len(statements)-1 && s.settings.planning != split {
			if s.splitChanged(src, statements) {
				return refuse("a SET sql_mode that changes how text is read must be sent alone, not in a list of statements")
			}
			split = s.settings.planning
		}
	}
	return nil
}

// splitChanged reports whether the text would now be split differently.
func (s *session) splitChanged(sql string, before []string) bool {
	now, err := text.Split(sql, s.settings.planning)
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
	// sql is what the shards get: the client's text, with the session's values in place of
	// CONNECTION_ID() and its like.
	sql string
	// text is sql as it was read, nil where nothing but its shape was. written is what the client
	// wrote, nil where that is sql; of a prepared statement it is prepared.source.
	text, written *spoken.Text
	plan          *plan.Rows
	// bound is the plan with its values and its route, nil before it has them.
	bound *plan.Bound
	// ids are the AUTO_INCREMENT values that were taken for it.
	ids      counted
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
	found plan.FoundRows
	// sent: by the client, not by Shunt for a statement of the client's.
	sent bool
	// writes: it may change rows, or entries of indexes. implicit: in a transaction of its own.
	writes, implicit bool
	// why is the refusal for which it goes another way.
	why *text.Error
	// givesID: see mayGiveID.
	givesID bool
	// retyped: it was planned again because shards answered other types.
	retyped bool
	// inTurn: a write's shards are asked one after the other. again: it was rolled back for
	// a deadlock.
	inTurn, again bool
	// taken is how often it got other AUTO_INCREMENT values, since others had inserted these.
	taken int
	// asked: its values were asked for.
	asked bool
	// guesses: it may be bound on a guess. guess is what it was bound on, until that is confirmed;
	// guessedWrong: there was one that was wrong.
	guesses, guessedWrong bool
	guess                 guess
	// current, if not nil, tells whether the values of virtual columns that were put into it are current: errNotCurrent if not.
	current func(context.Context) bool
	// fill keeps its answer; nil: it can't be kept.
	fill Fill
	// storing: the query's rows are to be stored before they are answered.
	storing *storing
	start   time.Time
}

// statement runs one statement of the text protocol, a view. shaped: s.shape is its.
// Only a SELECT whose shape is known is run from the view: nothing of it is kept.
func (s *session) statement(ctx context.Context, sql string, shaped bool) error {
	start := s.start()
	ofClient := !s.settings.planning.Virtual // else virtual columns were put into the client's
	if ofClient {
		s.measuring(sql, shaped, start)
	}
	var t *spoken.Text
	if !shaped {
		t = s.textOf(sql)
	}
	if ofClient {
		if err := s.mayText(sql, t); err != nil {
			return err
		}
	}
	if !shaped {
		if done, err := s.wrapped(ctx, t); err != nil || done {
			return err
		}
	}
	if done, err := s.virtually(ctx, sql, t); err != nil || done {
		return err
	}
	var known *plan.Rows
	if shaped {
		known = s.planned()
	}
	switch {
	case !shaped: // a copy already
	case known == nil:
		t = s.textOf(strings.Clone(sql))
		sql = t.SQL
	case known.Kind != plan.Select:
		sql = s.shape.Keep()
	}
	if ofClient {
		s.activity.doing("Query", s.settings.schema, sql, start)
	}
	if known != nil {
		s.diag.spliced = 0
		s.begun()
		r := s.clientRequest(sql, start)
		r.shape, r.values = &s.shape, s.shape.Values()
		return s.run(ctx, known, r)
	}
	s.proxy.metrics.planMisses.Inc()
	written := t
	t, _, err := s.ofSession(ctx, t, false)
	if err == nil {
		err = s.found()
	}
	if err != nil {
		return err
	}
	s.begun()
	p, err := s.planText(ctx, t)
	if err != nil {
		e, ok := errors.AsType[*text.Error](err)
		if ok && e.Commits && s.tableLocks == nil {
			if err := s.commitImplicitly(ctx); err != nil {
				return err
			}
		}
		if ok && e.Only != "" {
			s.diag.replace(condition(e.Only, e.Code, e.Message))
			return s.answerOK(wire.OK{Warnings: 1})
		}
		return s.readOnlyFirst(t.SQL, err)
	}
	if rows, ok := p.(*plan.Rows); ok && rows.Params > 0 {
		return mysqlerr.New(mysqlerr.ParseError, "You have an error in your SQL syntax near '?': only a statement that is prepared has parameters")
	}
	r := s.clientRequest(t.SQL, start)
	r.text, r.written = t, written
	return s.run(ctx, p, r)
}

// wrapped executes a statement that stands in another one: SET STATEMENT ... FOR, EXECUTE, SELECT
// ... INTO @v. done: it was one.
func (s *session) wrapped(ctx context.Context, t *spoken.Text) (done bool, err error) {
	if s.setStatement == nil {
		one, rest, err := t.SetStatement()
		if err != nil {
			return false, err
		}
		if one != nil {
			undo, err := s.forOne(one)
			if err != nil {
				return false, err
			}
			defer undo()
			rest = strings.Clone(rest)
			return true, s.statement(ctx, rest, s.readShape(rest))
		}
	}
	text, back, done, err := s.preparedByText(ctx, t)
	defer back()
	if err != nil || done {
		return done, err
	}
	if text != "" {
		return true, s.statement(ctx, text, s.readShape(text))
	}
	return s.selectInto(ctx, t)
}

// readText is the statement's text, read under the settings that it was planned with.
func (r *request) readText(s *session) *spoken.Text {
	if r.text == nil || r.text.SQL != r.sql {
		r.text = s.textOf(r.sql)
	}
	return r.text
}

// clientRequest is that of the client's statement, in room that is kept until the next one: what is left is set by who
// calls, since a copy of all is dear.
func (s *session) clientRequest(sql string, start time.Time) *request {
	r := &s.room.request
	if !r.start.IsZero() { // the command's last statement's
		*r = request{}
	}
	r.sql, r.start, r.sent = sql, start, true
	return r
}

// readShape reads a statement into s.shape, if it has one.
func (s *session) readShape(sql string) bool {
	return s.proxy.planner.ReadShape(&s.shape, sql, &s.settings.planning)
}

// textOf is a statement's text, to be read once for all that is asked of it.
func (s *session) textOf(sql string) *spoken.Text {
	return spoken.Read(sql, s.settings.planning, s.catalog())
}

// planned is the plan that s.shape has already, or gets now. What only the session
// knows is in no such statement (ofSession), nor may its catalog be its own.
func (s *session) planned() *plan.Rows {
	if s.temporary != nil {
		return nil
	}
	return s.proxy.planner.Find(&s.shape, s.catalog())
}

// asksFileCharset finds who asks back for what SET character_set_database has set.
var asksFileCharset = regexp.MustCompile(`(?i)@@(session\.|local\.)?(character_set_database|collation_database)\s*($|[^\s:=])`)

// changing are values that may be others at each execution of a prepared statement,
// beside the counts and Shunt's own variables.
var changing = []string{"found_rows", "shunt_read_from", "shunt_virtual_columns", "shunt_index_reads", "resultset_metadata", "completion_type", "autocommit", "sql_select_limit"}

// ofSession puts what only this session knows into a statement: its user and
// number, and those of warnings and errors. passing: some of that, of one that is
// prepared, holds for one execution.
func (s *session) ofSession(ctx context.Context, t *spoken.Text, prepared bool) (_ *spoken.Text, passing bool, err error) {
	s.diag.spliced = 0
	if s.settings.fileCharset != "" && asksFileCharset.MatchString(t.SQL) {
		return nil, false, refuse("@@character_set_database after SET character_set_database is not supported: no shard's connection has that value")
	}
	var failed error
	out, err := t.ForSession(func(what string) string {
		if name, ok := spoken.UsedLock(what); ok {
			passing = true
			owner, err := s.lockOwner(ctx, name)
			failed = cmp.Or(failed, err)
			return owner
		}
		if what == "found_rows" {
			s.diag.spliced++
		}
		passing = passing || strings.HasSuffix(what, "_count") || s.settings.own.named(what) != nil || slices.Contains(changing, what)
		if what == "autocommit" && s.settings.autocommit && s.tx == nil && !prepared {
			return spoken.AsItIs // so it is with every connection of the pools
		}
		switch {
		case what == "row_count":
			return fmt.Sprint(s.diag.changed) // the statement before, until this one has begun
		case prepared && strings.HasSuffix(what, "_count") && opensTables(t):
			return "0" // at EXECUTE a server forgets warnings before it looks
		}
		return fmt.Sprint(s.told(what))
	})
	if err = cmp.Or(failed, err); err != nil || out == t.SQL {
		return t, false, err
	}
	return s.textOf(out), passing && prepared, nil
}

// opensTables reports a statement that isn't just a SELECT of expressions.
func opensTables(t *spoken.Text) bool {
	st, err := t.Statement()
	return err != nil || !st.Is(0, "select") || st.Has("from")
}

// found is an error where a statement has FOUND_ROWS(), which isn't known.
func (s *session) found() error {
	if s.diag.spliced > 0 && s.diag.found == noFound {
		return errFound
	}
	return nil
}

// plan makes a statement's plan under the current settings and catalog. A table
// or schema that the catalog lacks may have been made behind Shunt's back, and those
// about which shards disagreed may be alike by now: the shards are asked once more
// before the client is told.
func (s *session) plan(ctx context.Context, sql string) (plan.Plan, error) {
	return s.planText(ctx, s.textOf(sql))
}

// planText is plan of a text that may have been read already.
func (s *session) planText(ctx context.Context, t *spoken.Text) (plan.Plan, error) {
	plan, err := s.planOnce(ctx, t)
	var e *text.Error
	if err == nil || !errors.As(err, &e) {
		return plan, err
	}
	switch e.Code {
	case mysqlerr.NotSupportedYet:
		if e.Differs {
			return s.planAnew(ctx, t)
		}
		if !e.Unread {
			break
		}
		fallthrough
	case mysqlerr.ParseError:
		if e.Own {
			break
		}
		if told := s.syntaxError(ctx, t.SQL); told != nil {
			return nil, told
		}
	case mysqlerr.NoSuchTable, mysqlerr.BadTable, mysqlerr.UnknownView, mysqlerr.UnknownSequence, mysqlerr.BadDB:
		return s.planAnew(ctx, t)
	}
	return nil, err
}

// planAnew plans once more by what the shards say now.
func (s *session) planAnew(ctx context.Context, t *spoken.Text) (plan.Plan, error) {
	if err := s.proxy.opts.Directory.RefreshUnlessFresh(ctx); err != nil {
		return nil, err
	}
	return s.planOnce(ctx, t)
}

func (s *session) planOnce(ctx context.Context, t *spoken.Text) (plan.Plan, error) {
	leave, err := s.roomToPlan(ctx, t.SQL)
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.proxy.planner.PlanText(t.Under(s.settings.planning, s.catalog()))
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
	if server, ok := errors.AsType[*shard.ServerError](err); ok && server.Code == mysqlerr.ParseError {
		return mysqlerr.Error(*server)
	}
	return nil
}

// maxAsked bounds the bytes of a statement that is only sent to hear what is
// wrong with it.
const maxAsked = 1 << 20

// run executes a plan.
func (s *session) run(ctx context.Context, planned plan.Plan, r *request) (err error) {
	if rows, ok := planned.(*plan.Rows); ok && s.runsPlain(rows) {
		r.plan = rows
		err = s.rows(ctx, r)
		if s.tx != nil && s.tx.victim != nil {
			s.endVictim(ctx, err)
		}
		return err
	}
	if err := s.mayRun(planned, r.readText); err != nil {
		return err
	}
	if gated(planned) {
		if err := s.enterWrite(ctx); err != nil {
			return err
		}
		defer s.leaveWrite()
	}
	if r.sent {
		s.markTransaction(planned, r)
		defer func() { s.marked(err != nil || s.diag.told) }()
	}
	before := s.diag.warnings
	err = s.runPlan(ctx, planned, r)
	if s.tx != nil && s.tx.victim != nil {
		s.endVictim(ctx, err)
	}
	if err == nil && !s.diag.told {
		s.conditionsAfter(planned, before)
	}
	return err
}

// runsPlain reports that all of what run does around a plan's execution is nothing for this one.
func (s *session) runsPlain(plan *plan.Rows) bool {
	return plan.Plain && len(plan.Tables) > 0 && s.tableLocks == nil && s.settings.tracked.transaction == infoOff && !s.rights().limited()
}

// conditionsAfter is what SHOW WARNINGS tells after a statement that succeeded:
// MariaDB keeps what was told before where a statement names no tables and warns of
// nothing. MySQL forgets it, though the statement still reads @@warning_count.
func (s *session) conditionsAfter(planned plan.Plan, before [][][]byte) {
	tells := false
	switch change := planned.(type) {
	case *plan.Rows:
		if change.Kind != plan.Select || len(change.Tables) > 0 {
			return
		}
	case *plan.Session:
	case *plan.Admin:
		// SHOW WARNINGS and SHOW COUNT(*) WARNINGS leave all as it is.
		if tells = s.proxy.own[change.Form].tells; !tells {
			return
		}
	default:
		return
	}
	if s.mariaDB() {
		s.diag.keepBefore(before)
	} else if tells {
		s.diag.forget(before)
	}
}

func (s *session) runPlan(ctx context.Context, planned plan.Plan, r *request) error {
	var kind string
	var err error
	if s.tableLocks != nil {
		if err := s.underLocks(planned); err != nil {
			return err
		}
	}
	switch made := planned.(type) {
	case *plan.Rows:
		r.plan = made
		if made.Kind == plan.Other {
			s.proxy.opts.Unfinished.forget() // what it does to a shard is not known
		}
		return s.rows(ctx, r)
	case *plan.Session:
		s.diag.clear()
		for ; s.diag.spliced > 0 && !s.mariaDB(); s.diag.spliced-- {
			s.diag.add(deprecatedFound())
		}
		kind, err = "session", s.sessionStatement(ctx, made)
	case *plan.DDL:
		kind, err = "ddl", s.ddl(ctx, made, r.sql)
	case *plan.Temporary:
		kind, err = "ddl", s.temporaryTable(ctx, made, r.sql)
	case *plan.Load:
		kind, err = "load", s.load(ctx, made)
	case *plan.LockTables:
		kind, err = "session", s.lockTables(ctx, made, r.sql)
	case *plan.Admin:
		kind, err = "admin", s.answerOwn(ctx, made)
	default:
		return fmt.Errorf("plan %T has no executor", made)
	}
	s.local(kind, r.start)
	return err
}

// sessionStatement changes the session or its transaction.
func (s *session) sessionStatement(ctx context.Context, p *plan.Session) error {
	var err error
	switch p.Op {
	case plan.Begin:
		err = s.beginTransaction(ctx, p)
	case plan.Commit, plan.Rollback:
		err = s.endTransaction(ctx, p)
	case plan.Savepoint, plan.RollbackTo, plan.ReleaseSavepoint:
		err = s.savepoint(ctx, p)
	case plan.Use:
		err = s.use(ctx, p.Schema)
	case plan.SetVariables, plan.SetNames:
		err = s.set(ctx, p)
	case plan.NoOp:
	}
	if err != nil {
		return err
	}
	if p.Op == plan.Begin || s.tx != nil && (p.Op == plan.Commit || p.Op == plan.Rollback) {
		s.begunByClient(p.ConsistentSnapshot)
	}
	if p.Op == plan.Rollback || p.Op == plan.RollbackTo || p.Op == plan.SetVariables || p.Op == plan.SetNames {
		return s.answerOK(wire.OK{Warnings: s.diag.count()})
	}
	return s.answerOK(wire.OK{})
}
