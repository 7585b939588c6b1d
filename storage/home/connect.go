package home

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
)

// connector makes connections with the settings that the statements here are written for,
// whatever the server's are, to the server in use alone.
type connector struct {
	// nodes are the addresses, one but for a cluster's. at is the one that a connection was made to last.
	nodes    *atomic.Pointer[[]driver.Connector]
	at       *atomic.Int64
	settings []string
	// checks are queries for whether it may be used, and takeOver, if set, is what may help where it may not.
	checks   []condition
	takeOver string
	// counts is Home.counts; nil: the count isn't looked at.
	counts func() func(n uint64) error
}

// condition is a query that answers 1; else there is the error.
type condition struct {
	query string
	err   error
}

// Driver is driver.Connector's.
func (c connector) Driver() driver.Driver { return (*c.nodes.Load())[0].Driver() }

// Connect tries the node that was used last, and then the others.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	var errs []error
	nodes := *c.nodes.Load()
	for i := range nodes {
		n := (int(c.at.Load()) + i) % len(nodes)
		conn, err := c.connect(ctx, nodes[n], len(nodes)-i)
		if err == nil {
			c.at.Store(int64(n))
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// connect has a fair part of the time that is left for this node and so many others.
func (c connector) connect(ctx context.Context, node driver.Connector, left int) (driver.Conn, error) {
	if until, ok := ctx.Deadline(); ok && left > 1 {
		part, cancel := context.WithTimeout(ctx, time.Until(until)/time.Duration(left))
		defer cancel()
		ctx = part
	}
	conn, err := node.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.ready(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// runsItself is a connection without database/sql.
type runsItself interface {
	driver.ExecerContext
	driver.QueryerContext
}

func (c connector) ready(ctx context.Context, conn driver.Conn) error {
	on, ok := conn.(runsItself)
	if !ok {
		return errors.New("the driver can't execute")
	}
	for _, q := range c.settings {
		if _, err := on.ExecContext(ctx, q, nil); err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
	}
	err := c.check(ctx, on)
	if err != nil && c.takeOver != "" {
		if _, failed := on.ExecContext(ctx, c.takeOver, nil); failed == nil {
			err = c.check(ctx, on)
		}
	}
	if err != nil {
		return err
	}
	return c.counted(ctx, on)
}

func (c connector) check(ctx context.Context, on runsItself) error {
	for _, k := range c.checks {
		rows, err := on.QueryContext(ctx, k.query, nil)
		if err != nil {
			return fmt.Errorf("see which server it is: %w", err)
		}
		is := make([]driver.Value, 1)
		err = rows.Next(is)
		_ = rows.Close() // nothing is left of it
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("see which server it is: %w", err)
		}
		if is[0] != int64(1) {
			return k.err
		}
	}
	return nil
}

// settings of a connection. An index dive for each key of an IN would take longer than the lookup
// itself; a list of keys that the optimizer finds too long would become a scan of the table.
//
// Rule idle: the server ends a connection over which nothing comes. Counter-example: a member stands still, or is cut
// off, in the midst of Retire, and has the head of an index locked; the writes of all other members wait for
// that lock, and are refused, until the server notices by itself: hours later.
func (f flavour) settings(idle time.Duration) []string {
	set := []string{
		"sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'", "eq_range_index_dive_limit = 1",
		"innodb_lock_wait_timeout = 1", "lock_wait_timeout = 10", "time_zone = '+00:00'", "autocommit = 1", "completion_type = 0",
		"sql_select_limit = DEFAULT", "sql_big_selects = 1", "sql_safe_updates = 0", "unique_checks = 1",
		fmt.Sprintf("wait_timeout = %d", max(1, idle/time.Second)),
	}
	if f.mariaDB {
		set = append(set, "in_predicate_conversion_threshold = 0", "max_statement_time = 0")
	} else {
		set = append(set, "range_optimizer_max_mem_size = 0", "max_execution_time = 0")
	}
	return []string{"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "SET " + strings.Join(append(set, f.cluster.settings()...), ", ")}
}

// connect prepares connections, without making one.
func connect(c Config, f flavour, schema string) (*sql.DB, connector, error) {
	c = c.complete()
	by, err := connectorTo(c, schema)
	if err != nil {
		return nil, by, err
	}
	by.settings, by.checks = f.settings(c.Idle), f.cluster.standing()
	if schema != "" && !c.unchecked {
		by.takeOver = f.cluster.takeOver()
		by.checks = append(by.checks, f.same()...)
		by.counts = c.counts
	}
	db := sql.OpenDB(by)
	db.SetMaxOpenConns(c.Connections)
	db.SetMaxIdleConns(c.Connections)
	db.SetConnMaxIdleTime(c.Idle / 2) // before the server ends it
	return db, by, nil
}

// connectorTo is one without settings and checks.
func connectorTo(c Config, schema string) (connector, error) {
	by := connector{at: new(atomic.Int64), nodes: new(atomic.Pointer[[]driver.Connector])}
	nodes, err := nodesOf(c, schema)
	by.nodes.Store(&nodes)
	return by, err
}

func nodesOf(c Config, schema string) (nodes []driver.Connector, err error) {
	for _, addr := range append([]string{c.Addr}, c.Nodes...) {
		node, err := base(c, addr, schema)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}

func base(c Config, addr, schema string) (driver.Connector, error) {
	o := mysql.NewConfig()
	o.Net, o.Addr = "tcp", addr
	if strings.HasPrefix(addr, "/") {
		o.Net = "unix"
	}
	o.User, o.Passwd, o.TLS, o.DBName, o.Timeout = c.User, c.Password, c.TLS, schema, c.Dial
	// A statement with its values in it takes one round trip.
	o.InterpolateParams = true
	// A compare-and-set must know that it found the row, even if that was as it should be already.
	o.ClientFoundRows = true
	if schema != "" {
		// No statement here takes long, but for the wait for a lock.
		o.ReadTimeout, o.WriteTimeout = c.Answer, c.Answer
	}
	o.Logger = &mysql.NopLogger{}
	inner, err := mysql.NewConnector(o)
	if err != nil {
		return nil, fmt.Errorf("configure the connection: %w", err)
	}
	return inner, nil
}

// askFlavour finds out what the server is, and whether it can be a home. Of a cluster any node says so.
func askFlavour(ctx context.Context, c Config) (flavour, error) {
	by, err := connectorTo(c, "")
	if err != nil {
		return flavour{}, err
	}
	db := sql.OpenDB(by)
	defer db.Close()
	is := map[string]string{}
	err = each(ctx, db, func(rows *sql.Rows) error {
		var name, value string
		err := rows.Scan(&name, &value)
		is[strings.ToLower(name)] = value
		return err
	}, "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'server_uuid', 'server_uid', 'wsrep_on', 'group_replication_group_name', 'group_replication_single_primary_mode', 'log_bin', 'binlog_format')")
	if err != nil {
		return flavour{}, err
	}
	if is["log_bin"] == "ON" && is["binlog_format"] == "STATEMENT" {
		return flavour{}, errors.New("binlog_format is STATEMENT, which refuses writes under READ COMMITTED: set it to ROW")
	}
	f := flavour{mariaDB: strings.Contains(is["version"], "MariaDB")}
	switch {
	case is["wsrep_on"] == "ON":
		f.cluster, f.server = galera, galeraNode
	case is["group_replication_group_name"] != "":
		if is["group_replication_single_primary_mode"] != "ON" {
			return flavour{}, errors.New("group_replication_single_primary_mode is OFF: where several members write, they don't see each other's locks; set it to ON")
		}
		f.cluster, f.server = group, "CONCAT('group ', @@GLOBAL.group_replication_group_name)"
	case is["server_uuid"] != "": // in a file of the data directory, which copies must not have
		f.server = "@@GLOBAL.server_uuid"
	case is["server_uid"] != "": // of the machine's and the port
		f.server = "CONCAT_WS(' ', @@GLOBAL.server_uid, @@GLOBAL.datadir)"
	default:
		f.server = "CONCAT_WS(' ', @@GLOBAL.hostname, @@GLOBAL.port, @@GLOBAL.datadir)"
	}
	return f, nil
}
