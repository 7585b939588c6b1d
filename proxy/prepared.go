package proxy

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/planner/text"
	"github.com/shunt-sql/shunt/proxy/insights"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// preparedStatement is a statement that the client has prepared. On the shards
// it is prepared on whichever connection executes it (shard.Conn.Prepare).
type preparedStatement struct {
	id     uint32
	sql    string
	source string // sql as the client has it: see ofSession
	// passing: sql is of one execution.
	passing bool
	// virtual: it names virtual columns, which are put into sql. kept is what executes it where their values are kept.
	virtual bool
	kept    *keptStatement
	// plan is nil for what is executed as a text: see Text.OwnParameters.
	plan   plan.Plan
	params int
	// columns are those that the client knows of.
	columns int
	types   []wire.ParamType // as last declared
	long    map[int][]byte   // COM_STMT_SEND_LONG_DATA
	// longErr is what was wrong with such a piece, told at each execution until the
	// statement is reset.
	longErr error
	// had are the types of each parameter's last value that was not NULL.
	had []wire.ParamType
	// use is what typesOf gave last.
	use string
	// own begins uses (shard.Conn.PrepareFor) that no other statement has.
	own string
	// shape is what its executions count for, nil before the first.
	shape *insights.Shape
	// one are the settings that it has by SET STATEMENT, nil for none.
	one *spoken.StatementSettings
	// prepared are the settings under which the client prepared it: they say what
	// its text means, whatever is set since.
	prepared text.Settings
	// fingerprint of the settings under which plan was made.
	fingerprint        string
	limit              selectLimit
	version, temporary uint64
	// cursor is nil where none is open.
	cursor *cursor
}

// executeRoom is what executing a statement uses again and again.
type executeRoom struct {
	request request
	params  []wire.Param
	values  []keys.Value
	binding planner.Binding
}

// preparedStatements are a session's.
type preparedStatements struct {
	byID map[uint32]*preparedStatement
	next uint32
	// byName are those that were prepared by SQL, by name in lower case.
	byName map[string]*preparedText
	// last is what the last COM_STMT_PREPARE made, nil where that failed and on MySQL.
	last *preparedStatement
	// long are the bytes of pieces of parameters.
	long int
	// open counts those of all sessions.
	open prometheus.Gauge
}

var preparedSerial atomic.Uint64

const maxLongData = wire.DefaultMaxPacket

func (p *preparedStatements) init(open prometheus.Gauge) {
	open.Sub(float64(len(p.byID)))
	for _, st := range p.byID {
		st.closeCursor()
	}
	// Numbers go on: who closes a statement of before a reset, late, must not close a
	// younger one.
	*p = preparedStatements{open: open, next: p.next}
}

func (p *preparedStatements) add(st *preparedStatement) {
	if p.byID == nil { // most sessions prepare nothing
		p.byID = map[uint32]*preparedStatement{}
	}
	p.next++
	st.id = p.next
	p.byID[st.id] = st
	p.open.Inc()
}

// lastPrepared stands for the statement that was prepared last: clients of MariaDB send
// COM_STMT_EXECUTE with it behind COM_STMT_PREPARE, without waiting for an answer.
// https://mariadb.com/kb/en/com_stmt_execute/
const lastPrepared = math.MaxUint32

// find is a client's statement, nil for none.
func (p *preparedStatements) find(id uint32) *preparedStatement {
	if id == lastPrepared {
		return p.last
	}
	return p.byID[id]
}

