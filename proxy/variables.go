package proxy

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// set executes a SET: all of its assignments or none. The change is tried on a
// shard first, so that what the server refuses is refused now.
func (s *session) set(ctx context.Context, p *plan.Session) error {
	next, open := s.settings.clone(), s.tx
	var err error
	if p.Op == plan.SetNames {
		err = s.setNames(ctx, &next, p.Set)
	} else {
		for _, a := range p.Set {
			if err = s.assign(ctx, &next, a); err != nil {
				break
			}
		}
	}
	if err != nil {
		return err
	}
	if s.tx != open { // a subquery has begun it
		next.once = s.settings.once
	}
	next.update(s.catalog())
	if next.fingerprint != s.settings.fingerprint {
		if err := s.mayHold(next.bytes() - s.settings.bytes()); err != nil {
			return err
		}
		if err := s.try(ctx, &next, mayWarn(p, &next)); err != nil {
			return err
		}
	}
	changed, err := s.changedBy(ctx, p, &next)
	if err != nil {
		return err
	}
	turnedOn, turnedOff := next.autocommit && !s.settings.autocommit, !next.autocommit && s.settings.autocommit
	before := s.settings.tracked.transaction
	if next.insertID != nil {
		s.diag.setID(*next.insertID)
		next.insertID = nil
	}
	if err := s.keep(next); err != nil {
		return err
	}
	s.changes = changed
	if slices.ContainsFunc(p.Set, func(a plan.Assignment) bool {
		return a.Name == "session_track_transaction_info" && a.Scope != "user"
	}) {
		s.followTransaction(before)
	}
	if s.tx != nil && !s.tx.hidden {
		s.tx.chosen = next.once // see setTransaction
	}
	s.obey()
	if turnedOff && s.tx != nil && s.mayGoOn() == nil {
		s.tx.forget(ctx)
	}
	if turnedOn { // commits, as the manual says, and stays off where that fails
		err = s.commit(ctx)
		s.settings.autocommit = err == nil
	}
	return err
}

// try applies settings to a shard connection, and asks there what the server warns of a SET, if that isn't "".
func (s *session) try(ctx context.Context, next *settings, set string) error {
	if s.tx != nil && len(s.tx.order) > 0 && s.mayGoOn() == nil {
		id := s.tx.order[0]
		conn := s.tx.conns.at(id)
		if err := next.applyMore(ctx, conn); err != nil {
			err = s.shardError(id, err)
			if !conn.Broken {
				s.settings.takeBack(ctx, conn, next)
			}
			return err
		}
		if err := s.warned(ctx, conn, set); err != nil {
			return s.shardError(id, err)
		}
		return nil
	}
	return s.onAnyShard(ctx, func(id catalog.ShardID, conn *shard.Conn) error {
		err := next.applyTo(ctx, conn)
		if err == nil {
			err = s.warned(ctx, conn, set)
		}
		if err != nil {
			return s.notJoined(id, err)
		}
		return nil
	})
}

// onAnyShard runs what every shard can answer, and another time too, over a
// connection that is none of the transaction's. What fails because a connection
// was dead or a shard is down is done again elsewhere.
func (s *session) onAnyShard(ctx context.Context, do func(catalog.ShardID, *shard.Conn) error) error {
	return s.onShardOf(ctx, s.catalog().All, do)
}

// onShardOf is onAnyShard for what only some shards can answer.
func (s *session) onShardOf(ctx context.Context, left catalog.ShardSet, do func(catalog.ShardID, *shard.Conn) error) error {
	id := s.anyShard()
	if !left.Has(id) {
		id = s.livelyOf(left)
	}
	for ; ; id = s.livelyOf(left) {
		pool := s.proxy.pool(id)
		var err error
		for _, get := range []func() (*shard.Conn, error){
			func() (*shard.Conn, error) { return pool.GetFor(ctx, s.holder(), false, s.settings.fingerprint) },
			func() (*shard.Conn, error) { return pool.GetNew(ctx, s.holder(), false) },
		} {
			var conn *shard.Conn
			if conn, err = get(); err != nil {
				err = shard.Down(err)
				break
			}
			s.activity.sent(id, conn)
			err = do(id, conn)
			s.activity.done(conn)
			pool.Put(conn)
			if err == nil || coded(err).Code != mysqlerr.ShardLost {
				break
			}
		}
		if left = left.Minus(catalog.Only(id)); err == nil || left.Empty() || !unreachable(err) {
			return err
		}
	}
}

