package shard

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/proxy/wire"
)

// Conn is a connection to a shard.
type Conn struct {
	Shard         string
	ThreadID      uint32 // the server's connection id, for KILL
	Opened        time.Time
	ServerVersion string
	MariaDB       bool
	FoundRows     bool // CLIENT_FOUND_ROWS was asked for
	LocalAddr     net.Addr
	// Charset is the collation id that the session began with.
	Charset uint8

	// State is the fingerprint of the session settings that were applied to
	// this connection, "" for those of a new one. The owner keeps it.
	State string
	// Unclean: a session may have left in it what no setting undoes (a temporary
	// table). It is to be reset before another has it.
	Unclean bool
	// Schema is the current schema, "" for none. InitDB sets it; an owner who
	// sends USE or drops the schema sets it himself.
	Schema string
	// Status is of the last OK or EOF: mysql.SERVER_STATUS_...
	Status uint16
	// Client is the number of the owner's client who uses it, 0 for none.
	Client atomic.Uint32
	// Join is the owner's: under which of its joins the connection was noted.
	Join uint64
	// Broken: to be closed, not to be used again.
	Broken bool
	// Await has the next Send wait until the answer begins, for a caller that has
	// nothing else to do meanwhile: it saves a system call.
	Await bool
	// Timed has the time taken when the next statement is sent, and when its answer was read to the end:
	// Took is between the two, until the owner has noted it, and Began when that began, for At. Waited is
	// for how long the pool had none.
	Timed               Timed
	Began, Took, Waited time.Duration
	// used is when a command was sent last, and sentAt that of what is timed, 0 for nothing; both are since epoch.
	used, sentAt time.Duration

	// ahead is sent with the next command, and aheadDue set until that is answered.
	ahead    string
	aheadDue bool

	cfg Config
	nc  net.Conn
	r   *wire.Reader
	w   *wire.Writer
	// exchange is nil where Await makes no difference.
	exchange *wire.Exchange
	// Invariant: set from Send until its answer is read to the end.
	busy bool
	// sentBefore is what the socket had taken before the last command.
	sentBefore int64
	// lost is the first failure, told again by what is sent behind it: only it says that the server
	// has ended the connection, say.
	lost error
	// cut: the server was judged dead, and this connection interrupted.
	cut atomic.Bool
	// accepted: see Accept.
	accepted atomic.Bool
	// cutBy says why, where it isn't for that.
	cutBy atomic.Pointer[error]
	// interrupted: no deadline may be set later than Interrupt's.
	interrupted atomic.Bool
	// suspect: the server may close the connection after its last answer.
	suspect bool
	stmts   statements
	// executing is what to prepare and execute again where the server has
	// dropped the statement: see Execute.
	executing execution
	// payload is room for executing's.
	payload []byte
	// interruptedBy is what the client is told where the server says that
	// somebody has killed the statement.
	interruptedBy atomic.Pointer[ServerError]
	// place and holder are the pool's. holder is who has it, or had it last; nil: Shunt itself.
	place  int
	holder *Holder
}

// epoch is what used and sentAt count from: to look at one clock costs less than at two.
var epoch = time.Now()

// Timed is which times are taken.
type Timed uint8

const (
	NotTimed Timed = iota
	TimedBegin
	TimedWhole
)

// answered says that the answer was read to its end.
func (c *Conn) answered() {
	c.busy = false
	if c.sentAt > 0 && c.Timed == TimedWhole {
		c.Began, c.Took, c.sentAt = c.sentAt, max(1, time.Since(epoch)-c.sentAt), 0
	}
	c.Timed = NotTimed // of what is asked next is none
}

// Sent is when the statement was sent whose end isn't timed, for TookUntil; 0 for none. It is told once.
func (c *Conn) Sent() (at time.Duration) {
	at, c.sentAt = c.sentAt, 0
	return at
}

// At is the time of a Began or a Sent.
func At(since time.Duration) time.Time { return epoch.Add(since) }

// Since is a time as Began and Sent have it.
func Since(at time.Time) time.Duration { return at.Sub(epoch) }

// TookUntil is how long a statement took that was Sent.
func TookUntil(end time.Time, sent time.Duration) time.Duration { return end.Sub(epoch) - sent }

// Busy reports whether an answer is due that was not read to its end.
func (c *Conn) Busy() bool { return c.busy }

// InTransaction reports whether the server said last that a transaction is
// open.
func (c *Conn) InTransaction() bool { return c.Status&mysql.SERVER_STATUS_IN_TRANS != 0 }

