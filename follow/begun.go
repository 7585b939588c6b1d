package follow

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
)

// clock is the server's time.
func (c *conn) clock() (time.Time, error) {
	text, err := c.one("SELECT UNIX_TIMESTAMP()")
	if err != nil {
		return time.Time{}, err
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the server's time: %w", err)
	}
	return time.Unix(seconds, 0), nil
}

// begun is when the oldest log was begun, by the server's clock, to the second. It reads the log's beginning, since no statement
// tells the time of an event; the connection does nothing else then.
func (c *conn) begun() (at time.Time, err error) {
	logs, err := c.rows("SHOW BINARY LOGS")
	if err != nil {
		return at, err
	}
	if len(logs) == 0 {
		return at, errors.New("it has none")
	}
	if _, err := c.rows("SET @master_binlog_checksum = @@GLOBAL.binlog_checksum, @source_binlog_checksum = @@GLOBAL.binlog_checksum"); err != nil {
		return at, err
	}
	const (
		beginning = 4
		endsThere = 1 // BINLOG_DUMP_NON_BLOCK: it doesn't wait for more
	)
	le := binary.LittleEndian
	data := append(make([]byte, 4, 64), mysql.COM_BINLOG_DUMP)
	data = le.AppendUint32(data, beginning)
	data = le.AppendUint16(data, endsThere)
	data = le.AppendUint32(data, serverID())
	c.ResetSequence()
	if err := c.WritePacket(append(data, logs[0][0]...)); err != nil {
		return at, err
	}
	for {
		p, err := c.ReadPacket()
		switch {
		case err != nil:
			return at, err
		case len(p) > 0 && p[0] == mysql.ERR_HEADER:
			return at, c.HandleErrorPacket(p)
		case len(p) < 1+replication.EventHeaderSize || p[0] != mysql.OK_HEADER:
			return at, errors.New("it isn't read as logs are")
		case replication.EventType(p[5]) == replication.FORMAT_DESCRIPTION_EVENT:
			return time.Unix(int64(le.Uint32(p[1:])), 0), nil
		}
	}
}
