package planner

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

const sqlDoc = "../docs/sql.md"

// TestSQLDocument holds docs/sql.md: what becomes of each kind of statement,
// for those that the corpus of the end-to-end tests names (`-- kind: ..`). There
// the same statements' answers are compared with one server's, so an example
// can't be wrong. -rewrite writes the document.
func TestSQLDocument(t *testing.T) {
	text := sqlDocument(t)
	if rewriting() {
		if err := os.WriteFile(sqlDoc, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	old, err := os.ReadFile(sqlDoc)
	if err != nil {
		t.Fatal(err)
	}
	if string(old) != text {
		was, is := strings.Split(string(old), "\n"), strings.Split(text, "\n")
		for i := range max(len(was), len(is)) {
			if i >= len(was) || i >= len(is) || was[i] != is[i] {
				t.Errorf("docs/sql.md differs from the planner from line %d on; go test ./planner -run SQLDocument -rewrite\n was %q\n  is %q",
					i+1, at(was, i), at(is, i))
				return
			}
		}
	}
}

func rewriting() bool {
	f := flag.Lookup("rewrite") // datadriven's
	return f != nil && f.Value.String() == "true"
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}

// sections are the corpus's files, in the document's order.
var sections = []struct{ file, title string }{
	{"select", "Reading rows"},
	{"order_limit", "ORDER BY and LIMIT"},
	{"aggregates", "Aggregates and groups"},
	{"distinct_unions", "DISTINCT and set operations"},
	{"joins", "Joins"},
	{"subqueries", "Subqueries"},
	{"windows", "Window functions"},
	{"cte", "Common table expressions"},
	{"derived", "Derived tables"},
	{"views", "Views"},
	{"temporary", "Temporary tables"},
	{"insert", "INSERT and REPLACE"},
	{"update", "UPDATE"},
	{"delete", "DELETE"},
	{"transactions", "Transactions"},
	{"lock_tables", "Table locks"},
	{"session", "The session"},
	{"ddl", "DDL"},
	{"show", "Looking around"},
	{"own", "Shunt's own statements"},
	{"refused", "Refused"},
}

// madeByDDL is what that section's statements have made when a later one needs it.
const madeByDDL = `CREATE TABLE notes (id INT NOT NULL PRIMARY KEY, body VARCHAR(30), rank_no INT);
CREATE TABLE notes2 (id INT NOT NULL PRIMARY KEY, body VARCHAR(30));
CREATE TABLE keyed (a INT NOT NULL PRIMARY KEY, b INT);
CREATE TABLE named (a VARCHAR(10) NOT NULL PRIMARY KEY, b INT);
CREATE TABLE german (id BIGINT, name VARCHAR(40));
-- @view SELECT ` + "`shop`.`users`.`id` AS `id`, `shop`.`users`.`name` AS `name` FROM `shop`.`users` WHERE (`shop`.`users`.`country` = 'DE')" + `
`

// madeTemporary is the same for temporary tables, of a session whose connection
// is to s1.
const madeTemporary = `CREATE TABLE basket (id INT NOT NULL PRIMARY KEY, sku VARCHAR(20), n INT, user_id BIGINT);
-- @temporary s1
CREATE TABLE bag (id INT NOT NULL PRIMARY KEY, sku VARCHAR(20), n INT);
-- @temporary s1
CREATE TABLE copied (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(40), age INT, born DATE, paid DECIMAL(10,2), score DOUBLE);
-- @temporary s1
CREATE TABLE kept (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(40), age INT);
`

// madeByViews is the same for the views' section.
const madeByViews = "CREATE TABLE bought (id BIGINT, name VARCHAR(40), order_id INT, total DECIMAL(10,2));\n" +
	"-- @view select `u`.`id` AS `id`,`u`.`name` AS `name`,`o`.`id` AS `order_id`,`o`.`total` AS `total` from (`shop`.`users` `u` join `shop`.`orders` `o` on((`o`.`user_id` = `u`.`id`)))\n" +
	"CREATE TABLE same_age (x BIGINT, y BIGINT, age INT);\n" +
	"-- @view select `a`.`id` AS `x`,`b`.`id` AS `y`,`a`.`age` AS `age` from (`shop`.`users` `a` join `shop`.`users` `b` on(((`b`.`age` = `a`.`age`) and (`a`.`id` < `b`.`id`))))\n" +
	"CREATE TABLE per_country (land CHAR(2), people BIGINT, eldest INT);\n" +
	"-- @view select `shop`.`users`.`country` AS `country`,count(0) AS `COUNT(*)`,max(`shop`.`users`.`age`) AS `MAX(age)` from `shop`.`users` group by `shop`.`users`.`country`\n" +
	"CREATE TABLE ages (age INT);\n" +
	"-- @view select distinct `shop`.`users`.`age` AS `age` from `shop`.`users` where (`shop`.`users`.`age` is not null)\n" +
	"CREATE TABLE texts (a BIGINT, b VARCHAR(40));\n" +
	"-- @view select `shop`.`users`.`id` AS `id`,`shop`.`users`.`name` AS `name` from `shop`.`users` union all select `shop`.`orders`.`user_id` AS `user_id`,`shop`.`orders`.`code` AS `code` from `shop`.`orders`\n" +
	"CREATE TABLE above (id BIGINT, name VARCHAR(40), age INT);\n" +
	"-- @view select `shop`.`users`.`id` AS `id`,`shop`.`users`.`name` AS `name`,`shop`.`users`.`age` AS `age` from `shop`.`users` where (`shop`.`users`.`age` > (select avg(`shop`.`users`.`age`) from `shop`.`users`))\n" +
	"CREATE TABLE locals (id BIGINT, name VARCHAR(40));\n" +
	"-- @view select `shop`.`users`.`id` AS `id`,`shop`.`users`.`name` AS `name` from `shop`.`users` where (`shop`.`users`.`country` = 'DE')\n" +
	"CREATE TABLE crowded (land CHAR(2), line VARCHAR(30));\n" +
	"-- @view select `shop`.`per_country`.`land` AS `land`,concat(`shop`.`per_country`.`land`,': ',`shop`.`per_country`.`people`) AS `line` from `shop`.`per_country` where (`shop`.`per_country`.`people` > 1)\n"

const corpus = "../e2e/testdata"

func sqlDocument(t *testing.T) string {
	var b strings.Builder
	b.WriteString(`# What Shunt does with SQL

Written by ` + "`go test ./planner -run SQLDocument -rewrite`" + ` from the statements in ` + "`e2e/testdata/corpus/`" + `, which the
end-to-end tests run against one plain server: don't edit. The tables are those of ` + "`e2e/testdata/shop.sql`" + ` over four shards
(s0 to s3): users, orders and items are sharded by the user's id, countries is a reference table, settings is on s0, and legacy is placed
anywhere. ` + "`EXPLAIN ROUTE`" + ` says the same of any statement.

| how | what it means |
| --- | --- |
| route | the statement goes unchanged to one shard or to several, whose rows are joined end to end, or whose affected rows are added up |
| merge | several shards answer a statement derived from it; their rows are merged as they stream |
| gather | the rows that it needs are copied to a scratch schema on one server, which runs it; those that an UPDATE or DELETE reads, to each shard that it changes |
| keys | UPDATE and DELETE with LIMIT over several shards, and DELETE from tables that are not joined on their shard keys: a query finds and locks the rows, which are then changed by their keys |
| copy | INSERT ... SELECT: the query is answered by any of these ways, and its rows are inserted by statements of many rows |
| every shard | DDL: all shards that hold the tables do it |
| session | temporary tables: the session keeps one connection to a shard for them, on which they are as on any server |
| Shunt | Shunt answers by itself, or keeps it in the session and brings it to the shards' connections |
| refused | error 1235, which says what to do instead; nothing is sent |

What only MariaDB has is done in the same ways: RETURNING, OFFSET ... FETCH, LIMIT and ORDER BY inside of aggregates, IF EXISTS and WAIT
of DDL. A sequence is on one shard: NEXT VALUE FOR, NEXTVAL and SETVAL go there where nothing beside it is asked for, and are asked first for rows of VALUES; beside
tables that are elsewhere they are refused, as is LASTVAL. FOR SYSTEM_TIME reads the past by shard key or on all shards, since virtual indexes have the keys of the rows of now; it is not gathered.

Refused, and why:

- Two tables of one name in two schemas, where a query over several shards has columns as ` + "`t.id`" + `: a server finds the table that has the column. Write
  ` + "`schema.t.id`" + `, or give one an alias.
- Writing through a view of several tables, or with subqueries or groups: a row of it is made of rows on several shards, and no server has them all. Write to the tables. A view that picks rows and columns of one table is written through, and any whose tables are all on one shard.
- CALL of a procedure that reads or writes tables over several shards: a procedure runs on one server, which has only its own rows, and has its variables, conditions and cursors there. Send its statements, or name the shard by a hint.
- CREATE EVENT that does more than remove rows, of tables over several shards or with virtual indexes: it would run on the shards by itself. One whose tables, with those of what it calls, are on one shard is on that shard. It may stand
  before the procedures that it calls, as in dumps, where the schema's tables are on one shard by default; a procedure that doesn't fit is refused then.
- UPDATE with LAST_INSERT_ID(expr) that changes rows of several shards: the id is that of the row which is changed last, and shards work side by side. Nothing is changed then. ORDER BY with LIMIT says the order.
- information_schema joined with sharded tables: each server's tells of that server, so that each shard would join its own. Read it by a statement of its own.
- UPDATE that changes several tables which are not joined on their shard keys: a value may come from a row on another shard, which the statement changes, too. Change each table by a statement of its own, in a transaction.
- INSERT ... SELECT of JSON that holds a DECIMAL, from other shards than its rows go to: JSON's text doesn't tell a DECIMAL from a DOUBLE, and no other form of it can be sent. Write CAST(... AS DOUBLE) in it.
- ALTER TABLE that drops or changes the primary key of a table with rows, where that has the shard key: rows would have to move. Make a table with the new key, INSERT ... SELECT, and rename.
- MATCH ... AGAINST in what is gathered: copies have no full-text index.
- Rows of one INSERT whose subqueries read the INSERT's own table: they would have to see each other. Send them one by one.

MATCH ... AGAINST gives the score that a row has on its own shard, by the words of the rows there, as in every sharded search; rows are
merged by it. Searched tables need to be joined on their shard keys, or with reference tables: what is gathered has no full-text index.

`)
	n := 0
	for _, s := range sections {
		fmt.Fprintf(&b, "## %s\n\n| statement | example | how | where, and why |\n| --- | --- | --- | --- |\n", s.title)
		tables := catalogText(t, filepath.Join(corpus, "shop.sql"))
		if s.file == "ddl" {
			tables += madeByDDL
		}
		if s.file == "temporary" {
			tables += madeTemporary
		}
		if s.file == "views" {
			tables += madeByViews
		}
		cat := buildCatalog(t, 4, tables)
		for _, k := range kindsOf(t, filepath.Join(corpus, "corpus", s.file+".sql")) {
			how, why := fate(t, cat, k.sql)
			if how == "refused" != k.refused {
				t.Errorf("%s: %q is %s, but the corpus says refused: %v", s.file, k.sql, how, k.refused)
			}
			fmt.Fprintf(&b, "| %s | `%s` | %s | %s |\n", cellText(k.name), cellText(k.sql), how, cellText(why))
			n++
		}
		b.WriteString("\n")
	}
	if n < 80 {
		t.Errorf("only %d kinds of statements: the corpus is not found any more", n)
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func cellText(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", `\|`)
}

// catalogText is the DDL of a script with its directives.
func catalogText(t *testing.T, path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "CREATE TABLE") || strings.HasPrefix(line, "-- @") {
			b.WriteString(line)
		}
	}
	return b.String()
}

type kindOf struct {
	name, sql string
	refused   bool
}

// kindsOf are the statements of a script that a `-- kind:` stands before.
func kindsOf(t *testing.T, path string) []kindOf {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []kindOf
	var next kindOf
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		name, isKind := strings.CutPrefix(line, "-- kind: ")
		switch {
		case isKind:
			next = kindOf{name: name}
		case line == "-- refused":
			next.refused = true
		case strings.HasPrefix(line, "--"):
		default:
			next.sql += line + "\n"
			if !strings.HasSuffix(line, ";") {
				continue
			}
			next.sql = strings.TrimSuffix(strings.TrimSpace(next.sql), ";")
			if next.name != "" {
				out = append(out, next)
			}
			next = kindOf{}
		}
	}
	return out
}

// fate is what becomes of a statement, and why. Each key of an index is taken to
// be on one shard.
func fate(t *testing.T, cat *catalog.Catalog, sql string) (how, why string) {
	p := New(ownForms...)
	planned, err := p.Plan(sql, text.Settings{Schema: "shop", Charset: "utf8mb4", Collation: "utf8mb4_0900_ai_ci", Strict: true}, cat)
	if err != nil {
		return refusedAs(t, sql, err)
	}
	switch rows := planned.(type) {
	case *plan.Rows:
		ix := &fakeIndexes{
			lookup: func(*catalog.Index, []byte) (catalog.ShardSet, error) { return catalog.Only(1), nil },
			ranged: func(*catalog.Index, []byte, []byte, int) (catalog.ShardSet, bool, error) {
				return catalog.Only(1).Union(catalog.Only(2)), true, nil
			},
		}
		b, err := p.Bind(rows, []keys.Value{}, ix)
		if rows.Copy != nil && (err != nil || b.Refuse != nil) {
			return "copy", "its rows go to other shards than they come from"
		}
		if rows.Keyed != nil && b != nil && b.Refuse != nil {
			return "keys", "the rows are found and locked on all shards, and changed by their keys"
		}
		if rows.Computes != "" && b != nil && b.Refuse != nil {
			return fate(t, cat, rows.Computes)
		}
		if rows.Meets != nil {
			row, err := p.Plan(rows.Meets.Rows(nil)[0], text.Settings{Schema: "shop", Charset: "utf8mb4", Collation: "utf8mb4_0900_ai_ci", Strict: true}, cat)
			if err == nil {
				_, err = p.BindRow(row.(*plan.Rows), ix, 1, nil)
			}
			if err != nil {
				return refusedAs(t, sql, err)
			}
			return "route", "each row is tried on all shards, and goes where it meets one with the same unique key, or where a new row goes"
		}
		if rows.Constants != nil && err != nil {
			return "route", "it is asked first for values that are needed: " + strings.Join(rows.Constants.Queries(nil), "; ")
		}
		if err != nil {
			return refusedAs(t, sql, err)
		}
		if b.Refuse != nil {
			return "refused", b.Refuse.Message
		}
		how = b.Plan
		if how == "" {
			how = "route"
		}
		why = b.Reason
		if len(b.Statements) > 0 && !strings.Contains(why, " of 4") {
			var set catalog.ShardSet
			for _, s := range b.Statements {
				set.Add(s.Shard)
			}
			why = "on " + shardNames(cat, set) + ": " + why
		}
		return how, why
	case *plan.DDL:
		why = rows.Op + ", on " + shardNames(cat, rows.Shards)
		if rows.As != nil {
			why += "; then the query's rows are inserted"
		}
		switch {
		case rows.Collation != "":
			why += ", if it has no rows or keeps its collation"
		case rows.Filled != nil:
			why += ", if it has no rows"
		}
		return "every shard", why
	case *plan.Temporary:
		return "session", rows.Op + ", on the connection that the session keeps"
	case *plan.LockTables:
		if rows.Unlock {
			return "Shunt", "commits, and gives up the connections that were kept"
		}
		if rows.Global {
			return "Shunt", "no other client of Shunt writes or commits until UNLOCK TABLES or the session's end; snapshots that begin meanwhile are of one moment over all shards"
		}
		return "session", fmt.Sprintf("on each shard that holds one of them, over connections that the session keeps: %d of %d", rows.Shards().Len(), len(cat.Shards))
	case *plan.Admin, *plan.Session, *plan.Load:
	}
	return "Shunt", ""
}

func refusedAs(t *testing.T, sql string, err error) (how, why string) {
	e, ok := err.(*text.Error) //nolint:errorlint // the contract is *Error itself
	if !ok || e.Code != 1235 {
		t.Errorf("%s: %v", sql, err)
	}
	return "refused", err.Error()
}
