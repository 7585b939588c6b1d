package shard

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// Process is one of a server's connections, as SHOW PROCESSLIST has it.
type Process struct {
	ID                  uint32
	User, Host, Command string
	Seconds             int64
	State, Info         string
}

// Commits reports one that waits for the server's disk at the end of a transaction: as MySQL says it,
// MariaDB, and MariaDB when it says why.
func (p *Process) Commits() bool {
	return strings.EqualFold(p.State, "waiting for handler commit") || strings.EqualFold(p.State, "Commit") || p.DiskFull()
}

// DiskFull reports one that waits for space on the server's disk, as MariaDB tells.
func (p *Process) DiskFull() bool {
	return strings.EqualFold(p.State, "Waiting for someone to free space")
}

// Processes are a server's connections; full: with the whole text of their statements.
//
// Counter-example: information_schema.PROCESSLIST. MySQL answers nothing of it (3854) while a statement of
// anybody holds bytes that are no text, as that of a value for a BLOB.
func (c *Conn) Processes(ctx context.Context, full bool) (out []Process, err error) {
	sql := "SHOW PROCESSLIST"
	if full {
		sql = "SHOW FULL PROCESSLIST"
	}
	_, err = c.Stream(ctx, sql, func(row [][]byte) error {
		if len(row) < 8 {
			return fmt.Errorf("%s has %d columns", sql, len(row))
		}
		id, malformed := strconv.ParseUint(string(row[0]), 10, 32)
		seconds, _ := strconv.ParseInt(string(row[5]), 10, 64) // NULL of a thread that has done nothing yet
		if malformed == nil {                                  // else no connection of ours may have it
			out = append(out, Process{
				ID: uint32(id), User: string(row[1]), Host: string(row[2]), Command: string(row[4]),
				Seconds: seconds, State: string(row[6]), Info: string(row[7]),
			})
		}
		return nil
	})
	return out, err
}