// longData keeps a piece of a parameter. The command has no answer, so a piece
// for an unknown statement is dropped as servers drop it; too many are told at
// the execution.
func (s *session) longData(payload []byte) {
	p := &s.prepared
	if len(payload) < 6 {
		return
	}
	st := p.find(binary.LittleEndian.Uint32(payload))
	if st == nil {
		return
	}
	n := int(binary.LittleEndian.Uint16(payload[4:]))
	switch {
	case n >= st.params:
		st.longErr = mysqlerr.New(mysqlerr.WrongArguments, "Incorrect arguments to mysqld_stmt_send_long_data")
	case p.long+len(payload)-6 > maxLongData:
		st.longErr = mysqlerr.New(mysqlerr.UnknownError, "Parameter of prepared statement which is set through mysql_send_long_data() is longer than 'max_allowed_packet' bytes")
	default:
		st.longErr = s.hold(int64(len(payload) - 6))
	}
	if st.longErr != nil {
		s.dropLong(st)
		return
	}
	p.long += len(payload) - 6
	if st.long == nil {
		st.long = map[int][]byte{}
	}
	if st.long[n] == nil {
		st.long[n] = []byte{} // present, if only with no bytes
	}
	st.long[n] = append(st.long[n], payload[6:]...)
}

func (s *session) dropLong(st *preparedStatement) {
	for _, b := range st.long {
		s.prepared.long -= len(b)
		s.letGoOf(int64(len(b)))
	}
	st.long = nil
}

func (s *session) closePrepared(payload []byte) {
	p := &s.prepared
	if len(payload) < 4 {
		return
	}
	if st := p.find(binary.LittleEndian.Uint32(payload)); st != nil {
		s.dropLong(st)
		s.letGoOf(preparedBytes(st.source))
		st.closeCursor()
		delete(p.byID, st.id)
		if p.last == st {
			p.last = nil
		}
		p.open.Dec()
	}
}

func (s *session) resetPrepared(payload []byte) error {
	p := &s.prepared
	if len(payload) < 4 {
		return errUnknownStmt(0, "mysqld_stmt_reset")
	}
	id := binary.LittleEndian.Uint32(payload)
	st := p.find(id)
	if st == nil {
		return errUnknownStmt(id, "mysqld_stmt_reset")
	}
	s.dropLong(st)
	st.longErr = nil
	st.closeCursor()
	return nil
}

// mayPrepare bounds what one session prepares.
func (s *session) mayPrepare() error {
	if limit := s.proxy.limits.Load().Prepared; len(s.prepared.byID)+len(s.prepared.byName) >= limit {
		return mysqlerr.Newf(mysqlerr.MaxPreparedStmtCountReached, "Can't create more than max_prepared_stmt_count statements (current value: %d)", limit)
	}
	return nil
}

// prepare answers COM_STMT_PREPARE with the definitions that a shard gives for
// the same text.
func (s *session) prepare(ctx context.Context, sql string) error {
	s.prepared.last = nil
	s.activity.doing("Prepare", s.settings.schema, sql, time.Now())
	statements, err := text.Split(sql, s.settings.planning)
	if err != nil {
		if told := s.syntaxError(ctx, sql); told != nil {
			return told
		}
		return err
	}
	if len(statements) == 0 || len(statements) == 1 && strings.TrimRight(statements[0], " \t\n\v\f\r;") == "" {
		return errEmptyQuery
	}
	if len(statements) != 1 {
		if told := s.syntaxError(ctx, sql); told != nil {
			return told
		}
		return mysqlerr.New(mysqlerr.UnsupportedPS, "This command is not supported in the prepared statement protocol yet: give one statement")
	}
	if err := s.mayPrepare(); err != nil {
		return err
	}
	whole := s.textOf(statements[0])
	if err := s.mayText(whole.SQL, whole); err != nil {
		return err
	}
	if err := s.mayHold(preparedBytes(statements[0])); err != nil {
		return err // before it is planned
	}
	one, source, err := whole.SetStatement()
	if err != nil {
		return err
	}
	undo, err := s.forOne(one)
	if err != nil {
		return err
	}
	defer undo()
	text := whole
	if one != nil {
		text = s.textOf(source)
	}
	text, passing, err := s.ofSession(ctx, text, true)
	if err != nil {
		return err
	}
	if into, query := text.Into(); len(into) > 0 {
		return s.prepareInto(ctx, statements[0], len(into), s.textOf(query))
	}
	virtual := false
	if put := s.putVirtual(ctx, text, nil, false); put != text.SQL {
		virtual = true
		defer s.withVirtual()()
		text = s.textOf(put)
	}
	st := &preparedStatement{source: source, passing: passing, virtual: virtual, one: one, prepared: s.settings.planning, own: fmt.Sprint("own ", preparedSerial.Add(1))}
	if err := s.replan(ctx, st, text); err != nil {
		if n := whole.OwnParameters(); n > 0 {
			return s.prepareOwn(ctx, statements[0], n)
		}
		return err
	}
	if err := s.mayRun(st.plan, func(*session) *spoken.Text { return text }); err != nil {
		return err
	}
	if s.neverPrepared(st.plan) {
		return errNotPrepared
	}
	params, columns, warnings, err := s.definitions(ctx, st.plan, st.sql)
	if err != nil {
		return err
	}
	return s.keepPrepared(st, params, columns, warnings)
}

