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
	case "unique", "fulltext", "spatial":
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
	name, _, err := st.tableAt(i)
	if err != nil {
		return nil, err
	}
	return userTable(cat, name)
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
		_, set, _ := placed(cat, name, len(src.PrimaryKey) > 0)
		if !src.Shards.Contains(set) {
			return nil, notSupported("CREATE TABLE %s LIKE %s, which is not on all of its shards, is not supported: write the columns out", name.Name, src.Name)
		}
		ddl.Shards = set
		return ddl, nil
	}
	if ddl.Virtual, err = st.virtualKeys(name, i, 1); err != nil {
		return nil, err
	}
	primary := false
	depth, query := 0, -1
	for j := i; j < len(st.toks) && query < 0; j++ {
		switch {
		case st.op(j, "("):
			depth++
		case st.op(j, ")"):
			depth--
		case st.is(j, "primary") && st.is(j+1, "key"):
			primary = primary || !st.prefixKeyAt(j+2)
		case st.is(j, "select") || depth == 0 && (st.is(j, "table") || st.is(j, "with") && !st.is(j+1, "system") || st.is(j, "values") && j > 0 && !st.is(j-1, "in") && !st.is(j-1, "than")):
			if len(cat.Shards) > 1 && !st.op(j-1, ".") {
				for query = j; st.op(query-1, "("); query-- {
				}
			}
		}
	}
	if query >= 0 {
		return p.createAs(st, cat, ddl, primary, query)
	}
	if !primary { // `id INT KEY` is a primary key too
		if n, err := p.parse(st, cat); err == nil {
			if c, ok := n.(*ast.CreateTableStmt); ok {
				for _, col := range c.Cols {
					for _, o := range col.Options {
						primary = primary || o.Tp == ast.ColumnOptionPrimaryKey
					}
				}
			}
		}
	}
	_, ddl.Shards, _ = placed(cat, name, primary)
	return ddl, nil
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

// createTrigger goes to the shards of the trigger's table.
func createTrigger(st *statement, cat *catalog.Catalog, i int) (Plan, *Error) {
	for ; i < len(st.toks); i++ {
		if (st.is(i, "insert") || st.is(i, "update") || st.is(i, "delete")) && st.is(i+1, "on") && (st.is(i-1, "before") || st.is(i-1, "after")) {
			name, _, err := st.tableAt(i + 2)
			if err != nil {
				return nil, err
			}
			t, err := userTable(cat, name)
			if err != nil {
				return nil, err
			}
			if err := st.triggerPlaces(cat, t, i+3); err != nil {
				return nil, err
			}
			return &DDL{Catalog: cat, Op: "CREATE TRIGGER", Tables: []TableName{name}, Renamed: make([]TableName, 1), Shards: t.Shards}, nil
		}
	}
	return nil, st.near(i)
}

