package proxy

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// characteristics are isolation level and access mode of a transaction, as far as
// they are known: "" is the session's. As in a server (its tx_isolation and
// tx_read_only) they live from SET TRANSACTION, or from where a transaction began,
// to where one ends without chain: by COMMIT, ROLLBACK, an implicit commit, or an
// autocommitted statement that names tables. SET autocommit = 1 and, in MySQL, BEGIN
// commit and leave them. A COMMIT that fails ends them here and not on a server. What it mostly
// fails by is a shard's connection: one server's client would have lost its own, and begun anew.
//
// Counter-example: BeginTx of Go's database/sql with ReadOnly, whose COMMIT fails: no
// ROLLBACK follows, and whoever gets the connection next can't write.
type characteristics struct{ isolation, access string }

const (
	readOnly  = "READ ONLY"
	readWrite = "READ WRITE"
	// serverDefault: what the server has for sessions that don't say; the
	// transaction at hand began so, and its session has said something since.
	serverDefault = "DEFAULT"

	// The names of session's own among settings.vars.
	isolationSetting = "@@isolation"
	accessSetting    = "@@access"

	completionChain   = "CHAIN"
	completionRelease = "RELEASE"
)

func (c *characteristics) at(name string) *string {
	if name == isolationSetting {
		return &c.isolation
	}
	return &c.access
}

func (c *characteristics) of(name string) string { return *c.at(name) }

// set takes "READ ONLY", "ISOLATION LEVEL SERIALIZABLE", serverDefault or "".
func (c *characteristics) set(name, text string) { *c.at(name) = text }

// begin are the statements that begin a transaction so on a connection that has
// the session's settings.
func (c *characteristics) begin(s *settings, snapshot bool) []string {
	var out []string
	if now, _ := s.value(isolationSetting); c.isolation != "" && c.isolation != now {
		if c.isolation == serverDefault {
			out = append(out, s.onceDefault("isolation"))
		} else {
			out = append(out, "SET TRANSACTION "+c.isolation)
		}
	}
	var with []string
	if snapshot {
		with = append(with, "WITH CONSISTENT SNAPSHOT")
	}
	if now, _ := s.value(accessSetting); c.access != "" && c.access != now {
		if c.access == serverDefault {
			out = append(out, s.onceDefault("read_only"))
		} else {
			with = append(with, c.access)
		}
	}
	if len(with) == 0 {
		return append(out, "BEGIN")
	}
	return append(out, "START TRANSACTION "+strings.Join(with, ", "))
}

// beginLocked is begin on a connection with table locks, which BEGIN would release.
func (c *characteristics) beginLocked(s *settings) []string {
	return append(c.onceOnly(s), "SET autocommit = 0")
}

// onceOnly is begin where no START TRANSACTION says the access mode.
func (c *characteristics) onceOnly(s *settings) []string {
	out := c.begin(s, false)
	last := len(out) - 1
	if now, _ := s.value(accessSetting); c.access != "" && c.access != now && c.access != serverDefault {
		return append(out[:last], "SET TRANSACTION "+c.access)
	}
	return out[:last]
}

// onceDefault gives the next transaction on a connection the server's own.
func (s *settings) onceDefault(variable string) string {
	name := s.characteristic(variable)
	return "SET @@" + name + " = @@GLOBAL." + name
}

// characteristic is the name of a transaction's variable, isolation or read_only.
func (s *settings) characteristic(variable string) string {
	if s.mariaDB {
		return "tx_" + variable
	}
	return "transaction_" + variable
}

// readOnly reports that the transaction at hand, or the next, may not write. What
// the servers themselves default to is theirs to say.
func (s *settings) readOnly() bool {
	if s.once.access != "" {
		return s.once.access == readOnly
	}
	v, _ := s.value(accessSetting)
	return v == readOnly
}

// writesForOnce: only the next transaction may write.
func (s *settings) writesForOnce() bool {
	v, _ := s.value(accessSetting)
	return v == readOnly && s.once.access == readWrite
}

// sayOnce gives a statement without a transaction, which is one by itself, the
// characteristics that SET TRANSACTION chose for the next one. Between BEGIN and
// COMMIT it would not be the same: SERIALIZABLE locks what is read there.
func (s *session) sayOnce(ctx context.Context, conn *shard.Conn, r *request, id catalog.ShardID) error {
	if s.settings.once == (characteristics{}) || s.tx != nil || len(r.plan.Tables) == 0 || r.plan.Kind == plan.Show {
		return nil
	}
	for _, sql := range s.settings.once.onceOnly(&s.settings) {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return s.unsent(id, err)
		}
		conn.Unclean = true // if the statement fails, who knows what is next
	}
	return nil
}

