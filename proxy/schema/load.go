package schema

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// Querier is a connection that answers a small query. Values are nil for NULL
// and belong to the caller.
type Querier interface {
	Rows(ctx context.Context, sql string) ([][][]byte, error)
}

// Facts is what one shard says about itself.
type Facts struct {
	Version        string
	LowerCaseNames bool
	// Settings are the global values of settings, by name.
	Settings    map[string]string
	Collations  []Collation
	Schemas     []string
	Tables      []tableFact
	Columns     []columnFact
	Keys        []keyFact
	Triggers    []triggerFact
	ForeignKeys []foreignKeyFact
	Functions   []functionFact
	// Events are those of the schemas whose EVENT privilege the account has.
	Events []eventFact
	// Unsure: some of it could not be read now, and is taken for the worst. Ask
	// again.
	Unsure bool
}

// settings are global ones with which a session begins, and which give statements a
// meaning. Any session may set them.
var settings = []string{
	"sql_mode", "time_zone", "transaction_isolation", "tx_isolation", "group_concat_max_len", "div_precision_increment", "lc_time_names",
	"default_week_format", "sql_auto_is_null", "default_storage_engine", "character_set_collations", "innodb_snapshot_isolation",
}

// Changed names what is otherwise in later facts, for the log.
func (f *Facts) Changed(later *Facts) []string {
	var names []string
	was, is := reflect.ValueOf(*f), reflect.ValueOf(*later)
	for i := range was.NumField() {
		if name := was.Type().Field(i).Name; !reflect.DeepEqual(was.Field(i).Interface(), is.Field(i).Interface()) {
			names = append(names, strings.ToLower(name))
		}
	}
	return names
}

// Collation is one that the server has.
type Collation struct {
	ID            int
	Name, Charset string
	Default       bool
}

type tableFact struct {
	schema, name string
	view         bool
	// definition is a view's query, "" where the account may not see it.
	definition, collation string
	// introducers: strings in it have had character sets of their own.
	introducers bool
}

type columnFact struct {
	schema, table, name, typ, charset, collation string
	nullable                                     bool
	def                                          *string
	extra, generated                             string
	json                                         bool
	// unique: it is in the primary key, or is a unique one alone. As the column tells it:
	// it need not be so in a table that is renamed meanwhile.
	unique bool
}

type keyFact struct {
	schema, table, key, column string
	nullable, prefix           bool
}

type triggerFact struct{ schema, table, event, body, mode string }

type eventFact struct{ schema, name, body string }

// functionFact is a stored function or procedure; hidden: we may not see its
// body.
type functionFact struct {
	schema, name, body string
	hidden, procedure  bool
}

type foreignKeyFact struct {
	schema, table, column, refSchema, refTable, refColumn string
	update, delete                                        string
}

const userSchemas = " NOT IN ('mysql','information_schema','performance_schema','sys','shunt_scratch')"

// Read asks one shard for its facts. The questions aren't one snapshot, and a
// server leaves out tables that it can't open at the moment: facts that
// contradict each other are asked for again.
func Read(ctx context.Context, q Querier) (*Facts, error) {
	for attempt := 1; ; attempt++ {
		f, err := readOnce(ctx, q)
		if err != nil {
			return nil, err
		}
		// An account may be allowed to see a table and none of its columns: then
		// they are what is known.
		if !f.torn() || attempt == 5 {
			return f, nil
		}
	}
}

// torn: a table has no columns, or columns have no table; a column has no key that it
// says it has, or a key has no column. A table without its keys would look like one
// that can't be spread.
func (f *Facts) torn() bool {
	columns, keyed := map[[2]string]bool{}, map[[3]string]bool{}
	for _, k := range f.Keys {
		keyed[[3]string{k.schema, k.table, k.column}] = true
	}
	for _, c := range f.Columns {
		columns[[2]string{c.schema, c.table}] = true
		if c.unique && !keyed[[3]string{c.schema, c.table, c.name}] {
			return true
		}
	}
	for _, k := range f.Keys {
		if !columns[[2]string{k.schema, k.table}] {
			return true
		}
	}
	for _, t := range f.Tables {
		k := [2]string{t.schema, t.name}
		if !columns[k] && !t.view { // a view whose tables are gone has none
			return true
		}
		delete(columns, k)
	}
	return len(columns) > 0
}