// neverPrepared reports what servers don't prepare: drivers send it as a text then.
func (s *session) neverPrepared(planned plan.Plan) bool {
	if a, own := planned.(*plan.Admin); own && !s.mariaDB() {
		return a.Form == spoken.ShowWarnings || a.Form == spoken.ShowErrors || a.Form == spoken.ShowCount
	}
	_, load := planned.(*plan.Load)
	return load
}

// definitions are those of a statement's parameters and columns.
func (s *session) definitions(ctx context.Context, planned plan.Plan, sql string) (params, columns [][]byte, warnings uint16, err error) {
	s.diag.clear()
	switch planned := planned.(type) {
	case *plan.Rows:
		def, err := s.describe(ctx, planned, sql)
		if err != nil {
			return nil, nil, 0, err
		}
		return def.Params, def.Columns, def.Warnings, nil
	case *plan.Admin:
		if o := s.proxy.own[planned.Form]; o.columns != nil {
			for _, c := range s.ownColumns(o.columns(s, planned)) {
				columns = append(columns, c.Append(nil))
			}
		}
	case *plan.Session, *plan.DDL, *plan.Load, *plan.LockTables, *plan.Temporary:
	}
	return nil, columns, 0, nil
}

// keepPrepared keeps a statement, and tells the client what it has.
func (s *session) keepPrepared(st *preparedStatement, params, columns [][]byte, warnings uint16) error {
	if err := s.hold(preparedBytes(st.source)); err != nil {
		return err
	}
	st.params, st.columns = len(params), len(columns)
	s.prepared.add(st)
	if s.catalog().MariaDB {
		s.prepared.last = st
	}
	return s.clientError(s.client.WritePrepareOK(wire.PrepareOK{StatementID: st.id, Warnings: warnings}, params, columns, s.status()))
}

// prepareOwn prepares a statement with parameters that Shunt executes itself.
func (s *session) prepareOwn(ctx context.Context, sql string, n int) error {
	if told := s.syntaxError(ctx, sql); told != nil {
		return told
	}
	s.diag.clear()
	params := make([][]byte, n)
	for i := range params {
		params[i] = (&wire.Column{Name: "?", Type: mysql.MYSQL_TYPE_VAR_STRING, Charset: binaryCollation, Flags: mysql.BINARY_FLAG}).Append(nil)
	}
	return s.keepPrepared(&preparedStatement{source: strings.Clone(sql), prepared: s.settings.planning}, params, nil, 0)
}

// prepareInto prepares SELECT ... INTO @a, which Shunt executes as a text: query is without its INTO of
// some variables.
func (s *session) prepareInto(ctx context.Context, sql string, variables int, query *spoken.Text) error {
	planned, err := s.planPrepared(ctx, query.SQL, query)
	if err != nil {
		return err
	}
	if err := s.mayRun(planned, func(*session) *spoken.Text { return query }); err != nil {
		return err
	}
	params, columns, warnings, err := s.definitions(ctx, planned, query.SQL)
	if err != nil {
		return err
	}
	if len(columns) != variables && !s.mariaDB() { // which tells at EXECUTE
		return errColumnsInto
	}
	return s.keepPrepared(&preparedStatement{source: strings.Clone(sql), prepared: s.settings.planning}, params, nil, warnings)
}

