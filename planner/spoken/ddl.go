package spoken

import (
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// Definition plans CREATE, DROP, ALTER, RENAME, TRUNCATE, REBUILD and CHECK. It
// reads words, not a tree: the parser refuses much valid DDL (invisible and
// spatial columns, MariaDB's collations), and a name is all that is needed.
func Definition(st *text.Statement, cat *catalog.Catalog, own OwnForms, trees Trees) (plan.Plan, *text.Error) {
	if plan, ok, err := own.Plan(st); ok || err != nil {
		return plan, err
	}
	if st.Is(1, "temporary") {
		if err := RefuseLocks(st); err != nil { // of its query
			return nil, err
		}
	}
	planned, err := define(st, cat, trees)
	if d, ok := planned.(*plan.DDL); ok && err == nil {
		err = sequenceApart(d, st)
	}
	if err != nil {
		switch st.Word(0) {
		case "create", "drop", "alter", "rename", "truncate":
			// Of a statement that it can't read, and of temporary tables, it doesn't.
			known := err.Code != mysqlerr.NotSupportedYet && err.Code != mysqlerr.ParseError && err.Code != mysqlerr.NoDB
			err.Commits = known && !st.Is(1, "temporary") && !st.Is(3, "temporary")
		}
		return nil, err
	}
	return overTemporary(st, cat, planned)
}

func define(st *text.Statement, cat *catalog.Catalog, trees Trees) (plan.Plan, *text.Error) {
	switch st.Word(0) {
	case "create":
		return create(st, cat, trees)
	case "drop":
		return drop(st, cat)
	case "alter":
		return alter(st, cat, trees)
	case "rename":
		return rename(st, cat)
	case "check":
		return maintenance(st, cat)
	case "truncate":
		i := 1
		if st.Is(i, "table") && i+1 < len(st.Tokens) {
			i++
		}
		name, next, err := st.TableAt(i)
		if err != nil {
			return nil, err
		}
		if next = behindWait(st, next); next != len(st.Tokens) {
			return nil, st.Near(next)
		}
		t, err := userTable(cat, name)
		if err != nil {
			return nil, err
		}
		return &plan.DDL{Catalog: cat, Op: "TRUNCATE TABLE", Tables: []catalog.TableName{name}, Renamed: make([]catalog.TableName, 1), Shards: t.Shards}, nil
	}
	return nil, notYet(st, st.Word(1))
}

// Absent is what MariaDB says in a warning of this level where IF EXISTS, which ends at token i,
// stands before a table that isn't there.
func Absent(st *text.Statement, i int, level string, err *text.Error) *text.Error {
	if st.Server.MariaDB && st.Is(i-1, "exists") && err != nil && err.Code == mysqlerr.NoSuchTable {
		err.Only = level
	}
	return err
}

func create(st *text.Statement, cat *catalog.Catalog, trees Trees) (plan.Plan, *text.Error) {
	i := 1
	if st.Is(i, "or") && st.Is(i+1, "replace") {
		i += 2
	}
	switch w := st.Word(i); w {
	case "database", "schema":
		name, ok := st.Identifier(ifNotExists(st, i+1))
		if !ok {
			return nil, st.Near(i + 1)
		}
		if catalog.IsSystemSchema(name) {
			return nil, refuseSystem(name)
		}
		return &plan.DDL{Catalog: cat, Op: "CREATE DATABASE", Schema: name, Shards: cat.All}, nil
	case "sequence":
		return defineSequence(st, cat, i)
	case "temporary":
		if !st.Is(i+1, "table") {
			return nil, text.NotSupported("CREATE TEMPORARY %s is not supported", strings.ToUpper(st.Word(i+1)))
		}
		return createTemporary(st, cat, trees, ifNotExists(st, i+2))
	case "table":
		return createTable(st, cat, trees, ifNotExists(st, i+1))
	case "unique", "fulltext", "spatial", "vector":
		if st.Is(i+1, "index") {
			return createIndex(st, cat, i+2)
		}
	case "index":
		return createIndex(st, cat, i+1)
	}
	if err := refuseOfServer(st, i); err != nil {
		return nil, err
	}
	for j := i; j < len(st.Tokens) && j < i+24; j++ {
		switch {
		case st.Is(j, "duality"), st.Is(j, "materialized"):
			return nil, refuseView(st, j)
		case st.Is(j, "view"):
			return createView(st, cat, trees, "CREATE VIEW", ifNotExists(st, j+1))
		case st.Is(j, "trigger"):
			return createTrigger(st, cat, j+1)
		case st.Is(j, "procedure"), st.Is(j, "function"), st.Is(j, "event"):
			return program(st, cat, "CREATE", j)
		case st.Is(j, "user"), st.Is(j, "role"):
			return nil, refuseAccount(st)
		case st.Is(j, "server"), st.Is(j, "tablespace"), st.Is(j, "package"), st.Is(j, "library"), st.Is(j, "logfile"), st.Is(j, "undo"):
			return nil, notYet(st, st.Word(j))
		}
	}
	return nil, st.Near(i)
}

// likeAt is the table behind LIKE at i, nil if that isn't there.
func likeAt(st *text.Statement, i int, cat *catalog.Catalog) (*catalog.Table, *text.Error) {
	switch {
	case st.Is(i, "like"):
		i++
	case st.Op(i, "(") && st.Is(i+1, "like"):
		i += 2
	default:
		return nil, nil
	}
	_, _, t, err := UserTableAt(st, cat, i)
	return t, err
}

func createTable(st *text.Statement, cat *catalog.Catalog, trees Trees, i int) (plan.Plan, *text.Error) {
	name, i, err := st.TableAt(i)
	if err != nil {
		return nil, err
	}
	if catalog.IsSystemSchema(name.Schema) {
		return nil, refuseSystem(name.Schema)
	}
	if err := ThroughEngine(st, i); err != nil {
		return nil, err
	}
	// What OR REPLACE makes anew has nothing of the old table's columns.
	ddl := &plan.DDL{Catalog: cat, Op: "CREATE TABLE", Tables: []catalog.TableName{name}, Renamed: make([]catalog.TableName, 1), AllColumns: st.Is(1, "or")}
	src, err := likeAt(st, i, cat)
	if err != nil {
		return nil, err
	}
	if src != nil {
		if err := losesKey(st, cat, name, len(src.PrimaryKey) > 0); err != nil {
			return nil, err
		}
		_, set, _ := placed(cat, name, len(src.PrimaryKey) > 0)
		if !src.Shards.Contains(set) {
			return nil, text.NotSupported("CREATE TABLE %s LIKE %s, which is not on all of its shards, is not supported: write the columns out", name.Name, src.Name)
		}
		ddl.Shards, ddl.ByKey = set, byKey(cat, name)
		return ddl, lacksKey(cat, name, func(column string) bool { return src.Column(column) != nil })
	}
	if ddl.Virtual, err = VirtualKeys(st, name, i, 1); err != nil {
		return nil, err
	}
	query := queryAt(st, i)
	end := query
	if query < 0 {
		end = len(st.Tokens)
	}
	primary := false
	for j := i; j < end && !primary; j++ {
		primary = st.Is(j, "primary") && st.Is(j+1, "key") && !prefixKeyAt(st, j+2)
	}
	primary = primary || trees.KeyColumn(st, cat)
	if err := losesKey(st, cat, name, primary); err != nil {
		return nil, err
	}
	ddl.ByKey = byKey(cat, name)
	if t := cat.Table(name.Schema, name.Name); t != nil && !t.Temporary && len(t.Columns) > 0 && !t.Unfinished && t.Differs == "" && !st.Is(1, "or") && ifNotExists(st, 2) > 2 {
		ddl.Idle = t.Shards
	}
	lacks := func(toks []text.Token) *text.Error {
		return lacksKey(cat, name, func(column string) bool { return mentions(st, toks, column) })
	}
	if query >= 0 {
		if apart := lacks(st.Tokens[i:query]); len(cat.Shards) > 1 || apart != nil {
			// Its rows have no entries in an index of an earlier table of that name, of whose end
			// Shunt wasn't told.
			ddl.AllColumns = true
			return createTableAs(st, cat, trees, ddl, primary, query, apart)
		}
	}
	_, ddl.Shards, _ = placed(cat, name, primary)
	return ddl, lacks(st.Tokens[i:])
}

// mentions reports a name among tokens.
func mentions(st *text.Statement, toks []text.Token, name string) bool {
	return slices.ContainsFunc(toks, func(t text.Token) bool {
		return t.Kind != text.String && strings.EqualFold(strings.Trim(st.Src[t.Start:t.End], "`\""), name)
	})
}

// lacksKey refuses a new table without the column that is to place its rows: while it is
// there no schema could be read. has may be too generous.
func lacksKey(cat *catalog.Catalog, name catalog.TableName, has func(column string) bool) *text.Error {
	t := cat.Table(name.Schema, name.Name)
	if t == nil || len(t.Columns) > 0 || t.KeyWanted == "" || has(t.KeyWanted) {
		return nil
	}
	return text.NotSupported("CREATE TABLE %s without the column %s, by which the configuration places its rows (shard_key), is not supported: put either right", name.Name, t.KeyWanted)
}

// losesKey refuses OR REPLACE of a table that is spread by its primary key where the new one
// has none, which is on one shard.
//
// Counter-example: CREATE OR REPLACE TABLE t (n INT); DROP TABLE t; CREATE TABLE t (id INT
// PRIMARY KEY). The second t was left on the other shards, under the third one's name.
func losesKey(st *text.Statement, cat *catalog.Catalog, name catalog.TableName, primary bool) *text.Error {
	t := cat.Table(name.Schema, name.Name)
	if primary || !cat.MariaDB || !st.Is(1, "or") || t == nil || t.IsView || t.Temporary || t.Placement != catalog.Hash || t.Shards.Len() < 2 || len(t.PrimaryKey) == 0 || t.ShardKey != t.PrimaryKey[0] {
		return nil
	}
	return text.NotSupported("CREATE OR REPLACE TABLE %s without a primary key, while its rows are on several shards by one, is not supported: DROP TABLE first", name.Name)
}

// prefixKeyAt reports a key, behind whose words PRIMARY KEY token i is, of which a part
// is a column's beginning: it doesn't say where rows are (schema.uniqueKeys).
//
//	PRIMARY KEY (name(10), id)
func prefixKeyAt(st *text.Statement, i int) bool {
	for depth := 0; i < len(st.Tokens); i++ {
		switch {
		case st.Op(i, "("):
			if depth++; depth == 2 {
				return true
			}
		case st.Op(i, ")"):
			return false
		case depth == 0 && st.Op(i, ","):
			return false // of a column: id INT PRIMARY KEY, ...
		}
	}
	return false
}

func rename(st *text.Statement, cat *catalog.Catalog) (plan.Plan, *text.Error) {
	if !st.Is(1, "table") && !st.Is(1, "tables") {
		return nil, text.NotSupported("RENAME %s is not supported yet: run it on each shard", strings.ToUpper(st.Word(1)))
	}
	ddl := &plan.DDL{Catalog: cat, Op: "RENAME TABLE"}
	was := map[catalog.TableName]*catalog.Table{}
	var unknown *text.Error // of the first that isn't there, behind IF EXISTS
	for i := ifExists(st, 2); ; {
		from, next, err := st.TableAt(i)
		if err != nil {
			return nil, err
		}
		if next = behindWait(st, next); !st.Is(next, "to") {
			return nil, st.Near(next)
		}
		to, next, err := st.TableAt(next + 1)
		if err != nil {
			return nil, err
		}
		if cat.Schema(to.Schema) == nil && !catalog.IsSystemSchema(to.Schema) && !cat.MariaDB {
			return nil, text.UnknownSchema(to.Schema)
		}
		t := was[from]
		if t == nil {
			if t, err = userTable(cat, from); err != nil {
				if Absent(st, ifExists(st, 2), "Note", err).Only == "" {
					return nil, err
				}
				unknown, i = err, next
				if st.Op(i, ",") {
					i++
					continue
				}
				break
			}
		}
		if err := KeepsPlace(cat, t, to); err != nil {
			return nil, err
		}
		before := cat.Table(to.Schema, to.Name)
		if err := keepsKey(before, t); err != nil {
			return nil, err
		}
		// Rule another's triggers: a write that was planned for the table of that name before,
		// and waits, sets off what this one has. Counter-example: users_new has a trigger that
		// inserts into log. INSERT INTO users waits for RENAME TABLE users TO users_old,
		// users_new TO users, and log's index has no entry.
		ddl.Unforeseen = ddl.Unforeseen || before != nil && (len(t.Triggers) > 0 || len(t.Cascades) > 0)
		was[to] = t
		if len(ddl.Tables) > 0 && t.Shards != ddl.Shards {
			return nil, text.NotSupported("RENAME TABLE of tables that are not on the same shards is not supported: rename each by a statement of its own")
		}
		ddl.Shards = t.Shards
		ddl.Tables, ddl.Renamed = append(ddl.Tables, from), append(ddl.Renamed, to)
		i = next
		if !st.Op(i, ",") {
			if i < len(st.Tokens) {
				return nil, st.Near(i)
			}
			return ddl, nil
		}
		i++
	}
	if len(ddl.Tables) == 0 {
		return nil, unknown
	}
	return ddl, nil
}

// KeepsPlace refuses a new name under which the rows would be looked for
// elsewhere. Counter-example: users is configured with the shard key tenant;
// RENAME TABLE users TO users_old, and users_old goes by its primary key.
func KeepsPlace(cat *catalog.Catalog, t *catalog.Table, to catalog.TableName) *text.Error {
	if catalog.IsSystemSchema(to.Schema) {
		return refuseSystem(to.Schema)
	}
	if cat.Schema(to.Schema) == nil {
		return text.UnknownSchema(to.Schema)
	}
	if len(cat.Shards) == 1 || t.IsView || t.Temporary {
		return nil
	}
	p, set, key := placed(cat, to, len(t.PrimaryKey) > 0)
	if key == "" && p == catalog.Hash && len(t.PrimaryKey) > 0 {
		key = t.PrimaryKey[0].Name
	}
	same := p == t.Placement && set == t.Shards
	if same && p == catalog.Hash {
		same = t.ShardKey != nil && strings.EqualFold(key, t.ShardKey.Name)
	}
	if !same {
		return text.NotSupported("renaming %s to %s is not supported: under the new name the configuration places its rows otherwise; add %s.%s to the configuration first", t.Name, to.Name, to.Schema, to.Name)
	}
	return nil
}

// ThroughEngine refuses a table whose rows are another table's: what is written by it
// would be in no virtual index of that one.
//
// Counter-example: CREATE TABLE m (..) ENGINE=MERGE UNION=(users) INSERT_METHOD=LAST.
func ThroughEngine(st *text.Statement, i int) *text.Error {
	for ; i < len(st.Tokens); i++ {
		if !st.Is(i, "engine") {
			continue
		}
		at := i + 1
		if st.Op(at, "=") {
			at++
		}
		name, ok := st.Identifier(at)
		if !ok && at < len(st.Tokens) && st.Tokens[at].Kind == text.String {
			name = string(st.Unescape(st.Tokens[at]))
		}
		switch name = strings.ToUpper(name); name {
		case "MERGE", "MRG_MYISAM", "FEDERATED", "FEDERATEDX", "CONNECT", "SPIDER":
			return text.NotSupported("ENGINE=%s is not supported: what is written by such a table changes another one, unseen; use the tables themselves", name)
		}
	}
	return nil
}

func alter(st *text.Statement, cat *catalog.Catalog, trees Trees) (plan.Plan, *text.Error) {
	i := 1
	for st.Is(i, "ignore") || st.Is(i, "online") {
		i++
	}
	switch w := st.Word(i); w {
	case "database", "schema":
		name, ok := st.Identifier(i + 1)
		if !ok || isDatabaseOption(st, i+1) {
			name = st.Settings.Schema
		}
		if name == "" {
			return nil, text.NoDatabase()
		}
		if catalog.IsSystemSchema(name) {
			return nil, refuseSystem(name)
		}
		return &plan.DDL{Catalog: cat, Op: "ALTER DATABASE", Schema: name, Shards: cat.All}, nil
	case "table":
		return trees.AlterTable(st, cat, ifExists(st, i+1))
	case "sequence":
		return defineSequence(st, cat, i)
	}
	if err := refuseOfServer(st, i); err != nil {
		return nil, err
	}
	for j := i; j < len(st.Tokens) && j < i+24; j++ {
		switch {
		case st.Is(j, "duality"), st.Is(j, "materialized"):
			return nil, refuseView(st, j)
		case st.Is(j, "view"):
			return createView(st, cat, trees, "ALTER VIEW", ifExists(st, j+1))
		case st.Is(j, "procedure"), st.Is(j, "function"), st.Is(j, "event"):
			return program(st, cat, "ALTER", j)
		case st.Is(j, "user"), st.Is(j, "role"):
			return nil, refuseAccount(st)
		}
	}
	return nil, notYet(st, st.Word(i))
}

// notYet refuses a statement of DDL of a kind of objects.
func notYet(st *text.Statement, what string) *text.Error {
	return text.NotSupported("%s is not supported yet: run it on each shard, or send it to one with /* shunt: shard=NAME */", strings.ToUpper(st.Word(0)+" "+what))
}

// refuseOfServer refuses CREATE and ALTER, whose words go on at token i, of what is a server's own, and no schema's.
//
// Counter-example: ALTER SERVER s OPTIONS (USER 'x') and CREATE RESOURCE GROUP g TYPE = USER are of no account,
// though USER stands in them.
func refuseOfServer(st *text.Statement, i int) *text.Error {
	what := st.Word(i)
	switch {
	case st.Is(i, "spatial") && st.Is(i+1, "reference"):
		what = "spatial reference system"
	case st.Is(i, "resource") && st.Is(i+1, "group"):
		what = "resource group"
	case what == "server":
	default:
		return nil
	}
	return notYet(st, what)
}

// refuseView refuses CREATE and ALTER of a view that isn't a query's: at token i is of what kind.
//
// Counter-example: a document of a JSON DUALITY VIEW has rows of two tables, which lie on two shards: neither has the
// document. And what is written through one makes no entries in virtual indexes.
func refuseView(st *text.Statement, i int) *text.Error {
	if st.Is(i, "duality") {
		return text.NotSupported("JSON DUALITY VIEW is not supported: its documents have rows of one shard alone; use a view, and JSON_OBJECT in its query")
	}
	return text.NotSupported("MATERIALIZED VIEW is not supported: use a view, or a table that CREATE TABLE ... SELECT fills")
}

func isDatabaseOption(st *text.Statement, i int) bool {
	switch st.Word(i) {
	case "default", "character", "charset", "collate", "encryption", "read", "comment":
		return i+1 < len(st.Tokens) && (st.Tokens[i].Kind == text.Word)
	}
	return false
}
