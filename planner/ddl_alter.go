package planner

import (
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/planner/text"
)

// alteration is an ALTER TABLE that is being planned.
type alteration struct {
	st   *text.Statement
	cat  *catalog.Catalog
	t    *catalog.Table
	name catalog.TableName
	ddl  *plan.DDL
	// sharded: where a row is depends on the shard key.
	sharded bool
}

func (p trees) AlterTable(st *text.Statement, cat *catalog.Catalog, i int) (plan.Plan, *text.Error) {
	name, _, t, err := spoken.UserTableAt(st, cat, i)
	if err != nil {
		return nil, spoken.Absent(st, i, "Error", err)
	}
	if err := spoken.ThroughEngine(st, i); err != nil {
		return nil, err
	}
	ddl := &plan.DDL{Catalog: cat, Op: "ALTER TABLE", Tables: []catalog.TableName{name}, Renamed: make([]catalog.TableName, 1), Shards: t.Shards}
	if t.Placement == catalog.Reference && t.Shards.Len() > 1 {
		if ddl.SameTime, err = defaultsOfCopies(st, i, t); err != nil {
			return nil, err
		}
	}
	if ddl.Virtual, err = spoken.VirtualKeys(st, name, i, 0); err != nil {
		return nil, err
	}
	a := &alteration{st, cat, t, name, ddl, t.Placement == catalog.Hash && t.Shards.Len() > 1 && t.ShardKey != nil}
	var movesKey bool
	n, perr := p.parse(st, cat)
	alter, ok := n.(*ast.AlterTableStmt)
	ddl.AddsKey = t.Placement == catalog.Single && !t.Temporary && len(t.PrimaryKey) == 0 && len(cat.Shards) > 1 &&
		cat.Schema(name.Schema).Default.Placement == catalog.Hash && (!ok || addsPrimaryKey(alter))
	if ok {
		ddl.Keeps = len(alter.Specs) > 0 && !slices.ContainsFunc(alter.Specs, func(spec *ast.AlterTableSpec) bool {
			return spec.Tp != ast.AlterTableEnableKeys && spec.Tp != ast.AlterTableDisableKeys
		})
		if err = a.bySpecs(alter); err == nil {
			ddl.Unforeseen, movesKey, err = reorders(t, alter)
		}
	} else {
		err = a.byWords(i, perr)
		ddl.Unforeseen, movesKey = spoken.MayReorder(st, i, t)
	}
	switch {
	case err != nil:
		return nil, err
	case movesKey && a.sharded:
		_ = a.whenEmpty(refuseMoveKey(t))
	}
	switch {
	case ddl.Filled != nil && !ok:
		return nil, ddl.Filled
	case ddl.Filled != nil:
		ddl.Collation = ""
		err = a.emptied(alter)
	case ddl.Collation != "":
		ddl.Filled = spoken.RefuseAlterKey(t)
	}
	if err != nil {
		return nil, err
	}
	return ddl, nil
}

// defaultsOfCopies looks at what the defaults from token i on give the rows that are there.
//
// Rule equal copies. Counter-examples, for a reference table: ADD COLUMN token CHAR(36) DEFAULT
// (UUID()), and ADD COLUMN made DATETIME DEFAULT NOW(), which the shards do one after the other.
func defaultsOfCopies(st *text.Statement, i int, t *catalog.Table) (clock bool, err *text.Error) {
	depth, within := 0, -1 // the depth that a default is at
	for ; i < len(st.Tokens); i++ {
		switch w := st.Word(i); {
		case st.Op(i, "("):
			depth++
		case st.Op(i, ")"):
			depth--
		case st.Op(i, ",") && depth <= within:
			within = -1
		case w == "default" && within < 0:
			within = depth
		case within < 0:
		case spoken.ClockFunction(w):
			clock = true
		case spoken.VolatileFunction(w) && st.Op(i+1, "(") && st.Has("add"):
			return false, text.NotSupported("%s() in the default of a column that is added to the reference table %s would give each shard other values: add it without, fill it by literals, and SET DEFAULT then", strings.ToUpper(w), t.Name)
		}
	}
	return clock, nil
}

