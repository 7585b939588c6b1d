package schema

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/text"
)

// Querier is a connection that answers a small query. Values are nil for NULL
// and belong to the caller.
type Querier interface {
	Rows(ctx context.Context, sql string) ([][][]byte, error)
}

// settings are global ones with which a session begins, and which give statements a
// meaning. Any session may set them.
var settings = []string{
	"sql_mode", "time_zone", "transaction_isolation", "tx_isolation", "group_concat_max_len", "div_precision_increment", "lc_time_names",
	"default_week_format", "sql_auto_is_null", "default_storage_engine", "character_set_collations", "innodb_snapshot_isolation",
}

const userSchemas = " NOT IN ('mysql','information_schema','performance_schema','sys','shunt_scratch','shunt_store','shunt_virtual')"

// Read asks one shard for its facts. The questions aren't one snapshot, and a
// server leaves out tables that it can't open at the moment: facts that
// contradict each other are asked for again.
func Read(ctx context.Context, q Querier) (*Facts, error) {
	for attempt := 1; ; attempt++ {
		r := reading{ctx, q, &Facts{Settings: map[string]string{}}, newListing()}
		for _, part := range []func() error{r.server, func() error { return r.tables(ofAll, false) }, r.views, r.programs, r.events} {
			if err := part(); err != nil {
				return nil, err
			}
		}
		// An account may be allowed to see a table and none of its columns: then
		// they are what is known.
		if !r.found.torn() || attempt == 5 {
			r.f.Tables = r.found.tables
			r.f.sort()
			return r.f, nil
		}
	}
}

// ReadPart asks one shard for a part of its facts; all else is as known, which is what it said last. The tables
// are those that known says to be affected, and each is asked for by one query. A server takes a tenth of a millisecond
// to one for each table of which it is asked: all of them would be slow behind each DDL.
func ReadPart(ctx context.Context, q Querier, known *Facts, part Part) (*Facts, error) {
	is, err := known, error(nil)
	if part.Lists != 0 {
		if is, err = readLists(ctx, q, known, part.Lists); err != nil {
			return nil, err
		}
	}
	for attempt := 1; len(part.Tables) > 0; attempt++ {
		some := Facts{Version: known.Version}
		r := reading{ctx, q, &some, newListing()}
		for _, name := range part.Tables {
			if err := r.tables(ofTable(name), true); err != nil {
				return nil, err
			}
		}
		if r.found.torn() && attempt < 5 {
			continue
		}
		if err := r.viewsAmong(); err != nil {
			return nil, err
		}
		some.Tables = r.found.tables
		some.sort()
		is = is.with(part.Tables, some.Tables)
		if some.Unsure && !is.Unsure {
			unsure := *is
			unsure.Unsure, is = true, &unsure
		}
		break
	}
	return is, nil
}

// readLists asks one shard for some lists.
func readLists(ctx context.Context, q Querier, known *Facts, which Lists) (*Facts, error) {
	is, lists := *known, &Facts{Version: known.Version}
	r := reading{ctx, q, lists, newListing()}
	for _, list := range []struct {
		is   Lists
		read func() error
	}{{SchemaList, r.schemas}, {ProgramList, r.programs}, {EventList, r.events}} {
		if which&list.is != 0 {
			if err := list.read(); err != nil {
				return nil, err
			}
		}
	}
	lists.sort()
	if which&SchemaList != 0 {
		is.Schemas = lists.Schemas
	}
	if which&ProgramList != 0 {
		is.Functions = lists.Functions
	}
	if which&EventList != 0 {
		is.Events = lists.Events
	}
	return is.sharing(known), nil
}

// listing are tables as they are found.
type listing struct {
	tables []*tableFact
	of     map[catalog.TableName]*tableFact
	// fold: names of one table may differ by case.
	fold bool
	// more: there are columns or keys of tables that aren't listed.
	more bool
}

