package proxy

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// doing notes what SHOW PROCESSLIST shows of a session. sql may be a view.
func (a *activity) doing(command, schema, sql string, since time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.command, a.schema, a.info, a.since = command, schema, sql, since
}

// sent notes a connection that a shard works on a statement of the session on,
// for KILL.
func (a *activity) sent(id catalog.ShardID, conn *shard.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, x := range a.running {
		if x.conn == conn {
			return
		}
	}
	a.running = append(a.running, sent{id, conn})
}

// done forgets a connection before it may become another session's: KILL holds
// ending until it has killed.
func (a *activity) done(conn *shard.Conn) {
	a.ending.Lock()
	defer a.ending.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running = slices.DeleteFunc(a.running, func(x sent) bool { return x.conn == conn })
}

// outlive has the command go on when the client has gone, as DDL that copies a table for
// hours does on a server.
func (a *activity) outlive() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.outlives = true
}

// settled forgets all connections: the shards have answered the statement, and what
// follows on them is Shunt's own. It waits for a KILL that is under way.
//
// Counter-example: a KILL QUERY that meets the COMMIT of a statement's second shard, or
// the ROLLBACK TO that undoes it there: a half of the statement stays.
func (a *activity) settled() {
	a.ending.Lock()
	defer a.ending.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running = a.running[:0]
}

// killed reports that KILL QUERY was asked for since the command came: between two of
// the statements that it is made of there is nothing to kill.
func (a *activity) killed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.interrupted
}

// resume has what undoes a statement run though that was killed.
func (a *activity) resume() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.interrupted = false
}

// killable is ctx, which a KILL ends, or cancel, until done is called: for what isn't one
// statement on one shard.
func (a *activity) killable(ctx context.Context) (_ context.Context, cancel context.CancelCauseFunc, done func()) {
	ctx, cancel = context.WithCancelCause(ctx)
	before := a.cancelBy(cancel)
	return ctx, cancel, func() {
		a.cancelBy(before)
		cancel(nil)
	}
}

// cancelBy notes what KILL calls, and returns what it was to call before.
func (a *activity) cancelBy(cancel context.CancelCauseFunc) (before context.CancelCauseFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before, a.cancel = a.cancel, cancel
	return before
}

// process is a row of SHOW PROCESSLIST.
type process struct {
	id                  uint32
	user, host, command string
	schema, info        string
	since               time.Time
}

func (s *session) process() (p process, ok bool) {
	s.activity.mu.Lock()
	defer s.activity.mu.Unlock()
	c := s.activity.client
	if c == nil {
		return p, false // still in its handshake
	}
	return process{c.ID, c.User, c.Host, s.activity.command, s.activity.schema, strings.Clone(s.activity.info), s.activity.since}, true
}

func (p *Proxy) processes() []process {
	var list []process
	p.sessions.each(func(s *session) {
		if x, ok := s.process(); ok {
			list = append(list, x)
		}
	})
	slices.SortFunc(list, func(a, b process) int { return int(a.id) - int(b.id) })
	return list
}

// processes are those that the user may see: without the right PROCESS a server
// shows a user his own.
func (s *session) processes() []process {
	list := s.proxy.processes()
	if s.rights().limited() {
		list = slices.DeleteFunc(list, func(p process) bool { return p.user != s.client.User })
	}
	return list
}

var processColumns = columns("#Id", "User", "Host", "db", "Command", "#Time", "State", "Info")

// showProcesslist shows the clients of Shunt, whose numbers KILL takes.
func (s *session) showProcesslist(full bool) error {
	var rows [][]any
	for _, p := range s.processes() {
		info := p.info
		if r := []rune(info); !full && len(r) > 100 {
			info = string(r[:100])
		}
		rows = append(rows, []any{int64(p.id), p.user, p.host, nullable(p.schema), p.command, int64(time.Since(p.since).Seconds()), "", nullable(info)})
	}
	return s.answerRows(processColumns, rows)
}