// replan plans a prepared statement again when its text, if it isn't nil, or what it was planned with has
// changed. REQUIRES: the current schema is that of its preparation.
func (s *session) replan(ctx context.Context, st *preparedStatement, text *spoken.Text) error {
	c := s.catalog()
	if text != nil && text.SQL != st.sql {
		st.sql, st.plan = text.SQL, nil
	}
	if st.plan != nil && st.version == c.Version && st.temporary == s.temporarySerial && st.fingerprint == s.settings.fingerprint && st.limit == s.settings.own.limit {
		return nil
	}
	plan, err := s.planPrepared(ctx, st.sql, text)
	if err != nil {
		return err
	}
	st.plan, st.version, st.fingerprint = plan, c.Version, s.settings.fingerprint
	st.temporary, st.limit = s.temporarySerial, s.settings.own.limit
	return nil
}

// planPrepared is plan; drivers prepare the same text again and again.
func (s *session) planPrepared(ctx context.Context, sql string, text *spoken.Text) (plan.Plan, error) {
	if s.temporary == nil {
		if rows := s.proxy.planner.FindText(sql, &s.settings.planning, s.catalog()); rows != nil {
			return rows, nil
		}
	}
	if text == nil {
		text = s.textOf(sql)
	}
	return s.planText(ctx, text)
}

// knowing are the shards that have all tables of a plan.
func knowing(plan *plan.Rows) catalog.ShardSet {
	all := plan.Catalog.All
	for _, t := range plan.Tables {
		if !t.Shards.Empty() {
			all = all.Intersect(t.Shards)
		}
	}
	return all
}

// describe prepares the text on one shard that can know it, for its parameter
// and column definitions.
func (s *session) describe(ctx context.Context, rows *plan.Rows, sql string) (*shard.Stmt, error) {
	// What is known from before an ALTER has the old columns.
	use := fmt.Sprint("describe ", rows.Catalog.Version)
	if s.needTemporary(rows.Tables); s.temporaryNeeded() {
		use += fmt.Sprint(" ", s.temporarySerial)
	}
	if rows.Kind == plan.Locking && s.settings.readOnly() {
		use += " read only" // which a server may refuse, unlike what it has prepared
	}
	all := knowing(rows)
	if all.Empty() {
		return nil, refuse("preparing a statement of tables that no shard has all of is not supported: send it as text")
	}
	if s.mayNotWrite(rows) {
		return nil, s.readOnlyTransaction()
	}
	if s.tableLocks != nil {
		if err := s.underLocks(rows); err != nil {
			return nil, err
		}
	}
	var st *shard.Stmt
	err := s.onOneOf(ctx, all, func(conn *shard.Conn) error {
		undo, err := s.inAccessMode(ctx, conn, rows)
		if err != nil {
			return err
		}
		if st, err = conn.PrepareFor(ctx, sql, use); err == nil && st.Warnings > 0 && st.Warned == nil {
			if shown, err := conn.Query(ctx, "SHOW WARNINGS"); err == nil {
				st.Warned = shown.Rows
			}
		}
		return errors.Join(err, undo())
	})
	if err != nil {
		return nil, err
	}
	s.diag.replace(slices.Clone(st.Warned)...)
	return st, nil
}

