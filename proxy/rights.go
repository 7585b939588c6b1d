package proxy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// User is who may connect, and what he may do. The shards know none of the users:
// all that they are sent comes from one account.
type User struct {
	Credential wire.Credential
	// Schemas are those that the user may name and see; nil: all.
	Schemas []string
	// ReadOnly: nothing that changes or locks rows, tables or settings of others.
	ReadOnly bool
	// RequireTLS: no connection in clear, but for a Unix socket.
	RequireTLS bool
	// ReadFromReplicas: as shunt_read_from = 'replica', unless a session has SET that.
	ReadFromReplicas bool
	// FastVirtualColumns and FastIndexReads: as shunt_virtual_columns and shunt_index_reads = 'fast', likewise.
	FastVirtualColumns, FastIndexReads bool
	// MaxConnections at a time, and MaxRate of statements a second over all of
	// them; 0: no bound.
	MaxConnections, MaxRate int
	// MaxShardConnections of each shard for his statements at a time; 0: his share,
	// which leaves some for other users.
	MaxShardConnections int
}

// usage is what a user has in use. It outlives a reload.
type usage struct {
	// holder has the shards' connections.
	holder      *shard.Holder
	mu          sync.Mutex
	connections int
	// free is when the next statement is due if they come as evenly as they may.
	free time.Time
}

// enter counts a connection, unless there are too many.
func (u *usage) enter(limit int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if limit > 0 && u.connections >= limit {
		return false
	}
	u.connections++
	return true
}

func (u *usage) leave() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.connections--
}

// statement counts a statement, unless there were too many in the last second.
func (u *usage) statement(rate int, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	each := time.Second / time.Duration(rate)
	free := u.free
	if free.Before(now) {
		free = now
	}
	if free.Sub(now) > time.Second-each {
		return false
	}
	u.free = free.Add(each)
	return true
}

func (p *Proxy) usageOf(user string) *usage {
	u, ok := p.usage.Load(user)
	if !ok {
		u, _ = p.usage.LoadOrStore(user, &usage{holder: shard.NewHolder(user)})
	}
	return u.(*usage)
}

// holder is who the shards' connections are lent to.
func (s *session) holder() *shard.Holder {
	if s.account.counted == nil {
		return nil // before it is admitted, and behind its end
	}
	return s.account.counted.holder
}

// account is a session's user.
type account struct {
	// user is what users, of the last reload that was looked at, have of him.
	user  User
	users *map[string]User
	// counted is where the connection counts; nil where it doesn't.
	counted *usage
}

// rights are the session's user's, as of the last reload. A user that is gone
// keeps what he had.
func (s *session) rights() *User {
	if users := s.proxy.users.Load(); users != s.account.users {
		s.account.users = users
		if u, ok := (*users)[s.client.User]; ok {
			s.account.user = u
		}
		s.settings.restricted = s.account.user.Schemas != nil
		s.settings.update(s.catalog())
	}
	return &s.account.user
}

// admit lets an authenticated user in, or says why not. leave takes it back.
func (s *session) admit() error {
	s.account.users = nil // it may be another user
	u := s.rights()
	if u.RequireTLS && !s.client.TLS && !s.client.Local() {
		return mysqlerr.Newf(mysqlerr.SecureTransportRequired, "Connections using insecure transport are prohibited for user '%s': connect with TLS", s.client.User)
	}
	s.leave()
	use := s.proxy.usageOf(s.client.User)
	if !use.enter(u.MaxConnections) {
		s.proxy.metrics.limited.WithLabelValues("connections").Inc()
		return exceeded(s.client.User, "max_user_connections", u.MaxConnections)
	}
	s.account.counted = use
	return nil
}

// leave gives up the session's place among the user's connections.
func (s *session) leave() {
	if s.account.counted != nil {
		s.account.counted.leave()
		s.account.counted = nil
	}
}

func exceeded(user, what string, limit int) error {
	return mysqlerr.Newf(mysqlerr.UserLimitReached, "User '%s' has exceeded the '%s' resource (current value: %d)", user, what, limit)
}