func readOnce(ctx context.Context, q Querier) (*Facts, error) {
	f := &Facts{Settings: map[string]string{}}
	r := reading{ctx, q, f}
	for _, part := range []func() error{r.server, func() error { return r.tables(ofAll) }, r.views, r.programs, r.events} {
		if err := part(); err != nil {
			return nil, err
		}
	}
	f.sort()
	return f, nil
}

// ReadTables asks one shard for its facts of some tables; all else is as known, which is
// what it said last. REQUIRES: known.Alone(names).
func ReadTables(ctx context.Context, q Querier, known *Facts, names []catalog.TableName) (*Facts, error) {
	for attempt := 1; ; attempt++ {
		part := &Facts{Version: known.Version}
		for i, name := range names {
			if slices.Contains(names[:i], name) {
				continue // as RENAME TABLE a TO b, c TO a has them
			}
			if err := (reading{ctx, q, part}).tables(ofTable(name)); err != nil {
				return nil, err
			}
		}
		if slices.ContainsFunc(part.Tables, func(t tableFact) bool { return t.view }) {
			return Read(ctx, q) // RENAME TABLE renames views, too
		}
		if !part.torn() || attempt == 5 {
			return known.with(names, part), nil
		}
	}
}

// Alone reports whether a change of these tables changes the facts of no other: no view
// may read them, and no foreign key refer to them, whose columns and names would change too.
// Nor may the server fold their names, or a string have to escape them.
func (f *Facts) Alone(names []catalog.TableName) bool {
	if f == nil || f.LowerCaseNames || len(names) == 0 || len(names) > 4 {
		return false
	}
	for _, n := range names {
		if strings.ContainsAny(n.Schema+n.Name, "'\\`") {
			return false
		}
		for _, t := range f.Tables {
			if t.view && (t.definition == "" || strings.Contains(strings.ToLower(t.definition), strings.ToLower(n.Name))) {
				return false
			}
		}
		for _, k := range f.ForeignKeys {
			if k.refSchema == n.Schema && k.refTable == n.Name {
				return false
			}
		}
	}
	return true
}

// with is f with what part says of tables in place of what f says of them.
func (f *Facts) with(names []catalog.TableName, part *Facts) *Facts {
	named := func(schema, table string) bool {
		return slices.Contains(names, catalog.TableName{Schema: schema, Name: table})
	}
	of := *f
	of.Tables = replace(f.Tables, part.Tables, func(t tableFact) bool { return named(t.schema, t.name) })
	of.Columns = replace(f.Columns, part.Columns, func(c columnFact) bool { return named(c.schema, c.table) })
	of.Keys = replace(f.Keys, part.Keys, func(k keyFact) bool { return named(k.schema, k.table) })
	of.Triggers = replace(f.Triggers, part.Triggers, func(t triggerFact) bool { return named(t.schema, t.table) })
	of.ForeignKeys = replace(f.ForeignKeys, part.ForeignKeys, func(k foreignKeyFact) bool { return named(k.schema, k.table) })
	of.sort()
	return &of
}

func replace[T any](all, part []T, named func(T) bool) []T {
	var of []T // nil for none, as of all
	for _, x := range all {
		if !named(x) {
			of = append(of, x)
		}
	}
	return append(of, part...)
}

// reading asks one shard, and notes in f what it says.
type reading struct {
	ctx context.Context
	q   Querier
	f   *Facts
}

