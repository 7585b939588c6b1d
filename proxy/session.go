package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/proxy/door"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// session is one client's connection and all its state. Everything but activity is
// touched by its own goroutine alone.
type session struct {
	proxy    *Proxy
	log      *slog.Logger
	client   *wire.Conn
	settings settings
	tx       *transaction // nil outside of a transaction
	// savepoints are those made without autocommit before a transaction has begun: they are the next one's.
	savepoints []string
	prepared   preparedStatements
	// turnKept is Cluster.TurnKept of the turn of DDL that shards do while others have the turn of all; nil outside.
	turnKept func() error
	// held are bytes: see hold.
	held int64
	// shape is that of the text that is worked on.
	shape planner.Shape
	room  executeRoom
	// setStatement is what SET STATEMENT sets for the statement at hand, nil for nothing.
	setStatement *spoken.StatementSettings
	// temporary is nil without temporary tables. temporarySerial changes with them.
	temporary       *temporaries
	temporarySerial uint64
	namedLocks      *namedLocks // nil without locks by name
	// holdsReadLock: the global one (readLock). writes counts what it has under way, which passed its gate.
	holdsReadLock bool
	writes        int
	tableLocks    *tableLocks // nil outside of LOCK TABLES
	// copies are those of reference tables that its transaction, or statement, shares; lockedCopies
	// those that its LOCK TABLES does.
	copies, lockedCopies held
	diag                 diagnostics
	// more is SERVER_MORE_RESULTS_EXISTS while statements of the same query
	// follow, else 0.
	more uint16
	// distrust: an idle connection was dead that had looked alive, and what it was
	// for is done again over new ones.
	distrust bool
	// poolable: the last command did something for its own sake, after which a client
	// gives a connection back to its pool; not PREPARE, PING, SET, after which it
	// goes on at once.
	poolable bool
	// patience is with shards whose answers are awaited together.
	patience patience
	// parent is the trace that the command belongs to.
	parent  wire.WantedAttribute
	reading *reading // nil for a statement that reads from the primaries
	// release: COMMIT RELEASE or ROLLBACK RELEASE ends the connection.
	release bool
	// unheard are warnings of members whose clients the last list of processes lacks.
	unheard []string
	// cutsShown: sql_select_limit is for the rows of what Shunt answers.
	cutsShown bool
	// binary: a prepared statement is executed, whose rows are binary.
	binary bool

	activity activity
	// came is when the command came, zero once a statement has begun then; answered when the last
	// statement was counted; metered are the metrics that it counted for.
	came, answered time.Time
	metered        *outcomeMetrics
	measured       measured
	covering       covering
	// changes are those that the client has not been told of.
	changes sessionChanges
	known   known
	account account
}

// activity is what Drain looks at from another goroutine.
type activity struct {
	// ending is held while statements on the shards are killed, which may take until a shard
	// is judged dead. It comes before mu, which all who look at sessions wait for.
	ending sync.Mutex
	mu     sync.Mutex
	busy   bool // a command is being worked on, or a transaction is open
	client *wire.Conn
	// waiting for a command, for patience at most; expired when it took longer.
	waiting, expired bool
	patience         time.Duration
	// interrupted: KILL QUERY was asked for while the command was worked on.
	interrupted bool
	// outlives: the command goes on when the client has gone, and leaving, that it is being ended
	// since the client has.
	outlives, leaving bool
	// cancel ends what isn't in running: a gather.
	cancel context.CancelCauseFunc
	// What SHOW PROCESSLIST shows, and what KILL ends on the shards. waitsFor is what is waited for here, not there.
	command, schema, info, waitsFor string
	since                           time.Time
	running                         []sent
	// committing are the connections over which a transaction is told to commit, which KILL lets be.
	committing []sent
}

func stack() string { return string(debug.Stack()) }

// serve serves a client that has been greeted.
func (s *session) serve(ctx context.Context, conn *wire.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.client = conn
	s.activity.mu.Lock()
	s.activity.client = conn
	s.activity.mu.Unlock()
	defer s.end()
	if s.welcome(ctx) {
		s.loop(ctx)
	}
}

