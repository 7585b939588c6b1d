package proxy

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/text"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// settings is what a client has SET. It is kept here, not on a shard
// connection: a shard connection is given a session's settings when it is
// borrowed, if the fingerprint of what it last got differs.
type settings struct {
	schema             string
	charset, collation string
	autocommit         bool
	// vars in the order of their first SET; later values replace earlier ones. users are
	// its user variables, likewise.
	vars  []variable
	users []userVariable
	// once are the characteristics of the transaction at hand, or of the next.
	once characteristics
	// completion is completion_type, which Shunt obeys: "", "CHAIN" or "RELEASE".
	completion string
	// own are obeyed by Shunt, and aren't part of the fingerprint.
	own ownVariables
	// tracked is what the client wants to be told of.
	tracked tracked
	mariaDB bool
	// fileCharset is what SET character_set_database has said that LOAD DATA
	// reads files in, until the next USE; "" for the schema's own.
	fileCharset string
	// insertID is what SET LAST_INSERT_ID says, nil once the session has it.
	insertID *uint64
	// restricted: the user may not see all schemas.
	restricted bool

	// Derived from the above by update.
	fingerprint string
	// collationID is the number of collation, in which Shunt's own texts are answered.
	collationID uint16
	statements  []string
	planning    text.Settings
}

// variable is one SET that a shard connection needs: name is "@@sql_mode" or
// "transaction isolation level", statement the text that sets it.
type variable struct{ name, statement, value string }

// newSettings is what a fresh session has: what the server's own would have
// after a handshake that names the collation id.
func newSettings(c *catalog.Catalog, collationID int, schema string, own ownVariables) settings {
	s := settings{autocommit: !c.AutocommitOff, schema: schema, own: own, tracked: trackedByDefault()}
	col, ok := c.Collations[collationID]
	if !ok {
		col = catalog.Collation{Name: c.DefaultCollation["utf8mb4"], Charset: "utf8mb4"}
	}
	s.charset, s.collation = strings.ToLower(col.Charset), strings.ToLower(col.Name)
	if c.MariaDB && slices.Contains(defaultsBefore11, s.collation) {
		s.collation = strings.ToLower(c.DefaultCollation[s.charset])
	}
	s.update(c)
	return s
}

// defaultsBefore11 are the collations that were their character sets' defaults before
// MariaDB had @@character_set_collations. A client that names one in its handshake gets
// what is the default now.
var defaultsBefore11 = []string{"utf8mb3_general_ci", "utf8mb4_general_ci", "latin1_swedish_ci"}

// ignoreSpace adds IGNORE_SPACE to the server's SQL mode.
func (s *settings) ignoreSpace(c *catalog.Catalog) {
	mode := "IGNORE_SPACE"
	if c.SQLMode != "" {
		mode = c.SQLMode + "," + mode
	}
	s.setMode(c, mode)
}

// sqlMode is the session's SQL mode.
func (s *settings) sqlMode(c *catalog.Catalog) string {
	if mode, ok := s.value("@@sql_mode"); ok && !strings.EqualFold(mode, "default") {
		return mode
	}
	return c.SQLMode
}

func (s *settings) setMode(c *catalog.Catalog, mode string) {
	s.with(variable{"@@sql_mode", "SET SESSION sql_mode = '" + mode + "'", mode})
	s.update(c)
}

func checkCharset(name string) error {
	if text.HidesASCII(strings.ToLower(name)) {
		return refuse("client character set %s is not supported: its bytes can't be told from quotes; connect with utf8mb4", name)
	}
	return nil
}

func (s *settings) with(v variable) {
	for i := range s.vars {
		if s.vars[i].name == v.name {
			s.vars[i] = v
			return
		}
	}
	s.vars = append(s.vars, v)
}

func (s *settings) value(name string) (string, bool) {
	for _, v := range s.vars {
		if v.name == name {
			return v.value, true
		}
	}
	return "", false
}

// on reports a variable that the client has set to ON.
func (s *settings) on(name string) bool {
	v, _ := s.value(name)
	return v == "1" || strings.EqualFold(v, "on") || strings.EqualFold(v, "true")
}