func newListing() *listing { return &listing{of: map[catalog.TableName]*tableFact{}} }

func (l *listing) name(schema, table string) catalog.TableName {
	if l.fold {
		schema, table = strings.ToLower(schema), strings.ToLower(table)
	}
	return catalog.TableName{Schema: schema, Name: table}
}

func (l *listing) add(t *tableFact) {
	l.tables = append(l.tables, t)
	l.of[l.name(t.schema, t.name)] = t
}

// table finds one; what is said of one that isn't listed is lost.
func (l *listing) table(row []string) *tableFact {
	if t := l.of[l.name(row[0], row[1])]; t != nil {
		return t
	}
	return &tableFact{}
}

// whole is table for what only tables have that are listed, too.
func (l *listing) whole(row []string) *tableFact {
	t := l.table(row)
	l.more = l.more || t.name == ""
	return t
}

// torn: a table has no columns, or columns have no table; a column has no key that it
// says it has, or a key has no column. A table without its keys would look like one
// that can't be spread.
func (l *listing) torn() bool {
	return l.more || slices.ContainsFunc(l.tables, (*tableFact).torn)
}

func (t *tableFact) torn() bool {
	if len(t.columns) == 0 {
		return !t.view || len(t.keys) > 0 // a view whose tables are gone has none
	}
	return slices.ContainsFunc(t.columns, func(c columnFact) bool {
		return c.unique && !slices.ContainsFunc(t.keys, func(k keyFact) bool { return k.column == c.name })
	})
}

// reading asks one shard, and notes in f and found what it says.
type reading struct {
	ctx   context.Context
	q     Querier
	f     *Facts
	found *listing
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
	)
	if err != nil {
		return err
	}
	if err := r.schemas(); err != nil {
		return err
	}
	return r.collations()
}