// welcome finishes the handshake, which needs the catalog.
func (s *session) welcome(ctx context.Context) (ok bool) {
	s.settings = newSettings(s.catalog(), int(s.client.Charset), "", s.proxy.ownDefaults(s.client.Capabilities))
	s.heedFlags()
	s.obey()
	if s.client.Capabilities&mysql.CLIENT_SESSION_TRACK != 0 {
		s.client.Changes = s.tellChanges
	}
	s.prepared.init(s.proxy.metrics.prepared)
	err := s.admit()
	if err == nil {
		err = checkCharset(s.settings.charset)
	}
	if err == nil && s.client.Schema != "" {
		err = s.use(ctx, s.client.Schema)
	}
	if err != nil {
		s.proxy.metrics.logins.WithLabelValues("failed").Inc()
		_ = s.answerError(err)
		_ = s.client.Flush()
		return false
	}
	s.proxy.metrics.logins.WithLabelValues("ok").Inc()
	_ = s.answerOK(wire.OK{})
	return s.client.Begin() == nil
}

// heedFlags is for what a client asks for by a flag of its handshake: the SQL mode
// IGNORE_SPACE, as Node.js's drivers do.
func (s *session) heedFlags() {
	if s.client.Capabilities&mysql.CLIENT_IGNORE_SPACE != 0 {
		s.settings.ignoreSpace(s.catalog())
	}
}

// loop reads commands until the client goes or the proxy drains.
func (s *session) loop(ctx context.Context) {
	for s.next(ctx) {
	}
}

// next reads a command and answers it. It returns false at the session's end.
func (s *session) next(ctx context.Context) bool {
	s.idle()
	command, payload, err := s.client.ReadCommand()
	if err != nil && s.proxy.draining.Load() && s.client.Came(err) {
		command, payload, err = s.client.ReadCommand()
	}
	if ended := s.begin(err == nil); ended != nil {
		if errors.Is(ended, errShutdown) {
			// To a client that is idle a connection that ends says more than an
			// error that it would take for its next statement's.
			_ = s.client.FlushLast()
			return false
		}
		if !errors.Is(ended, errIdle) || !s.mariaDB() {
			if err != nil {
				s.client.Writer().SetSequence(0) // an answer to no command
			}
			_ = s.answerError(ended)
			_ = s.client.Flush()
		}
		return false
	}
	if s.proxy.draining.Load() {
		_ = s.client.SetReadDeadline(time.Time{}) // drain's
	}
	if err != nil {
		return false // what the client can be told, ReadCommand has told
	}
	if command == mysql.COM_QUIT {
		return false
	}
	if err := s.command(ctx, command, payload); err != nil {
		s.log.Info("session ended", "error", err, "program", s.client.Attrs.Get("program_name"))
		_ = s.client.Flush()
		return false
	}
	if s.proxy.draining.Load() && s.tx == nil && s.tableLocks == nil && !s.holdsReadLock && s.poolable && s.client.Writer().Buffered() > 0 {
		// A client that has its answer already may have sent its next statement.
		_ = s.client.FlushLast()
		return false
	}
	return s.client.Flush() == nil && !s.release
}

// command answers one command. An error ends the session; everything that the
// client can be told has been.
func (s *session) command(ctx context.Context, command byte, payload []byte) error {
	s.poolable = false
	s.came = time.Now()
	var err error
	switch command {
	case mysql.COM_QUERY:
		if s.client.Capabilities&mysql.CLIENT_QUERY_ATTRIBUTES != 0 {
			payload, err = wire.QueryText(payload, s.traced())
		}
		if err == nil {
			err = s.query(ctx, view(wire.WithoutNUL(payload)))
		}
	case mysql.COM_PING:
		err = s.answerOK(wire.OK{})
	case mysql.COM_INIT_DB:
		if err = s.use(ctx, string(payload)); err == nil {
			err = s.answerOK(wire.OK{})
		} else {
			s.diag.over = s.diag.warnings // they stay
		}
	case mysql.COM_STMT_PREPARE:
		err = s.prepare(ctx, string(wire.WithoutNUL(payload)))
	case mysql.COM_STMT_EXECUTE:
		err = s.executePrepared(ctx, payload)
	case mysql.COM_STMT_FETCH:
		err = s.fetch(payload)
	case mysql.COM_STMT_SEND_LONG_DATA:
		s.longData(payload)
		return nil // this command has no answer
	case mysql.COM_STMT_CLOSE:
		s.closePrepared(payload)
		return nil // nor has this
	case mysql.COM_STMT_RESET:
		if err = s.resetPrepared(payload); err == nil {
			err = s.answerOK(wire.OK{})
		}
	case mysql.COM_FIELD_LIST:
		err = s.fieldList(ctx, payload)
	case comResetConnection:
		charset := int(s.client.Charset)
		if !s.catalog().MariaDB {
			charset = 0 // MySQL falls back to its own, MariaDB to the client's
		}
		if err = s.resetConnection(ctx, charset); err == nil {
			err = s.answerOK(wire.OK{})
		}
	case mysql.COM_CHANGE_USER:
		if err = s.changeUser(ctx, payload); err == nil {
			err = s.answerOK(wire.OK{})
		} else {
			s.release = true // as servers do
		}
	case mysql.COM_PROCESS_KILL:
		if err = s.processKill(ctx, payload); err == nil {
			err = s.answerOK(wire.OK{})
		}
	case mysql.COM_STATISTICS:
		// mysqladmin takes its second word for the uptime.
		err = s.client.WritePacket(fmt.Appendf(nil, "Uptime: %d  Threads: %d", int(time.Since(s.proxy.began).Seconds()), s.proxy.sessions.len()))
	case mysql.COM_SET_OPTION:
		err = s.setOption(payload)
	default:
		err = mysqlerr.Newf(mysqlerr.UnknownCommand, "Command %d is not supported by Shunt", command)
	}
	if command == mysql.COM_QUERY || command == mysql.COM_STMT_EXECUTE {
		s.room.request = request{} // what it holds may be large
		s.parent.Value = ""
	} else {
		s.local("session", s.start())
	}
	return s.finish(err)
}