// clone is for trying out a change before it counts.
func (s *settings) clone() settings {
	c := *s
	c.vars, c.users = slices.Clone(s.vars), slices.Clone(s.users)
	return c
}

// update derives fingerprint, statements and planning. REQUIRES: called after
// every change.
func (s *settings) update(c *catalog.Catalog) {
	s.mariaDB = c.MariaDB
	names := fmt.Sprintf("SET NAMES %s", s.charset)
	if s.collation != "" {
		names += " COLLATE " + s.collation
	}
	// A shard whose rows wait until those of others are read must not give up;
	// a client that stops reading is cut off by the proxy (ownVariables).
	first := []string{names, "SESSION net_write_timeout = 3600", noSelectLimit}
	common := commonDefaults(c)
	for _, v := range common {
		first = append(first, v.statement)
	}
	if s.collationID = 0; s.charset == "utf8mb4" {
		s.collationID = c.CollationID(s.collation, s.charset)
	}
	s.statements = append(s.statements[:0:0], strings.Join(first, ", "))
	for _, v := range s.vars {
		sql := v.statement
		if strings.EqualFold(v.value, "default") {
			for _, d := range common {
				if d.name == v.name {
					sql = "SET " + d.statement
				}
			}
		}
		s.statements = append(s.statements, sql)
	}
	s.fingerprint = withUsers(s.users, strings.Join(s.statements, separator))
	for _, u := range s.users {
		s.statements = append(s.statements, u.statement)
	}
	s.planning = planningSettings(s.sqlMode(c))
	s.planning.Restricted = s.restricted
	s.planning.LimitsSelect, s.planning.SelectLimit = s.own.limit.on, s.own.limit.rows
	s.planning.Schema, s.planning.Charset, s.planning.Collation = s.schema, s.charset, s.collation
	_, s.planning.OwnCollations = s.value(defaultCollations)
	// character_set_client decides how literals are read, and _connection what
	// they become; where they differ, literals are not taken for what they look
	// like.
	client, hasClient := s.value("@@character_set_client")
	connection, hasConnection := s.value("@@character_set_connection")
	collation, hasCollation := s.value("@@collation_connection")
	of, _, _ := strings.Cut(collation, "_")
	switch {
	case hasClient && !sameCharset(client, s.charset), hasConnection && !sameCharset(connection, s.charset), hasCollation && !sameCharset(of, s.charset):
		s.planning.Charset = keys.UnknownCharset
	}
	switch {
	case hasCollation:
		s.planning.Collation = strings.ToLower(collation)
	case hasConnection:
		s.planning.Collation = strings.ToLower(c.DefaultCollation[strings.ToLower(connection)])
	}
}

// defaultCollations is MariaDB's variable (11.2) of what collations character sets stand
// for where none is named.
const defaultCollations = "@@character_set_collations"

// sameCharset knows the two names of one. Counter-example: Sqitch sets character_set_client to
// utf8 on a connection of utf8mb3, and no text was taken for a shard key.
func sameCharset(x, y string) bool {
	name := func(s string) string {
		if s = strings.ToLower(s); s == "utf8" {
			return "utf8mb3"
		}
		return s
	}
	return name(x) == name(y)
}

// commonDefaults are the first shard's global settings where another shard's sessions
// would begin otherwise: a statement means the same on all of them.
//
// Counter-example: s1 has NO_BACKSLASH_ESCAPES in its sql_mode. INSERT ... ('a\\b') stores
// a\b on s0, which is what the index has, and a\\b on s1.
//
// sql_mode, by which Shunt reads statements, is always said: SET GLOBAL may change it.
func commonDefaults(c *catalog.Catalog) []variable {
	var out []variable
	list := c.Unlike
	if !slices.ContainsFunc(list, func(d catalog.Setting) bool { return d.Name == "sql_mode" }) && c.ServerVersion != "" {
		list = append(slices.Clip(list), catalog.Setting{Name: "sql_mode", Value: c.SQLMode, Able: true})
	}
	for _, d := range list {
		if d.Able {
			value := d.Value
			if _, err := strconv.ParseUint(value, 10, 64); err != nil {
				value = "'" + strings.ReplaceAll(value, "'", "''") + "'"
			}
			out = append(out, variable{"@@" + d.Name, "SESSION " + d.Name + " = " + value, d.Value})
		}
	}
	return out
}