// onShardAsItIs is onShardOf one shard under a server's own settings: a pooled connection has those of whoever had it last.
//
// Counter-example: LOCK TABLES ... WRITE over one that a session has left READ ONLY.
func (s *session) onShardAsItIs(ctx context.Context, id catalog.ShardID, do func(*shard.Conn) error) error {
	return s.onShardOf(ctx, catalog.Only(id), func(id catalog.ShardID, conn *shard.Conn) error {
		if conn.State != "" {
			if err := conn.Reset(ctx); err != nil {
				return s.notJoined(id, err)
			}
		}
		return do(conn)
	})
}

// anyShard picks a shard for what every shard can answer: the first that is up,
// or the first where none is, so that the error is that shard's.
func (s *session) anyShard() catalog.ShardID {
	shards := s.catalog().Shards
	for _, sh := range shards {
		if p := s.proxy.pool(sh.ID); p.Lively() && p.State() == "up" {
			return sh.ID
		}
	}
	return shards[0].ID
}

func (s *session) setNames(ctx context.Context, next *settings, set []plan.Assignment) error {
	charset := strings.ToLower(set[0].Literal)
	collation := ""
	if len(set) > 1 {
		collation = strings.ToLower(set[1].Literal)
	}
	if charset == "default" {
		charset = "utf8mb4"
	}
	if err := checkCharset(charset); err != nil {
		return err
	}
	if collation == "" {
		collation = strings.ToLower(s.catalog().DefaultCollation[charset])
		if _, other := next.value(defaultCollations); other && collation != "" {
			var err error
			if collation, err = s.collationBehind(ctx, next, "SET NAMES "+charset); err != nil {
				return err
			}
		}
	}
	switch {
	case collation == "" && charset != "utf8" && charset != "binary" || !plainName.MatchString(charset):
		return mysqlerr.Newf(mysqlerr.UnknownCharacterSet, "Unknown character set: '%s'", charset)
	case collation != "" && !plainName.MatchString(collation):
		return mysqlerr.Newf(mysqlerr.UnknownCollation, "Unknown collation: '%s'", collation)
	}
	next.charset, next.collation = charset, collation
	next.forgetConnection()
	next.forget("@@character_set_client")
	next.forget("@@character_set_results")
	return nil
}

// setCharset is SET CHARACTER SET: literals become texts of the current schema's collation, as that
// is now, and not of the client's character set.
func (s *session) setCharset(ctx context.Context, next *settings, a plan.Assignment) error {
	if err := s.setNames(ctx, next, []plan.Assignment{a}); err != nil {
		return err
	}
	schema, err := s.evaluate(ctx, s.settings.clone(), plan.Assignment{Value: "@@collation_database"})
	if err != nil {
		return err
	}
	return s.setConnection(ctx, next, "collation_connection", schema, strings.Trim(schema, "'"))
}

// collationBehind is what collation_connection is behind a SET.
func (s *session) collationBehind(ctx context.Context, next *settings, set string) (string, error) {
	trial := next.clone()
	trial.with(variable{set, set, ""})
	collation, err := s.evaluate(ctx, trial, plan.Assignment{Value: "@@collation_connection"})
	return strings.Trim(collation, "'"), err
}

// setConnection assigns character_set_connection or collation_connection. Either sets both,
// so that the last one counts. Where literals stay in the session's character set it is as SET NAMES.
func (s *session) setConnection(ctx context.Context, next *settings, name, value, literal string) error {
	charset, collation := strings.ToLower(literal), strings.ToLower(literal)
	if name == "collation_connection" {
		charset, _, _ = strings.Cut(collation, "_")
	}
	set := "SET SESSION " + name + " = " + value
	next.forgetConnection()
	if charset != next.charset || !plainName.MatchString(collation) {
		next.with(variable{"@@" + name, set, literal})
		return nil
	}
	if name == "character_set_connection" {
		// MariaDB's default here is another than with SET NAMES.
		var err error
		if collation, err = s.collationBehind(ctx, next, set); err != nil {
			return err
		}
	}
	next.collation = collation
	return nil
}

// plainName is how character sets and collations are named.
var plainName = regexp.MustCompile(`^[0-9A-Za-z_]+$`)