// start is when a statement begins: of the first one of a command, when that came.
func (s *session) start() time.Time {
	if s.came.IsZero() {
		return time.Now()
	}
	at := s.came
	s.came = time.Time{}
	return at
}

// finish tells the client of an error, if it still can be told. What it returns
// ends the session.
func (s *session) finish(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, shard.ErrClient), errors.Is(err, errHalfAnswered):
		return err
	}
	e := coded(err)
	s.noteSection(e)
	s.diag.end(e.Code, e.Message)
	return s.answerError(err)
}

// errHalfAnswered: the client has got a part of an answer whose rest is lost.
// All that is left is to end the connection, or it would take what follows for
// that rest.
var errHalfAnswered = errors.New("answer broken off")

const comResetConnection = 0x1f

func (s *session) setOption(payload []byte) error {
	if len(payload) != 2 || payload[0] > 1 || payload[1] != 0 {
		return mysqlerr.New(mysqlerr.UnknownCommand, "Unknown command")
	}
	if payload[0] == 0 {
		s.client.Capabilities |= mysql.CLIENT_MULTI_STATEMENTS
	} else {
		s.client.Capabilities &^= mysql.CLIENT_MULTI_STATEMENTS
	}
	return s.client.WriteEnd(s.status(), 0)
}

// begun says that a statement begins.
func (s *session) begun() {
	s.diag.begin()
	s.cutsShown = false
}

// status is the flags of OK and EOF packets: the session's, never a shard's.
func (s *session) status() uint16 {
	var f uint16
	if s.settings.autocommit {
		f |= mysql.SERVER_STATUS_AUTOCOMMIT
	}
	if s.tx != nil && !s.tx.hidden {
		f |= mysql.SERVER_STATUS_IN_TRANS
		if s.tx.chosen.access == readOnly {
			f |= mysql.SERVER_STATUS_IN_TRANS_READONLY
		}
	}
	if s.settings.planning.NoBackslashEscapes {
		f |= mysql.SERVER_STATUS_NO_BACKSLASH_ESCAPED // clients escape by it
	}
	if s.settings.planning.ANSIQuotes && s.catalog().MariaDB {
		f |= statusANSIQuotes
	}
	return f
}

// statusANSIQuotes is MariaDB's SERVER_STATUS_ANSI_QUOTES.
const statusANSIQuotes = 0x8000

// sessionStatus are the flags that a shard's answer says nothing of. Those of cursors
// are left in it by the ones that a procedure has open: to a client they would mean
// that the rows wait to be fetched.
const sessionStatus = statusANSIQuotes | mysql.SERVER_STATUS_CURSOR_EXISTS | mysql.SERVER_STATUS_LAST_ROW_SEND | mysql.SERVER_SESSION_STATE_CHANGED | mysql.SERVER_STATUS_AUTOCOMMIT | mysql.SERVER_STATUS_IN_TRANS | mysql.SERVER_STATUS_IN_TRANS_READONLY | mysql.SERVER_STATUS_NO_BACKSLASH_ESCAPED

func (s *session) answerOK(ok wire.OK) error {
	s.diag.ok(ok.Affected)
	ok.Status |= s.status() | s.more
	return s.clientError(s.client.WriteOK(ok))
}

func (s *session) answerRows(cols []wire.Column, rows [][]any) error {
	return s.answerWarned(cols, rows, 0)
}