// onOneOf has one of some shards say something of a text that it isn't to run. REQUIRES: there
// is one.
func (s *session) onOneOf(ctx context.Context, all catalog.ShardSet, do func(*shard.Conn) error) error {
	ask := func(where catalog.ShardID, conn *shard.Conn) error {
		s.activity.sent(where, conn) // DDL may keep it waiting
		defer s.activity.done(conn)
		if err := do(conn); err != nil {
			return s.shardError(where, err)
		}
		return nil
	}
	// In a transaction it must be one of its shards where that can be: another
	// connection would wait for a DDL that waits for the transaction. No shard
	// joins for this: the transaction would fail with a shard that it never
	// needed.
	if s.tx != nil {
		for _, where := range s.tx.order {
			if all.Has(where) {
				conn, err := s.tx.conn(ctx, where)
				if err != nil {
					return err
				}
				return ask(where, conn)
			}
		}
	}
	for again := false; ; {
		where := s.livelyOf(all)
		err := func() error {
			tx, distrust := s.tx, s.distrust
			s.tx, s.distrust = nil, again
			defer func() { s.tx, s.distrust = tx, distrust }()
			conn, err := s.borrowPooled(ctx, where)
			if err != nil {
				return err
			}
			defer s.putBack(where, conn)
			return ask(where, conn)
		}()
		if err == nil || !unreachable(err) {
			return err
		}
		if !again && coded(err).Code == mysqlerr.ShardLost {
			again = true
			continue
		}
		again = false
		// Any other will do.
		if all = all.Minus(catalog.Only(where)); all.Empty() {
			return err
		}
	}
}

// executePrepared answers COM_STMT_EXECUTE.
func (s *session) executePrepared(ctx context.Context, payload []byte) error {
	id, flags, ok := wire.ExecuteHeader(payload)
	st := s.prepared.find(id)
	if !ok || st == nil {
		return errUnknownStmt(id, "mysqld_stmt_execute")
	}
	if flags&^(wire.ParameterCount|mysql.CURSOR_TYPE_READ_ONLY) != 0 {
		return refuse("cursors that are not read-only are not supported; execute the statement with a read-only one")
	}
	st.closeCursor()
	s.diag.unanswered()
	err := s.executeWith(ctx, st, payload, flags)
	s.measure(err)
	if st.long != nil {
		s.dropLong(st)
	}
	return err
}

// executeWith executes a prepared statement with a command's parameters.
func (s *session) executeWith(ctx context.Context, st *preparedStatement, payload []byte, flags byte) error {
	if st.longErr != nil {
		return st.longErr
	}
	params, types, err := wire.DecodeExecute(s.room.params, payload, st.params, st.types, st.long, s.client.Capabilities&mysql.CLIENT_QUERY_ATTRIBUTES != 0, s.traced())
	if err != nil {
		return err
	}
	st.types, s.room.params = types, params
	st.remember(params)
	if err := meansTheSame(st.source, &st.prepared, &s.settings.planning); err != nil {
		return err
	}
	if st.prepared.Schema != s.settings.schema {
		defer s.inSchema(st.prepared.Schema)()
	}
	if st.plan == nil {
		text, err := s.textOf(st.source).WithValues(s.paramValues(params, nil))
		if err != nil {
			return err
		}
		return s.statement(ctx, text, false)
	}
	if st.one != nil {
		undo, err := s.forOne(st.one)
		if err != nil {
			return err
		}
		defer undo()
	}
	return s.executePlan(ctx, st, params, flags)
}

// executePlan executes a prepared statement by its plan.
func (s *session) executePlan(ctx context.Context, st *preparedStatement, params []wire.Param, flags byte) error {
	var text *spoken.Text
	if st.passing {
		var err error
		if text, _, err = s.ofSession(ctx, s.textOf(st.source), true); err == nil {
			err = s.found()
		}
		if err != nil {
			return err
		}
	}
	if st.virtual || spoken.MayNameVirtual(st.source, s.catalog()) {
		if err := s.mayText(st.source, nil); err != nil {
			return err
		}
		if done, err := s.executeKept(ctx, st, params, flags); done {
			return err
		}
		if text == nil {
			text = s.textOf(st.source)
		}
		put := s.putVirtual(ctx, text, s.paramValues(params, nil), true)
		if st.virtual = put != text.SQL; st.virtual {
			defer s.withVirtual()()
		}
		text = s.textOf(put)
	}
	if err := s.replan(ctx, st, text); err != nil {
		return err
	}
	if !st.virtual {
		if err := s.mayText(st.sql, nil); err != nil {
			return err
		}
	}
	return s.inBinary(st, st, params, s.paramValues(params, st.plan), func(r *request) error {
		if flags&mysql.CURSOR_TYPE_READ_ONLY != 0 {
			return s.openCursor(ctx, st, func() error { return s.run(ctx, st.plan, r) })
		}
		return s.run(ctx, st.plan, r)
	})
}

