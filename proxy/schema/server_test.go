package schema

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	_ "github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/planner/catalog"
)

type dbQuerier struct{ *sql.Conn }

func (q dbQuerier) Rows(ctx context.Context, query string) (out [][][]byte, err error) {
	rows, err := q.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		values, into := make([]sql.RawBytes, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		row := make([][]byte, len(columns))
		for i, v := range values {
			if v != nil {
				row[i] = slices.Clone([]byte(v))
			}
		}
		out = append(out, row)
	}
	return out, rows.Err()
}

// TestReadPartOnServer: behind DDL, what servers say of the tables that it names, and what
// was known of all others, is what they say of all.
func TestReadPartOnServer(t *testing.T) {
	for name, env := range map[string]string{"mysql": "SHUNT_TEST_MYSQL", "mariadb": "SHUNT_TEST_MARIADB"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := os.Getenv(env)
			if addr == "" {
				t.Skipf("set %s=127.0.0.1:port to a server whose root has no password", env)
			}
			db, err := sql.Open("mysql", "root@tcp("+addr+")/")
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			conn, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			second, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			conns := []*sql.Conn{conn, second}
			own := fmt.Sprintf("shunt_schema_%d", os.Getpid())
			exec := func(statement string) {
				t.Helper()
				if _, err := conn.ExecContext(context.Background(), statement); err != nil {
					t.Fatalf("%s: %v", statement, err)
				}
			}
			exec("CREATE DATABASE " + own)
			defer exec("DROP DATABASE " + own)
			defer exec("DROP DATABASE IF EXISTS " + own + "_b")
			exec("USE " + own)
			// Other tests' schemas come and go.
			others := func(schema string) bool { return strings.TrimSuffix(schema, "_b") != own }
			// all is what the server says of this test's schemas.
			all := func() *Facts {
				f, err := Read(t.Context(), dbQuerier{conn})
				if err != nil {
					t.Fatal(err)
				}
				f.Schemas = slices.DeleteFunc(f.Schemas, others)
				f.Tables = slices.DeleteFunc(f.Tables, func(t *tableFact) bool { return others(t.schema) })
				f.Functions = slices.DeleteFunc(f.Functions, func(fn functionFact) bool { return others(fn.schema) })
				f.Events = slices.DeleteFunc(f.Events, func(e eventFact) bool { return others(e.schema) })
				return f
			}
			known := all()
			procedures, functions, events := Part{Lists: ProgramList}, Part{Lists: ProgramList, Views: true}, Part{Lists: EventList}
			for _, x := range []struct {
				ddl, tables string
				part        Part
			}{
				{"CREATE TABLE b (id INT PRIMARY KEY, email VARCHAR(50) UNIQUE, doc JSON, n INT DEFAULT 5, UNIQUE KEY Zed (n, email(10)))", "b", Part{}},
				{"CREATE TABLE B (id BIGINT PRIMARY KEY AUTO_INCREMENT, n INT, up INT AS (n + 1) VIRTUAL, t TIMESTAMP DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP) AUTO_INCREMENT = 7", "B", Part{}},
				{"CREATE TABLE `a b-é` (`x y` INT, KEY (`x y`)) COLLATE utf8mb4_bin", "a_b-é", Part{}},
				{"CREATE TRIGGER tr BEFORE INSERT ON b FOR EACH ROW SET NEW.n = 1", "b", Part{}},
				{"CREATE TRIGGER ts AFTER DELETE ON b FOR EACH ROW DO 1", "b", Part{}},
				{"CREATE TABLE child (id INT PRIMARY KEY, b INT, FOREIGN KEY (b) REFERENCES b (id) ON DELETE CASCADE)", "child", Part{}},
				{"ALTER TABLE child ADD COLUMN first INT NOT NULL FIRST, ADD UNIQUE KEY (first)", "child", Part{}},
				{"ALTER TABLE b CHANGE id ident INT NOT NULL", "b", Part{}}, // what the foreign key refers to
				{"CREATE UNIQUE INDEX i ON child (first, id)", "child", Part{}},
				{"DROP INDEX i ON child", "child", Part{}},
				{"RENAME TABLE b TO c", "b c", Part{}},
				{"RENAME TABLE B TO d, `a b-é` TO B", "B d a_b-é B", Part{}},
				{"CREATE VIEW v AS SELECT ident, n FROM c", "v", Part{}},
				{"ALTER TABLE c MODIFY n BIGINT", "c", Part{}}, // the view's column, too
				{"CREATE VIEW w AS SELECT 'c' AS letter, n FROM v", "w", Part{}},
				{"ALTER TABLE c MODIFY n DECIMAL(10,2)", "c", Part{}}, // the views' columns, too
				{"CREATE OR REPLACE VIEW v AS SELECT ident, n + 1 AS n FROM c", "v", Part{}},
				{"RENAME TABLE v TO x", "v x", Part{}},
				{"RENAME TABLE x TO v", "x v", Part{}},
				{"ALTER TABLE B ADD COLUMN z ENUM('a', 'it''s')", "B", Part{}},
				{"TRUNCATE TABLE B", "B", Part{}},
				{"DROP VIEW w", "w", Part{}},
				{"DROP VIEW v", "v", Part{}},
				{"SET foreign_key_checks = 0", "b", Part{}},
				{"ALTER TABLE child DROP COLUMN first, ADD FOREIGN KEY (id) REFERENCES later (id) ON UPDATE CASCADE", "child", Part{}},
				{"CREATE TABLE later (id INT PRIMARY KEY)", "later", Part{}},
				{"DROP TABLE later", "later", Part{}},
				{"DROP TABLE child, B", "child B", Part{}},
				{"DROP TABLE c", "c", Part{}}, // its triggers
				{"CREATE TABLE `it's` (i INT PRIMARY KEY)", "it's", Part{}},
				{"CREATE TABLE IF NOT EXISTS d (i INT)", "d", Part{}},
				{"CREATE PROCEDURE p() SELECT 1", "", procedures},
				{"CREATE EVENT e ON SCHEDULE EVERY 1 YEAR DO SELECT 1", "", events},
				{"CREATE FUNCTION fn() RETURNS INT DETERMINISTIC RETURN 1", "", functions},
				{"CREATE VIEW vf AS SELECT fn() AS x", "vf", Part{}},
				{"DROP FUNCTION fn", "", functions}, // the view's columns, too
				{"CREATE FUNCTION fn() RETURNS BIGINT DETERMINISTIC RETURN 2", "", functions},
				{"DROP PROCEDURE p", "", procedures},
				{"DROP EVENT e", "", events},
				{"CREATE DATABASE " + own + "_b", "", Part{Lists: SchemaList}},
				{"CREATE TABLE " + own + "_b.t (i INT PRIMARY KEY)", "", Part{Tables: []catalog.TableName{{Schema: own + "_b", Name: "t"}}}},
				{"CREATE VIEW vb AS SELECT i FROM " + own + "_b.t", "vb", Part{}},
				{"DROP DATABASE " + own + "_b", "", Part{Lists: SchemaList | ProgramList | EventList, Schema: own + "_b"}}, // the view's columns, too
			} {
				exec(x.ddl)
				part := x.part
				for name := range strings.FieldsSeq(x.tables) {
					part.Tables = append(part.Tables, catalog.TableName{Schema: own, Name: strings.ReplaceAll(name, "_", " ")})
				}
				is := all()
				affected := known.Affected(part)
				if affected.whole() != strings.Contains(x.tables, "'") {
					t.Errorf("%s affects %v", x.ddl, affected)
				}
				if !affected.whole() {
					open := func(_ context.Context, id catalog.ShardID) (Querier, func(), error) {
						return dbQuerier{conns[id]}, func() {}, nil
					}
					both, errs := ReadAll(t.Context(), []catalog.Shard{{ID: 0}, {ID: 1}}, open, map[catalog.ShardID]*Facts{0: known, 1: known}, map[catalog.ShardID]Part{0: affected, 1: affected})
					if len(errs) > 0 {
						t.Fatal(errs)
					}
					for _, f := range both {
						f.Schemas = slices.DeleteFunc(slices.Clone(f.Schemas), others)
						f.Functions = slices.DeleteFunc(slices.Clone(f.Functions), func(fn functionFact) bool { return others(fn.schema) })
						f.Events = slices.DeleteFunc(slices.Clone(f.Events), func(e eventFact) bool { return others(e.schema) })
					}
					if !both[1].Equal(both[0]) {
						t.Errorf("%s: the second shard differs in %v", x.ddl, both[1].Changed(both[0]))
					}
					read := both[0]
					for _, linked := range read.links() {
						if !slices.ContainsFunc(is.links(), func(t *tableFact) bool { return reflect.DeepEqual(t, linked) }) {
							t.Errorf("%s: %s isn't linked", x.ddl, linked.name)
						}
					}
					if len(read.links()) != len(is.links()) {
						t.Errorf("%s: %d tables are linked, wanted %d", x.ddl, len(read.links()), len(is.links()))
					}
					read.linked, is.linked = nil, nil // in an order of their own
					if !read.Equal(is) || !reflect.DeepEqual(read, is) {
						t.Errorf("%s: read of %+v, it differs in %v", x.ddl, affected, read.Changed(is))
					}
				}
				known.linked = nil
				if reflect.DeepEqual(known, is) && !strings.HasPrefix(x.ddl, "SET") && !strings.HasPrefix(x.ddl, "TRUNCATE") && !strings.Contains(x.ddl, "IF NOT EXISTS") && !strings.Contains(x.ddl, "INDEX") {
					t.Errorf("%s changes nothing", x.ddl)
				}
				known = is
			}
		})
	}
}

