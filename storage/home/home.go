package home

import (
	"context"
	"crypto/tls"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// Config says which server is the home, and as whom to go there.
type Config struct {
	// Addr is host:port, or the path of a socket. Nodes are the others of a cluster.
	Addr           string
	Nodes          []string
	User, Password string
	// TLS, if set, is demanded.
	TLS *tls.Config
	// Cluster is a word for all that belongs together.
	Cluster string
	// Schema holds the tables. "": shunt_store.
	Schema string
	// Connections bounds those open at a time. 0: 32.
	Connections int
	// Dial is how long a connection may take to be made, and Answer a statement until something comes of
	// its answer. 0: 10 s.
	Dial, Answer time.Duration
	// Idle is for how long the server keeps a connection over which nothing comes, with the locks that it has.
	// In whole seconds. 0: 3 s, so that who waits for such a lock has it before it gives up.
	Idle time.Duration

	// unchecked: whatever server answers.
	unchecked bool
	// counts is a Home's.
	counts func() func(n uint64) error
}

func (c Config) complete() Config {
	if c.Schema == "" {
		c.Schema = DefaultSchema
	}
	if c.Connections == 0 {
		c.Connections = 32
	}
	for _, d := range []*time.Duration{&c.Dial, &c.Answer} {
		if *d == 0 {
			*d = 10 * time.Second
		}
	}
	if c.Idle == 0 {
		c.Idle = 3 * time.Second
	}
	return c
}

var (
	// ErrOtherServer: another server answers than the one in use.
	ErrOtherServer = errors.New("another server than the home in use; one that has taken over is put in use by shunt replaced")
	// ErrWentBack: the server lacks what this process has seen there.
	ErrWentBack = errors.New("it has forgotten what it has acknowledged, as a server that was put back, or lost its last transactions")
	// ErrOtherCluster: the home is another cluster's.
	ErrOtherCluster = errors.New("the server is the home of another cluster")
)

// DefaultSchema is the schema that holds the tables.
const DefaultSchema = "shunt_store"

// Home is one server's part of the shared store. All of its methods may be called by any
// number of goroutines.
type Home struct {
	db      *sql.DB
	by      connector
	flavour flavour
	schema  string
	addr    atomic.Pointer[string]
	// seen is the highest count of the server's that is known: see counts.
	seen atomic.Uint64
	// piece is how many keys one statement takes.
	piece int
	// walked is how many entries a walk reads at a time.
	walked int
	// connections bounds those open at a time.
	connections int
	unchecked   bool // see Config
	keys        keysTogether
	adds        *together[[]storage.Entry]
}

// flavour is what the two kinds of server say differently.
type flavour struct {
	mariaDB bool
	cluster cluster
	// server is an expression for what tells it from others.
	server string
}

// row begins each row of a table of values.
func (f flavour) row() string {
	if f.mariaDB {
		return "("
	}
	return "ROW("
}

// Open connects to a home. It makes the tables, or brings them to this version's form, where they
// are not. Errors: ErrOtherServer, ErrOtherCluster, storage.ErrFormat where a newer version of Shunt
// has made the tables, or others.
func Open(ctx context.Context, c Config) (*Home, error) {
	c = c.complete()
	h := &Home{schema: c.Schema, connections: c.Connections, unchecked: c.unchecked, piece: pieceKeys, walked: entriesSlice}
	h.addr.Store(&c.Addr)
	if err := h.open(ctx, c); err != nil {
		return nil, fmt.Errorf("open the shared store on %s: %w", c.Addr, err)
	}
	return h, nil
}

// OpenAny is Open of whatever server answers, which may be another one than that in use: for reading, and
// for NewLife, which takes it into use.
func OpenAny(ctx context.Context, c Config) (*Home, error) {
	c.unchecked = true
	return Open(ctx, c)
}

func (h *Home) open(ctx context.Context, c Config) error {
	f, err := askFlavour(ctx, c)
	if err != nil {
		return err
	}
	h.flavour, c.counts = f, h.counts
	if err := prepare(ctx, c, f); err != nil {
		return err
	}
	if h.db, h.by, err = connect(c, f, c.Schema); err != nil {
		return err
	}
	if err := h.db.PingContext(ctx); err != nil {
		h.db.Close()
		return err
	}
	h.keys.of = map[catalog.IndexID]*indexKeys{}
	h.adds = &together[[]storage.Entry]{
		room: h.piece, size: func(of []storage.Entry) int { return len(of) },
		send: func(ctx context.Context, all [][]storage.Entry) error { return h.addAll(ctx, slices.Concat(all...)) },
	}
	return nil
}

// Close ends all connections, after the calls under way.
func (h *Home) Close() error { return h.db.Close() }

// maxAttempts bounds how often a call is begun anew because of others' locks.
const maxAttempts = 50

// again runs fn until no deadlock or long lock has ended it. What fn does is undone then.
//
// Rule busy: where the time ends behind such an end, others' locks are why. Counter-example: a member stands still in the midst of a
// transaction there; the writes of all others find the home away, reads by its indexes are wide, and in the end it is given up.
func (h *Home) again(ctx context.Context, fn func() error) error {
	var busy error
	for n := 1; ; n++ {
		err := fn()
		if busy != nil && errors.Is(err, context.DeadlineExceeded) {
			return h.told(busy)
		}
		if err == nil || !contended(err) || n == maxAttempts || ctx.Err() != nil {
			return h.told(err)
		}
		busy = err
	}
}

// BusyError says that others kept locks there for too long, as a process does that stands still. Nothing was written.
type BusyError struct {
	Home  string
	Cause error
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("others have kept what is needed of the shared store on %s: %v", e.Home, e.Cause)
}

func (e *BusyError) Unwrap() error { return e.Cause }

// StoreBusy implements proxy.StoreBusy.
func (e *BusyError) StoreBusy() bool { return true }

// contended: the server has ended the statement for the sake of others, or since they kept it
// waiting.
func contended(err error) bool {
	switch errorNumber(err) {
	case 1205, 1213, // ER_LOCK_WAIT_TIMEOUT, ER_LOCK_DEADLOCK
		3101: // ER_TRANSACTION_ROLLBACK_DURING_COMMIT, of Group Replication
		return true
	}
	return false
}

const errDuplicate = 1062 // ER_DUP_ENTRY

// Unreachable reports an error by which the home hasn't answered, be it that it isn't there, hangs
// or ends.
func Unreachable(err error) bool {
	switch errorNumber(err) {
	case 1040, 1053, 1077, 1079, 1927, // ER_CON_COUNT_ERROR, and those of a server that ends
		1047, // ER_UNKNOWN_COM_ERROR: a node of Galera that isn't of its cluster
		4031: // ER_CLIENT_INTERACTION_TIMEOUT: see Config.Idle
		return true
	}
	// What the driver says where the server has sent 4031 before it was asked.
	unasked := errors.Is(err, mysql.ErrBusyBuffer) || errors.Is(err, mysql.ErrPktSync) || errors.Is(err, mysql.ErrPktSyncMul)
	_, network := errors.AsType[net.Error](err)
	return unasked || network || errors.Is(err, errElsewhere) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.DeadlineExceeded)
}