// byWords is for what the parser refuses, with perr: any column may be changed.
func (a *alteration) byWords(i int, perr *text.Error) *text.Error {
	a.ddl.AllColumns = true
	st := a.st
	for j := i; j < len(st.Tokens); j++ {
		id, isName := st.Identifier(j)
		switch {
		case a.sharded && isName && (a.isKey(id) || strings.EqualFold(id, "primary")) || a.sharded && st.Is(j, "convert"):
			return spoken.RefuseAlterKey(a.t)
		case st.Is(j, "auto_increment") && !st.Op(j+1, "=") && a.t.Shards.Len() > 1 && j+1 < len(st.Tokens) && st.Tokens[j+1].Kind != text.Int:
			return refuseNumbering(a.t)
		case st.Is(j, "convert") && (st.Is(j+1, "partition") || st.Is(j+1, "table")) && len(a.cat.Shards) > 1:
			return refuseExchange("CONVERT " + strings.ToUpper(st.Word(j+1)))
		case st.Is(j, "rename") && !st.Is(j+1, "column") && !st.Is(j+1, "index") && !st.Is(j+1, "key"):
			return perr
		}
	}
	return nil
}

// isKey reports the shard key's name, where it matters.
func (a *alteration) isKey(column string) bool {
	return a.sharded && strings.EqualFold(column, a.t.ShardKey.Name)
}

func (a *alteration) bySpecs(alter *ast.AlterTableStmt) *text.Error {
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
				return a.whenEmpty(spoken.RefuseAlterKey(a.t))
			}
		}
	}
	return nil
}

// whenEmpty notes that only a table without rows may be altered so.
func (a *alteration) whenEmpty(why *text.Error) *text.Error {
	if a.ddl.Filled == nil {
		a.ddl.Filled = why
	}
	return nil
}

// emptied looks at what becomes of a table that is to be empty. Its shard key may be another
// column then, or none: as one that was made without a primary key it is on the first shard.
//
// Rule one's own line: what the configuration says of a table by name goes by its columns and primary
// key, so that these must stay.
func (a *alteration) emptied(alter *ast.AlterTableStmt) *text.Error {
	t, why := a.t, a.ddl.Filled
	a.ddl.AllColumns = true
	key, sure := keyAfter(t, alter)
	switch {
	case !sure, a.ddl.Renamed[0] != catalog.TableName{}, t.Named && key != keyOf(t),
		t.Named && t.ShardKey != nil && slices.ContainsFunc(alter.Specs, func(spec *ast.AlterTableSpec) bool { return loses(spec, t.ShardKey.Name) }):
		return why
	case key == "" && a.sharded && !t.Named:
		first := a.cat.Shards[0].ID
		if !t.Shards.Has(first) {
			return why
		}
		a.ddl.Texts = map[catalog.ShardID]string{}
		for id := range t.Shards.Minus(catalog.Only(first)).All {
			a.ddl.Texts[id] = "DROP TABLE " + catalog.QuoteName(a.name.Schema) + "." + catalog.QuoteName(a.name.Name)
		}
	}
	return nil
}

// keyOf is the primary key's first column, in lower case; "" without one.
func keyOf(t *catalog.Table) string {
	if len(t.PrimaryKey) == 0 {
		return ""
	}
	return strings.ToLower(t.PrimaryKey[0].Name)
}

// keyAfter is keyOf behind an ALTER TABLE. sure is false where that can't be said.
func keyAfter(t *catalog.Table, alter *ast.AlterTableStmt) (key string, sure bool) {
	key = keyOf(t)
	for _, spec := range alter.Specs {
		switch {
		case spec.Tp == ast.AlterTableDropPrimaryKey, spec.Tp == ast.AlterTableDropIndex && strings.EqualFold(spec.Name, "primary"):
			key = ""
		case spec.Tp == ast.AlterTableAddConstraint && spec.Constraint != nil && spec.Constraint.Tp == ast.ConstraintPrimaryKey:
			if !newPrimaryKeyOn(&ast.AlterTableStmt{Specs: []*ast.AlterTableSpec{spec}}, spec.Constraint.Keys[0].Column.Name.O) {
				return "", false
			}
			key = spec.Constraint.Keys[0].Column.Name.L
		case key != "" && loses(spec, key):
			if len(t.PrimaryKey) > 1 || len(spec.NewColumns) > 0 && spec.Tp != ast.AlterTableChangeColumn {
				return "", false
			}
			if key = ""; len(spec.NewColumns) > 0 {
				key = spec.NewColumns[0].Name.Name.L
			} else if spec.NewColumnName != nil {
				key = spec.NewColumnName.Name.L
			}
		}
		for _, c := range spec.NewColumns {
			if hasOption(c, ast.ColumnOptionPrimaryKey) {
				key = c.Name.Name.L
			}
		}
	}
	return key, true
}