func (s *session) assign(ctx context.Context, next *settings, a plan.Assignment) error {
	switch a.Scope {
	case "global", "persist":
		if a.Name == "gtid_purged" {
			return refuse("SET GLOBAL gtid_purged is not supported: each shard counts transactions for itself; dump with mysqldump --set-gtid-purged=OFF, or leave the line out")
		}
		return refuse("SET %s is not supported: set it on each shard's server", strings.ToUpper(a.Scope))
	case "user":
		value, err := s.userValue(ctx, next, a)
		if err == nil {
			next.withUser(a.Name, value)
		}
		return err
	}
	if reason, ok := refusedVariables[a.Name]; ok {
		return refuse("SET %s is not supported: %s", a.Name, reason)
	}
	value := a.Value
	if !a.IsLiteral {
		// As it was before the statement: servers evaluate all before they assign any.
		var err error
		if value, err = s.evaluate(ctx, s.settings.clone(), a); err != nil {
			return err
		}
	}
	literal := strings.Trim(value, `'"`)
	if a.IsLiteral {
		literal = a.Literal
	}
	if v, ok := refusedValues[a.Name]; ok && !slices.Contains(v.allowed, strings.ToLower(literal)) {
		return refuse("SET %s is not supported but for %s: %s", a.Name, strings.ToUpper(v.allowed[0]), v.reason)
	}
	if err := next.tracked.assign(a.Name, literal, s.catalog().MariaDB); err != nil {
		return err
	}
	if done, err := s.assignHere(ctx, next, a, value, literal); done {
		return err
	}
	value, literal, err := s.sentValue(ctx, next, a.Name, value, literal)
	if err != nil {
		return err
	}
	if a.Name == "character_set_connection" || a.Name == "collation_connection" {
		return s.setConnection(ctx, next, a.Name, value, literal)
	}
	next.with(variable{"@@" + a.Name, "SET SESSION " + catalog.QuoteName(a.Name) + " = " + value, literal})
	return nil
}

// assignHere assigns what no shard connection is given as it is; done is false for all else.
func (s *session) assignHere(ctx context.Context, next *settings, a plan.Assignment, value, literal string) (done bool, err error) {
	switch a.Name {
	case "wait_timeout", "interactive_timeout", "net_read_timeout", "net_write_timeout":
		return true, s.assignOwn(next, a.Name, value, literal)
	case "sql_select_limit":
		return true, s.assignSelectLimit(next, value, literal)
	case "shunt_read_from":
		return true, assignReadFrom(next, literal)
	case "shunt_virtual_columns":
		return true, next.own.virtualColumns.assign(a.Name, literal)
	case "shunt_index_reads":
		return true, next.own.indexReads.assign(a.Name, literal)
	case "resultset_metadata":
		if s.catalog().MariaDB { // which has no such variable, and says so
			return false, nil
		}
		return true, s.assignMetadata(next, literal)
	case "character_set_database": // by mysqlimport
		next.fileCharset = strings.ToLower(literal)
		if next.fileCharset == "default" {
			next.fileCharset = ""
		} else if next.fileCharset != "binary" && s.catalog().DefaultCollation[next.fileCharset] == "" {
			return true, mysqlerr.Newf(mysqlerr.UnknownCharacterSet, "Unknown character set: '%s'", literal)
		}
		return true, nil
	case "autocommit":
		if strings.EqualFold(literal, "default") {
			next.autocommit = !s.catalog().AutocommitOff
			return true, nil
		}
		on, err := boolean(literal)
		if err != nil {
			return true, notThatValue(a.Name, literal)
		}
		next.autocommit = on
		return true, nil
	case "last_insert_id", "identity":
		return true, assignInsertID(next, value)
	case "names":
		return true, s.setNames(ctx, next, []plan.Assignment{a})
	case "collation":
		return true, s.setNames(ctx, next, []plan.Assignment{{Literal: next.charset}, a})
	case "character set":
		return true, s.setCharset(ctx, next, a)
	case "transaction_isolation", "tx_isolation", "transaction_read_only", "tx_read_only":
		return true, s.setTransaction(next, a, value, literal)
	case "completion_type":
		return true, assignCompletion(next, literal)
	}
	return false, nil
}

// sentValue is what a variable is set to on shard connections, which Shunt must
// understand where it reads statements by it.
func (s *session) sentValue(ctx context.Context, next *settings, name, value, literal string) (string, string, error) {
	switch name {
	case "character_set_client", "character_set_connection", "character_set_results":
		if id, err := strconv.Atoi(literal); err == nil { // of a collation
			if literal = strings.ToLower(s.catalog().Collations[id].Charset); literal == "" {
				return "", "", mysqlerr.Newf(mysqlerr.UnknownCharacterSet, "Unknown character set: '%d'", id)
			}
			value = literal
		}
		if err := checkCharset(literal); err != nil && name != "character_set_results" {
			return "", "", err
		}
	case "auto_increment_increment", "auto_increment_offset":
		if !strings.EqualFold(literal, "default") && literal != "1" {
			return "", "", refuse("SET %s is not supported but for 1: Shunt counts AUTO_INCREMENT for all shards together, one by one", name)
		}
	case "sql_mode":
		if number.MatchString(literal) {
			// Which bit is which mode only the servers know; the planner has to know.
			trial := s.settings.clone()
			trial.with(variable{"@@sql_mode", "SET SESSION sql_mode = " + literal, literal})
			var err error
			if value, err = s.evaluate(ctx, trial, plan.Assignment{Value: "@@SESSION.sql_mode"}); err != nil {
				return "", "", err
			}
			literal = strings.Trim(value, "'")
		}
		if err := checkMode(literal); err != nil {
			return "", "", err
		}
	case "optimizer_switch":
		was, _ := next.value("@@optimizer_switch")
		if all := switches(was, literal); all != literal {
			return "'" + all + "'", all, nil
		}
	}
	return value, literal, nil
}

