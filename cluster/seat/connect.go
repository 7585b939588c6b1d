package seat

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"github.com/go-sql-driver/mysql"
)

// flavour is what the kinds of server say differently.
type flavour struct {
	galera bool
	// server is an expression for what tells it from others.
	server string
}

// connector makes connections with the settings that the statements here are written for, to
// the server in use alone.
type connector struct {
	// to is where, and as whom.
	to *atomic.Pointer[driver.Connector]
	flavour
	// schema of self; "": not looked at.
	schema string
}

// Driver is driver.Connector's.
func (c connector) Driver() driver.Driver { return (*c.to.Load()).Driver() }

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := (*c.to.Load()).Connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.ready(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

func (c connector) ready(ctx context.Context, conn driver.Conn) error {
	set := "SET sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', innodb_lock_wait_timeout = 3, lock_wait_timeout = 10, time_zone = '+00:00', autocommit = 1, completion_type = 0, sql_safe_updates = 0"
	if c.galera {
		set += ", wsrep_sync_wait = 1" // what another node has answered is there for this one's reads
	}
	ex, ok := conn.(interface {
		driver.ExecerContext
		driver.QueryerContext
	})
	if !ok {
		return errors.New("the driver can't execute")
	}
	for _, q := range []string{"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", set} {
		if _, err := ex.ExecContext(ctx, q, nil); err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
	}
	if c.schema == "" {
		return nil
	}
	rows, err := ex.QueryContext(ctx, "SELECT server = "+c.server+" FROM "+quote(c.schema)+".self", nil)
	if err != nil {
		return fmt.Errorf("see which server it is: %w", err)
	}
	defer rows.Close()
	same := make([]driver.Value, 1)
	if err := rows.Next(same); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("see which server it is: %w", err)
	} else if same[0] != int64(1) {
		return ErrOtherServer
	}
	return nil
}

// base is one without settings. checked: to the server in use.
func base(c Config, checked bool) (driver.Connector, error) {
	o := mysql.NewConfig()
	o.Net, o.Addr = "tcp", c.Addr
	if strings.HasPrefix(c.Addr, "/") {
		o.Net = "unix"
	}
	o.User, o.Passwd, o.TLS, o.Timeout = c.User, c.Password, c.TLS, c.Dial
	// A statement with its values in it, or two, take one round trip.
	o.InterpolateParams, o.MultiStatements = true, true
	// A compare-and-set must know that it found the row.
	o.ClientFoundRows = true
	o.ParseTime = true
	o.Logger = &mysql.NopLogger{}
	if checked {
		o.DBName = c.Schema
		// No statement here takes long, but for the wait for a row's lock.
		o.ReadTimeout, o.WriteTimeout = c.Answer, c.Answer
	}
	to, err := mysql.NewConnector(o)
	if err != nil {
		return nil, fmt.Errorf("configure the connection: %w", err)
	}
	return to, nil
}

// connect prepares connections, without making one. checked: to the server in use.
func connect(c Config, f flavour, checked bool) (*sql.DB, connector, error) {
	by := connector{to: new(atomic.Pointer[driver.Connector]), flavour: f}
	if checked && !c.unchecked {
		by.schema = c.Schema
	}
	to, err := base(c, checked)
	if err != nil {
		return nil, by, err
	}
	by.to.Store(&to)
	db := sql.OpenDB(by)
	db.SetMaxOpenConns(c.Connections)
	db.SetMaxIdleConns(c.Connections)
	return db, by, nil
}

func quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// askFlavour finds out what the server is.
func askFlavour(ctx context.Context, db *sql.DB) (f flavour, err error) {
	rows, err := db.QueryContext(ctx, "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('server_uuid', 'server_uid', 'wsrep_on', 'log_bin', 'binlog_format')")
	if err != nil {
		return f, err
	}
	defer rows.Close()
	is := map[string]string{}
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return f, err
		}
		is[strings.ToLower(name)] = value
	}
	if err := rows.Err(); err != nil {
		return f, err
	}
	if is["log_bin"] == "ON" && is["binlog_format"] == "STATEMENT" {
		return f, errors.New("binlog_format is STATEMENT, which refuses writes under READ COMMITTED: set it to ROW")
	}
	f.galera = is["wsrep_on"] == "ON"
	switch {
	case is["server_uuid"] != "": // in a file of the data directory, which copies must not have
		f.server = "@@GLOBAL.server_uuid"
	case is["server_uid"] != "": // of the machine's and the port
		f.server = "CONCAT_WS(' ', @@GLOBAL.server_uid, @@GLOBAL.datadir)"
	default:
		f.server = "CONCAT_WS(' ', @@GLOBAL.hostname, @@GLOBAL.port, @@GLOBAL.datadir)"
	}
	return f, nil
}