// anyGroups takes ONLY_FULL_GROUP_BY out of the SQL mode.
func (s *settings) anyGroups(c *catalog.Catalog) {
	var kept []string
	for m := range strings.SplitSeq(strings.ToUpper(s.sqlMode(c)), ",") {
		switch m = strings.TrimSpace(m); m {
		case "ONLY_FULL_GROUP_BY":
		case "ANSI": // has it too
			kept = append(kept, "REAL_AS_FLOAT", "PIPES_AS_CONCAT", "ANSI_QUOTES", "IGNORE_SPACE")
		default:
			kept = append(kept, m)
		}
	}
	s.setMode(c, strings.Join(kept, ","))
}

func planningSettings(mode string) text.Settings {
	var p text.Settings
	for m := range strings.SplitSeq(strings.ToUpper(mode), ",") {
		switch strings.TrimSpace(m) {
		case "ANSI_QUOTES":
			p.ANSIQuotes = true
		case "NO_BACKSLASH_ESCAPES":
			p.NoBackslashEscapes = true
		case "PIPES_AS_CONCAT":
			p.PipesAsConcat = true
		case "HIGH_NOT_PRECEDENCE":
			p.HighNotPrecedence, p.OddParsing = true, true
		case "EMPTY_STRING_IS_NULL":
			p.OddParsing = true
		case "IGNORE_SPACE":
			p.IgnoreSpace = true
		case "STRICT_ALL_TABLES", "STRICT_TRANS_TABLES":
			p.Strict = true
		case "PAD_CHAR_TO_FULL_LENGTH":
			p.PadCharToFullLength, p.ComputesOtherwise = true, true
		case "ALLOW_INVALID_DATES", "TIME_ROUND_FRACTIONAL":
			p.ComputesOtherwise = true
		case "NO_AUTO_VALUE_ON_ZERO":
			p.NoAutoValueOnZero = true
		case "ANSI", "DB2", "MAXDB", "MSSQL", "ORACLE", "POSTGRESQL":
			p.ANSIQuotes, p.PipesAsConcat, p.IgnoreSpace = true, true, true
		case "TRADITIONAL":
			p.Strict = true
		}
	}
	return p
}

// refusedVariables can't be set for one session over many shards, with the
// reason.
var refusedVariables = map[string]string{
	"sql_log_bin":        "changes would be missing from the shards' binary logs (dump with mysqldump --set-gtid-purged=OFF, or leave the line out)",
	"insert_id":          "AUTO_INCREMENT over several shards is not supported yet",
	"gtid_next":          "it names one transaction, and several shards have several",
	"collation_database": "it follows the current schema",
}

// refusedValues are of variables that may only be set to one value, with the reason.
// What the SET would mean is to be had by other statements.
var refusedValues = map[string]struct {
	allowed []string
	reason  string
}{
	// Counter-example: WHERE id IS NULL, for the row that was inserted last, asks
	// each shard by what its own connection inserted last.
	"sql_auto_is_null": {[]string{"0", "off", "false", "default"}, "each shard knows only what its own connection inserted last; use WHERE id = LAST_INSERT_ID()"},
	// Counter-example: WHERE email = 'old' as of yesterday. The index has the keys of
	// the rows of now.
	"system_versioning_asof": {[]string{"default"}, "virtual indexes have the keys of the rows of now; read history on each shard, with /* shunt: shard=NAME */ and FOR SYSTEM_TIME"},
}

// applyTo gives a pooled connection the session's settings. The connection is
// reset first if it had another session's.
func (s *settings) applyTo(ctx context.Context, conn *shard.Conn) error {
	fits := conn.State == s.fingerprint
	if !fits {
		_, fits = s.lacking(conn.State)
	}
	if conn.Unclean || !fits {
		refused, err := conn.ResetWith(ctx, s.statements...)
		if err != nil {
			return err
		}
		if failed := first(refused); failed != nil {
			conn.State = "?" // it has a part of them
			return failed
		}
		conn.State = s.fingerprint
	}
	return s.applyMore(ctx, conn)
}