func drop(st *statement, cat *catalog.Catalog) (Plan, *Error) {
	op := "DROP TABLE"
	switch w := st.word(1); w {
	case "database", "schema":
		i := ifExists(st, 2)
		name, ok := st.identifier(i)
		if !ok || i+1 != len(st.toks) {
			return nil, st.near(i)
		}
		if catalog.IsSystemSchema(name) {
			return nil, refuseSystem(name)
		}
		return &DDL{Catalog: cat, Op: "DROP DATABASE", Schema: name, Shards: cat.All}, nil
	case "temporary":
		return dropTemporary(st, cat)
	case "index":
		i := ifExists(st, 2)
		index, _ := st.identifier(i)
		for ; i < len(st.toks) && !st.is(i, "on"); i++ {
		}
		name, _, err := st.tableAt(i + 1)
		if err != nil {
			return nil, err
		}
		t, err := userTable(cat, name)
		if err != nil {
			return nil, err
		}
		if strings.EqualFold(index, "primary") && t.Placement == catalog.Hash && t.Shards.Len() > 1 && t.ShardKey != nil {
			return nil, refuseAlterKey(t)
		}
		return &DDL{Catalog: cat, Op: "DROP INDEX", Tables: []TableName{name}, Renamed: make([]TableName, 1), Shards: t.Shards}, nil
	case "trigger":
		i := ifExists(st, 2)
		if _, ok := st.identifier(i); !ok {
			return nil, st.near(i)
		}
		name, _, err := st.tableAt(i)
		if err != nil {
			return nil, err
		}
		// The catalog doesn't name triggers: the shards of all tables that have
		// some.
		var set catalog.ShardSet
		if s := cat.Schema(name.Schema); s != nil {
			for _, t := range s.Tables {
				if len(t.Triggers) > 0 {
					set = set.Union(t.Shards)
				}
			}
		}
		if set.Empty() {
			set = cat.All
		}
		return &DDL{Catalog: cat, Op: "DROP TRIGGER", Schema: name.Schema, Shards: set}, nil
	case "procedure", "function", "event":
		return program(st, cat, "DROP", 1)
	case "user", "role":
		return nil, refuseAccount(st)
	case "table", "tables":
	case "view":
		op = "DROP VIEW"
	default:
		return nil, notSupported("DROP %s is not supported yet: run it on each shard, or send it to one with /* shunt: shard=NAME */", strings.ToUpper(w))
	}
	i := ifExists(st, 2)
	quiet := i > 2
	ddl := &DDL{Catalog: cat, Op: op}
	first := i
	var names []string // as they are written
	var sets []catalog.ShardSet
	temporary := false
	for {
		name, next, err := st.tableAt(i)
		if err != nil {
			return nil, err
		}
		if catalog.IsSystemSchema(name.Schema) {
			return nil, refuseSystem(name.Schema)
		}
		t := cat.Table(name.Schema, name.Name)
		set := cat.All
		switch {
		case t != nil && !t.Shards.Empty():
			set = t.Shards
		case !quiet:
			if _, _, err := lookupTable(cat, name.Schema, name.Name); err != nil && t == nil {
				switch {
				case err.Code == codeUnknownTable && op == "DROP VIEW" && cat.MariaDB:
					err = &Error{Code: 4092, State: stateUnknownTable, Message: "Unknown VIEW: '" + name.Schema + "." + name.Name + "'"}
				case err.Code == codeUnknownTable:
					err = &Error{Code: 1051, State: stateUnknownTable, Message: "Unknown table '" + name.Schema + "." + name.Name + "'"}
				}
				return nil, err
			}
		}
		temporary = temporary || t != nil && t.Temporary
		if len(ddl.Tables) > 0 && temporary && set != ddl.Shards && !quiet {
			return nil, notSupported("%s of temporary tables and others is not supported: drop each by a statement of its own", op)
		}
		names, sets = append(names, st.src[st.toks[i].start:st.toks[next-1].end]), append(sets, set)
		ddl.Tables = append(ddl.Tables, name)
		ddl.Shards = ddl.Shards.Union(set)
		i = next
		if !st.op(i, ",") {
			break
		}
		i++
	}
	ddl.Renamed = make([]TableName, len(ddl.Tables))
	if !temporary && slices.ContainsFunc(sets, func(set catalog.ShardSet) bool { return set != ddl.Shards }) {
		// Counter-example: DROP TABLE users, settings, of which s1 has only users and
		// would drop neither (1051).
		ddl.Texts = map[catalog.ShardID]string{}
		for id := range ddl.Shards.All {
			var here []string
			for k, set := range sets {
				if set.Has(id) {
					here = append(here, names[k])
				}
			}
			ddl.Texts[id] = st.src[:st.toks[first].start] + strings.Join(here, ", ") + st.src[st.toks[i-1].end:]
		}
	}
	if i < len(st.toks) && !st.is(i, "restrict") && !st.is(i, "cascade") && !st.is(i, "wait") && !st.is(i, "nowait") {
		return nil, st.near(i)
	}
	return ddl, nil
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
		if err := keepsKey(cat.Table(to.Schema, to.Name), t); err != nil {
			return nil, err
		}
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

func (p *Planner) alter(st *statement, cat *catalog.Catalog) (Plan, *Error) {
	i := 1
	for st.is(i, "ignore") || st.is(i, "online") {
		i++
	}
	switch w := st.word(i); w {
	case "database", "schema":
		name, ok := st.identifier(i + 1)
		if !ok || isDatabaseOption(st, i+1) {
			name = st.settings.Schema
		}
		if name == "" {
			return nil, &Error{Code: codeNoDatabase, State: stateNoDatabase, Message: "No database selected"}
		}
		if catalog.IsSystemSchema(name) {
			return nil, refuseSystem(name)
		}
		return &DDL{Catalog: cat, Op: "ALTER DATABASE", Schema: name, Shards: cat.All}, nil
	case "table":
		return p.alterTable(st, cat, ifExists(st, i+1))
	}
	for j := i; j < len(st.toks) && j < i+24; j++ {
		switch {
		case st.is(j, "view"):
			return p.createView(st, cat, "ALTER VIEW", ifExists(st, j+1))
		case st.is(j, "procedure"), st.is(j, "function"), st.is(j, "event"):
			return program(st, cat, "ALTER", j)
		case st.is(j, "user"), st.is(j, "role"):
			return nil, refuseAccount(st)
		}
	}
	return nil, notSupported("ALTER %s is not supported yet: run it on each shard, or send it to one with /* shunt: shard=NAME */", strings.ToUpper(st.word(i)))
}

func isDatabaseOption(st *statement, i int) bool {
	switch st.word(i) {
	case "default", "character", "charset", "collate", "encryption", "read", "comment":
		return i+1 < len(st.toks) && (st.toks[i].kind == tokWord)
	}
	return false
}

func (p *Planner) alterTable(st *statement, cat *catalog.Catalog, i int) (Plan, *Error) {
	name, _, err := st.tableAt(i)
	if err != nil {
		return nil, err
	}
	t, err := userTable(cat, name)
	if err != nil {
		return nil, err
	}
	if err := st.throughEngine(i); err != nil {
		return nil, err
	}
	ddl := &DDL{Catalog: cat, Op: "ALTER TABLE", Tables: []TableName{name}, Renamed: make([]TableName, 1), Shards: t.Shards}
	if ddl.Virtual, err = st.virtualKeys(name, i, 0); err != nil {
		return nil, err
	}
	sharded := t.Placement == catalog.Hash && t.Shards.Len() > 1 && t.ShardKey != nil
	n, perr := p.parse(st, cat)
	alter, ok := n.(*ast.AlterTableStmt)
	ddl.AddsKey = t.Placement == catalog.Single && !t.Temporary && len(t.PrimaryKey) == 0 && len(cat.Shards) > 1 &&
		cat.Schema(name.Schema).Default.Placement == catalog.Hash && (!ok || addsPrimaryKey(alter))
	if perr != nil || !ok {
		// Only the lexer understood it: any column may be changed.
		ddl.AllColumns = true
		for j := i; j < len(st.toks); j++ {
			id, isName := st.identifier(j)
			switch {
			case sharded && isName && (strings.EqualFold(id, t.ShardKey.Name) || strings.EqualFold(id, "primary")) || sharded && st.is(j, "convert"):
				return nil, refuseAlterKey(t)
			case st.is(j, "convert") && (st.is(j+1, "partition") || st.is(j+1, "table")) && len(cat.Shards) > 1:
				return nil, refuseExchange("CONVERT " + strings.ToUpper(st.word(j+1)))
			case st.is(j, "rename") && !st.is(j+1, "column") && !st.is(j+1, "index") && !st.is(j+1, "key"):
				return nil, perr
			}
		}
		var movesKey bool
		if ddl.Unforeseen, movesKey = st.mayReorder(i, t); movesKey && sharded {
			return nil, refuseMoveKey(t)
		}
		return ddl, nil
	}
	computed := false // from columns that change
	for _, spec := range alter.Specs {
		touch := func(column string) {
			ddl.Touches = append(ddl.Touches, strings.ToLower(column))
			computed = computed || spec.Tp != ast.AlterTableAlterColumn // a default alone changes no row
		}
		key := func(column string) bool { return sharded && strings.EqualFold(column, t.ShardKey.Name) }
		switch spec.Tp {
		case ast.AlterTableDropColumn, ast.AlterTableRenameColumn, ast.AlterTableChangeColumn:
			touch(spec.OldColumnName.Name.O)
			if key(spec.OldColumnName.Name.O) {
				return nil, refuseAlterKey(t)
			}
		case ast.AlterTableModifyColumn:
			for _, c := range spec.NewColumns {
				touch(c.Name.Name.O)
				if key(c.Name.Name.O) && (!isInteger(baseType(t.ShardKey.Type)) || !isInteger(baseType(c.Tp.String()))) {
					return nil, refuseAlterKey(t)
				}
			}
		case ast.AlterTableAlterColumn:
			for _, c := range spec.NewColumns {
				touch(c.Name.Name.O)
			}
		case ast.AlterTableRenameTable:
			to := TableName{spec.NewTable.Schema.O, spec.NewTable.Name.O}
			if to.Schema == "" {
				to.Schema = name.Schema
				if st.settings.Schema != "" {
					to.Schema = st.settings.Schema
				}
			}
			if err := keepsPlace(cat, t, to); err != nil {
				return nil, err
			}
			if ddl.AddsKey { // nothing is known of where a table of the new name stays
				return nil, notSupported("adding a primary key to %s and renaming it in one statement is not supported: rename it first", t.Name)
			}
			ddl.Renamed[0] = to
			for k := range ddl.Virtual {
				ddl.Virtual[k].Table = to
			}
		case ast.AlterTableOption:
			for _, o := range spec.Options {
				if o.Tp == ast.TableOptionCharset && o.UintValue == ast.TableOptionCharsetWithConvertTo {
					ddl.AllColumns = true
					if sharded && t.ShardKey.Collation != "" {
						return nil, refuseAlterKey(t)
					}
				}
			}
		case ast.AlterTableDropIndex, ast.AlterTableDropCheck: // of the name `PRIMARY`
			if sharded && (strings.EqualFold(spec.Name, "primary") || spec.Constraint != nil && strings.EqualFold(spec.Constraint.Name, "primary")) && !newPrimaryKeyOn(alter, t.ShardKey.Name) {
				return nil, refuseAlterKey(t)
			}
		case ast.AlterTableDropPrimaryKey:
			if sharded && !newPrimaryKeyOn(alter, t.ShardKey.Name) {
				return nil, refuseAlterKey(t)
			}
		case ast.AlterTableDropPartition, ast.AlterTableTruncatePartition, ast.AlterTableExchangePartition,
			ast.AlterTableImportTablespace, ast.AlterTableImportPartitionTablespace, ast.AlterTableDiscardTablespace:
			// Rows come or go without being named.
			ddl.AllColumns = true
			if spec.Tp == ast.AlterTableExchangePartition && len(cat.Shards) > 1 {
				return nil, refuseExchange("EXCHANGE PARTITION")
			}
		}
	}
	var movesKey bool
	if ddl.Unforeseen, movesKey = reorders(t, alter); movesKey && sharded {
		return nil, refuseMoveKey(t)
	}
	// Rule generated: what a generated column holds follows the columns that it is
	// computed from. Counter-example: g AS (CONCAT(a, 'x')), and ALTER TABLE t MODIFY a
	// DECIMAL(10,2) makes '3.00x' of '3x'.
	for _, c := range t.Columns {
		if computed && c.Generated && !hasString(ddl.Touches, strings.ToLower(c.Name)) {
			ddl.Touches = append(ddl.Touches, strings.ToLower(c.Name))
		}
	}
	return ddl, nil
}

// refuseExchange: of the two tables one may be on this shard alone, and the other
// spread.
//
// Counter-example: ALTER TABLE settings EXCHANGE PARTITION p WITH TABLE users, with
// settings on s0: what it had are users on s0 then, whatever their ids.
func refuseExchange(what string) *Error {
	return notSupported("%s is not supported: the rows would come into a table unplaced; INSERT INTO ... SELECT, then TRUNCATE PARTITION", what)
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

func addsPrimaryKey(alter *ast.AlterTableStmt) bool {
	for _, spec := range alter.Specs {
		if c := spec.Constraint; c != nil && c.Tp == ast.ConstraintPrimaryKey {
			return true
		}
		for _, c := range spec.NewColumns {
			for _, o := range c.Options {
				if o.Tp == ast.ColumnOptionPrimaryKey {
					return true
				}
			}
		}
		for _, c := range spec.NewConstraints {
			if c.Tp == ast.ConstraintPrimaryKey {
				return true
			}
		}
	}
	return false
}

func newPrimaryKeyOn(alter *ast.AlterTableStmt, column string) bool {
	for _, spec := range alter.Specs {
		if c := spec.Constraint; spec.Tp == ast.AlterTableAddConstraint && c != nil && c.Tp == ast.ConstraintPrimaryKey &&
			len(c.Keys) > 0 && c.Keys[0].Column != nil && strings.EqualFold(c.Keys[0].Column.Name.O, column) {
			// Counter-example: ADD PRIMARY KEY (id, name(10)), which says nothing of where
			// rows are.
			return !slices.ContainsFunc(c.Keys, func(k *ast.IndexPartSpecification) bool { return k.Length > 0 })
		}
	}
	return false
}

func refuseAlterKey(t *catalog.Table) *Error {
	return notSupported("an ALTER TABLE that may change the shard key %s.%s is not supported: rows would have to move between shards; make a new table and copy", t.Name, t.ShardKey.Name)
}