// switches is what optimizer_switch is when some of its flags are SET: the others stay as
// they were SET before.
func switches(was, set string) string {
	flags := strings.Split(set, ",")
	for i, f := range flags {
		if flags[i] = strings.TrimSpace(f); !flag.MatchString(flags[i]) {
			return set // it begins with the default, or has all of them as a number
		}
	}
	var all []string
	for f := range strings.SplitSeq(was, ",") {
		name, _, ok := strings.Cut(f, "=")
		if ok && !slices.ContainsFunc(flags, func(f string) bool { return strings.EqualFold(strings.SplitN(f, "=", 2)[0], name) }) {
			all = append(all, f)
		}
	}
	return strings.Join(append(all, flags...), ",")
}

var flag = regexp.MustCompile(`^\w+=\w+$`)

var isolationLevels = []string{"READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"}

// setTransaction sets characteristics of the next transaction or of all. The
// variables have other names on other servers; the statement is the same.
func (s *session) setTransaction(next *settings, a plan.Assignment, value, literal string) error {
	name, text := isolationSetting, ""
	byDefault := strings.EqualFold(value, "default")
	if strings.HasSuffix(a.Name, "read_only") {
		on, err := boolean(literal)
		if err != nil {
			return notThatValue(a.Name, literal)
		}
		name, text = accessSetting, readWrite
		if on {
			text = readOnly
		}
	} else if !byDefault {
		level := strings.ReplaceAll(strings.ToUpper(literal), "-", " ")
		if n, err := strconv.ParseUint(value, 10, 64); err == nil && n < uint64(len(isolationLevels)) {
			level = isolationLevels[n]
		}
		if !slices.Contains(isolationLevels, level) {
			return notThatValue(a.Name, literal)
		}
		text = "ISOLATION LEVEL " + level
	}
	statement := "SET SESSION TRANSACTION " + text
	if byDefault {
		text, statement = serverDefault, next.unset(name)
	}
	if a.Scope == "transaction" {
		if s.tx != nil {
			return mysqlerr.New(mysqlerr.CantChangeTxCharacteristics, "Transaction characteristics can't be changed while a transaction is in progress")
		}
		next.once.set(name, text)
		return nil
	}
	switch {
	case s.tx == nil:
		next.once.set(name, "") // the next transaction has the session's
	case next.once.of(name) == "":
		next.once.set(name, serverDefault) // the one at hand keeps what it began with
	}
	next.with(variable{name, statement, text})
	if s.mariaDB() && strings.HasPrefix(a.Name, "tx_") && deprecatesTx(s.catalog().ServerVersion) {
		s.diag.warn(mysqlerr.WarnDeprecatedSyntax, fmt.Sprintf(
			"'@@%s' is deprecated and will be removed in a future release. Please use '@@transaction_%s' instead", a.Name, strings.TrimPrefix(a.Name, "tx_")))
	}
	return nil
}

// deprecatesTx: MariaDB has transaction_isolation and transaction_read_only from 11.1 on.
func deprecatesTx(version string) bool {
	var major, minor int
	_, err := fmt.Sscanf(version, "%d.%d", &major, &minor)
	return err == nil && (major > 11 || major == 11 && minor >= 1)
}

func notThatValue(name, literal string) error {
	return mysqlerr.Newf(mysqlerr.WrongValueForVar, "Variable '%s' can't be set to the value of '%s'", name, literal)
}

// checkMode refuses SQL modes under which statements mean what the planner
// would not see.
func checkMode(mode string) error {
	for m := range strings.SplitSeq(strings.ToUpper(mode), ",") {
		switch m = strings.TrimSpace(m); m {
		case "ORACLE", "MSSQL", "DB2", "EMPTY_STRING_IS_NULL", "TIME_TRUNCATE_FRACTIONAL":
			return refuse("sql_mode %s is not supported: it changes what statements mean", m)
		}
	}
	return nil
}