// fail marks the connection Broken and says where err happened.
func (c *Conn) fail(err error) error {
	c.Broken = true
	if c.lost == nil {
		c.lost = err
	}
	if h := c.cfg.Health; h != nil {
		if c.cut.Load() {
			err = errCut
			if dead := h.Err(); dead != nil {
				err = shortened(dead)
			} else if why := c.cutBy.Load(); why != nil {
				err = *why
			}
		} else {
			h.Suspect()
		}
	}
	return &connError{ErrShard, c.cfg.where(), err}
}

// unusable is why a connection that is busy or broken takes no command.
func (c *Conn) unusable() error {
	if c.lost != nil {
		return c.lost
	}
	return errors.New("command on a connection that is busy or broken")
}

// Send sends a command. Its answer must be read by Forward before the next
// one is sent. COM_STMT_CLOSE, COM_STMT_SEND_LONG_DATA and COM_QUIT have none.
func (c *Conn) Send(cmd byte, payload []byte) error {
	return c.send(cmd, func() error { return c.w.WriteCommand(cmd, payload) })
}

// SendStatement is Send of COM_QUERY.
func (c *Conn) SendStatement(sql string) error {
	return c.send(mysql.COM_QUERY, func() error { return c.w.WriteStatement(mysql.COM_QUERY, sql) })
}

func (c *Conn) send(cmd byte, write func() error) error {
	if c.busy || c.Broken {
		return c.fail(c.unusable())
	}
	c.executing = execution{}
	if c.interruptedBy.Load() != nil {
		c.interruptedBy.Store(nil)
	}
	// Set first: after a failed write the server may have got the command.
	c.sentBefore = c.w.Sent()
	c.used, c.sentAt = time.Since(epoch), 0
	if c.Timed != NotTimed {
		c.sentAt = c.used
	}
	c.busy = cmd != mysql.COM_STMT_CLOSE && cmd != mysql.COM_STMT_SEND_LONG_DATA && cmd != mysql.COM_QUIT
	var err error
	if c.ahead != "" && c.busy {
		err = c.w.WriteStatement(mysql.COM_QUERY, c.ahead)
		c.ahead, c.aheadDue = "", true
	}
	if err == nil {
		err = write()
	}
	if err == nil {
		err = c.flush()
	}
	if err == nil {
		return nil
	}
	err = c.fail(c.lastWord(err))
	if c.aheadDue {
		err = &AheadError{err}
	}
	return err
}

// flush sends what was written, and waits for the answer if that was asked for.
func (c *Conn) flush() error {
	c.r.SetSequence(c.w.Sequence())
	if c.aheadDue {
		c.r.SetSequence(1)
	}
	await := c.Await && c.busy && c.exchange != nil
	c.Await = false
	if await {
		return c.exchange.Do()
	}
	return c.w.Flush()
}

// lastWordTime is how long a server that takes no more may take to say why.
const lastWordTime = 100 * time.Millisecond

// lastWord adds to a failure to send what the server has said before it closed the
// connection: that the statement is larger than its max_allowed_packet, say. It isn't a
// ServerError, after which a connection could be used again.
func (c *Conn) lastWord(failed error) error {
	if c.interrupted.Load() || c.nc.SetReadDeadline(time.Now().Add(lastWordTime)) != nil {
		return failed
	}
	said := make([]byte, 512)
	n, _ := io.ReadAtLeast(c.nc, said, 4+9) // a packet's header, 0xff, the code, # and the state
	if n < 4+9 || said[4] != mysql.ERR_HEADER || said[7] != '#' {
		return failed
	}
	end := min(n, 4+int(said[0])+int(said[1])<<8)
	return fmt.Errorf("%w (the server said: %d (%s): %s)", failed, binary.LittleEndian.Uint16(said[5:7]), said[8:13], said[13:end])
}

// InterruptedBy says why the statement under way is killed (Pool.Kill), for
// its answer: the server's own would be 1317. It may be called from another
// goroutine.
func (c *Conn) InterruptedBy(reason *ServerError) { c.interruptedBy.Store(reason) }

// Kill ends the statement under way (KILL QUERY), by a connection of its own. It may
// be called from another goroutine.
func (c *Conn) Kill(ctx context.Context) error { return kill(ctx, c.cfg, c.ThreadID, false) }

// Untouched reports, after a Send that failed, that nothing of its command has
// left: the server can't execute it.
func (c *Conn) Untouched() bool { return c.w.Sent() == c.sentBefore }

// Interrupt makes reads and writes that wait, and later ones, fail at once.
// The connection is of no use afterwards. It may be called from another
// goroutine. The statement goes on at the server: see Pool.Kill.
func (c *Conn) Interrupt() {
	c.interrupted.Store(true)
	_ = c.nc.SetDeadline(longAgo)
}

// Accept says that its server was found to be the shard's. Of a connection that is made it isn't known yet.
func (c *Conn) Accept() { c.accepted.Store(true) }

