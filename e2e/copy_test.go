package e2e

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestInsertSelect: INSERT ... SELECT whose rows go to other shards than they
// come from gives what it gives on one server, for values of all types.
func TestInsertSelect(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"src: {shard_key: id}", "dst: {shard_key: k}", "counted: {shard_key: id}", "kinds: {placement: reference}", "one: {placement: single, shard: s2}"}})
		shunt, plain := p.conn(), plainServer(t, p.servers[1], p.schema+"_plain")
		both := []*sql.Conn{shunt, plain}
		types := []string{
			"a TINYINT", "b SMALLINT UNSIGNED", "c MEDIUMINT", "d INT UNSIGNED", "e BIGINT", "f BIGINT UNSIGNED", "g FLOAT", "h DOUBLE", "i DECIMAL(30,10)",
			"j DATE", "k2 DATETIME(6)", "l TIMESTAMP(3) NULL", "m TIME(6)", "n YEAR", "o CHAR(10)", "p VARCHAR(50)", "q VARBINARY(50)", "r BLOB", "s TEXT",
			"t ENUM('x','y')", "u SET('x','y','z')", "v BIT(12)", "w JSON", "x VARCHAR(20) CHARACTER SET latin1", "y POINT",
		}
		values := [][]string{
			{
				"-128", "65535", "-8388608", "4294967295", "-9223372036854775808", "18446744073709551615", "16777217", "1.7976931348623157e308", "12345678901234567890.0123456789",
				"'2024-02-29'", "'2024-02-29 23:59:59.999999'", "'2024-02-29 23:59:59.999'", "'-838:59:58.999999'", "1901", "'ch  '", "'it''s \\\\ €😀'", "X'00ff27'", "X'e4005c'", "'line\nbreak'",
				"'y'", "'x,z'", "b'101010101010'", "'{\"a\": [1, null, \"é\"]}'", "'\u00e4'", "ST_GeomFromText('POINT(1 2.5)')",
			},
			{"NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL"},
			{
				"0", "0", "0", "0", "0", "0", "0.1", "-1e-300", "-0.5", "'1000-01-01'", "'1000-01-01'", "'1970-01-02 00:00:01'", "'00:00:00'", "0", "''", "''", "''", "''", "''",
				"'x'", "''", "b'0'", "'\"s\"'", "''", "ST_GeomFromText('POINT(0 0)')",
			},
		}
		var names []string
		for _, c := range types {
			name, _, _ := strings.Cut(c, " ")
			names = append(names, name)
		}
		columns := strings.Join(names, ", ")
		for _, c := range both {
			for table, first := range map[string]string{"src": "id BIGINT PRIMARY KEY", "dst": "id BIGINT, k BIGINT PRIMARY KEY"} {
				mustExec(t, c, fmt.Sprintf("CREATE TABLE %s (%s, %s)", table, first, strings.Join(types, ", ")))
			}
			mustExec(t, c, "CREATE TABLE counted (id BIGINT AUTO_INCREMENT PRIMARY KEY, src BIGINT, p VARCHAR(50), UNIQUE (id, src))")
			mustExec(t, c, "CREATE TABLE kinds (id BIGINT PRIMARY KEY, at DATETIME)")
			mustExec(t, c, "CREATE TABLE one (id BIGINT AUTO_INCREMENT PRIMARY KEY, p VARCHAR(50))")
			for i := range 30 {
				mustExec(t, c, fmt.Sprintf("INSERT INTO src (id, %s) VALUES (%d, %s)", columns, i, strings.Join(values[i%3], ", ")))
			}
		}
		p.createIndex(shunt, "i_p", "dst (p)")
		for _, statement := range []string{
			"INSERT INTO dst (id, k, " + columns + ") SELECT id, id * 7 + 1, " + columns + " FROM src",
			"INSERT INTO dst (id, k, p) SELECT id, id + 1000, p FROM src WHERE id < 10 ORDER BY id DESC LIMIT 3",
			"INSERT IGNORE INTO dst (id, k, p) SELECT id, id * 7 + 1, 'again' FROM src WHERE id < 40",
			"INSERT INTO dst (id, k, p) SELECT id, id * 7 + 1, p FROM src WHERE id BETWEEN 3 AND 6 ON DUPLICATE KEY UPDATE p = CONCAT('was ', VALUES(id))",
			"REPLACE INTO dst (id, k, p) SELECT id, id * 7 + 1, 'replaced' FROM src WHERE id > 25",
			"INSERT INTO dst (id, k, p) SELECT id, id * 7 + 1, 'twice' FROM src WHERE id = 5",
			"INSERT INTO dst (id, k, a) SELECT COUNT(*), 5000, MAX(a) FROM src",
			"INSERT INTO dst (id, k, p) (SELECT s.id, d.k + 9000, d.p FROM src s JOIN dst d ON s.id = d.id WHERE d.k < 100)",
			"INSERT INTO dst (id, k) SELECT k, k + 20000 FROM dst WHERE k < 50",
			"INSERT INTO kinds (id) SELECT id FROM src WHERE id < 7",
			"INSERT INTO kinds (id) SELECT id + 100 FROM kinds ORDER BY id LIMIT 2",
			"INSERT INTO dst (id, k) SELECT id, id FROM src WHERE id > 9999",
			"INSERT INTO counted (src, p) SELECT id, p FROM src WHERE id = 7",
			"INSERT INTO counted (id, src) SELECT NULL, id FROM src WHERE id = 8",
			"INSERT INTO dst (id, k, a) SELECT id, id + 70000, e FROM src",
			"INSERT INTO dst (id, k, nope) SELECT id, id, id FROM src",
			"INSERT INTO dst (id, k) SELECT id, id, id FROM src",
		} {
			got, want := answer(t.Context(), shunt, statement), answer(t.Context(), plain, statement)
			if got != want {
				t.Errorf("%s\nshunt:  %s\nserver: %s", statement, got, want)
			}
			const last = "SELECT LAST_INSERT_ID() AS id"
			if got, want := mustRows(t, shunt, last), mustRows(t, plain, last); got[0]["id"] != want[0]["id"] {
				t.Errorf("LAST_INSERT_ID() after %s: %s, on one server %s", statement, got[0]["id"], want[0]["id"])
			}
			for _, table := range []string{"dst", "kinds", "counted"} {
				q := "SELECT * FROM " + table
				all := append([]string{"id", "k", "src", "at"}, names...)
				if got, want := flat(mustRows(t, shunt, q), all...), flat(mustRows(t, plain, q), all...); !slices.Equal(got, want) {
					for i := range min(len(got), len(want)) {
						if got[i] != want[i] {
							t.Errorf("row %d\nshunt:  %q\nserver: %q", i, got[i], want[i])
						}
					}
					t.Fatalf("after %s: %s has %d rows, on one server %d", statement, table, len(got), len(want))
				}
			}
		}
		for _, c := range both {
			r, err := c.ExecContext(t.Context(), "INSERT INTO one (p) SELECT p FROM src WHERE id < ? AND p = ?", 20, "")
			if err != nil {
				t.Fatal(err)
			}
			if n := affected(t, r); n != 6 {
				t.Errorf("%d rows", n)
			}
			n := mustRows(t, c, "SELECT COUNT(*) AS n FROM dst")[0]["n"]
			mustExec(t, c, "BEGIN")
			mustExec(t, c, "INSERT INTO src (id, p) VALUES (500, 'mine')")
			mustExec(t, c, "INSERT INTO dst (id, k, p) SELECT id, id + 5, p FROM src WHERE id >= 500")
			want(t, c, "SELECT k, p FROM dst WHERE id = 500", "k p", "505 mine")
			mustExec(t, c, "ROLLBACK")
			want(t, c, "SELECT COUNT(*) AS n FROM dst", "n", n)
		}
		if r := mustRows(t, shunt, "EXPLAIN ROUTE INSERT INTO dst (id, k) SELECT id, id + 1 FROM src"); len(r) < 2 || !strings.Contains(r[len(r)-1]["Reason"], "inserted") {
			t.Error(r)
		}
	})
}