func (r reading) rows(what, sql string, each func(row []string, null []bool)) error {
	rows, err := r.q.Rows(r.ctx, sql)
	if err != nil {
		return fmt.Errorf("read %s: %w", what, err)
	}
	for _, values := range rows {
		row, null := make([]string, len(values)), make([]bool, len(values))
		for i, v := range values {
			row[i], null[i] = string(v), v == nil
		}
		each(row, null)
	}
	return nil
}

type question struct {
	what, sql string
	each      func(row []string, null []bool)
}

func (r reading) ask(questions ...question) error {
	for _, x := range questions {
		if err := r.rows(x.what, x.sql, x.each); err != nil {
			return err
		}
	}
	return nil
}

// server asks for what isn't of a table.
func (r reading) server() error {
	f := r.f
	err := r.ask(
		question{"version", "SELECT VERSION(), @@lower_case_table_names", func(r []string, _ []bool) {
			f.Version, f.LowerCaseNames = r[0], r[1] != "0"
		}},
		question{"settings", "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('" + strings.Join(append(slices.Clone(settings), "system_time_zone", "autocommit"), "', '") + "')", func(r []string, _ []bool) {
			f.Settings[strings.ToLower(r[0])] = r[1]
		}},
		question{"schemas", "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME" + userSchemas, func(r []string, _ []bool) {
			f.Schemas = append(f.Schemas, r[0])
		}},
	)
	if err != nil {
		return err
	}
	return r.collations()
}

func (r reading) collations() error {
	collation := func(row []string, _ []bool) {
		if id, err := strconv.Atoi(row[0]); err == nil {
			r.f.Collations = append(r.f.Collations, Collation{ID: id, Name: row[1], Charset: row[2], Default: strings.EqualFold(row[3], "yes")})
		}
	}
	if r.mariaDB() {
		// Since 10.10 its uca1400 collations have a number and a full name in each of their character sets.
		err := r.ask(question{"collations", "SELECT ID, FULL_COLLATION_NAME, CHARACTER_SET_NAME, IS_DEFAULT FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY", collation})
		if err == nil || !strings.Contains(err.Error(), codeUnknownColumn) {
			return err
		}
	}
	return r.ask(question{"collations", "SELECT ID, COLLATION_NAME, CHARACTER_SET_NAME, IS_DEFAULT FROM information_schema.COLLATIONS", collation})
}

func (r reading) mariaDB() bool { return strings.Contains(r.f.Version, "MariaDB") }

// of says of which tables to ask: a condition on the columns of information_schema that hold
// a table's schema and its name.
type of func(schemaColumn, nameColumn string) string

func ofAll(schemaColumn, _ string) string { return schemaColumn + userSchemas }

// ofTable is one table, which servers look up without reading what others are.
func ofTable(t catalog.TableName) of {
	return func(schemaColumn, nameColumn string) string {
		return fmt.Sprintf("%s = '%s' AND %s = '%s'", schemaColumn, t.Schema, nameColumn, t.Name)
	}
}