// writeDefinitions begins an answer whose columns a shard has defined.
func (s *session) writeDefinitions(definitions [][]byte) error {
	if err := s.client.WriteCount(len(definitions)); err != nil {
		return s.clientError(err)
	}
	for _, d := range definitions {
		if err := s.client.WriteDefinition(d); err != nil {
			return s.clientError(err)
		}
	}
	return s.clientError(s.client.WriteColumnsEnd(s.status() | s.more))
}

func (s *session) answerWarned(cols []wire.Column, rows [][]any, warnings uint16) error {
	s.diag.answers(len(rows))
	s.measured.Rows += int64(len(rows))
	cols = s.ownColumns(cols)
	if s.binary {
		return s.clientError(s.writeBinary(cols, rows, warnings))
	}
	return s.clientError(s.client.WriteResult(cols, rows, s.status()|s.more, warnings))
}

// ownColumns gives Shunt's own texts the collation of the session's results, if
// these are in UTF-8 as the texts are.
func (s *session) ownColumns(cols []wire.Column) []wire.Column {
	cols = slices.Clone(cols)
	for i, c := range cols {
		if c.Charset == wire.TextCharset && s.settings.collationID != 0 {
			cols[i].Charset = s.settings.collationID
		}
	}
	return cols
}

func (s *session) answerError(err error) error {
	e := coded(err)
	if s.settings.restricted {
		e.Code, e.Message = s.veiled(e.Code, e.Message)
	}
	s.proxy.metrics.failed(e.Code)
	if e.Code == mysqlerr.NotSupportedYet {
		s.proxy.metrics.refused.Inc()
	}
	return s.clientError(s.client.WriteError(e))
}

func (s *session) clientError(err error) error {
	if err != nil && !errors.Is(err, shard.ErrClient) {
		err = fmt.Errorf("%w: %w", shard.ErrClient, err)
	}
	return err
}

// use changes the current schema, which one shard at least must have.
func (s *session) use(ctx context.Context, schema string) error {
	if schema == "" {
		return errNoDatabase
	}
	if u := s.rights(); !s.sees(schema) || u.Schemas != nil && catalog.IsSystemSchema(schema) {
		return s.noSchema(schema)
	}
	for _, own := range catalog.OwnSchemas {
		if strings.EqualFold(schema, own) {
			return spoken.OwnSchema(own)
		}
	}
	known := catalog.IsSystemSchema(schema) || s.catalog().Schema(schema) != nil
	if !known {
		// It may have been made behind Shunt's back.
		if err := s.proxy.opts.Directory.RefreshUnlessFresh(ctx); err != nil {
			return err
		}
		known = s.catalog().Schema(schema) != nil
	}
	if !known {
		return mysqlerr.Newf(mysqlerr.BadDB, "Unknown database '%s'", schema)
	}
	s.settings.schema, s.settings.fileCharset = schema, ""
	s.settings.update(s.catalog())
	s.schemaChanged()
	s.stateChanged()
	return nil
}

// resetConnection begins the session anew, with the character set of a handshake
// that names this collation.
func (s *session) resetConnection(ctx context.Context, charset int) error {
	if err := s.rollback(ctx); err != nil {
		return err
	}
	s.endTableLocks()
	s.endReadLock()
	s.endTemporary()
	s.endLocks()
	s.prepared.init(s.proxy.metrics.prepared)
	s.diag, s.changes, s.known = diagnostics{}, sessionChanges{}, known{}
	s.settings = newSettings(s.catalog(), charset, s.settings.schema, s.proxy.ownDefaults(s.client.Capabilities))
	s.letGoOf(s.held)
	if !s.catalog().MariaDB { // which does so at the log-in alone
		s.heedFlags()
	}
	s.obey()
	s.account.users = nil // the settings have lost what rights had put there
	return nil
}

