package follow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// ErrUnfit: the log doesn't tell all changes, or the account may not read it. Check says what to do.
var ErrUnfit = errors.New("the binary log can't be followed")

// Problem is something that a server or an account lacks.
type Problem struct {
	What   string
	Fix    string // what to set or GRANT
	Weight Weight
}

// Weight is what a Problem costs.
type Weight int

const (
	// Some: there are Unknowns in place of some tables' rows, for a while.
	Some Weight = iota
	// Most: there are Unknowns in place of most rows. Who can do without the log is better off.
	Most
	// Fatal: Open refuses with ErrUnfit.
	Fatal
)

func (p Problem) String() string { return p.What + ": " + p.Fix }

// Check asks a server for all that following it lacks. It tries to read the log.
func Check(ctx context.Context, source Source) ([]Problem, error) {
	c, err := source.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer c.close()
	problems, err := c.problems()
	if err != nil {
		return nil, fmt.Errorf("check %s: %w", source.Addr, err)
	}
	for _, p := range problems {
		if p.Weight == Fatal {
			return problems, nil // one that can't be read isn't tried
		}
	}
	from, err := c.now()
	if err != nil {
		return nil, fmt.Errorf("check %s: %w", source.Addr, err)
	}
	s, err := Open(ctx, source, NewProgress(from))
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if _, err = s.Next(); denied(err) {
		problems = append(problems, Problem{"the account may not read the binary log", "GRANT REPLICATION SLAVE ON *.* TO " + c.account(), Fatal})
		err = nil
	}
	return problems, err
}

func denied(err error) bool {
	return refused(err, mysql.ER_SPECIFIC_ACCESS_DENIED_ERROR) || refused(err, mysql.ER_ACCESS_DENIED_ERROR)
}

// refused reports a server's error.
func refused(err error, code uint16) bool {
	e, ok := errors.AsType[*mysql.MyError](err)
	return ok && e.Code == code
}

// takenOver reports that the server has ended a stream as another one with the same number began.
func takenOver(message string) bool {
	return strings.Contains(message, "same server_uuid/server_id") || strings.Contains(message, "same server_id")
}

// fit refuses a server whose log is known not to tell all.
func (c *conn) fit() error {
	problems, err := c.problems()
	if err != nil {
		return err
	}
	var fatal []string
	for _, p := range problems {
		if p.Weight == Fatal {
			fatal = append(fatal, p.String())
		}
	}
	if len(fatal) > 0 {
		return fmt.Errorf("%w: %s", ErrUnfit, strings.Join(fatal, "; "))
	}
	return nil
}

// account is the connection's as GRANT has it.
func (c *conn) account() string {
	name, err := c.one("SELECT CURRENT_USER()")
	if err != nil {
		return "Shunt's account"
	}
	user, host, _ := strings.Cut(name, "@")
	return "'" + user + "'@'" + host + "'"
}

func (c *conn) problems() ([]Problem, error) {
	var problems []Problem
	lacks := func(weight Weight, what, fix string) { problems = append(problems, Problem{what, fix, weight}) }
	names := "'log_bin', 'binlog_format', 'binlog_row_metadata', 'gtid_mode', 'enforce_gtid_consistency', 'log_replica_updates', 'log_slave_updates'"
	rows, err := c.rows("SHOW GLOBAL VARIABLES WHERE Variable_name IN (" + names + ")")
	if err != nil {
		return nil, err
	}
	is := map[string]string{}
	for _, row := range rows {
		is[row[0]] = strings.ToUpper(row[1])
	}
	if is["log_bin"] != "ON" {
		lacks(Fatal, "the server writes no binary log", "start it with --log-bin")
		return problems, nil
	}
	if !c.mariaDB && is["gtid_mode"] != "ON" {
		lacks(Fatal, "transactions have no GTIDs", "set enforce_gtid_consistency = ON, and gtid_mode = ON by way of OFF_PERMISSIVE and ON_PERMISSIVE")
	}
	if is["binlog_format"] != "ROW" {
		lacks(Most, "the binary log has statements in place of rows", "SET GLOBAL binlog_format = ROW")
	}
	if is["binlog_row_metadata"] != "FULL" {
		lacks(Some, "the binary log doesn't name columns", "SET GLOBAL binlog_row_metadata = FULL")
	}
	status := "SHOW BINARY LOG STATUS"
	if c.mariaDB {
		status = "SHOW MASTER STATUS"
	}
	rows, err = c.rows(status)
	switch {
	case denied(err):
		grant := "REPLICATION CLIENT"
		if c.mariaDB {
			grant = "BINLOG MONITOR"
		}
		lacks(Fatal, "the account may not ask whether the binary log leaves out databases", "GRANT "+grant+" ON *.* TO "+c.account())
	case err != nil:
		return nil, err
	case len(rows) > 0 && len(rows[0]) > 3 && rows[0][2]+rows[0][3] != "":
		lacks(Fatal, "the binary log leaves out databases", "remove binlog_do_db and binlog_ignore_db")
	}
	return problems, nil
}