// refuses reports an error by which a server takes no writes for now, whatever they are. What was to be written
// there isn't.
func refuses(err error) bool {
	switch errorNumber(err) {
	case 1290, 1792, 1836, // ER_OPTION_PREVENTS_STATEMENT and others of a server that is read-only
		3, 1021, 1026, 1030, 1114, // EE_WRITE, ER_DISK_FULL, ER_ERROR_ON_WRITE, ER_GET_ERRNO, ER_RECORD_FILE_FULL
		1598, 3100: // ER_BINLOG_LOGGING_IMPOSSIBLE, ER_RUN_HOOK_ERROR
		return true
	}
	return false
}

// OutError says that the home doesn't answer, or that the connection was lost while it was asked: what
// was to be written there may be.
type OutError struct {
	Home  string
	Cause error
	// Refuses: it answers, but takes no writes.
	Refuses bool
}

func (e *OutError) Error() string {
	does := "doesn't answer"
	switch {
	case e.Refuses:
		does = "takes no writes"
	case errors.Is(e.Cause, ErrWentBack):
		does = "isn't used"
	}
	return fmt.Sprintf("the shared store on %s %s: %v", e.Home, does, e.Cause)
}

func (e *OutError) Unwrap() error { return e.Cause }

// StoreLost implements proxy.StoreLost.
func (e *OutError) StoreLost() bool { return true }

// told names the home that doesn't answer, be it that another server does, or takes no writes, or is kept by others.
func (h *Home) told(err error) error {
	_, busy := errors.AsType[*BusyError](err)
	switch {
	case h.flavour.cluster.left(err):
		h.anew()
	case !busy && contended(err):
		return &BusyError{Home: h.Addr(), Cause: err}
	case !Unreachable(err) && !errors.Is(err, ErrOtherServer) && !refuses(err):
		return err
	}
	if _, named := errors.AsType[*OutError](err); named {
		return err
	}
	return &OutError{Home: h.Addr(), Cause: err, Refuses: refuses(err) && !h.flavour.cluster.left(err)}
}

// anew has the next calls connect anew, so that they find the server that is to be used.
func (h *Home) anew() {
	h.db.SetMaxIdleConns(0)
	h.db.SetMaxIdleConns(h.connections)
}

// Addr is where it is.
func (h *Home) Addr() string { return *h.addr.Load() }