// tables asks for tables, their columns, keys and triggers.
func (r reading) tables(which of) error {
	f := r.f
	err := r.ask(
		question{"tables", "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE FROM information_schema.TABLES WHERE " + which("TABLE_SCHEMA", "TABLE_NAME"), func(r []string, _ []bool) {
			f.Tables = append(f.Tables, tableFact{schema: r[0], name: r[1], view: strings.Contains(r[2], "VIEW")})
		}},
		question{"columns", "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, CHARACTER_SET_NAME, COLLATION_NAME, IS_NULLABLE, COLUMN_DEFAULT, EXTRA, GENERATION_EXPRESSION, COLUMN_KEY" +
			" FROM information_schema.COLUMNS WHERE " + which("TABLE_SCHEMA", "TABLE_NAME") + " ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION", func(r []string, null []bool) {
			c := columnFact{schema: r[0], table: r[1], name: r[2], typ: r[3], charset: r[4], collation: r[5], nullable: r[6] == "YES", extra: strings.ToLower(r[8]), generated: r[9], unique: r[10] == "PRI" || r[10] == "UNI"}
			if !null[7] {
				c.def = &r[7]
			}
			f.Columns = append(f.Columns, c)
		}},
		question{"unique keys", "SELECT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, COLUMN_NAME, NULLABLE, SUB_PART FROM information_schema.STATISTICS WHERE NON_UNIQUE = 0 AND " + which("TABLE_SCHEMA", "TABLE_NAME") +
			" ORDER BY TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX", func(r []string, null []bool) {
			f.Keys = append(f.Keys, keyFact{schema: r[0], table: r[1], key: r[2], column: r[3], nullable: r[4] == "YES", prefix: !null[5]})
		}},
		question{"triggers", "SELECT EVENT_OBJECT_SCHEMA, EVENT_OBJECT_TABLE, EVENT_MANIPULATION, ACTION_STATEMENT, SQL_MODE FROM information_schema.TRIGGERS WHERE " + which("EVENT_OBJECT_SCHEMA", "EVENT_OBJECT_TABLE"), func(r []string, _ []bool) {
			for event := range strings.SplitSeq(strings.ToUpper(r[2]), ",") { // MariaDB 12: INSERT OR UPDATE
				f.Triggers = append(f.Triggers, triggerFact{schema: r[0], table: r[1], event: event, body: r[3], mode: r[4]})
			}
		}},
	)
	if err != nil {
		return err
	}
	if err := r.foreignKeys(which); err != nil || !r.mariaDB() {
		return err
	}
	// Its JSON is a LONGTEXT with this check, by which it is told from a text.
	json := map[[3]string]bool{}
	err = r.ask(question{"checks", "SELECT CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME FROM information_schema.CHECK_CONSTRAINTS" +
		" WHERE CHECK_CLAUSE = CONCAT('json_valid(`', CONSTRAINT_NAME, '`)') AND " + which("CONSTRAINT_SCHEMA", "TABLE_NAME"), func(r []string, _ []bool) {
		json[[3]string(r)] = true
	}})
	for i := range f.Columns {
		if c := &f.Columns[i]; json[[3]string{c.schema, c.table, c.name}] {
			c.json = true
		}
	}
	return err
}

// foreignKeys asks for them, and for their rules if there are any: MariaDB opens all tables
// of all schemas for the two in one query. One whose rules aren't seen is taken for the worst.
func (r reading) foreignKeys(which of) error {
	f := r.f
	var names [][3]string
	name := func(schema, table, constraint string) [3]string {
		return [3]string{strings.ToLower(schema), strings.ToLower(table), strings.ToLower(constraint)}
	}
	err := r.ask(question{"foreign keys", "SELECT TABLE_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, COLUMN_NAME, REFERENCED_TABLE_SCHEMA, REFERENCED_TABLE_NAME, REFERENCED_COLUMN_NAME" +
		" FROM information_schema.KEY_COLUMN_USAGE WHERE REFERENCED_TABLE_NAME IS NOT NULL AND " + which("TABLE_SCHEMA", "TABLE_NAME"), func(r []string, _ []bool) {
		names = append(names, name(r[0], r[1], r[2]))
		f.ForeignKeys = append(f.ForeignKeys, foreignKeyFact{schema: r[0], table: r[1], column: r[3], refSchema: r[4], refTable: r[5], refColumn: r[6], update: "CASCADE", delete: "CASCADE"})
	}})
	if err != nil || len(names) == 0 {
		return err
	}
	rules := map[[3]string][2]string{}
	err = r.ask(question{"rules of foreign keys", "SELECT CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, UPDATE_RULE, DELETE_RULE" +
		" FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE " + which("CONSTRAINT_SCHEMA", "TABLE_NAME"), func(r []string, _ []bool) {
		rules[name(r[0], r[1], r[2])] = [2]string{strings.ToUpper(r[3]), strings.ToUpper(r[4])}
	}})
	found := f.ForeignKeys[len(f.ForeignKeys)-len(names):]
	for i := range found {
		if of, ok := rules[names[i]]; ok {
			found[i].update, found[i].delete = of[0], of[1]
		}
	}
	return err
}

