package proxy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/proxy/deadlock"
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
	if len(a.running) == 1 && a.running[0].conn == conn {
		a.running[0].conn, a.running = nil, a.running[:0]
		return
	}
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

// commits notes the connections of a transaction that is told to commit; nil for none.
func (a *activity) commits(tx *transaction) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.committing = a.committing[:0]
	if tx == nil {
		return
	}
	for _, id := range tx.order {
		a.committing = append(a.committing, sent{id, tx.conns.at(id)})
	}
}

// waits notes what the session waits for, in a server's words, until done is called.
func (a *activity) waits(what string) (done func()) {
	set := func(what string) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.waitsFor = what
	}
	set(what)
	return func() { set("") }
}

// process is a row of SHOW PROCESSLIST.
type process struct {
	id                  uint32
	user, host, command string
	schema, info        string
	since               time.Time
	// open: it waits for its client, with a transaction or locks.
	open bool
	// waitsFor is what it waits for inside of Shunt, or on a shard.
	waitsFor string
	// at are the threads that do its DDL on the shards, which know what that waits for.
	at []deadlock.Thread
}

// state is what a list tells beside the command.
func (p *process) state() string {
	if p.open {
		return "transaction or locks open"
	}
	return p.waitsFor
}

func (s *session) process() (p process, ok bool) {
	s.activity.mu.Lock()
	defer s.activity.mu.Unlock()
	c := s.activity.client
	if c == nil {
		return p, false // still in its handshake
	}
	a := &s.activity
	p = process{c.ID, c.User, c.Host, a.command, a.schema, strings.Clone(a.info), a.since, a.waiting && a.busy, a.waitsFor, nil}
	if p.waitsFor == atShards {
		p.waitsFor = ""
		for _, x := range a.running {
			p.at = append(p.at, deadlock.Thread{Shard: x.shard, ID: x.conn.ThreadID})
		}
	}
	return p, true
}

func (p *Proxy) processes() []process {
	var list []process
	p.sessions.each(func(s *session) {
		if x, ok := s.process(); ok {
			list = append(list, x)
		}
	})
	slices.SortFunc(list, func(a, b process) int { return cmp.Compare(a.id, b.id) })
	return list
}

// processes are those that the user may see, of all members: without the right PROCESS a server
// shows a user his own.
func (s *session) processes(ctx context.Context) []process {
	own := ofUser(s.proxy.processes(), s.only())
	s.askStates(ctx, own)
	list := append(own, s.othersProcesses(ctx)...)
	slices.SortFunc(list, func(a, b process) int { return cmp.Compare(a.id, b.id) })
	return list
}

// atShards stands for what the shards say of a statement that waits there.
const atShards = "?"

// askStates has DDL that shards are at tell what it waits for there: schema change tools look whether a RENAME TABLE of
// theirs waits for a lock. What a shard doesn't tell at once is left out.
func (s *session) askStates(ctx context.Context, list []process) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for i := range list {
		p := &list[i]
		for _, thread := range p.at {
			_ = s.besideOn(ctx, thread.Shard, func(conn *shard.Conn) error { // which may be down
				res, err := conn.Query(ctx, fmt.Sprintf("SELECT STATE FROM information_schema.PROCESSLIST WHERE ID = %d", thread.ID))
				if err == nil && len(res.Rows) == 1 && !strings.HasPrefix(p.waitsFor, "Waiting") {
					p.waitsFor = string(res.Rows[0][0])
				}
				return err
			})
		}
	}
}

// processColumns are those of SHOW PROCESSLIST. MariaDB tells besides how far an ALTER TABLE is, which a client
// of Shunt isn't told.
func processColumns(mariaDB bool) []wire.Column {
	cols := columns("#Id", "User", "Host", "db", "Command", "#Time", "State", "Info")
	cols[5].Type, cols[5].Length = mysql.MYSQL_TYPE_LONG, 7
	if mariaDB {
		cols = append(cols, wire.Column{Name: "Progress", Charset: binaryCollation, Length: 7, Type: mysql.MYSQL_TYPE_DOUBLE, Flags: mysql.BINARY_FLAG | mysql.NOT_NULL_FLAG, Decimals: 3})
	}
	return cols
}

// showProcesslist shows the clients of Shunt, whose numbers KILL takes.
var showProcesslist = &own{
	form: spoken.ShowProcesslist, open: true, keepsFound: true,
	columns: func(s *session, _ *plan.Admin) []wire.Column { return processColumns(s.mariaDB()) },
	do: func(s *session, ctx context.Context, a *plan.Admin) (rows [][]any, err error) {
		for _, p := range s.processes(ctx) {
			info := p.info
			if r := []rune(info); !a.Full && len(r) > 100 {
				info = string(r[:100])
			}
			row := []any{int64(p.id), p.user, p.host, nullable(p.schema), p.command, int64(time.Since(p.since).Seconds()), p.state(), nullable(info)}
			if s.mariaDB() {
				row = append(row, "0.000")
			}
			rows = append(rows, row)
		}
		return rows, nil
	},
	warns: func(s *session, _ *plan.Admin) [][][]byte { return s.unheardWarnings() },
}

// processRows are the rows of information_schema.PROCESSLIST. What only a server
// knows (bytes of memory, rows examined) is NULL.
func (s *session) processRows(ctx context.Context, cols []systemColumn) [][]any {
	var rows [][]any
	for _, p := range s.processes(ctx) {
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
				row[i] = p.state()
			case "info":
				row[i] = nullable(p.info)
			}
		}
		rows = append(rows, row)
	}
	return rows
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