// sees reports whether a user may name a schema of the catalog's servers, on most
// of which shop and Shop are two.
func (u *User) sees(schema string, c *catalog.Catalog) bool {
	if u.Schemas == nil || strings.EqualFold(schema, "information_schema") {
		return true
	}
	return slices.ContainsFunc(u.Schemas, func(s string) bool { return s == schema || c.LowerCaseNames && strings.EqualFold(s, schema) })
}

// sees reports whether the session's user may name a schema.
func (s *session) sees(schema string) bool { return s.rights().sees(schema, s.catalog()) }

func (s *session) noSchema(schema string) error {
	return mysqlerr.Newf(mysqlerr.DBAccessDenied, "Access denied for user '%s'@'%%' to database '%s'", s.client.User, schema)
}

func (s *session) noTable(verb, schema, table string) error {
	what := fmt.Sprintf("'%s'", table)
	if s.mariaDB() {
		what = catalog.QuoteTable(schema, table)
	}
	return mysqlerr.Newf(mysqlerr.TableAccessDenied, "%s command denied to user '%s'@'%s' for table %s", verb, s.client.User, s.client.Host, what)
}

// harmless are tables of information_schema that tell nothing of schemas.
var harmless = []string{"character_sets", "collations", "collation_character_set_applicability", "engines", "keywords", "key_caches", "plugins", "all_plugins", "profiling", "sql_functions", "global_variables", "session_variables", "global_status", "session_status", "system_variables", "applicable_roles", "enabled_roles", "resource_groups", "dual"}

// mayText looks at a statement's text before it is planned: planning may tell of
// what the user may not see. text is nil where it was not read yet.
func (s *session) mayText(sql string, text *spoken.Text) error {
	u := s.rights()
	if u.MaxRate > 0 && !s.proxy.usageOf(s.client.User).statement(u.MaxRate, time.Now()) {
		s.proxy.metrics.limited.WithLabelValues("statements").Inc()
		return exceeded(s.client.User, "max_queries_per_second", u.MaxRate)
	}
	if !u.limited() || u.Schemas == nil && !spoken.MayReachBeyond(sql) {
		return nil
	}
	if text == nil {
		text = s.textOf(sql)
	}
	n, err := text.Named()
	if err != nil {
		return err
	}
	if err := s.mayReach(u, n); err != nil || u.Schemas == nil {
		return err
	}
	if n.Hinted {
		return mysqlerr.Newf(mysqlerr.SpecificAccessDenied, "Access denied; user '%s' may see some schemas only, and a statement with a shunt hint goes to its shard unread", s.client.User)
	}
	for _, schema := range n.Schemas {
		if !s.sees(schema) {
			return s.noSchema(schema)
		}
	}
	for _, t := range n.Tables {
		if !catalog.IsSystemSchema(t.Schema) && !s.sees(t.Schema) {
			return s.noTable(verbOf(sql), t.Schema, t.Name)
		}
	}
	// Whatever else a schema's name may qualify: what is neither of a table of the
	// statement nor of an alias is of an object there.
	looked := map[string]bool{}
	for _, schema := range n.Qualifiers {
		if looked[schema] || s.sees(schema) {
			continue
		}
		looked[schema] = true
		if catalog.IsSystemSchema(schema) || s.catalog().Schema(schema) != nil && !n.Bears(schema) {
			return s.noSchema(schema)
		}
	}
	for _, table := range n.System {
		if !spoken.KnowsSystemTable(table) && !slices.Contains(harmless, table) {
			return s.noTable("SELECT", "information_schema", table)
		}
	}
	if schema := s.settings.schema; schema != "" && (!s.sees(schema) || catalog.IsSystemSchema(schema)) && !s.leavesSchema(sql) {
		return s.noSchema(schema) // taken from him by a reload
	}
	return nil
}

// mayShow are the words behind SHOW that those may ask for who have not all rights:
// what tells of schemas is looked through, what tells of other sessions and of the
// servers' accounts and logs isn't there.
var mayShow = []string{
	"", "authors", "character set", "charset", "collation", "columns", "contributors", "create database", "create event", "create function", "create procedure",
	"create schema", "create sequence", "create table", "create trigger", "create view", "databases", "engines", "events", "fields", "function status", "index",
	"indexes", "keys", "locales", "open tables", "package status", "plugins", "privileges", "procedure status", "processlist", "schemas", "status",
	"table status", "tables", "triggers", "variables",
}