// processRows are the rows of information_schema.PROCESSLIST. What only a server
// knows (bytes of memory, rows examined) is NULL.
func (s *session) processRows(cols []systemColumn) [][]any {
	var rows [][]any
	for _, p := range s.processes() {
		row := make([]any, len(cols))
		for i, c := range cols {
			switch strings.ToLower(c.name) {
			case "id":
				row[i] = p.id
			case "user":
				row[i] = p.user
			case "host":
				row[i] = p.host
			case "db":
				row[i] = nullable(p.schema)
			case "command":
				row[i] = p.command
			case "time":
				row[i] = int64(time.Since(p.since).Seconds())
			case "time_ms":
				row[i] = time.Since(p.since).Milliseconds()
			case "state":
				row[i] = ""
			case "info":
				row[i] = nullable(p.info)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// killSession is KILL: the statement of a session ends on all shards, and with
// KILL CONNECTION the session.
func (s *session) killSession(ctx context.Context, a *planner.Admin) error {
	id := a.Connection
	if id == 0 {
		id = uint64(s.client.ID)
	}
	return s.killByID(ctx, id, a.QueryOnly)
}

// processKill is COM_PROCESS_KILL, KILL of older clients.
func (s *session) processKill(ctx context.Context, payload []byte) error {
	if len(payload) != 4 {
		return sqlError{codeUnknownCommand, "08S01", "Malformed COM_PROCESS_KILL"}
	}
	return s.killByID(ctx, uint64(binary.LittleEndian.Uint32(payload)), false)
}

func (s *session) killByID(ctx context.Context, id uint64, queryOnly bool) error {
	var victim *session
	s.proxy.sessions.each(func(x *session) {
		if p, ok := x.process(); ok && uint64(p.id) == id {
			victim = x
		}
	})
	if victim == nil {
		return sqlError{1094, "HY000", fmt.Sprintf("Unknown thread id: %d", id)}
	}
	if p, _ := victim.process(); s.rights().limited() && p.user != s.client.User {
		return sqlError{1095, "HY000", fmt.Sprintf("You are not owner of thread %d", id)}
	}
	if victim == s {
		// Its statement is this one: as on a server it fails, and with
		// KILL CONNECTION the session ends.
		s.release = !queryOnly
		return errInterrupted
	}
	if !queryOnly {
		victim.kill()
	}
	if err := victim.interrupt(ctx); err != nil {
		return err
	}
	return s.answerOK(wire.OK{})
}

// interrupt ends what shards do for a session.
func (s *session) interrupt(ctx context.Context) error { return s.interruptAs(ctx, nil) }

// interruptAs is interrupt whose reason the client is told in place of 1317.
func (s *session) interruptAs(ctx context.Context, reason *shard.ServerError) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	a := &s.activity
	a.ending.Lock()
	defer a.ending.Unlock()
	a.mu.Lock()
	a.interrupted = a.busy
	end, running := a.cancel, slices.Clone(a.running)
	a.mu.Unlock()
	if end != nil {
		end(errInterrupted)
	}
	// One that doesn't answer holds up no other's.
	var kills sync.WaitGroup
	errs := make([]error, len(running))
	for i, x := range running {
		if reason != nil {
			x.conn.InterruptedBy(reason)
		}
		kills.Go(func() {
			if err := x.conn.Kill(ctx); err != nil && ctx.Err() != nil {
				errs[i] = shardDown(err)
			}
		})
	}
	kills.Wait()
	return cmp.Or(errs...)
}

// tell answers what a shard's connection would tell of itself instead.
func (s *session) tell(told []planner.Told) error {
	cols, row := tellColumns(told, s.catalog().MariaDB), make([]any, len(told))
	var warnings [][][]byte
	for i, t := range told {
		row[i] = s.told(t.What)
		if t.What != "found_rows" {
			continue
		}
		if s.counts.found == noFound {
			return errFound
		}
		if !s.mariaDB() {
			warnings = append(warnings, deprecatedFound())
		}
	}
	if err := s.answerWarned(cols, [][]any{row}, uint16(len(warnings))); err != nil {
		return err
	}
	if warnings != nil {
		s.last.warnings = warnings
	}
	return nil
}

// told is what planner.Told asks for.
func (s *session) told(what string) any {
	switch what {
	case "connection_id":
		return int64(s.client.ID)
	case "user":
		return s.client.User + "@" + s.client.Host
	case "schema":
		return nullable(s.settings.schema)
	case "row_count":
		return s.counts.rows
	case "found_rows":
		return s.counts.found
	case "autocommit":
		if s.settings.autocommit {
			return int64(1)
		}
		return int64(0)
	case "sql_select_limit":
		return s.settings.own.limit.value()
	case "warning_count":
		return int64(len(s.last.warnings))
	case "completion_type":
		return s.settings.completionType()
	case "error_count":
		return int64(len(s.conditions(true)))
	}
	if what == "resultset_metadata" {
		return s.settings.own.metadata()
	}
	if v, ok := ofOneServer[what]; ok {
		return v
	}
	if what == "shunt_read_from" {
		return s.readFrom()
	}
	if v := s.settings.own.named(what); v != nil {
		return *v
	}
	return nil
}

// tellColumns are typed as a server's are: drivers size their buffers and choose
// types of their own by that.
func tellColumns(told []planner.Told, mariaDB bool) []wire.Column {
	cols := make([]wire.Column, len(told))
	for i, t := range told {
		switch t.What {
		case "user":
			chars := uint32(32 + 1 + 255)
			if mariaDB {
				chars = 128 + 1 + 255
			}
			cols[i] = serverText(t.Label, chars, mariaDB)
		case "schema", "shunt_read_from":
			cols[i] = serverText(t.Label, 64, mariaDB)
		case "resultset_metadata":
			cols[i] = serverText(t.Label, 4, mariaDB)
		case "gtid_mode", "gtid_executed", "gtid_purged", "gtid_owned":
			cols[i] = serverText(t.Label, 1024, mariaDB)
		case "completion_type":
			cols[i] = serverText(t.Label, 8, mariaDB)
		case "autocommit":
			cols[i] = wire.IntColumn(t.Label)
			cols[i].Length = 1
		default:
			c := wire.IntColumn(t.Label)
			c.Length = 21
			if t.What != "row_count" && t.What != "found_rows" {
				c.Flags |= mysql.UNSIGNED_FLAG
			}
			if t.What == "row_count" || t.What == "found_rows" || t.What == "connection_id" {
				c.Flags |= mysql.NOT_NULL_FLAG
			}
			if t.What == "connection_id" && mariaDB {
				c.Type, c.Length = mysql.MYSQL_TYPE_LONG, 10
			}
			cols[i] = c
		}
	}
	return cols
}

// conditionColumns are those of SHOW WARNINGS and SHOW ERRORS.
func conditionColumns(mariaDB bool) []wire.Column {
	cols := []wire.Column{serverText("Level", 7, mariaDB), wire.IntColumn("Code"), serverText("Message", 512, mariaDB)}
	cols[1].Type, cols[1].Length = mysql.MYSQL_TYPE_LONG, 5
	cols[1].Flags |= mysql.UNSIGNED_FLAG
	if mariaDB {
		cols[1].Length = 4
	}
	for i := range cols {
		cols[i].Flags |= mysql.NOT_NULL_FLAG
	}
	return cols
}

// serverText is a column of text, up to so many characters.
func serverText(name string, chars uint32, mariaDB bool) wire.Column {
	c := wire.TextColumn(name)
	c.Length = 4 * chars
	if mariaDB {
		c.Decimals = 39 // its NOT_FIXED_DEC
	}
	return c
}

// identified is the password that MariaDB shows in SHOW GRANTS, and grantee the
// account.
var (
	identified = regexp.MustCompile(` IDENTIFIED (BY|VIA|WITH) .*?( REQUIRE | WITH |$)`)
	grantee    = regexp.MustCompile("(?i) TO ([`'\"][^`'\"]*[`'\"]@[`'\"][^`'\"]*[`'\"])")
)

// showGrants shows the rights of the shards' account, which are those of every
// client whose user isn't limited, as the client's own.
func (s *session) showGrants(ctx context.Context) error {
	if u := s.rights(); u.limited() {
		return s.answerRows([]wire.Column{wire.TextColumn("Grants for " + s.client.User + "@%")}, s.limitedGrants(u))
	}
	res, err := s.askOne(ctx, planner.ShardStatement{Shard: s.anyShard(), SQL: "SHOW GRANTS"})
	if err != nil {
		return err
	}
	account := catalog.QuoteName(s.client.User) + "@`%`"
	var rows [][]any
	for _, r := range res.Rows {
		text := identified.ReplaceAllString(string(r[0]), "$2")
		rows = append(rows, []any{grantee.ReplaceAllString(text, " TO "+strings.ReplaceAll(account, "$", "$$"))})
	}
	return s.answerRows([]wire.Column{wire.TextColumn("Grants for " + s.client.User + "@%")}, rows)
}

// limitedGrants are a server's grants that come nearest to the user's rights.
func (s *session) limitedGrants(u *User) (rows [][]any) {
	account := catalog.QuoteName(s.client.User) + "@`%`"
	what := "ALL PRIVILEGES"
	if u.ReadOnly {
		what = "SELECT, EXECUTE, SHOW VIEW"
	}
	if u.Schemas == nil {
		return append(rows, []any{"GRANT " + what + " ON *.* TO " + account})
	}
	rows = append(rows, []any{"GRANT USAGE ON *.* TO " + account})
	for _, schema := range u.Schemas {
		rows = append(rows, []any{"GRANT " + what + " ON " + catalog.QuoteName(schema) + ".* TO " + account})
	}
	return rows
}

// conditions are the rows of SHOW WARNINGS, or SHOW ERRORS.
func (s *session) conditions(errorsOnly bool) [][]any {
	var rows [][]any
	for _, w := range s.last.warnings {
		if len(w) < 3 || errorsOnly && !strings.EqualFold(string(w[0]), "error") {
			continue
		}
		code, _ := strconv.ParseUint(string(w[1]), 10, 16)
		told, msg := s.veiled(uint16(code), string(w[2]))
		rows = append(rows, []any{string(w[0]), int64(told), msg})
	}
	return rows
}

// showConditions answers from what was read right after the statement, while its
// shard connection was still at hand.
func (s *session) showConditions(p *planner.Session) error {
	rows := s.conditions(p.Op == planner.ShowErrors)
	rows = rows[min(p.Offset, len(rows)):]
	if p.Limit >= 0 {
		rows = rows[:min(p.Limit, len(rows))]
	}
	return s.answerRows(conditionColumns(s.catalog().MariaDB), rows)
}