// Readdress has connections from now on go elsewhere, or as somebody else, and ends those that nobody uses.
func (h *Home) Readdress(c Config) error {
	c = c.complete()
	nodes, err := nodesOf(c, h.schema)
	if err != nil {
		return err
	}
	h.by.nodes.Store(&nodes)
	h.addr.Store(&c.Addr)
	h.anew()
	return nil
}

// errorNumber is that of a server's error, 0 for others.
func errorNumber(err error) uint16 {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Number
	}
	return 0
}

// exec runs one statement in a transaction of its own, and returns how many rows it has found or
// made.
func (h *Home) exec(ctx context.Context, query string, args ...any) (n int64, err error) {
	err = h.one(ctx, func(on runs) (err error) {
		n, err = exec(ctx, on, query, args...)
		return err
	})
	return n, err
}

// one runs fn, which runs one statement, in a transaction of its own.
func (h *Home) one(ctx context.Context, fn func(on runs) error) error {
	if h.flavour.cluster == galera {
		return h.transaction(ctx, func(tx *sql.Tx) error { return fn(tx) })
	}
	return h.again(ctx, func() error { return fn(h.db) })
}

// runs is a *sql.DB or *sql.Tx.
type runs interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func exec(ctx context.Context, on runs, query string, args ...any) (int64, error) {
	r, err := on.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// transaction runs fn in one, again if others' locks end it. On an error, be it of the commit,
// nothing or all of it has happened.
func (h *Home) transaction(ctx context.Context, fn func(tx *sql.Tx) error) error {
	return h.again(ctx, func() error { return h.try(ctx, fn) })
}

// try runs fn in a transaction once.
//
// Rule no way back: a connection whose transaction couldn't be ended isn't used again. Counter-example: a node of
// Galera that isn't of the cluster refuses COMMIT (1047), and ROLLBACK. It comes back, and the connection with
// it, whose transaction is open still: Add, by one statement, is acknowledged, and commits nothing.
func (h *Home) try(ctx context.Context, fn func(tx *sql.Tx) error) error {
	conn, tx, err := h.begin(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err = h.here(ctx, tx); err == nil {
		err = fn(tx)
	}
	if err == nil {
		if err = tx.Commit(); err == nil {
			return nil
		}
	} else if tx.Rollback() == nil {
		return err
	}
	_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // which ends it
	if errors.Is(err, sql.ErrTxDone) && ctx.Err() != nil {
		return ctx.Err() // which has ended the transaction between two statements
	}
	return err
}

// begin begins a transaction over a connection that has it alone. One that has ended meanwhile is not an error.
func (h *Home) begin(ctx context.Context) (conn *sql.Conn, tx *sql.Tx, err error) {
	for range h.connections {
		if conn, err = h.db.Conn(ctx); err != nil {
			return nil, nil, err
		}
		if tx, err = conn.BeginTx(ctx, nil); err == nil {
			return conn, tx, nil
		}
		_ = conn.Close()
		if !errors.Is(err, driver.ErrBadConn) {
			break
		}
	}
	return nil, nil, err
}

// each is each outside of transactions.
func (h *Home) each(ctx context.Context, fn func(rows *sql.Rows) error, query string, args ...any) error {
	return h.told(each(ctx, h.db, fn, query, args...))
}

// row reads the first row of a query outside of transactions.
func (h *Home) row(ctx context.Context, into any, query string, args ...any) error {
	return h.told(h.db.QueryRowContext(ctx, query, args...).Scan(into))
}

// each calls fn for each row of a query. fn scans it.
func each(ctx context.Context, on runs, fn func(rows *sql.Rows) error, query string, args ...any) error {
	rows, err := on.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := fn(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// marksOf is n question marks.
func marksOf(n int) string { return strings.TrimSuffix(strings.Repeat("?,", n), ",") }

// table is a derived table of n rows, whose columns have these names. To join one with entries is to
// look up each of its keys. k IN (...) isn't: where statistics are old, the optimizer takes the
// table for empty and reads all of the index.
func (f flavour) table(n int, columns ...string) string {
	first := "?" + " AS " + strings.Join(columns, ", ? AS ")
	if n == 1 {
		return "(SELECT " + first + ")"
	}
	return "(SELECT " + first + " UNION ALL " + f.values(n-1, len(columns)) + ")"
}

// values is a table of n rows of so many columns.
func (f flavour) values(n, columns int) string {
	row := f.row() + marksOf(columns) + "),"
	return "VALUES " + strings.TrimSuffix(strings.Repeat(row, n), ",")
}

// bytesOf is b as an argument: nil would be NULL.
func bytesOf(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// superseded says why a scan or a build is to end.
func superseded(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, storage.ErrSuperseded)...)
}