// cutOff is Interrupt for the connections of a server that was judged dead.
func (c *Conn) cutOff() {
	c.cut.Store(true)
	c.Interrupt()
}

// errCut is told where the server is alive again by the time that it is asked
// why the connection was cut off.
var errCut = errors.New("it gave no sign of life for too long")

// SetDeadline bounds reads and writes, by any of the methods without a
// context. The zero time lifts it.
func (c *Conn) SetDeadline(t time.Time) error {
	err := c.nc.SetDeadline(t)
	if c.interrupted.Load() {
		c.Interrupt()
	}
	return err
}

// quitTimeout bounds the polite end of a connection.
const quitTimeout = 100 * time.Millisecond

// Close closes the connection, politely if it isn't Busy.
func (c *Conn) Close() error {
	if c.cfg.Health != nil {
		c.cfg.Health.remove(c)
	}
	if !c.busy && !c.Broken && !c.cut.Load() {
		_ = c.nc.SetWriteDeadline(time.Now().Add(quitTimeout))
		_ = c.Send(mysql.COM_QUIT, nil)
	}
	c.Broken = true
	return c.nc.Close()
}

// alive reports whether an idle connection is still usable: open, and with
// nothing to read. A server says why it closes an idle connection (4031) before
// it does.
func (c *Conn) alive() bool {
	return !c.Broken && !c.cut.Load() && c.r.Buffered() == 0 && wire.Quiet(c.nc)
}

// Alive reports whether a connection that nothing is asked of is still open.
func (c *Conn) Alive() bool { return c.alive() }

// Under runs fn, which uses the connection, and interrupts it when ctx ends:
// the connection is Broken then. Nothing of ctx lasts after it returned.
func (c *Conn) Under(ctx context.Context, fn func() error) error {
	if err := ctx.Err(); err != nil {
		return err // nothing was sent
	}
	if ctx.Done() == nil {
		return fn()
	}
	stop := context.AfterFunc(ctx, c.Interrupt)
	err := fn()
	if !stop() {
		c.Broken = true
		if errors.Is(err, ErrShard) {
			return &connError{ErrShard, c.cfg.where(), ctx.Err()}
		}
	}
	return err
}

// command sends a command and reads its answer, which isn't kept.
func (c *Conn) command(ctx context.Context, cmd byte, payload []byte) (sum Summary, err error) {
	err = c.Under(ctx, func() error {
		if err := c.Send(cmd, payload); err != nil {
			return err
		}
		sum, err = c.Forward(nil, Result, ForwardOptions{})
		return err
	})
	if err == nil && sum.Err != nil {
		err = sum.Err
	}
	return sum, err
}

// InitDB changes the current schema.
func (c *Conn) InitDB(ctx context.Context, schema string) error {
	if _, err := c.command(ctx, mysql.COM_INIT_DB, []byte(schema)); err != nil {
		return err
	}
	c.Schema = schema
	return nil
}

// Ping asks the server for a sign of life.
func (c *Conn) Ping(ctx context.Context) error {
	_, err := c.command(ctx, mysql.COM_PING, nil)
	return err
}

// setNames is what Dial asks for. COM_RESET_CONNECTION falls back to the
// server's own character set instead.
const setNames = "SET NAMES utf8mb4 COLLATE " + dialCollation + ", autocommit = 1"

const setAutocommit = "SET autocommit = 1"

// setReadOnly is for Config.ReadOnly.
const setReadOnly = "SET SESSION TRANSACTION READ ONLY"

// Reset makes the session as good as new (COM_RESET_CONNECTION: rolls back,
// drops temporary tables, locks, variables and prepared statements), keeping
// the schema, and sets utf8mb4 again. State becomes "". An error leaves the
// connection Broken. Both commands go in one round trip.
func (c *Conn) Reset(ctx context.Context) error {
	_, err := c.ResetWith(ctx)
	return err
}

// ResetWith is Reset and ExecAll in one round trip.
func (c *Conn) ResetWith(ctx context.Context, statements ...string) (refused []*ServerError, err error) {
	commands := []command{{mysql.COM_RESET_CONNECTION, ""}, {mysql.COM_QUERY, setNames}}
	if c.cfg.ReadOnly {
		commands = append(commands, command{mysql.COM_QUERY, setReadOnly})
	}
	own := len(commands)
	for _, sql := range statements {
		commands = append(commands, command{mysql.COM_QUERY, sql})
	}
	err = c.Under(ctx, func() error {
		c.stmts.forget()
		refused, err = c.together(commands...)
		return err
	})
	for i := 0; err == nil && i < own; i++ {
		if refused[i] != nil {
			err = refused[i]
		}
	}
	if err != nil {
		c.Broken = true
		return nil, err
	}
	c.State, c.Unclean = "", false
	return refused[own:], nil
}

