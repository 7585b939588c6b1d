package planner

import (
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// definition plans CREATE, DROP, ALTER, RENAME, TRUNCATE, REBUILD and CHECK. It
// reads words, not a tree: the parser refuses much valid DDL (invisible and
// spatial columns, MariaDB's collations), and a name is all that is needed.
func (p *Planner) definition(st *statement, cat *catalog.Catalog) (Plan, *Error) {
	if plan, ok, err := planAdmin(st); ok || err != nil {
		return plan, err
	}
	if st.is(1, "temporary") {
		if err := st.refuseLocks(); err != nil { // of its query
			return nil, err
		}
	}
	plan, err := p.define(st, cat)
	if err != nil {
		switch st.word(0) {
		case "create", "drop", "alter", "rename", "truncate":
			// Of a statement that it can't read, and of temporary tables, it doesn't.
			known := err.Code != codeNotSupported && err.Code != codeParse && err.Code != codeNoDatabase
			err.Commits = known && !st.is(1, "temporary") && !st.is(3, "temporary")
		}
		return nil, err
	}
	return overTemporary(st, cat, plan)
}

func (p *Planner) define(st *statement, cat *catalog.Catalog) (Plan, *Error) {
	switch st.word(0) {
	case "create":
		return p.create(st, cat)
	case "drop":
		return drop(st, cat)
	case "alter":
		return p.alter(st, cat)
	case "rename":
		return rename(st, cat)
	case "check":
		return maintenance(st, cat)
	case "truncate":
		i := 1
		if st.is(i, "table") && i+1 < len(st.toks) {
			i++
		}
		name, next, err := st.tableAt(i)
		if err != nil {
			return nil, err
		}
		if next != len(st.toks) {
			return nil, st.near(next)
		}
		t, err := userTable(cat, name)
		if err != nil {
			return nil, err
		}
		return &DDL{Catalog: cat, Op: "TRUNCATE TABLE", Tables: []TableName{name}, Renamed: make([]TableName, 1), Shards: t.Shards}, nil
	}
	return nil, notSupported("%s is not supported yet: run it on each shard, or send it to one with /* shunt: shard=NAME */", strings.ToUpper(st.word(0)+" "+st.word(1)))
}

// userTableAt reads a table's name at token i, and says which token follows.
func (st *statement) userTableAt(cat *catalog.Catalog, i int) (name TableName, next int, t *catalog.Table, err *Error) {
	if name, next, err = st.tableAt(i); err == nil {
		t, err = userTable(cat, name)
	}
	return name, next, t, err
}

func userTable(cat *catalog.Catalog, name TableName) (*catalog.Table, *Error) {
	t, system, err := lookupTable(cat, name.Schema, name.Name)
	if err != nil {
		return nil, err
	}
	if system {
		return nil, refuseSystem(name.Schema)
	}
	return t, nil
}

func refuseSystem(schema string) *Error {
	return notSupported("changing the system schema %s is not supported: run it on the shard itself", schema)
}

// placed says where a table is or will be: its catalog entry, which for a
// configured table exists before the table does, or the schema's default.
func placed(cat *catalog.Catalog, name TableName, primaryKey bool) (p catalog.Placement, shards catalog.ShardSet, key string) {
	if t := cat.Table(name.Schema, name.Name); t != nil {
		key = t.KeyWanted
		if t.ShardKey != nil {
			key = t.ShardKey.Name
		}
		shards = t.Shards
		if shards.Empty() {
			shards = cat.All
		}
		return t.Placement, shards, key
	}
	d := catalog.DefaultPlacement{}
	if s := cat.Schema(name.Schema); s != nil {
		d = s.Default
	}
	switch {
	case d.Placement == catalog.Single:
		return catalog.Single, catalog.Only(d.Shard), ""
	case d.Placement == catalog.Hash && !primaryKey:
		return catalog.Single, firstShard(cat), ""
	}
	return d.Placement, cat.All, ""
}

func ifNotExists(st *statement, i int) int {
	if st.is(i, "if") && st.is(i+1, "not") && st.is(i+2, "exists") {
		return i + 3
	}
	return i
}

func ifExists(st *statement, i int) int {
	if st.is(i, "if") && st.is(i+1, "exists") {
		return i + 2
	}
	return i
}

func (p *Planner) create(st *statement, cat *catalog.Catalog) (Plan, *Error) {
	i := 1
	if st.is(i, "or") && st.is(i+1, "replace") {
		i += 2
	}
	switch w := st.word(i); w {
	case "database", "schema":
		name, ok := st.identifier(ifNotExists(st, i+1))
		if !ok {
			return nil, st.near(i + 1)
		}
		if catalog.IsSystemSchema(name) {
			return nil, refuseSystem(name)
		}
		return &DDL{Catalog: cat, Op: "CREATE DATABASE", Schema: name, Shards: cat.All}, nil
	case "temporary":
		if !st.is(i+1, "table") {
			return nil, notSupported("CREATE TEMPORARY %s is not supported", strings.ToUpper(st.word(i+1)))
		}
		return p.createTemporary(st, cat, ifNotExists(st, i+2))
	case "table":
		return p.createTable(st, cat, ifNotExists(st, i+1))
	case "unique", "fulltext", "spatial", "vector":
		if st.is(i+1, "index") {
			return createIndex(st, cat, i+2)
		}
	case "index":
		return createIndex(st, cat, i+1)
	}
	for j := i; j < len(st.toks) && j < i+24; j++ {
		switch {
		case st.is(j, "view"):
			return p.createView(st, cat, "CREATE VIEW", ifNotExists(st, j+1))
		case st.is(j, "trigger"):
			return createTrigger(st, cat, j+1)
		case st.is(j, "procedure"), st.is(j, "function"), st.is(j, "event"):
			return program(st, cat, "CREATE", j)
		case st.is(j, "user"), st.is(j, "role"):
			return nil, refuseAccount(st)
		case st.is(j, "server"), st.is(j, "tablespace"), st.is(j, "sequence"), st.is(j, "package"), st.is(j, "library"), st.is(j, "logfile"), st.is(j, "undo"):
			return nil, notSupported("CREATE %s is not supported yet: run it on each shard, or send it to one with /* shunt: shard=NAME */", strings.ToUpper(st.word(j)))
		}
	}
	return nil, st.near(i)
}

// likeAt is the table behind LIKE at i, nil if that isn't there.
func (st *statement) likeAt(i int, cat *catalog.Catalog) (*catalog.Table, *Error) {
	switch {
	case st.is(i, "like"):
		i++
	case st.op(i, "(") && st.is(i+1, "like"):
		i += 2
	default:
		return nil, nil
	}
	_, _, t, err := st.userTableAt(cat, i)
	return t, err
}

func (p *Planner) createTable(st *statement, cat *catalog.Catalog, i int) (Plan, *Error) {
	name, i, err := st.tableAt(i)
	if err != nil {
		return nil, err
	}
	if catalog.IsSystemSchema(name.Schema) {
		return nil, refuseSystem(name.Schema)
	}
	if err := st.throughEngine(i); err != nil {
		return nil, err
	}
	// What OR REPLACE makes anew has nothing of the old table's columns.
	ddl := &DDL{Catalog: cat, Op: "CREATE TABLE", Tables: []TableName{name}, Renamed: make([]TableName, 1), AllColumns: st.is(1, "or")}
	src, err := st.likeAt(i, cat)
	if err != nil {
		return nil, err
	}
	if src != nil {
		if err := losesKey(st, cat, name, len(src.PrimaryKey) > 0); err != nil {
			return nil, err
		}
		_, set, _ := placed(cat, name, len(src.PrimaryKey) > 0)
		if !src.Shards.Contains(set) {
			return nil, notSupported("CREATE TABLE %s LIKE %s, which is not on all of its shards, is not supported: write the columns out", name.Name, src.Name)
		}
		ddl.Shards = set
		return ddl, lacksKey(cat, name, func(column string) bool { return src.Column(column) != nil })
	}
	if ddl.Virtual, err = st.virtualKeys(name, i, 1); err != nil {
		return nil, err
	}
	query := st.queryAt(i)
	end := query
	if query < 0 {
		end = len(st.toks)
	}
	primary := false
	for j := i; j < end && !primary; j++ {
		primary = st.is(j, "primary") && st.is(j+1, "key") && !st.prefixKeyAt(j+2)
	}
	primary = primary || p.keyColumn(st, cat)
	if err := losesKey(st, cat, name, primary); err != nil {
		return nil, err
	}
	lacks := func(toks []token) *Error {
		return lacksKey(cat, name, func(column string) bool { return st.mentions(toks, column) })
	}
	if query >= 0 {
		if apart := lacks(st.toks[i:query]); len(cat.Shards) > 1 || apart != nil {
			// Its rows have no entries in an index of an earlier table of that name, of whose end
			// Shunt wasn't told.
			ddl.AllColumns = true
			return p.createTableAs(st, cat, ddl, primary, query, apart)
		}
	}
	_, ddl.Shards, _ = placed(cat, name, primary)
	return ddl, lacks(st.toks[i:])
}

// keyColumn reports a CREATE TABLE with a column that is the primary key: id INT KEY is one too.
func (p *Planner) keyColumn(st *statement, cat *catalog.Catalog) bool {
	n, err := p.parse(st, cat)
	if err != nil {
		return false
	}
	c, ok := n.(*ast.CreateTableStmt)
	return ok && slices.ContainsFunc(c.Cols, func(col *ast.ColumnDef) bool {
		return hasOption(col, ast.ColumnOptionPrimaryKey)
	})
}

// mentions reports a name among tokens.
func (st *statement) mentions(toks []token, name string) bool {
	return slices.ContainsFunc(toks, func(t token) bool {
		return t.kind != tokString && strings.EqualFold(strings.Trim(st.src[t.start:t.end], "`\""), name)
	})
}

// lacksKey refuses a new table without the column that is to place its rows: while it is
// there no schema could be read. has may be too generous.
func lacksKey(cat *catalog.Catalog, name TableName, has func(column string) bool) *Error {
	t := cat.Table(name.Schema, name.Name)
	if t == nil || len(t.Columns) > 0 || t.KeyWanted == "" || has(t.KeyWanted) {
		return nil
	}
	return notSupported("CREATE TABLE %s without the column %s, by which the configuration places its rows (shard_key), is not supported: put either right", name.Name, t.KeyWanted)
}

// losesKey refuses OR REPLACE of a table that is spread by its primary key where the new one
// has none, which is on one shard.
//
// Counter-example: CREATE OR REPLACE TABLE t (n INT); DROP TABLE t; CREATE TABLE t (id INT
// PRIMARY KEY). The second t was left on the other shards, under the third one's name.
func losesKey(st *statement, cat *catalog.Catalog, name TableName, primary bool) *Error {
	t := cat.Table(name.Schema, name.Name)
	if primary || !cat.MariaDB || !st.is(1, "or") || t == nil || t.IsView || t.Temporary || t.Placement != catalog.Hash || t.Shards.Len() < 2 || len(t.PrimaryKey) == 0 || t.ShardKey != t.PrimaryKey[0] {
		return nil
	}
	return notSupported("CREATE OR REPLACE TABLE %s without a primary key, while its rows are on several shards by one, is not supported: DROP TABLE first", name.Name)
}

// prefixKeyAt reports a key, behind whose words PRIMARY KEY token i is, of which a part
// is a column's beginning: it doesn't say where rows are (schema.uniqueKeys).
//
//	PRIMARY KEY (name(10), id)
func (st *statement) prefixKeyAt(i int) bool {
	for depth := 0; i < len(st.toks); i++ {
		switch {
		case st.op(i, "("):
			if depth++; depth == 2 {
				return true
			}
		case st.op(i, ")"):
			return false
		case depth == 0 && st.op(i, ","):
			return false // of a column: id INT PRIMARY KEY, ...
		}
	}
	return false
}

func rename(st *statement, cat *catalog.Catalog) (Plan, *Error) {
	if !st.is(1, "table") && !st.is(1, "tables") {
		return nil, notSupported("RENAME %s is not supported yet: run it on each shard", strings.ToUpper(st.word(1)))
	}
	ddl := &DDL{Catalog: cat, Op: "RENAME TABLE"}
	was := map[TableName]*catalog.Table{}
	for i := ifExists(st, 2); ; {
		from, next, err := st.tableAt(i)
		if err != nil {
			return nil, err
		}
		if !st.is(next, "to") {
			return nil, st.near(next)
		}
		to, next, err := st.tableAt(next + 1)
		if err != nil {
			return nil, err
		}
		t := was[from]
		if t == nil {
			if t, err = userTable(cat, from); err != nil {
				return nil, err
			}
		}
		if err := keepsPlace(cat, t, to); err != nil {
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
			return nil, notSupported("RENAME TABLE of tables that are not on the same shards is not supported: rename each by a statement of its own")
		}
		ddl.Shards = t.Shards
		ddl.Tables, ddl.Renamed = append(ddl.Tables, from), append(ddl.Renamed, to)
		i = next
		if !st.op(i, ",") {
			if i < len(st.toks) {
				return nil, st.near(i)
			}
			return ddl, nil
		}
		i++
	}
}

// keepsPlace refuses a new name under which the rows would be looked for
// elsewhere. Counter-example: users is configured with the shard key tenant;
// RENAME TABLE users TO users_old, and users_old goes by its primary key.
func keepsPlace(cat *catalog.Catalog, t *catalog.Table, to TableName) *Error {
	if catalog.IsSystemSchema(to.Schema) {
		return refuseSystem(to.Schema)
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
		return notSupported("renaming %s to %s is not supported: under the new name the configuration places its rows otherwise; add %s.%s to the configuration first", t.Name, to.Name, to.Schema, to.Name)
	}
	return nil
}

// throughEngine refuses a table whose rows are another table's: what is written by it
// would be in no virtual index of that one.
//
// Counter-example: CREATE TABLE m (..) ENGINE=MERGE UNION=(users) INSERT_METHOD=LAST.
func (st *statement) throughEngine(i int) *Error {
	for ; i < len(st.toks); i++ {
		if !st.is(i, "engine") {
			continue
		}
		at := i + 1
		if st.op(at, "=") {
			at++
		}
		name, ok := st.identifier(at)
		if !ok && at < len(st.toks) && st.toks[at].kind == tokString {
			name = string(st.unescape(st.toks[at]))
		}
		switch name = strings.ToUpper(name); name {
		case "MERGE", "MRG_MYISAM", "FEDERATED", "FEDERATEDX", "CONNECT", "SPIDER":
			return notSupported("ENGINE=%s is not supported: what is written by such a table changes another one, unseen; use the tables themselves", name)
		}
	}
	return nil
}
