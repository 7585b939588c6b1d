package planner

import (
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
)

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
			return nil, noDatabase()
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

// alteration is an ALTER TABLE that is being planned.
type alteration struct {
	st   *statement
	cat  *catalog.Catalog
	t    *catalog.Table
	name TableName
	ddl  *DDL
	// sharded: where a row is depends on the shard key.
	sharded bool
}

func (p *Planner) alterTable(st *statement, cat *catalog.Catalog, i int) (Plan, *Error) {
	name, _, t, err := st.userTableAt(cat, i)
	if err != nil {
		return nil, err
	}
	if err := st.throughEngine(i); err != nil {
		return nil, err
	}
	ddl := &DDL{Catalog: cat, Op: "ALTER TABLE", Tables: []TableName{name}, Renamed: make([]TableName, 1), Shards: t.Shards}
	if t.Placement == catalog.Reference && t.Shards.Len() > 1 {
		if ddl.SameTime, err = st.defaultsOfCopies(i, t); err != nil {
			return nil, err
		}
	}
	if ddl.Virtual, err = st.virtualKeys(name, i, 0); err != nil {
		return nil, err
	}
	a := &alteration{st, cat, t, name, ddl, t.Placement == catalog.Hash && t.Shards.Len() > 1 && t.ShardKey != nil}
	var movesKey bool
	n, perr := p.parse(st, cat)
	alter, ok := n.(*ast.AlterTableStmt)
	ddl.AddsKey = t.Placement == catalog.Single && !t.Temporary && len(t.PrimaryKey) == 0 && len(cat.Shards) > 1 &&
		cat.Schema(name.Schema).Default.Placement == catalog.Hash && (!ok || addsPrimaryKey(alter))
	if ok {
		if err = a.bySpecs(alter); err == nil {
			ddl.Unforeseen, movesKey, err = reorders(t, alter)
		}
	} else {
		err = a.byWords(i, perr)
		ddl.Unforeseen, movesKey = st.mayReorder(i, t)
	}
	switch {
	case err != nil:
		return nil, err
	case movesKey && a.sharded:
		return nil, refuseMoveKey(t)
	}
	return ddl, nil
}

// defaultsOfCopies looks at what the defaults from token i on give the rows that are there.
//
// Rule equal copies. Counter-examples, for a reference table: ADD COLUMN token CHAR(36) DEFAULT
// (UUID()), and ADD COLUMN made DATETIME DEFAULT NOW(), which the shards do one after the other.
func (st *statement) defaultsOfCopies(i int, t *catalog.Table) (clock bool, err *Error) {
	depth, within := 0, -1 // the depth that a default is at
	for ; i < len(st.toks); i++ {
		switch w := st.word(i); {
		case st.op(i, "("):
			depth++
		case st.op(i, ")"):
			depth--
		case st.op(i, ",") && depth <= within:
			within = -1
		case w == "default" && within < 0:
			within = depth
		case within < 0:
		case clockFunction(w):
			clock = true
		case volatileFunction(w) && st.op(i+1, "(") && st.has("add"):
			return false, notSupported("%s() in the default of a column that is added to the reference table %s would give each shard other values: add it without, fill it by literals, and SET DEFAULT then", strings.ToUpper(w), t.Name)
		}
	}
	return clock, nil
}

// byWords is for what the parser refuses, with perr: any column may be changed.
func (a *alteration) byWords(i int, perr *Error) *Error {
	a.ddl.AllColumns = true
	st := a.st
	for j := i; j < len(st.toks); j++ {
		id, isName := st.identifier(j)
		switch {
		case a.sharded && isName && (a.isKey(id) || strings.EqualFold(id, "primary")) || a.sharded && st.is(j, "convert"):
			return refuseAlterKey(a.t)
		case st.is(j, "auto_increment") && !st.op(j+1, "=") && a.t.Shards.Len() > 1 && j+1 < len(st.toks) && st.toks[j+1].kind != tokInt:
			return refuseNumbering(a.t)
		case st.is(j, "convert") && (st.is(j+1, "partition") || st.is(j+1, "table")) && len(a.cat.Shards) > 1:
			return refuseExchange("CONVERT " + strings.ToUpper(st.word(j+1)))
		case st.is(j, "rename") && !st.is(j+1, "column") && !st.is(j+1, "index") && !st.is(j+1, "key"):
			return perr
		}
	}
	return nil
}

// isKey reports the shard key's name, where it matters.
func (a *alteration) isKey(column string) bool {
	return a.sharded && strings.EqualFold(column, a.t.ShardKey.Name)
}