func boolean(v string) (bool, error) {
	switch strings.ToLower(v) {
	case "1", "on", "true", "default":
		return true, nil
	case "0", "off", "false":
		return false, nil
	}
	return false, fmt.Errorf("no boolean: %q", v)
}

var number = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?$`)

// evaluate lets a shard compute an expression of a SET under some settings, and
// returns the value as a literal, so that it can be set again on other connections.
func (s *session) evaluate(ctx context.Context, under settings, a plan.Assignment) (text string, err error) {
	if a.Selected {
		_, v, err := s.looked(ctx, a.Value)
		return under.literal(v), err
	}
	err = s.askFor(ctx, under, a.Tables, func(id catalog.ShardID, conn *shard.Conn) error {
		res, err := conn.Query(ctx, "SELECT "+a.Value)
		if err != nil {
			return s.evaluationFailed(id, conn, err)
		}
		if len(res.Rows) != 1 || len(res.Rows[0]) != 1 {
			return errOneColumn
		}
		text = under.literal(res.Rows[0][0])
		return nil
	})
	return text, err
}

var errOneColumn = mysqlerr.New(mysqlerr.OperandColumns, "Operand should contain 1 column")

// literal is a value that a server has answered.
func (s *settings) literal(v []byte) string {
	switch {
	case v == nil:
		return "NULL"
	case number.Match(v):
		return string(v)
	}
	return s.quoted(string(v))
}

// quoted is a literal for text in the client's character set.
func (s *settings) quoted(text string) string {
	text = strings.ReplaceAll(text, "'", "''")
	if !s.planning.NoBackslashEscapes {
		text = strings.ReplaceAll(text, `\`, `\\`)
	}
	return "'" + text + "'"
}

// looked is the value of an expression that no shard alone knows: it is answered as a SELECT.
func (s *session) looked(ctx context.Context, expr string) (wire.Column, []byte, error) {
	defer s.diag.keepFound()()
	columns, rows, _, err := s.selected(ctx, "SELECT "+expr)
	switch {
	case err != nil:
		return wire.Column{}, nil, err
	case len(columns) != 1 || len(rows) != 1:
		return wire.Column{}, nil, errOneColumn
	}
	return columns[0], rows[0][0], nil
}

// askFor is askUnder for an expression that reads tables: a shard that has them is asked,
// and over the transaction's connection, if there is one. No other sees what it has written.
//
// Counter-example: BEGIN; UPDATE countries SET region = 'x'; SET @r = (SELECT region FROM
// countries WHERE code = 'DE').
func (s *session) askFor(ctx context.Context, under settings, tables []*catalog.Table, do func(catalog.ShardID, *shard.Conn) error) error {
	set := s.catalog().All
	for _, t := range tables {
		if !t.Shards.Empty() {
			set = set.Intersect(t.Shards)
		}
	}
	switch {
	case set.Empty():
		return refuse("SET with a query over tables that no shard has all of is not supported: read the values first")
	case len(tables) == 0 || s.tx == nil && s.settings.autocommit:
		return s.askUnder(ctx, under, set, do)
	}
	if err := s.mayGoOn(); err != nil {
		return err
	}
	s.transact()
	id := s.livelyOf(set)
	if i := slices.IndexFunc(s.tx.order, set.Has); i >= 0 {
		id = s.tx.order[i]
	}
	conn, err := s.tx.conn(ctx, id)
	if err != nil {
		return err
	}
	defer s.giveBack(id, conn)
	s.activity.sent(id, conn)
	conn.Unclean = true // it gets a variable that no session has
	return do(id, conn)
}

// evaluationFailed is shardError, or notJoined on a connection that is none of the
// transaction's.
func (s *session) evaluationFailed(id catalog.ShardID, conn *shard.Conn, err error) error {
	if own, ok := errors.AsType[mysqlerr.Error](err); ok {
		return own
	}
	if s.tx != nil && s.tx.conns.at(id) == conn {
		return s.shardError(id, err)
	}
	return s.notJoined(id, err)
}

// askUnder has a connection to one of some shards with some settings answer.
func (s *session) askUnder(ctx context.Context, under settings, set catalog.ShardSet, do func(catalog.ShardID, *shard.Conn) error) error {
	if err := s.mayGoOn(); err != nil {
		return err
	}
	under.update(s.catalog())
	return s.onShardOf(ctx, set, func(id catalog.ShardID, conn *shard.Conn) error {
		if err := under.applyTo(ctx, conn); err != nil {
			conn.State = "?"
			return s.notJoined(id, err)
		}
		return do(id, conn)
	})
}