// Now is a position that the consumer can start from: whatever it reads of the server's tables after the
// call has all that the position covers. What isn't covered comes, or has come, by the log.
func Now(ctx context.Context, source Source) (Position, error) {
	return source.ask(ctx, (*conn).now)
}

// Written is a position that covers all that has been answered by the server before the call: when
// a consumer's Progress has passed it, it has seen that.
func Written(ctx context.Context, source Source) (Position, error) {
	return source.ask(ctx, (*conn).written)
}

func (s Source) ask(ctx context.Context, question func(*conn) (Position, error)) (Position, error) {
	c, err := s.connect(ctx)
	if err != nil {
		return Position{}, err
	}
	defer c.close()
	p, err := question(c)
	if err != nil {
		return p, fmt.Errorf("ask %s for its position: %w", s.Addr, err)
	}
	return p, nil
}

// now: MySQL puts a GTID into gtid_executed after the engines have committed. MariaDB writes gtid_binlog_pos
// before, so that a transaction in it may not be visible yet. But a snapshot tells which part of the log
// it has: when that is all that there was, the position of before holds. (BINLOG_GTID_POS would tell
// it of any part, but gives NULL where the log has a large event.)
func (c *conn) now() (Position, error) {
	at, err := c.written()
	if err != nil || !c.mariaDB {
		return at, err
	}
	end, err := c.rows("SHOW MASTER STATUS")
	if err != nil {
		return at, err
	}
	if len(end) != 1 {
		return at, errors.New("the server doesn't tell the end of its log")
	}
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if _, err := c.rows("START TRANSACTION WITH CONSISTENT SNAPSHOT"); err != nil {
			return at, err
		}
		rows, err := c.rows("SHOW STATUS LIKE 'binlog_snapshot_%'")
		if err != nil {
			return at, err
		}
		is := map[string]string{}
		for _, row := range rows {
			is[strings.ToLower(row[0])] = row[1]
		}
		reached, err := after(is["binlog_snapshot_file"], is["binlog_snapshot_position"], end[0][0], end[0][1])
		if err != nil {
			return at, err
		}
		if reached {
			_, err = c.rows("COMMIT")
			return at, err
		}
		if time.Since(began) > patience {
			return at, errors.New("the server's engines haven't committed what is in its log")
		}
	}
}

// after reports whether a place in the log is not before another one. Files are numbered; longer names are later.
func after(file, position, otherFile, otherPosition string) (bool, error) {
	if c := cmp.Or(cmp.Compare(len(file), len(otherFile)), cmp.Compare(file, otherFile)); c != 0 {
		return c > 0, nil
	}
	a, err := strconv.ParseUint(position, 10, 64)
	if err != nil {
		return false, fmt.Errorf("read a log's position: %w", err)
	}
	b, err := strconv.ParseUint(otherPosition, 10, 64)
	if err != nil {
		return false, fmt.Errorf("read a log's position: %w", err)
	}
	return a >= b, nil
}

// seenText is what Seen answers: MySQL has a GTID in gtid_owned from before its transaction is visible until it is in
// gtid_executed. It reads the variables in their order here.
func (c *conn) seenText() (string, error) {
	if c.mariaDB {
		return c.one("SELECT @@GLOBAL.gtid_binlog_pos")
	}
	text, err := c.one("SELECT CONCAT(@@GLOBAL.gtid_owned, ',', @@GLOBAL.gtid_executed)")
	return strings.Trim(owner.ReplaceAllString(text, ""), ","), err
}

// owner is which thread a GTID in gtid_owned is of.
var owner = regexp.MustCompile(`#[0-9]+`)

func (c *conn) written() (Position, error) {
	query := "SELECT @@GLOBAL.gtid_executed"
	if c.mariaDB {
		query = "SELECT @@GLOBAL.gtid_binlog_pos"
	}
	text, err := c.one(query)
	if err != nil {
		return Position{}, err
	}
	return ParsePosition(text)
}