func (a *alteration) bySpecs(alter *ast.AlterTableStmt) *Error {
	computed := false // from columns that change
	for _, spec := range alter.Specs {
		touched := len(a.ddl.Touches)
		if err := a.spec(alter, spec); err != nil {
			return err
		}
		// A default alone changes no row.
		computed = computed || len(a.ddl.Touches) > touched && spec.Tp != ast.AlterTableAlterColumn
	}
	// Rule generated: what a generated column holds follows the columns that it is
	// computed from. Counter-example: g AS (CONCAT(a, 'x')), and ALTER TABLE t MODIFY a
	// DECIMAL(10,2) makes '3.00x' of '3x'.
	for _, c := range a.t.Columns {
		if computed && c.Generated && !slices.Contains(a.ddl.Touches, strings.ToLower(c.Name)) {
			a.touch(c.Name)
			if a.isKey(c.Name) {
				return refuseAlterKey(a.t)
			}
		}
	}
	return nil
}

func (a *alteration) touch(column string) {
	a.ddl.Touches = append(a.ddl.Touches, strings.ToLower(column))
}

// spec notes what one part of the statement changes, and refuses what would leave rows
// where they are not looked for.
func (a *alteration) spec(alter *ast.AlterTableStmt, spec *ast.AlterTableSpec) *Error {
	switch spec.Tp {
	case ast.AlterTableDropColumn, ast.AlterTableRenameColumn:
		a.touch(spec.OldColumnName.Name.O)
		if a.isKey(spec.OldColumnName.Name.O) {
			return refuseAlterKey(a.t)
		}
	case ast.AlterTableChangeColumn, ast.AlterTableModifyColumn:
		c := spec.NewColumns[0]
		old := c.Name
		if spec.OldColumnName != nil {
			old = spec.OldColumnName
		}
		a.touch(old.Name.O)
		if a.isKey(old.Name.O) && (!a.isKey(c.Name.Name.O) || !a.keepsKeys(c)) {
			return refuseAlterKey(a.t)
		}
		return a.counts(a.t.Column(old.Name.O), c)
	case ast.AlterTableAddColumns:
		if slices.ContainsFunc(spec.NewColumns, isAutoIncrement) && a.t.Shards.Len() > 1 {
			return refuseNumbering(a.t)
		}
	case ast.AlterTableAlterColumn:
		for _, c := range spec.NewColumns {
			a.touch(c.Name.Name.O)
			// An INSERT that is under way has been placed by the old default.
			if a.isKey(c.Name.Name.O) {
				return refuseAlterKey(a.t)
			}
		}
	case ast.AlterTableAddConstraint:
		return a.nulls(spec.Constraint)
	case ast.AlterTableRenameTable:
		return a.rename(TableName{Schema: spec.NewTable.Schema.O, Name: spec.NewTable.Name.O})
	case ast.AlterTableOption:
		for _, o := range spec.Options {
			if o.Tp == ast.TableOptionCharset && o.UintValue == ast.TableOptionCharsetWithConvertTo {
				a.ddl.AllColumns = true
				if a.sharded && a.t.ShardKey.Collation != "" {
					return refuseAlterKey(a.t)
				}
			}
		}
	case ast.AlterTableDropIndex, ast.AlterTableDropCheck: // of the name `PRIMARY`
		primary := strings.EqualFold(spec.Name, "primary") || spec.Constraint != nil && strings.EqualFold(spec.Constraint.Name, "primary")
		if a.sharded && primary && !newPrimaryKeyOn(alter, a.t.ShardKey.Name) {
			return refuseAlterKey(a.t)
		}
	case ast.AlterTableDropPrimaryKey:
		if a.sharded && !newPrimaryKeyOn(alter, a.t.ShardKey.Name) {
			return refuseAlterKey(a.t)
		}
	case ast.AlterTableDropPartition, ast.AlterTableTruncatePartition, ast.AlterTableExchangePartition,
		ast.AlterTableImportTablespace, ast.AlterTableImportPartitionTablespace, ast.AlterTableDiscardTablespace:
		// Rows come or go without being named.
		a.ddl.AllColumns = true
		if spec.Tp == ast.AlterTableExchangePartition && len(a.cat.Shards) > 1 {
			return refuseExchange("EXCHANGE PARTITION")
		}
	}
	return nil
}

// nulls notes the columns that a new primary key makes NOT NULL. Without a strict mode a
// NULL becomes 0 or an empty text.
//
// Counter-example: ALTER TABLE t ADD PRIMARY KEY (id, code). A row without a code has no entry,
// and from then on an empty code.
func (a *alteration) nulls(c *ast.Constraint) *Error {
	if c == nil || c.Tp != ast.ConstraintPrimaryKey || a.st.settings.Strict && !a.st.is(1, "ignore") {
		return nil
	}
	for _, k := range c.Keys {
		if k.Column == nil {
			continue
		}
		col := a.t.Column(k.Column.Name.O)
		if col == nil || !col.Nullable {
			continue
		}
		a.touch(col.Name)
		if a.isKey(col.Name) {
			return refuseAlterKey(a.t)
		}
	}
	return nil
}