// applyMore gives a connection that has only had this session's settings the
// ones it lacks; a transaction's connection must not be reset. Where the server refuses
// one, the connection has a part of them, and is reset before another session has it.
func (s *settings) applyMore(ctx context.Context, conn *shard.Conn) error {
	if conn.State != s.fingerprint {
		todo, ok := s.lacking(conn.State)
		if !ok {
			todo = s.statements
		}
		for _, sql := range todo {
			if _, err := conn.Exec(ctx, sql); err != nil {
				conn.State, conn.Unclean = "?", true
				return err
			}
		}
		conn.State = s.fingerprint
	}
	schema := s.schema
	if schema == "" && conn.Schema != "" {
		schema = withoutSchema
	}
	if schema == "" || conn.Schema == schema {
		return nil
	}
	err := conn.InitDB(ctx, schema)
	if shard.Code(err) != mysqlerr.BadDB {
		return err
	}
	// Somebody has dropped it. A session goes on then, and so must who only has it for its
	// current one.
	if conn.Schema == "" || conn.Schema == withoutSchema {
		return nil
	}
	return conn.InitDB(ctx, withoutSchema)
}

// withoutSchema stands for none where a connection has had one: it can't be without again.
//
// Counter-example: /* shunt: shard=s0 */ DELETE FROM t, in a session without a schema,
// deletes from the t of whose connection it was before.
const withoutSchema = "information_schema"

// takeBack brings a connection that has a part of other settings back to these, without a
// reset. What the server refuses stays for the reset.
//
// Counter-example: in a transaction SET @x = 1, sql_mode = 'nonsense' fails, and @x is 1.
func (s *settings) takeBack(ctx context.Context, conn *shard.Conn, from *settings) {
	for _, v := range from.vars {
		if _, had := s.value(v.name); had {
			continue
		}
		if _, err := conn.Exec(ctx, s.unset(v.name)); err != nil && conn.Broken {
			return
		}
	}
	for _, u := range from.users {
		if slices.ContainsFunc(s.users, func(had userVariable) bool { return had.name == u.name }) {
			continue
		}
		if _, err := conn.Exec(ctx, "SET @"+catalog.QuoteName(u.name)+" = NULL"); err != nil && conn.Broken {
			return
		}
	}
	for _, sql := range s.statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return
		}
	}
	conn.State = s.fingerprint
}

// unset gives a variable the value that it has in a session that never SET it.
func (s *settings) unset(name string) string {
	switch name {
	case isolationSetting:
		return "SET SESSION " + s.characteristic("isolation") + " = DEFAULT"
	case accessSetting:
		return "SET SESSION " + s.characteristic("read_only") + " = DEFAULT"
	}
	return "SET SESSION " + catalog.QuoteName(strings.TrimPrefix(name, "@@")) + " = DEFAULT"
}

// separator stands between the statements of a fingerprint. A statement may hold it
// too, in a string: only lacking takes a fingerprint apart.
const separator = ";\n"

// lacking is what is to be said to a connection in a state of which the fingerprint is
// a continuation, but for the values of user variables; ok is false where it is none.
func (s *settings) lacking(state string) (todo []string, ok bool) {
	if state == "" {
		return s.statements, true
	}
	had, state := cutUsers(state)
	users, ok := s.lackingUsers(had)
	if !ok {
		return nil, false
	}
	_, own := cutUsers(s.fingerprint)
	if state == own {
		return users, true
	}
	if rest, ok := strings.CutPrefix(own, state); !ok || !strings.HasPrefix(rest, separator) {
		return nil, false
	}
	end := 0
	statements := s.statements[:len(s.statements)-len(s.users)]
	for i, sql := range statements {
		if end += len(sql); end == len(state) {
			return slices.Concat(statements[i+1:], users), true
		}
		end += len(separator)
	}
	return nil, false
}

// forget drops a variable that something else now decides.
func (s *settings) forget(name string) {
	s.vars = slices.DeleteFunc(s.vars, func(v variable) bool { return v.name == name })
}

// forgetConnection forgets the two variables of which either sets both.
func (s *settings) forgetConnection() {
	s.forget("@@character_set_connection")
	s.forget("@@collation_connection")
}
