package planner

import (
	"fmt"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
)

func namedBy(t *testing.T, sql string) Named {
	t.Helper()
	n, err := NamedSchemas(sql, Settings{Charset: "utf8mb4"}, &catalog.Catalog{ServerVersion: "9.7.4"})
	if err != nil {
		t.Errorf("%s: %v", sql, err)
	}
	return n
}

// TestTablesThatStand: where a name with a schema can be nothing but a table.
func TestTablesThatStand(t *testing.T) {
	for _, x := range []struct{ sql, tables string }{
		{"SELECT o.id, p.id FROM a.t o, b.t p JOIN c.t ON o.id = p.id, d.t", "[{a t} {b t} {c t} {d t}]"},
		{"SELECT * FROM (a.t, b.t) WHERE x.id IN (y.id, z.id)", "[{a t} {b t}]"},
		{"SELECT EXTRACT(YEAR FROM o.d), TRIM(BOTH 'x' FROM o.s), SUBSTRING(o.s FROM o.n), o.a IS DISTINCT FROM o.b FROM t o", "[]"},
		{"SELECT REPLACE(o.a, 'x', o.b), INSERT(o.a, 1, 2, 'x') FROM t o GROUP BY o.a, o.b HAVING o.c, o.d", "[]"},
		{"INSERT INTO a.t (t.x, t.y) VALUES (1, (SELECT 1 FROM b.t)) ON DUPLICATE KEY UPDATE t.x = 1, t.y = 2", "[{a t} {b t}]"},
		{"INSERT a.t SELECT 1", "[{a t}]"},
		{"UPDATE a.t, b.t SET t.x = 1, t.y = 2", "[{a t} {b t}]"},
		{"DELETE a.t, b.t FROM a.t JOIN b.t USING (id), c.t", "[{a t} {b t} {a t} {b t} {c t}]"},
		{"DELETE p.* FROM t p", "[]"},
		{"RENAME TABLE t TO a.t, u TO b.u", "[{a t} {b u}]"},
		{"DROP TABLE IF EXISTS a.t, b.t", "[{a t} {b t}]"},
		{"CREATE TABLE t LIKE a.t", "[{a t}]"},
		{"SELECT * FROM t WHERE x LIKE o.y", "[]"},
		{"CREATE INDEX i ON a.t (x)", "[{a t}]"},
		{"CREATE TRIGGER x BEFORE UPDATE ON a.t FOR EACH ROW SET NEW.x = OLD.x, NEW.y = 1", "[{a t}]"},
		{"SHOW INDEX IN a.t", "[{a t}]"},
		{"DESCRIBE a.t", "[{a t}]"},
		{"CALL a.p(x.y)", "[{a p}]"},
		{"SELECT a.f(1), a.t.c FROM t", "[]"},
		{"SELECT * FROM t FOR UPDATE OF t", "[]"},
	} {
		if got := fmt.Sprint(namedBy(t, x.sql).Tables); got != x.tables {
			t.Errorf("%s\n got %s\nwant %s", x.sql, got, x.tables)
		}
	}
}

func TestBeyond(t *testing.T) {
	for _, x := range []struct {
		sql  string
		want Beyond
	}{
		{"SELECT 1", Beyond{}},
		{"SHOW FULL PROCESSLIST", Beyond{Show: "processlist"}},
		{"SHOW ENGINE INNODB STATUS", Beyond{Show: "engine innodb"}},
		{"SELECT Load_File ('x')", Beyond{Files: true}},
		{"SELECT `load_file`('x')", Beyond{Files: true}},
		{"SELECT load_file, outfile FROM t", Beyond{}},
		{"UPDATE t SET file_name = 'x'", Beyond{}},
		{"CREATE TABLE t (a INT) ENGINE=CONNECT TABLE_TYPE=DOS FILE_NAME='/etc/passwd'", Beyond{Files: true}},
		{"SELECT NEXT VALUE FOR s", Beyond{Counts: true}},
		{"FLUSH TABLES t", Beyond{}},
		{"FLUSH TABLES WITH READ LOCK", Beyond{Flush: true}},
		{"FLUSH LOCAL TABLES", Beyond{Flush: true}},
		{"FLUSH STATUS", Beyond{Flush: true}},
		{"CREATE VIEW v AS SELECT role, `show`, start FROM t", Beyond{}},
		{"CREATE TABLE t (event INT, role INT)", Beyond{}},
		{"CREATE PROCEDURE p() BEGIN SELECT role, load, start FROM t WHERE t.show = 1 AND stop > 5 ORDER BY reset; START TRANSACTION; UPDATE t SET role = 1, `drop` = 2; END", Beyond{}},
		{"CREATE PROCEDURE p() BEGIN SELECT 1; START SLAVE; END", Beyond{Program: "start"}},
		{"CREATE PROCEDURE p() l: LOOP SHOW TABLES; END LOOP", Beyond{Program: "show"}},
		{"CREATE PROCEDURE p() IF a > 1 THEN KILL 5; END IF", Beyond{Program: "kill"}},
		{"CREATE FUNCTION f() RETURNS INT LANGUAGE JAVASCRIPT AS $$ return 1 $$", Beyond{Program: "language"}},
		{"CREATE DEFINER=view@x PROCEDURE p() SHOW TABLES", Beyond{Program: "show"}},
		{"CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO DROP USER x", Beyond{Program: "drop"}},
		{"CREATE TRIGGER r BEFORE INSERT ON t FOR EACH ROW SET @@global.x = 1", Beyond{Program: "@@global"}},
		{"ALTER EVENT e RENAME TO f", Beyond{}},
		{"ALTER EVENT e DO RENAME USER a TO b", Beyond{Program: "rename"}},
		{"ALTER DATABASE x CHARACTER SET latin1", Beyond{}},
	} {
		got := namedBy(t, x.sql).Beyond
		if got != x.want {
			t.Errorf("%s\n got %+v\nwant %+v", x.sql, got, x.want)
		}
	}
}