// keepsKeys reports that a new definition of the shard key changes no row's value: of an
// integer one that holds all that the old one does, as an INT that becomes a BIGINT, or
// AUTO_INCREMENT.
func (a *alteration) keepsKeys(c *ast.ColumnDef) bool {
	old := a.t.ShardKey
	if old.Generated || old.Default != nil || old.DefaultExpr || !isInteger(baseType(old.Type)) || !isInteger(baseType(c.Tp.String())) {
		return false
	}
	for _, o := range c.Options {
		switch o.Tp {
		case ast.ColumnOptionNotNull, ast.ColumnOptionPrimaryKey, ast.ColumnOptionAutoIncrement:
			if old.Nullable { // NULL becomes 0, or is counted
				return false
			}
		case ast.ColumnOptionNull, ast.ColumnOptionUniqKey, ast.ColumnOptionComment:
		default:
			return false
		}
	}
	was, err := codecOf(a.cat, old)
	if err != nil {
		return false
	}
	is, err := keys.For(c.Tp.String(), "", "", a.cat.MariaDB)
	return err == nil && is.Covers(was)
}

// counts notes a column that becomes AUTO_INCREMENT. What has no value then would get one from
// each shard's own counter.
func (a *alteration) counts(old *catalog.Column, c *ast.ColumnDef) *Error {
	switch {
	case old == nil || old.AutoIncrement || !isAutoIncrement(c) || a.t.Shards.Len() == 1:
		return nil
	case old.Nullable:
		return refuseNumbering(a.t)
	case !a.st.settings.NoAutoValueOnZero:
		return notSupported("AUTO_INCREMENT for %s.%s needs the sql_mode NO_AUTO_VALUE_ON_ZERO, since each shard would give rows with 0 values of its own: SET sql_mode = CONCAT(@@sql_mode, ',NO_AUTO_VALUE_ON_ZERO'), then send it again", a.t.Name, old.Name)
	}
	a.ddl.Counts = old.Name
	return nil
}

// refuseNumbering: each shard would number its rows, of a reference table in an order of its own.
//
// Counter-example: CREATE TABLE log (at DATETIME, user_id INT), hashed by user_id; ALTER TABLE
// log ADD id INT AUTO_INCREMENT PRIMARY KEY. There is a row 1 on every shard then.
func refuseNumbering(t *catalog.Table) *Error {
	return notSupported("AUTO_INCREMENT for a column of %s whose rows have no values yet is not supported: each shard would count from 1; add the column without it, fill it, make it NOT NULL, then AUTO_INCREMENT", t.Name)
}

func isAutoIncrement(c *ast.ColumnDef) bool {
	return hasOption(c, ast.ColumnOptionAutoIncrement)
}

func hasOption(c *ast.ColumnDef, tp ast.ColumnOptionType) bool {
	return slices.ContainsFunc(c.Options, func(o *ast.ColumnOption) bool { return o.Tp == tp })
}

func (a *alteration) rename(to TableName) *Error {
	if to.Schema == "" {
		to.Schema = a.name.Schema
		if a.st.settings.Schema != "" {
			to.Schema = a.st.settings.Schema
		}
	}
	if err := keepsPlace(a.cat, a.t, to); err != nil {
		return err
	}
	if a.ddl.AddsKey { // nothing is known of where a table of the new name stays
		return notSupported("adding a primary key to %s and renaming it in one statement is not supported: rename it first", a.t.Name)
	}
	a.ddl.Renamed[0] = to
	for k := range a.ddl.Virtual {
		a.ddl.Virtual[k].Table = to
	}
	return nil
}

// refuseExchange: of the two tables one may be on this shard alone, and the other
// spread.
//
// Counter-example: ALTER TABLE settings EXCHANGE PARTITION p WITH TABLE users, with
// settings on s0: what it had are users on s0 then, whatever their ids.
func refuseExchange(what string) *Error {
	return notSupported("%s is not supported: the rows would come into a table unplaced; INSERT INTO ... SELECT, then TRUNCATE PARTITION", what)
}

func addsPrimaryKey(alter *ast.AlterTableStmt) bool {
	primary := func(c *ast.Constraint) bool { return c != nil && c.Tp == ast.ConstraintPrimaryKey }
	return slices.ContainsFunc(alter.Specs, func(spec *ast.AlterTableSpec) bool {
		return primary(spec.Constraint) || slices.ContainsFunc(spec.NewConstraints, primary) ||
			slices.ContainsFunc(spec.NewColumns, func(c *ast.ColumnDef) bool { return hasOption(c, ast.ColumnOptionPrimaryKey) })
	})
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
	return notSupported("an ALTER TABLE that may change the shard key %s.%s is not supported, but for a larger integer type or AUTO_INCREMENT: rows would have to move between shards; make a new table and copy", t.Name, t.ShardKey.Name)
}
