package follow

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/google/uuid"
)

// Source is a server whose log is followed, and the account to do so with (Check says what it needs).
type Source struct {
	Addr     string // host:port, or the path of a Unix socket
	User     string
	Password string
	TLS      *tls.Config // required when set; ServerName defaults to the host of Addr
	// Connect, when set, makes the connections in place of a net.Dialer.
	Connect func(ctx context.Context, network, addr string) (net.Conn, error)
	// Heartbeat is how often an idle server is to send something; default 1 s. A connection on which
	// nothing came for ten of them is dead, once the server has found the position in its log.
	Heartbeat time.Duration
	Log       *slog.Logger // default: none
}

const defaultHeartbeat = time.Second

func (s Source) heartbeat() time.Duration {
	if s.Heartbeat > 0 {
		return s.Heartbeat
	}
	return defaultHeartbeat
}

// patience is how long a server may take to accept a connection, or to answer a question.
const patience = 30 * time.Second

// silence is how long a server may say nothing.
func (s Source) silence() time.Duration { return 10 * s.heartbeat() }

func (s Source) log() *slog.Logger {
	if s.Log != nil {
		return s.Log
	}
	return slog.New(slog.DiscardHandler)
}

// conn is a connection to a Source.
type conn struct {
	*client.Conn
	mariaDB bool
	release func() bool // has the connection no longer closed at the end of a context
}

// connect logs in. The connection is closed when ctx ends.
func (s Source) connect(ctx context.Context) (c *conn, err error) {
	var nc net.Conn
	defer func() {
		// The handshake indexes what a server sends without looking.
		if r := recover(); r != nil {
			err = fmt.Errorf("handshake: not a MySQL server's: %v", r)
		}
		if err != nil && nc != nil {
			nc.Close()
		}
		if err != nil && ctx.Err() != nil {
			err = ctx.Err()
		}
	}()
	dial := s.Connect
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	c = &conn{}
	network := "tcp"
	if strings.HasPrefix(s.Addr, "/") {
		network = "unix"
	}
	c.Conn, err = client.ConnectWithDialer(ctx, network, s.Addr, s.User, s.Password, "",
		func(ctx context.Context, network, addr string) (net.Conn, error) {
			limited, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			var err error
			if nc, err = dial(limited, network, addr); err != nil {
				return nil, err
			}
			return nc, nc.SetDeadline(time.Now().Add(patience))
		},
		func(gc *client.Conn) error {
			gc.UnsetCapability(mysql.CLIENT_COMPRESS | mysql.CLIENT_ZSTD_COMPRESSION_ALGORITHM | mysql.CLIENT_LOCAL_FILES)
			gc.SetAttributes(map[string]string{"program_name": "shunt"})
			if s.TLS != nil {
				t := s.TLS
				if t.ServerName == "" && !t.InsecureSkipVerify {
					t = t.Clone()
					t.ServerName = s.Addr
					if host, _, err := net.SplitHostPort(s.Addr); err == nil {
						t.ServerName = host
					}
				}
				gc.SetTLSConfig(t)
			}
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", s.Addr, err)
	}
	c.release = context.AfterFunc(ctx, func() { nc.Close() })
	c.mariaDB = strings.Contains(c.GetServerVersion(), "MariaDB")
	// Else what is read from a table keeps it locked for DDL, where the server's global setting is off.
	if _, err = c.Execute("SET autocommit = 1"); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", s.Addr, err)
	}
	return c, nil
}

func (c *conn) close() {
	c.release()
	c.Close()
}

// rows runs a query; NULL is "".
func (c *conn) rows(query string) ([][]string, error) {
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	r, err := c.Execute(query)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", query, err)
	}
	defer r.Close()
	if r.Resultset == nil {
		return nil, nil
	}
	out := make([][]string, r.RowNumber())
	for i := range out {
		for j := range r.ColumnNumber() {
			text, err := r.GetString(i, j)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", query, err)
			}
			out[i] = append(out[i], strings.Clone(text)) // the result's memory is used again
		}
	}
	return out, nil
}

// one runs a query that has one value.
func (c *conn) one(query string) (string, error) {
	rows, err := c.rows(query)
	if err != nil {
		return "", err
	}
	if len(rows) != 1 || len(rows[0]) != 1 {
		return "", fmt.Errorf("%s: no single value", query)
	}
	return rows[0][0], nil
}

// ErrPurged: the server can't go on from the position, as the log isn't there (any more), or is another
// server's. The consumer scans and starts anew, from Now.
var ErrPurged = errors.New("the binary log can't be read from this position")

// dump asks for the log from a position on.
func (c *conn) dump(from Position, heartbeat time.Duration) error {
	settings := []string{
		// Checksums as they are in the log.
		"SET @master_binlog_checksum = @@GLOBAL.binlog_checksum, @source_binlog_checksum = @@GLOBAL.binlog_checksum",
		fmt.Sprintf("SET @master_heartbeat_period = %[1]d, @source_heartbeat_period = %[1]d", heartbeat.Nanoseconds()),
		// A consumer may take its time over a transaction.
		"SET SESSION net_write_timeout = 3600",
	}
	if c.mariaDB {
		settings = append(settings,
			"SET @mariadb_slave_capability = 4", // understands GTIDs, and events of all kinds
			"SET @slave_connect_state = '"+from.String()+"'",
			// Refuse a position that another server's log has come to.
			"SET @slave_gtid_strict_mode = 1")
	} else {
		// A server ends the stream of a replica that asks again. Replicas are the same by this.
		id := uuid.NewString()
		settings = append(settings, "SET @slave_uuid = '"+id+"', @replica_uuid = '"+id+"'")
	}
	for _, s := range settings {
		if _, err := c.rows(s); err != nil {
			return err
		}
	}
	c.ResetSequence()
	return c.WritePacket(c.dumpCommand(from))
}

// dumpCommand is COM_BINLOG_DUMP or COM_BINLOG_DUMP_GTID, after 4 bytes for the packet's header.
func (c *conn) dumpCommand(from Position) []byte {
	const anyLog, beginning = "", 4
	le := binary.LittleEndian
	data := make([]byte, 4, 64)
	if c.mariaDB {
		data = append(data, mysql.COM_BINLOG_DUMP)
		data = le.AppendUint32(data, 0) // the position is @slave_connect_state
		data = le.AppendUint16(data, 0)
		data = le.AppendUint32(data, serverID())
		return append(data, anyLog...)
	}
	set := from.set
	if set == nil {
		empty := mysql.NewMysqlGTIDSet()
		set = &empty
	}
	encoded := set.Encode()
	data = append(data, mysql.COM_BINLOG_DUMP_GTID)
	data = le.AppendUint16(data, 0)
	data = le.AppendUint32(data, serverID())
	data = le.AppendUint32(data, uint32(len(anyLog)))
	data = append(data, anyLog...)
	data = le.AppendUint64(data, beginning)
	data = le.AppendUint32(data, uint32(len(encoded)))
	return append(data, encoded...)
}

// serverID is a number that no other replica has: servers and their replicas have small ones, or
// addresses and ports written as a number. MariaDB ends the stream of a replica whose number another has.
func serverID() uint32 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint32(b[:]) | 0xf0000000
}