// denied holds up the answer to a failed log-in.
func (s *session) denied(ctx context.Context, addr net.Addr, user string) {
	failures, wait := s.proxy.denials.Failed(door.HostOf(addr), user, time.Now())
	s.log.Warn("log-in denied", "user", user, "failures_from_address", failures, "answered_in", wait)
	if wait == 0 {
		return
	}
	s.proxy.metrics.heldUp.Inc()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// changeUser begins the session anew as another user.
func (s *session) changeUser(ctx context.Context, payload []byte) error {
	login, err := s.client.ChangeUser(payload, wire.Options{
		Users:  s.proxy.user,
		Denied: func(user string) { s.denied(ctx, s.client.RemoteAddr(), user) },
	})
	outcome := "ok"
	if err != nil {
		outcome = "failed"
	}
	s.proxy.metrics.logins.WithLabelValues(outcome).Inc()
	if err != nil {
		return s.clientError(err) // which has been told
	}
	s.activity.mu.Lock()
	s.client.User, s.client.Schema, s.client.Charset, s.client.Attrs = login.User, login.Schema, login.Charset, login.Attrs
	s.activity.mu.Unlock()
	s.settings.schema = ""
	if err := s.resetConnection(ctx, int(login.Charset)); err != nil {
		return err
	}
	if err := s.admit(); err != nil {
		return err
	}
	if err := checkCharset(s.settings.charset); err != nil || login.Schema == "" {
		return err
	}
	return s.use(ctx, login.Schema)
}

// fieldList answers COM_FIELD_LIST, which old clients complete names with.
func (s *session) fieldList(ctx context.Context, payload []byte) error {
	name, _, _ := cutByte(payload, 0)
	schema := s.settings.schema
	switch {
	case schema == "":
		return errNoDatabase
	case !s.sees(schema):
		return s.noSchema(schema)
	}
	id := s.anyShard()
	if t := s.catalog().Table(schema, name); t != nil && !t.Shards.Empty() {
		id = s.livelyOf(t.Shards)
		s.needTemporary([]*catalog.Table{t})
	}
	conn, err := s.borrow(ctx, id)
	if err != nil {
		return err
	}
	defer s.giveBack(id, conn)
	s.activity.doing("Field List", schema, name, time.Now())
	s.activity.sent(id, conn)
	if err := conn.Send(mysql.COM_FIELD_LIST, payload); err != nil {
		return s.shardError(id, err)
	}
	sum, err := conn.Forward(s.client, shard.FieldList, s.forwardOptions())
	return s.forwarded(id, &sum, err)
}

func cutByte(p []byte, sep byte) (string, []byte, bool) {
	for i, b := range p {
		if b == sep {
			return string(p[:i]), p[i+1:], true
		}
	}
	return string(p), nil, false
}

// end gives back all that the session holds.
func (s *session) end() {
	if s.tx != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.rollback(ctx); err != nil {
			s.log.Info("roll back at the session's end", "error", err)
		}
	}
	s.endTableLocks()
	s.endReadLock()
	s.endTemporary()
	s.endLocks()
	if s.prepared.open != nil {
		s.prepared.init(s.prepared.open)
	}
	s.letGoOf(s.held)
	s.leave()
}

// idle says that the session waits for a command.
func (s *session) idle() {
	if len(s.activity.running) > 0 { // which only the session itself changes
		s.activity.settled()
	}
	s.activity.mu.Lock()
	defer s.activity.mu.Unlock()
	s.activity.busy, s.activity.waiting = s.tx != nil || s.tableLocks != nil || s.holdsReadLock, true
	s.activity.patience = time.Duration(s.settings.own.wait) * time.Second
	if s.answered.IsZero() {
		s.answered = time.Now()
	}
	s.activity.command, s.activity.schema, s.activity.info, s.activity.since = "Sleep", s.settings.schema, "", s.answered
	s.answered = time.Time{}
	s.drainLocked()
}

// begin says that a command has come. It returns why the session ends instead,
// where it was woken while it waited.
func (s *session) begin(come bool) error {
	s.activity.mu.Lock()
	defer s.activity.mu.Unlock()
	switch {
	case s.activity.expired:
		s.proxy.metrics.idle.Inc()
		return errIdle
	case !come && s.proxy.draining.Load() && !s.activity.busy:
		return errShutdown
	}
	s.activity.busy, s.activity.waiting, s.activity.interrupted, s.activity.outlives = true, false, false, false
	return nil
}

// drain wakes a session that waits for a command, so that it ends.
func (s *session) drain() {
	s.activity.mu.Lock()
	defer s.activity.mu.Unlock()
	s.drainLocked()
}

func (s *session) drainLocked() {
	if s.proxy.draining.Load() && !s.activity.busy && s.activity.client != nil {
		_ = s.activity.client.SetReadDeadline(s.activity.since.Add(s.proxy.drainIdle))
	}
}

// kill ends a session whatever it does.
func (s *session) kill() {
	s.activity.mu.Lock()
	client := s.activity.client
	s.activity.mu.Unlock()
	if client != nil {
		_ = client.Close()
	}
}

// catalog is the current one, as this session sees it.
func (s *session) catalog() *catalog.Catalog {
	c := s.proxy.opts.Directory.Catalog()
	t := s.temporary
	if t == nil {
		return c
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.base != c {
		t.base, t.over = c, c.With(t.tables)
	}
	return t.over
}
