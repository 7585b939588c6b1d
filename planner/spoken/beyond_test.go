package spoken

import (
	"fmt"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/text"
)

func namedBy(t *testing.T, sql string) Named {
	t.Helper()
	n, err := Read(sql, text.Settings{Charset: "utf8mb4"}, &catalog.Catalog{ServerVersion: "9.7.4"}).Named()
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
		{"SELECT NEXTVAL(a.s), `lastval` ( b.s ), SETVAL(c.s, t.n) FROM t", "[{a s} {b s} {c s}]"},
		{"SELECT NEXT VALUE FOR a.s, (PREVIOUS VALUE FOR b.s)", "[{a s} {b s}]"},
		{"INSERT INTO t VALUES (NEXTVAL(a.s)), (1 + (NEXT VALUE FOR b.s))", "[{a s} {b s}]"},
		{"SELECT ABS(o.s), NEXTVAL(s, o.t)", "[]"},
		{"SELECT a.f(1), a.t.c FROM t", "[]"},
		{"SELECT * FROM t FOR UPDATE OF t", "[]"},
	} {
		if got := fmt.Sprint(namedBy(t, x.sql).Tables); got != x.tables {
			t.Errorf("%s\n got %s\nwant %s", x.sql, got, x.tables)
		}
	}
}

// TestNamesBare: what may name a table of the current schema, though there is none.
func TestNamesBare(t *testing.T) {
	for _, x := range []struct {
		sql  string
		want bool
	}{
		{"SET @a = (SELECT MAX(INFO) FROM processlist)", true},
		{"SELECT * FROM JSON_TABLE('[1]', '$' COLUMNS (a INT PATH '$')) j, processlist p", true},
		{"SELECT * FROM a.t JOIN (`tables`) ON t.x = 1", true},
		{"CREATE VIEW a.v AS SELECT * FROM JSON_TABLE('[1]', '$' COLUMNS (a INT PATH '$')) j JOIN tables", true},
		{"CREATE DEFINER=event VIEW a.v AS SELECT * FROM tables", true},
		{"SELECT * FROM JSON_TABLE('[1]', '$' COLUMNS (a INT PATH '$')) AS j, a.t x WHERE EXTRACT(YEAR FROM made) > 1 ORDER BY j.a, b", false},
		{"SET @a = (SELECT MAX(id) FROM a.t), sql_mode = ''", false},
		{"DROP VIEW IF EXISTS a.v", false},
		{"ALTER TABLE a.t RENAME COLUMN x TO y", false},
		{"CREATE TABLE IF NOT EXISTS a.t (id INT)", false},
		{"CREATE TABLE a.t AS SELECT 1 FROM dual", false},
		{"CREATE PROCEDURE a.p() SELECT * FROM t", false},
		{"CREATE TRIGGER a.r BEFORE INSERT ON a.t FOR EACH ROW SET NEW.x = 1", false},
		{"LOAD DATA LOCAL INFILE 'x' INTO TABLE a.t", false},
		{"LOCK TABLES a.t READ, a.u AS v WRITE", false},
		{"CREATE VIRTUAL INDEX i ON a.t (x)", false},
	} {
		st, err := text.Read(x.sql, text.Settings{Charset: "utf8mb4"}, &catalog.Catalog{ServerVersion: "9.7.4"})
		if err != nil || NamesBare(st) != x.want {
			t.Errorf("%s: %v, want %v (%v)", x.sql, !x.want, x.want, err)
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
		{"SELECT 1 + Roles_GraphML ()", Beyond{Function: "roles_graphml"}},
		{"DO `keyring_key_remove`('k')", Beyond{Function: "keyring_key_remove"}},
		{"INSERT INTO t VALUES (1), (CONCAT(flush_rewrite_rules()))", Beyond{Function: "flush_rewrite_rules"}},
		{"SELECT audit_at, shop.audit_log(1) FROM t", Beyond{}},
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