// TestAffected: views and foreign keys change with the tables that they are of.
func TestAffected(t *testing.T) {
	t.Parallel()
	view := func(name, definition string) *tableFact {
		return &tableFact{schema: "s", name: name, view: true, definition: definition}
	}
	f := &Facts{Tables: []*tableFact{
		{schema: "s", name: "orders", foreignKeys: []foreignKeyFact{{column: "p", refSchema: "s", refTable: "parents", refColumn: "id"}}},
		{schema: "s", name: "parents"},
		{schema: "s", name: "users"},
		view("v", "select `s`.`Users`.`id` AS `id` from `s`.`Users`"),
		view("w", "select v.id AS id from v join $orders"),
	}}
	named := func(names ...string) (out []catalog.TableName) {
		for _, n := range names {
			out = append(out, catalog.TableName{Schema: "s", Name: n})
		}
		return out
	}
	many := make([]string, askAtMost+1)
	for i := range many {
		many[i] = fmt.Sprint("t", i)
	}
	for _, x := range []struct{ names, want []catalog.TableName }{
		{named("orders"), named("orders")},
		{named("orders", "made_now"), named("made_now", "orders")},
		{named("users"), named("users", "v", "w")},
		{named("user"), named("user")},
		{named("parents"), named("parents", "orders")},
		{named("parents", "orders", "parents"), named("orders", "parents")},
		{named("it's"), nil},
		{named(many...), nil},
		{named(many[1:]...), named(slices.Sorted(slices.Values(many[1:]))...)},
		{nil, nil},
	} {
		if got := f.Affected(Part{Tables: x.names}).Tables; !slices.Equal(got, x.want) {
			t.Errorf("%v: %v, want %v", x.names, got, x.want)
		}
	}
	hidden := *f
	hidden.Tables = append(slices.Clone(f.Tables), view("z", ""))
	if got := hidden.Affected(Part{Tables: named("orders")}).Tables; !slices.Equal(got, named("orders", "z")) {
		t.Errorf("a view that can't be seen: %v", got)
	}
	folded := *f
	folded.LowerCaseNames = true
	if got := folded.Affected(Part{Tables: named("orders"), Lists: EventList}); !got.whole() {
		t.Errorf("where names are folded: %v", got)
	}
}