func (r reading) schemas() error {
	return r.ask(question{"schemas", "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME" + userSchemas, func(row []string, _ []bool) {
		r.f.Schemas = append(r.f.Schemas, row[0])
	}})
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
		if err == nil || !answered(err, mysqlerr.BadField) {
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

// tables asks for tables, their columns, keys and triggers: of all in turn, of one at once.
func (r reading) tables(which of, one bool) error {
	r.found.fold = r.f.LowerCaseNames
	var keys []foreignKey
	parts := r.parts(which, &keys)
	ask := r.inTurn
	if one {
		ask = r.atOnce
	}
	if err := ask(parts); err != nil || len(keys) == 0 {
		return err
	}
	return r.rules(which, keys)
}

// part is what one of information_schema's tables says of tables.
type part struct {
	what    string
	columns []string // the first are the table's schema and name
	from    string   // and the condition
	// order are those of the columns and one more that rows are to be in the order of.
	order string
	each  func(row []string, null []bool)
}

func (r reading) parts(which of, keys *[]foreignKey) []part {
	own := which("TABLE_SCHEMA", "TABLE_NAME")
	parts := []part{
		{"tables", []string{"TABLE_SCHEMA", "TABLE_NAME", "TABLE_TYPE", "ENGINE"}, "TABLES WHERE " + own, "", func(row []string, _ []bool) {
			r.found.add(&tableFact{schema: row[0], name: row[1], view: strings.Contains(row[2], "VIEW"), sequence: row[2] == "SEQUENCE", engine: row[3]})
		}},
		{
			"columns",
			[]string{"TABLE_SCHEMA", "TABLE_NAME", "COLUMN_NAME", "COLUMN_TYPE", "CHARACTER_SET_NAME", "COLLATION_NAME", "IS_NULLABLE", "COLUMN_DEFAULT", "EXTRA", "GENERATION_EXPRESSION", "COLUMN_KEY"},
			"COLUMNS WHERE " + own, "ORDINAL_POSITION",
			func(row []string, null []bool) {
				c := columnFact{name: row[2], typ: row[3], charset: row[4], collation: row[5], nullable: row[6] == "YES", extra: strings.ToLower(row[8]), generated: row[9], keyed: row[10] != "", unique: row[10] == "PRI" || row[10] == "UNI"}
				if !null[7] {
					c.def = &row[7]
				}
				t := r.found.whole(row)
				t.columns = append(t.columns, c)
			},
		},
		{
			"unique keys",
			[]string{"TABLE_SCHEMA", "TABLE_NAME", "INDEX_NAME", "COLUMN_NAME", "NULLABLE", "SUB_PART"},
			"STATISTICS WHERE NON_UNIQUE = 0 AND " + own, "SEQ_IN_INDEX",
			func(row []string, null []bool) {
				t := r.found.whole(row)
				t.keys = append(t.keys, keyFact{key: row[2], column: row[3], nullable: row[4] == "YES", prefix: !null[5]})
			},
		},
		{
			"triggers",
			[]string{"EVENT_OBJECT_SCHEMA", "EVENT_OBJECT_TABLE", "EVENT_MANIPULATION", "ACTION_STATEMENT", "SQL_MODE"},
			"TRIGGERS WHERE " + which("EVENT_OBJECT_SCHEMA", "EVENT_OBJECT_TABLE"), "",
			func(row []string, _ []bool) {
				t := r.found.table(row)
				for event := range strings.SplitSeq(strings.ToUpper(row[2]), ",") { // MariaDB 12: INSERT OR UPDATE
					t.triggers = append(t.triggers, triggerFact{event: event, body: row[3], mode: row[4]})
				}
			},
		},
		{
			"foreign keys",
			[]string{"TABLE_SCHEMA", "TABLE_NAME", "CONSTRAINT_NAME", "COLUMN_NAME", "REFERENCED_TABLE_SCHEMA", "REFERENCED_TABLE_NAME", "REFERENCED_COLUMN_NAME"},
			"KEY_COLUMN_USAGE WHERE REFERENCED_TABLE_NAME IS NOT NULL AND " + own, "",
			func(row []string, _ []bool) {
				*keys = append(*keys, foreignKey{r.found.table(row), constraintName(row), foreignKeyFact{column: row[3], refSchema: row[4], refTable: row[5], refColumn: row[6], update: "CASCADE", delete: "CASCADE"}})
			},
		},
	}
	if !r.mariaDB() {
		return parts
	}
	// Its JSON is a LONGTEXT with this check, by which it is told from a text.
	return append(parts, part{
		"checks",
		[]string{"CONSTRAINT_SCHEMA", "TABLE_NAME", "CONSTRAINT_NAME"},
		"CHECK_CONSTRAINTS WHERE CHECK_CLAUSE = CONCAT('json_valid(`', CONSTRAINT_NAME, '`)') AND " + which("CONSTRAINT_SCHEMA", "TABLE_NAME"), "",
		func(row []string, _ []bool) {
			columns := r.found.table(row).columns
			for i := range columns {
				columns[i].json = columns[i].json || columns[i].name == row[2]
			}
		},
	})
}

// inTurn asks for one part after the other.
func (r reading) inTurn(parts []part) error {
	for _, p := range parts {
		query := "SELECT " + strings.Join(p.columns, ", ") + " FROM information_schema." + p.from
		if p.order != "" {
			query += " ORDER BY " + strings.Join(p.columns[:2], ", ") + ", " + p.order
		}
		if err := r.rows(p.what, query, p.each); err != nil {
			return err
		}
	}
	return nil
}

// atOnce asks for all parts by one query. The texts have several character sets.
func (r reading) atOnce(parts []part) error {
	most := 0
	for _, p := range parts {
		most = max(most, len(p.columns))
	}
	var query strings.Builder
	for i, p := range parts {
		if i > 0 {
			query.WriteString(" UNION ALL ")
		}
		fmt.Fprintf(&query, "SELECT %d AS part, %s AS place", i, cmp.Or(p.order, "0"))
		for j := range most {
			if j < len(p.columns) {
				fmt.Fprintf(&query, ", CONVERT(%s USING utf8mb4)", p.columns[j])
			} else {
				query.WriteString(", NULL")
			}
		}
		query.WriteString(" FROM information_schema." + p.from)
	}
	query.WriteString(" ORDER BY part, place")
	var failed error
	err := r.rows("tables", query.String(), func(row []string, null []bool) {
		i, err := strconv.Atoi(row[0])
		if err != nil || i < 0 || i >= len(parts) {
			failed = fmt.Errorf("read tables: part %q", row[0])
			return
		}
		parts[i].each(row[2:], null[2:])
	})
	return cmp.Or(err, failed)
}

// foreignKey is one whose rules aren't known yet.
type foreignKey struct {
	of   *tableFact
	name [3]string
	fact foreignKeyFact
}

// constraintName is that of a row that begins with schema, table and name.
func constraintName(row []string) [3]string {
	return [3]string{strings.ToLower(row[0]), strings.ToLower(row[1]), strings.ToLower(row[2])}
}

// rules asks for the foreign keys' rules: MariaDB opens all tables of all schemas for the two in
// one query. One whose rules aren't seen is taken for the worst.
func (r reading) rules(which of, keys []foreignKey) error {
	rules := map[[3]string][2]string{}
	err := r.ask(question{"rules of foreign keys", "SELECT CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, UPDATE_RULE, DELETE_RULE" +
		" FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE " + which("CONSTRAINT_SCHEMA", "TABLE_NAME"), func(row []string, _ []bool) {
		rules[constraintName(row)] = [2]string{strings.ToUpper(row[3]), strings.ToUpper(row[4])}
	}})
	for _, k := range keys {
		if of, ok := rules[k.name]; ok {
			k.fact.update, k.fact.delete = of[0], of[1]
		}
		k.of.foreignKeys = append(k.of.foreignKeys, k.fact)
	}
	return err
}

// views asks for the queries of all views.
func (r reading) views() error {
	if err := r.definitions(ofAll); err != nil {
		return err
	}
	return r.introducers()
}

// viewsAmong asks for the queries of those among the tables, one by one.
func (r reading) viewsAmong() error {
	for _, t := range r.found.tables {
		if !t.view {
			continue
		}
		if err := r.definitions(ofTable(t.tableName())); err != nil {
			return err
		}
	}
	return r.introducers()
}

func (r reading) definitions(which of) error {
	return r.ask(question{"views", "SELECT TABLE_SCHEMA, TABLE_NAME, VIEW_DEFINITION, COLLATION_CONNECTION FROM information_schema.VIEWS WHERE " + which("TABLE_SCHEMA", "TABLE_NAME"), func(row []string, _ []bool) {
		t := r.found.table(row)
		t.definition, t.collation = row[2], row[3]
	}})
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
	if answered(err, mysqlerr.EventsDBError) {
		return nil // its tables are broken, or are not read: none runs
	}
	return err
}

// introducer is a string's character set, _latin1'x'.
var introducer = regexp.MustCompile(`(?i)_[a-z0-9]+ *'`)

// introducers asks which strings in views' queries have character sets of
// their own: VIEW_DEFINITION leaves these out, SHOW CREATE VIEW doesn't. It waits for
// a view's tables, which a session may have locked (LOCK TABLES ... WRITE): perhaps
// the one that this catalog is read for.
func (r reading) introducers() error {
	timeout := func(seconds string) error {
		if _, err := r.q.Rows(r.ctx, "SET SESSION lock_wait_timeout = "+seconds); err != nil {
			return fmt.Errorf("read views: %w", err)
		}
		return nil
	}
	limited := false
	for _, t := range r.found.tables {
		if !strings.Contains(t.definition, "'") {
			continue
		}
		if !limited {
			if err := timeout("1"); err != nil {
				return err
			}
			limited = true
		}
		waits, err := t.readIntroducers(r.ctx, r.q)
		if err != nil {
			return err
		}
		r.f.Unsure = r.f.Unsure || waits
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
		return answered(err, mysqlerr.LockWaitTimeout), nil
	}
	if t.introducers = introducer.Match(rows[0][1]); t.introducers {
		if whole, ok := withIntroducers(t.definition, string(rows[0][1])); ok {
			t.definition, t.introducers = whole, false
		}
	}
	return false, nil
}

// withIntroducers is a view's query with the character sets that its strings have in SHOW CREATE VIEW, which else may
// differ: names are in full or not. ok is false where strings are in other bytes than the query's.
func withIntroducers(definition, shown string) (whole string, ok bool) {
	of, err := text.Read("CREATE VIEW AS "+definition, text.Settings{}, nil) // whose rows are tokens
	from, err2 := text.Read(shown, text.Settings{}, nil)
	if err != nil || err2 != nil {
		return "", false
	}
	strs := func(st *text.Statement) (at []int) {
		for i, t := range st.Tokens {
			if t.Kind == text.String {
				at = append(at, i)
			}
		}
		return at
	}
	at, with := strs(of), strs(from)
	if len(at) != len(with) {
		return "", false
	}
	var b strings.Builder
	next := of.Tokens[3].Start
	for n, i := range at {
		if of.Text(i) != from.Text(with[n]) {
			return "", false
		}
		if w := with[n] - 1; from.Tokens[w].Kind == text.Introducer {
			if charset := strings.ToLower(from.Text(w)); !strings.HasPrefix(charset, "_utf8") && !text.IsASCII(of.Text(i)) {
				return "", false
			}
			b.WriteString(of.Src[next:of.Tokens[i].Start] + from.Text(w))
			next = of.Tokens[i].Start
		}
	}
	return b.String() + of.Src[next:], true
}

// answered reports a server's error with the code, which its text has with the SQLSTATE.
func answered(err error, code uint16) bool {
	return err != nil && strings.Contains(err.Error(), fmt.Sprintf("%d (%s)", code, mysqlerr.State(code)))
}

// ReadAll asks all shards at once. It returns what those that answered said,
// and the errors of the others. With only, shards are asked for those parts alone.
func ReadAll(ctx context.Context, shards []catalog.Shard, open func(context.Context, catalog.ShardID) (Querier, func(), error), known map[catalog.ShardID]*Facts, only map[catalog.ShardID]Part) (map[catalog.ShardID]*Facts, map[catalog.ShardID]error) {
	var (
		mu    sync.Mutex
		wg    sync.WaitGroup
		facts = map[catalog.ShardID]*Facts{}
		errs  = map[catalog.ShardID]error{}
	)
	alike := toldAlike{done: make(chan struct{})}
	ask := func(s catalog.Shard, read func(Querier) (*Facts, error)) {
		wg.Go(func() {
			if s == shards[0] {
				defer close(alike.done)
			}
			f, err := func() (*Facts, error) {
				q, done, err := open(ctx, s.ID)
				if err != nil {
					return nil, err
				}
				defer done()
				return read(q)
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
	for _, s := range shards {
		was, part := known[s.ID], only[s.ID]
		switch {
		case part.whole():
			ask(s, func(q Querier) (*Facts, error) {
				f, err := Read(ctx, q)
				if err != nil {
					return nil, err
				}
				return f.sharing(was), nil
			})
		case len(shards) == 1:
			ask(s, func(q Querier) (*Facts, error) { return ReadPart(ctx, q, was, part) })
		case s == shards[0]:
			ask(s, func(q Querier) (*Facts, error) { return alike.first(ctx, q, was, part) })
		default:
			ask(s, func(q Querier) (*Facts, error) { return alike.other(ctx, q, was, part) })
		}
	}
	wg.Wait()
	return facts, errs
}