// inBinary executes a prepared statement of the client's by do, with answers of the binary protocol: the one that is sent,
// with parameters and their values.
func (s *session) inBinary(st, sent *preparedStatement, params []wire.Param, values []keys.Value, do func(*request) error) error {
	start := s.start()
	s.measuringPrepared(st, start)
	s.activity.doing("Execute", s.settings.schema, st.sql, start)
	s.begun()
	s.binary = true
	s.client.Knows(st.columns)
	defer func() { s.binary, st.columns = false, s.client.Knows(0) }()
	r := s.clientRequest(sent.sql, start)
	r.prepared, r.params, r.values = sent, params, values
	return do(r)
}

// inSchema makes a schema the current one until back is called. A server executes
// what is prepared in the schema in which it was prepared.
//
// Counter-example: prepare INSERT INTO t VALUES (?), USE other, execute: the row is
// not for other.t.
func (s *session) inSchema(name string) (back func()) {
	was := s.settings.schema
	s.settings.schema = name
	s.settings.update(s.catalog())
	return func() {
		s.settings.schema = was
		s.settings.update(s.catalog())
	}
}

// meansTheSame refuses a text that the shards would read in another way now, since
// they are given it anew: a server has read it when it was prepared.
//
// Counter-example: prepare INSERT INTO t VALUES ('é') by a utf8mb4 client, SET NAMES
// latin1, execute: each byte of é would become a character.
func meansTheSame(sql string, was, now *text.Settings) error {
	changed := was.Unlike(now, sql)
	if changed == "" {
		return nil
	}
	return refuse("executing a statement that was prepared before %s was set otherwise, and would mean something else now, is not supported: prepare it again", changed)
}

// sendPrepared executes a statement's prepared form on a connection.
func (s *session) sendPrepared(ctx context.Context, conn *shard.Conn, r *request, st plan.ShardStatement) error {
	params := r.params
	if st.Params != nil {
		params = make([]wire.Param, len(st.Params))
		for i, n := range st.Params {
			if n >= len(r.params) {
				params[i] = generatedParam(r.generated[n-len(r.params)])
				continue
			}
			params[i] = r.params[n]
		}
	}
	sql := s.headed(st.SQL)
	types := r.prepared.typesOf(params, st.Params)
	prepared, err := conn.PrepareFor(ctx, sql, types)
	if err == nil && len(params) == len(prepared.ParamTypes) && textForOther(params, prepared.ParamTypes) {
		prepared, err = conn.PrepareFor(ctx, sql, r.prepared.own+types)
	}
	if err != nil {
		return s.unsent(st.Shard, err)
	}
	if len(params) != len(prepared.Params) {
		return errors.New("shard counts other parameters than the client's statement has")
	}
	if err := s.sayOnce(ctx, conn, r, st.Shard); err != nil {
		return err
	}
	conn.Timed = s.timed(r)
	if err := conn.Execute(prepared, sql, params); err != nil {
		return s.sendFailed(st.Shard, conn, err)
	}
	return nil
}

// writeBinary writes rows of our own in the binary protocol.
func (s *session) writeBinary(cols []wire.Column, rows [][]any, warnings uint16) error {
	if err := s.client.WriteColumns(cols, s.status()|s.more); err != nil {
		return err
	}
	for _, row := range rows {
		nulls := make(wire.Nulls, wire.NullsLen(len(row)))
		var values []byte
		for i, v := range row {
			if v == nil {
				nulls.Set(i)
				continue
			}
			values = wire.AppendBinary(values, cols[i].Type, fmt.Sprint(v))
		}
		if err := s.client.WritePacket(append(append([]byte{0}, nulls...), values...)); err != nil {
			return err
		}
	}
	return s.client.WriteEnd(s.status()|s.more, warnings)
}