// mayReach looks at what a statement asks for beside tables.
func (s *session) mayReach(u *User, n spoken.Named) error {
	b := n.Beyond
	first, _, _ := strings.Cut(b.Show, " ")
	switch {
	case u.ReadOnly && b.Counts:
		return s.readOnly()
	case n.Hinted && (first == "processlist" || first == "grants" || slices.Contains(n.System, "processlist")): // the account's
		return s.lacks("PROCESS")
	case b.Files:
		return s.lacks("FILE")
	case b.Function != "":
		return mysqlerr.Newf(mysqlerr.SpecificAccessDenied, "Access denied; %s() is for who has all rights: call it on the shard itself", strings.ToUpper(b.Function))
	case !slices.Contains(mayShow, b.Show) && !slices.Contains(mayShow, first) && !s.proxy.opens(b.Show):
		return s.lacks("PROCESS")
	case u.Schemas == nil:
	case b.Flush:
		return s.lacks("RELOAD")
	case b.Program != "":
		return mysqlerr.Newf(mysqlerr.SpecificAccessDenied, "Access denied; user '%s' may see some schemas only, and what he stores would run with the rights of the shards' account: it can't have %s (a name may be written in quotes)", s.client.User, strings.ToUpper(b.Program))
	}
	return nil
}

func (s *session) lacks(privilege string) error {
	return mysqlerr.Newf(mysqlerr.SpecificAccessDenied, "Access denied; you need (at least one of) the %s privilege(s) for this operation", privilege)
}

// verbOf is the right that a server names which a statement lacks.
func verbOf(sql string) string {
	verb, _, _ := strings.Cut(strings.ToUpper(strings.TrimLeft(sql, " \t\r\n(")), " ")
	switch verb {
	case "INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "ALTER":
		return verb
	case "REPLACE":
		return "INSERT"
	case "RENAME":
		return "ALTER"
	case "TRUNCATE":
		return "DROP"
	}
	return "SELECT"
}

// leavesSchema reports a USE, which must be possible from any schema.
func (s *session) leavesSchema(sql string) bool {
	words := strings.Fields(sql)
	return len(words) > 1 && strings.EqualFold(words[0], "use")
}

// mayRun looks at a statement's plan.
func (s *session) mayRun(planned plan.Plan, read func(*session) *spoken.Text) error {
	u := s.rights()
	if u.Schemas != nil {
		if err := s.mayName(planned, read); err != nil {
			return err
		}
	}
	if u.ReadOnly && s.proxy.changes(planned) {
		return s.readOnly()
	}
	if p, ok := planned.(*plan.Session); ok && u.limited() {
		for _, a := range p.Set {
			if a.Scope != "user" && spoken.PrivilegedVariable(a.Name) {
				return s.lacks("SYSTEM_VARIABLES_ADMIN")
			}
		}
	}
	return nil
}

func (s *session) readOnly() error {
	return mysqlerr.Newf(mysqlerr.OptionPreventsStatement, "User '%s' may only read (read_only in Shunt's configuration), so this statement can't be executed; connect as another user for it", s.client.User)
}