// spendOnce: a statement without a transaction was the next one, unless it was
// refused for that, or before its tables were locked.
func (s *session) spendOnce(p *plan.Rows, sql string) {
	switch {
	case s.tx != nil || s.settings.once == (characteristics{}):
		return
	case len(p.Tables) > 0 && p.Kind != plan.Show, s.readsDictionary(sql):
	default:
		return
	}
	switch failed := s.diag.failed; {
	case failed == mysqlerr.CantExecuteInReadOnlyTransaction, failed == mysqlerr.ParseError:
	case failed != 0 && unresolved[failed] && !s.mariaDB(): // MariaDB locks tables before
	default:
		s.settings.once = characteristics{}
	}
}

// readsDictionary reports what MySQL reads from tables of InnoDB's, which is a transaction like any other.
func (s *session) readsDictionary(sql string) bool {
	return !s.mariaDB() && ofDictionary.MatchString(sql)
}

var ofDictionary = regexp.MustCompile(`(?is)^\s*(SHOW\s+((FULL|EXTENDED)\s+)*(DATABASES|SCHEMAS|TABLES?|COLUMNS|FIELDS|INDEX|INDEXES|KEYS|TRIGGERS|EVENTS|CHARACTER|CHARSET|COLLATION|(PROCEDURE|FUNCTION)\s+STATUS)|DESC|DESCRIBE)\b|\bFROM\s+information_schema\s*\.`)

// unresolved are errors that come while names and types are resolved: ambiguous and
// unknown columns, misused aggregates, other numbers of columns, and unknown functions.
var unresolved = map[uint16]bool{mysqlerr.NonUniq: true, mysqlerr.BadField: true, mysqlerr.WrongFieldWithGroup: true, mysqlerr.InvalidGroupFuncUse: true, mysqlerr.MixOfGroupFuncAndFields: true, mysqlerr.WrongNumberOfColumns: true, mysqlerr.OperandColumns: true, mysqlerr.SPDoesNotExist: true}

// mayNotWrite reports a write in a transaction that is READ ONLY. Temporary tables are
// nobody else's.
func (s *session) mayNotWrite(rows *plan.Rows) bool {
	return rows.Kind.Writes() && rows.Kind != plan.Other && !s.temporaryNeeded() && s.settings.readOnly()
}

// inAccessMode has a statement prepared as in the transaction at hand, until undo, on a
// connection that is none of its: a server refuses to prepare what it would not execute, and
// the session's transactions may have another access mode than this one.
func (s *session) inAccessMode(ctx context.Context, conn *shard.Conn, rows *plan.Rows) (undo func() error, err error) {
	v, _ := s.settings.value(accessSetting)
	if (v == readOnly) == s.settings.readOnly() || !rows.Kind.Writes() && rows.Kind != plan.Locking || conn.InTransaction() {
		return func() error { return nil }, nil
	}
	mode, other := readWrite, readOnly
	if s.settings.readOnly() {
		mode, other = other, mode
	}
	begin, end := "START TRANSACTION "+mode, "ROLLBACK"
	if s.tableLocks != nil { // BEGIN would release them
		begin, end = "SET TRANSACTION "+mode, "SET TRANSACTION "+other
	}
	_, err = conn.Exec(ctx, begin)
	return func() error {
		_, err := conn.Exec(ctx, end)
		return err
	}, err
}

// readOnlyTransaction is told before anything is done, on any shard or to a
// counter.
func (s *session) readOnlyTransaction() error {
	s.diag.refused(mysqlerr.CantExecuteInReadOnlyTransaction)
	e := mysqlerr.New(mysqlerr.CantExecuteInReadOnlyTransaction, "Cannot execute statement in a READ ONLY transaction.")
	if s.mariaDB() {
		e.Message = strings.TrimSuffix(e.Message, ".")
	}
	return e
}

// readOnlyFirst: a server looks at the access mode before it looks for the table.
func (s *session) readOnlyFirst(sql string, err error) error {
	if e, ok := errors.AsType[*text.Error](err); ok && e.Code == mysqlerr.NoSuchTable && s.settings.readOnly() {
		verb, _, _ := strings.Cut(strings.TrimSpace(sql), " ")
		switch strings.ToLower(verb) {
		case "insert", "replace", "update", "delete":
			return s.readOnlyTransaction()
		}
	}
	return err
}

// assignCompletion is SET completion_type. No shard gets it: what Shunt itself
// commits there is not to be chained.
func assignCompletion(next *settings, literal string) error {
	switch strings.ToUpper(literal) {
	case "0", "NO_CHAIN", "DEFAULT":
		next.completion = ""
	case "1", completionChain:
		next.completion = completionChain
	case "2", completionRelease:
		next.completion = completionRelease
	default:
		return mysqlerr.New(mysqlerr.WrongValueForVar, "Variable 'completion_type' can't be set to the value of '"+literal+"'")
	}
	return nil
}

// completionType is what @@completion_type tells.
func (s *settings) completionType() string {
	if s.completion == "" {
		return "NO_CHAIN"
	}
	return s.completion
}