// ExecAll runs statements without rows in one round trip: all are sent before
// the first answer is read, so each runs whether or not those before it failed.
// refused holds the server's error for each, nil where there was none.
func (c *Conn) ExecAll(ctx context.Context, statements ...string) (refused []*ServerError, err error) {
	commands := make([]command, len(statements))
	for i, sql := range statements {
		commands[i] = command{mysql.COM_QUERY, sql}
	}
	err = c.Under(ctx, func() error {
		refused, err = c.together(commands...)
		return err
	})
	return refused, err
}

type command struct {
	cmd     byte
	payload string
}

// together sends commands before it reads an answer. REQUIRES: the answers are
// short, or the server would wait for us to read them while we wait for it to
// read the rest.
func (c *Conn) together(commands ...command) ([]*ServerError, error) {
	if c.busy || c.Broken || c.Ahead() {
		return nil, c.fail(c.unusable())
	}
	c.executing = execution{}
	c.interruptedBy.Store(nil)
	refused := make([]*ServerError, len(commands))
	for _, x := range commands {
		// First: after a failed write the server may have got the command.
		c.busy = true
		if err := c.w.WriteCommand(x.cmd, []byte(x.payload)); err != nil {
			return nil, c.fail(err)
		}
	}
	if err := c.w.Flush(); err != nil {
		return nil, c.fail(err)
	}
	for i := range commands {
		c.busy = true
		c.r.SetSequence(1)
		sum, err := c.Forward(nil, Result, ForwardOptions{})
		if err != nil {
			return nil, err
		}
		if refused[i] = sum.Err; sum.Err != nil && c.Broken { // nothing more comes
			return nil, sum.Err
		}
	}
	return refused, nil
}

// QueryResult is a small result, held in memory.
type QueryResult struct {
	Columns []string
	// Definitions are the columns' own.
	Definitions []wire.Column
	Rows        [][][]byte // text protocol values; nil is NULL
	Summary     Summary
}

// Query runs a statement and reads its first result set into memory. A
// server's error is a *ServerError. A ctx that ends makes the connection
// Broken.
func (c *Conn) Query(ctx context.Context, sql string) (*QueryResult, error) {
	res := &QueryResult{}
	sum, err := c.rows(ctx, sql,
		func(p []byte) error {
			col, err := wire.ParseColumn(p)
			if err != nil {
				return c.fail(err)
			}
			res.Columns = append(res.Columns, col.Name)
			res.Definitions = append(res.Definitions, col)
			return nil
		},
		func(p []byte) error {
			row := make([][]byte, len(res.Columns))
			if err := splitRow(row, slices.Clone(p)); err != nil {
				return c.fail(err)
			}
			res.Rows = append(res.Rows, row)
			return nil
		})
	res.Summary = sum
	if err != nil {
		return nil, err
	}
	return res, nil
}

// Exec runs a statement whose rows, if any, don't matter. A server's error is
// a *ServerError, and is in the Summary too.
func (c *Conn) Exec(ctx context.Context, sql string) (Summary, error) {
	return c.command(ctx, mysql.COM_QUERY, []byte(sql))
}

// Stream runs a statement and calls fn for each row of its first result set.
// The row and its values are valid only during the call; a nil value is NULL.
// An error of fn ends the reading, makes the connection Broken and is
// returned.
func (c *Conn) Stream(ctx context.Context, sql string, fn func(row [][]byte) error) (Summary, error) {
	var row [][]byte
	return c.rows(ctx, sql,
		func([]byte) error {
			row = append(row, nil)
			return nil
		},
		func(p []byte) error {
			if err := splitRow(row, p); err != nil {
				return c.fail(err)
			}
			return fn(row)
		})
}

func (c *Conn) rows(ctx context.Context, sql string, onColumn, onRow func([]byte) error) (sum Summary, err error) {
	f := forwarder{c: c, onColumn: onColumn, onRow: onRow}
	err = c.Under(ctx, func() error {
		if err := c.SendStatement(sql); err != nil {
			return err
		}
		return f.run(Result)
	})
	if err == nil && f.sum.Err != nil {
		err = f.sum.Err
	}
	return f.sum, err
}

// splitRow cuts a text protocol row into values, which point into p.
func splitRow(row [][]byte, p []byte) error {
	for i := range row {
		if len(p) > 0 && p[0] == 0xFB {
			row[i], p = nil, p[1:]
			continue
		}
		v, rest, ok := wire.TakeLenBytes(p)
		if !ok {
			return fmt.Errorf("%w: row of %d columns", wire.ErrMalformed, len(row))
		}
		row[i], p = v, rest
	}
	return nil
}