// views asks for the queries of those among the tables.
func (r reading) views() error {
	err := r.ask(question{"views", "SELECT TABLE_SCHEMA, TABLE_NAME, VIEW_DEFINITION, COLLATION_CONNECTION FROM information_schema.VIEWS WHERE TABLE_SCHEMA" + userSchemas, func(row []string, _ []bool) {
		for i := range r.f.Tables {
			if t := &r.f.Tables[i]; t.schema == row[0] && t.name == row[1] {
				t.definition, t.collation = row[2], row[3]
			}
		}
	}})
	if err != nil {
		return err
	}
	return r.f.readIntroducers(r.ctx, r.q)
}

// programs asks for stored functions and procedures.
func (r reading) programs() error {
	f := r.f
	return r.ask(question{"stored programs", "SELECT ROUTINE_NAME, ROUTINE_DEFINITION, ROUTINE_SCHEMA, ROUTINE_TYPE FROM information_schema.ROUTINES WHERE ROUTINE_TYPE IN ('FUNCTION', 'PROCEDURE', 'PACKAGE BODY') AND ROUTINE_SCHEMA" + userSchemas, func(r []string, null []bool) {
		if r[3] == "PACKAGE BODY" {
			f.Functions = append(f.Functions, packaged(r[2], r[1])...)
			return
		}
		f.Functions = append(f.Functions, functionFact{schema: r[2], name: strings.ToLower(r[0]), body: r[1], hidden: null[1], procedure: r[3] == "PROCEDURE"})
	}})
}

// events asks for what runs on the shard by itself.
func (r reading) events() error {
	err := r.ask(question{"events", "SELECT EVENT_SCHEMA, EVENT_NAME, EVENT_DEFINITION FROM information_schema.EVENTS WHERE EVENT_SCHEMA" + userSchemas, func(row []string, _ []bool) {
		r.f.Events = append(r.f.Events, eventFact{schema: row[0], name: row[1], body: row[2]})
	}})
	if err != nil && strings.Contains(err.Error(), codeEvents) {
		return nil // its tables are broken, or are not read: none runs
	}
	return err
}

// sort puts into an order what information_schema answers in none: a server may
// answer the same otherwise when its statistics have changed, and two facts that say
// the same must be equal.
func (f *Facts) sort() {
	slices.SortFunc(f.Collations, func(a, b Collation) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Name, b.Name)) })
	slices.Sort(f.Schemas)
	slices.SortFunc(f.Tables, func(a, b tableFact) int { return cmp.Or(cmp.Compare(a.schema, b.schema), cmp.Compare(a.name, b.name)) })
	// Those of one table stay in their order.
	slices.SortStableFunc(f.Columns, func(a, b columnFact) int {
		return cmp.Or(cmp.Compare(a.schema, b.schema), cmp.Compare(a.table, b.table))
	})
	slices.SortStableFunc(f.Keys, func(a, b keyFact) int { return cmp.Or(cmp.Compare(a.schema, b.schema), cmp.Compare(a.table, b.table)) })
	slices.SortFunc(f.Triggers, func(a, b triggerFact) int {
		return cmp.Or(cmp.Compare(a.schema, b.schema), cmp.Compare(a.table, b.table), cmp.Compare(a.event, b.event), cmp.Compare(a.body, b.body))
	})
	slices.SortFunc(f.Functions, func(a, b functionFact) int {
		return cmp.Or(cmp.Compare(a.schema, b.schema), cmp.Compare(a.name, b.name), cmp.Compare(a.body, b.body))
	})
	slices.SortFunc(f.Events, func(a, b eventFact) int { return cmp.Or(cmp.Compare(a.schema, b.schema), cmp.Compare(a.name, b.name)) })
	slices.SortFunc(f.ForeignKeys, func(a, b foreignKeyFact) int {
		return cmp.Or(cmp.Compare(a.schema, b.schema), cmp.Compare(a.table, b.table), cmp.Compare(a.column, b.column), cmp.Compare(a.refSchema, b.refSchema),
			cmp.Compare(a.refTable, b.refTable), cmp.Compare(a.refColumn, b.refColumn), cmp.Compare(a.update, b.update), cmp.Compare(a.delete, b.delete))
	})
}