func (s *session) mayName(planned plan.Plan, read func(*session) *spoken.Text) error {
	// A statement that isn't read as a query: every name before a point counts.
	qualifiers := func(verb string) error {
		n, err := read(s).Named()
		if err != nil {
			return err
		}
		for _, schema := range n.Qualifiers {
			if !s.sees(schema) && s.catalog().Schema(schema) != nil {
				return s.noTable(verb, schema, "")
			}
		}
		return nil
	}
	switch rows := planned.(type) {
	case *plan.Rows:
		verb := map[plan.Kind]string{plan.Insert: "INSERT", plan.Replace: "INSERT", plan.Update: "UPDATE", plan.Delete: "DELETE"}[rows.Kind]
		if verb == "" {
			verb = "SELECT"
		}
		for _, t := range rows.Tables {
			if !s.sees(t.Schema) && t.Schema != catalog.VirtualSchema {
				return s.noTable(verb, t.Schema, t.Name)
			}
		}
		if rows.Kind == plan.Show || rows.Kind == plan.Other {
			return qualifiers("SHOW")
		}
	case *plan.DDL:
		verb, _, _ := strings.Cut(rows.Op, " ")
		if rows.Schema != "" && !s.sees(rows.Schema) {
			return s.noSchema(rows.Schema)
		}
		for _, t := range slices.Concat(rows.Tables, rows.Renamed) {
			if t.Schema != "" && !s.sees(t.Schema) {
				return s.noTable(verb, t.Schema, t.Name)
			}
		}
		return qualifiers(verb)
	case *plan.Session:
		if rows.Op == plan.Use && !s.sees(rows.Schema) {
			return s.noSchema(rows.Schema)
		}
		if rows.Op == plan.SetVariables {
			return qualifiers("SELECT") // in queries for values
		}
	case *plan.LockTables:
		for _, x := range rows.Locks {
			if !s.sees(x.Table.Schema) {
				return s.noTable("SELECT", x.Table.Schema, x.Table.Name)
			}
		}
	case *plan.Temporary:
		return qualifiers("CREATE")
	case *plan.Load:
		return qualifiers("INSERT")
	case *plan.Admin:
		if t := rows.Index.Table; t.Schema != "" && !s.sees(t.Schema) {
			return s.noTable("INDEX", t.Schema, t.Name)
		}
		if rows.Explain != "" {
			text := s.textOf(rows.Explain)
			inner, err := s.proxy.planner.PlanText(text)
			if err != nil {
				return err
			}
			return s.mayName(inner, func(*session) *spoken.Text { return text })
		}
	}
	return nil
}

// changes reports a plan that is none for who may only read. As in a read-only
// transaction, locking rows is as good as changing them.
func (p *Proxy) changes(planned plan.Plan) bool {
	switch rows := planned.(type) {
	case *plan.Rows:
		return rows.Kind.Writes() || rows.Kind == plan.Locking
	case *plan.DDL, *plan.Temporary, *plan.Load:
		return true
	case *plan.LockTables:
		return !rows.Unlock // READ too, which keeps others from writing
	case *plan.Admin:
		return p.own[rows.Form].changes
	case *plan.Session: // not SET either: GLOBAL and PERSIST are refused for everybody
	}
	return false
}

// limited reports a user who may not look at others' sessions.
func (u *User) limited() bool { return u.Schemas != nil || u.ReadOnly }

// quotedSchema is a schema's name in the text of an error about a foreign key.
var quotedSchema = regexp.MustCompile("`((?:[^`]|``)+)`\\.`|of table '([^'.]+)\\.")

// veiled is what a user is told of an error about a foreign key of a table that he
// may not see: as a server puts it where the right is lacking, without names.
func (s *session) veiled(code uint16, msg string) (uint16, string) {
	plain := code
	switch code {
	case mysqlerr.RowIsReferenced2: // ER_ROW_IS_REFERENCED_2
		plain = mysqlerr.RowIsReferenced
	case mysqlerr.NoReferencedRow2: // ER_NO_REFERENCED_ROW_2
		plain = mysqlerr.NoReferencedRow
	case mysqlerr.TruncateIllegalFK, mysqlerr.FKColumnCannotChangeChild, mysqlerr.FKCannotDropParent: // of TRUNCATE, ALTER and DROP
	default:
		return code, msg
	}
	if s.rights().Schemas == nil {
		return code, msg
	}
	found := quotedSchema.FindAllStringSubmatch(msg, -1)
	for _, m := range found {
		if schema := strings.ReplaceAll(m[1]+m[2], "``", "`"); !s.sees(schema) {
			if i := strings.IndexAny(msg, "(:"); i > 0 && plain == code {
				return code, strings.TrimSpace(msg[:i])
			}
			if plain == mysqlerr.RowIsReferenced {
				return plain, "Cannot delete or update a parent row: a foreign key constraint fails"
			}
			if plain == mysqlerr.NoReferencedRow {
				return plain, "Cannot add or update a child row: a foreign key constraint fails"
			}
			return code, "A foreign key of another table needs this one"
		}
	}
	return code, msg
}

// veil changes a shard's error before it is forwarded.
func (s *session) veil(e *wire.Error) *wire.Error {
	code, msg := s.veiled(e.Code, e.Message)
	return &wire.Error{Code: code, State: e.State, Message: msg}
}