// loses reports a part of an ALTER TABLE behind which there is no column of that name.
func loses(spec *ast.AlterTableSpec, column string) bool {
	switch spec.Tp {
	case ast.AlterTableDropColumn, ast.AlterTableRenameColumn:
		return strings.EqualFold(spec.OldColumnName.Name.O, column)
	case ast.AlterTableChangeColumn:
		return strings.EqualFold(spec.OldColumnName.Name.O, column) && !strings.EqualFold(spec.NewColumns[0].Name.Name.O, column)
	}
	return false
}

func (a *alteration) touch(column string) {
	a.ddl.Touches = append(a.ddl.Touches, strings.ToLower(column))
}

// spec notes what one part of the statement changes, and refuses what would leave rows
// where they are not looked for.
func (a *alteration) spec(alter *ast.AlterTableStmt, spec *ast.AlterTableSpec) *text.Error {
	switch spec.Tp {
	case ast.AlterTableDropColumn, ast.AlterTableRenameColumn:
		a.touch(spec.OldColumnName.Name.O)
		if a.isKey(spec.OldColumnName.Name.O) {
			return a.whenEmpty(spoken.RefuseAlterKey(a.t))
		}
	case ast.AlterTableChangeColumn, ast.AlterTableModifyColumn:
		c := spec.NewColumns[0]
		old := c.Name
		if spec.OldColumnName != nil {
			old = spec.OldColumnName
		}
		a.touch(old.Name.O)
		if a.isKey(old.Name.O) && (!a.isKey(c.Name.Name.O) || !a.keepsKeys(c) && !a.keepsTexts(c)) {
			_ = a.whenEmpty(spoken.RefuseAlterKey(a.t))
		}
		return a.counts(a.t.Column(old.Name.O), c)
	case ast.AlterTableAddColumns:
		if slices.ContainsFunc(spec.NewColumns, isAutoIncrement) && a.t.Shards.Len() > 1 {
			return a.whenEmpty(refuseNumbering(a.t))
		}
	case ast.AlterTableAlterColumn:
		for _, c := range spec.NewColumns {
			a.touch(c.Name.Name.O)
			// An INSERT that is under way has been placed by the old default.
			if a.isKey(c.Name.Name.O) {
				return a.whenEmpty(spoken.RefuseAlterKey(a.t))
			}
		}
	case ast.AlterTableAddConstraint:
		return a.nulls(spec.Constraint)
	case ast.AlterTableRenameTable:
		return a.rename(catalog.TableName{Schema: spec.NewTable.Schema.O, Name: spec.NewTable.Name.O})
	case ast.AlterTableOption:
		for _, o := range spec.Options {
			if o.Tp == ast.TableOptionCharset && o.UintValue == ast.TableOptionCharsetWithConvertTo {
				a.ddl.AllColumns = true
				if a.sharded && a.t.ShardKey.Collation != "" {
					return a.whenEmpty(spoken.RefuseAlterKey(a.t))
				}
			}
		}
	case ast.AlterTableDropIndex, ast.AlterTableDropCheck: // of the name `PRIMARY`
		primary := strings.EqualFold(spec.Name, "primary") || spec.Constraint != nil && strings.EqualFold(spec.Constraint.Name, "primary")
		if a.sharded && primary && !newPrimaryKeyOn(alter, a.t.ShardKey.Name) {
			return a.whenEmpty(spoken.RefuseAlterKey(a.t))
		}
	case ast.AlterTableDropPrimaryKey:
		if a.sharded && !newPrimaryKeyOn(alter, a.t.ShardKey.Name) {
			return a.whenEmpty(spoken.RefuseAlterKey(a.t))
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
func (a *alteration) nulls(c *ast.Constraint) *text.Error {
	if c == nil || c.Tp != ast.ConstraintPrimaryKey || a.st.Settings.Strict && !a.st.Is(1, "ignore") {
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
			return a.whenEmpty(spoken.RefuseAlterKey(a.t))
		}
	}
	return nil
}

// keepsKeys reports that a new definition of the shard key changes no row's value: of an
// integer one that holds all that the old one does, as an INT that becomes a BIGINT, or
// AUTO_INCREMENT.
func (a *alteration) keepsKeys(c *ast.ColumnDef) bool {
	old := a.t.ShardKey
	if old.Generated || old.Default != nil || old.DefaultExpr || !catalog.IsInteger(old.BaseType()) || !catalog.IsInteger(catalog.BaseType(c.Tp.String())) {
		return false
	}
	if !keepsNulls(old, c) {
		return false
	}
	was, err := plan.CodecOf(a.cat, old)
	if err != nil {
		return false
	}
	is, err := keys.For(c.Tp.String(), "", "", a.cat.MariaDB)
	return err == nil && is.Covers(was)
}

// keepsNulls: the definition's options give no row of the old one another value.
func keepsNulls(old *catalog.Column, c *ast.ColumnDef) bool {
	for _, o := range c.Options {
		switch o.Tp {
		case ast.ColumnOptionNotNull, ast.ColumnOptionPrimaryKey, ast.ColumnOptionAutoIncrement:
			if old.Nullable { // NULL becomes 0, or is counted
				return false
			}
		case ast.ColumnOptionNull, ast.ColumnOptionUniqKey, ast.ColumnOptionComment, ast.ColumnOptionCollate:
		default:
			return false
		}
	}
	return true
}

// keepsTexts is keepsKeys for a VARCHAR that becomes a longer one of the same collation. Without
// one in its definition it has the table's, of which the shards are asked (DDL.Collation).
func (a *alteration) keepsTexts(c *ast.ColumnDef) bool {
	old := a.t.ShardKey
	was, ok := plan.TypeLength(old.Type)
	if !ok || old.Generated || old.Default != nil || old.DefaultExpr || !strings.EqualFold(old.BaseType(), "varchar") ||
		catalog.BaseType(c.Tp.String()) != "varchar" || c.Tp.GetFlen() < was || old.Collation == "" || !keepsNulls(old, c) {
		return false
	}
	collation, charset := c.Tp.GetCollate(), c.Tp.GetCharset()
	for _, o := range c.Options {
		if o.Tp == ast.ColumnOptionCollate {
			collation = o.StrValue
		}
	}
	switch {
	case collation != "":
		return strings.EqualFold(collation, old.Collation)
	case charset != "":
		return !a.st.Settings.OwnCollations && strings.EqualFold(a.cat.DefaultCollation[strings.ToLower(charset)], old.Collation)
	}
	a.ddl.Collation = old.Collation
	return true
}

// counts notes a column that becomes AUTO_INCREMENT. What has no value then would get one from
// each shard's own counter.
func (a *alteration) counts(old *catalog.Column, c *ast.ColumnDef) *text.Error {
	switch {
	case old == nil || old.AutoIncrement || !isAutoIncrement(c) || a.t.Shards.Len() == 1:
		return nil
	case old.Nullable:
		return a.whenEmpty(refuseNumbering(a.t))
	case !a.st.Settings.NoAutoValueOnZero:
		return a.whenEmpty(text.NotSupported("AUTO_INCREMENT for %s.%s needs the sql_mode NO_AUTO_VALUE_ON_ZERO, since each shard would give rows with 0 values of its own: SET sql_mode = CONCAT(@@sql_mode, ',NO_AUTO_VALUE_ON_ZERO'), then send it again", a.t.Name, old.Name))
	}
	a.ddl.Counts = old.Name
	return nil
}

// refuseNumbering: each shard would number its rows, of a reference table in an order of its own.
//
// Counter-example: CREATE TABLE log (at DATETIME, user_id INT), hashed by user_id; ALTER TABLE
// log ADD id INT AUTO_INCREMENT PRIMARY KEY. There is a row 1 on every shard then.
func refuseNumbering(t *catalog.Table) *text.Error {
	return text.NotSupported("AUTO_INCREMENT for a column of %s whose rows have no values yet is not supported: each shard would count from 1; add the column without it, fill it, make it NOT NULL, then AUTO_INCREMENT", t.Name)
}

func isAutoIncrement(c *ast.ColumnDef) bool {
	return hasOption(c, ast.ColumnOptionAutoIncrement)
}

func hasOption(c *ast.ColumnDef, tp ast.ColumnOptionType) bool {
	return slices.ContainsFunc(c.Options, func(o *ast.ColumnOption) bool { return o.Tp == tp })
}

func (a *alteration) rename(to catalog.TableName) *text.Error {
	if to.Schema == "" {
		to.Schema = a.name.Schema
		if a.st.Settings.Schema != "" {
			to.Schema = a.st.Settings.Schema
		}
	}
	if err := spoken.KeepsPlace(a.cat, a.t, to); err != nil {
		return err
	}
	if a.ddl.AddsKey { // nothing is known of where a table of the new name stays
		return text.NotSupported("adding a primary key to %s and renaming it in one statement is not supported: rename it first", a.t.Name)
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
func refuseExchange(what string) *text.Error {
	return text.NotSupported("%s is not supported: the rows would come into a table unplaced; INSERT INTO ... SELECT, then TRUNCATE PARTITION", what)
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