// introducer is a string's character set, _latin1'x'.
var introducer = regexp.MustCompile(`(?i)_[a-z0-9]+ *'`)

// readIntroducers asks whether strings in views' queries have character sets of
// their own: VIEW_DEFINITION leaves them out, SHOW CREATE VIEW doesn't. It waits for
// a view's tables, which a session may have locked (LOCK TABLES ... WRITE): perhaps
// the one that this catalog is read for.
func (f *Facts) readIntroducers(ctx context.Context, q Querier) error {
	timeout := func(seconds string) error {
		if _, err := q.Rows(ctx, "SET SESSION lock_wait_timeout = "+seconds); err != nil {
			return fmt.Errorf("read views: %w", err)
		}
		return nil
	}
	limited := false
	for i := range f.Tables {
		t := &f.Tables[i]
		if !strings.Contains(t.definition, "'") {
			continue
		}
		if !limited {
			if err := timeout("1"); err != nil {
				return err
			}
			limited = true
		}
		waits, err := t.readIntroducers(ctx, q)
		if err != nil {
			return err
		}
		f.Unsure = f.Unsure || waits
	}
	if limited {
		return timeout("DEFAULT")
	}
	return nil
}

func (t *tableFact) readIntroducers(ctx context.Context, q Querier) (waits bool, err error) {
	rows, err := q.Rows(ctx, "SHOW CREATE VIEW "+catalog.QuoteTable(t.schema, t.name))
	if err != nil || len(rows) != 1 || len(rows[0]) < 2 {
		// It has gone since, or its tables have, or the account may not see it.
		t.introducers = true
		if ctx.Err() != nil {
			return false, fmt.Errorf("read a view: %w", err)
		}
		return err != nil && strings.Contains(err.Error(), codeLockWait), nil
	}
	t.introducers = introducer.Match(rows[0][1])
	return false, nil
}

// As they stand in a server's error.
const (
	codeUnknownColumn = "1054" // ER_BAD_FIELD_ERROR
	codeLockWait      = "1205" // ER_LOCK_WAIT_TIMEOUT
	codeEvents        = "1577" // ER_EVENTS_DB_ERROR
)

// ReadAll asks all shards at once. It returns what those that answered said,
// and the errors of the others. With names it is of these tables alone, as ReadTables says.
func ReadAll(ctx context.Context, shards []catalog.Shard, open func(context.Context, catalog.ShardID) (Querier, func(), error), known map[catalog.ShardID]*Facts, names []catalog.TableName) (map[catalog.ShardID]*Facts, map[catalog.ShardID]error) {
	var (
		mu    sync.Mutex
		wg    sync.WaitGroup
		facts = map[catalog.ShardID]*Facts{}
		errs  = map[catalog.ShardID]error{}
	)
	for _, s := range shards {
		wg.Go(func() {
			f, err := func() (*Facts, error) {
				q, done, err := open(ctx, s.ID)
				if err != nil {
					return nil, err
				}
				defer done()
				if names != nil {
					return ReadTables(ctx, q, known[s.ID], names)
				}
				return Read(ctx, q)
			}()
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs[s.ID] = fmt.Errorf("shard %s: %w", s.Name, err)
				return
			}
			facts[s.ID] = f
		})
	}
	wg.Wait()
	return facts, errs
}
