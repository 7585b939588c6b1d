package e2e

import (
	"database/sql"
	"slices"
	"testing"
)

// TestInsertSelectStrict: what a query warns of is an error of INSERT ... SELECT
// in a strict mode, be its rows copied by Shunt or by one server.
func TestInsertSelectStrict(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"src: {shard_key: id}", "dst: {shard_key: k}", "filled: {shard_key: k}"}})
		shunt, plain := p.conn(), plainServer(t, p.servers[1], p.schema+"_plain")
		for _, c := range []*sql.Conn{shunt, plain} {
			mustExec(t, c, "CREATE TABLE src (id INT PRIMARY KEY, s VARCHAR(10))")
			mustExec(t, c, "CREATE TABLE dst (k INT PRIMARY KEY, n DOUBLE)")
			mustExec(t, c, "INSERT INTO src VALUES (1, '1'), (2, '2x'), (3, 'x'), (4, '0')")
		}
		for _, mode := range []string{"STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ZERO_DATE,NO_ZERO_IN_DATE", ""} {
			for _, statement := range []string{
				"INSERT INTO dst SELECT id * 10, s + 0 FROM src",
				"INSERT INTO dst SELECT id * 11, 1 / s FROM src WHERE id IN (1, 4)",
				"INSERT IGNORE INTO dst SELECT id * 12, s + 0 FROM src",
				"INSERT INTO dst SELECT id * 13, s + 0 FROM src WHERE id = 1",
				"INSERT INTO dst SELECT id * 14, DATE'9999-12-31' + INTERVAL id DAY FROM src",
				"INSERT INTO dst SELECT id * 15, ADDTIME('838:00:00', '20:00:00') FROM src",
				"INSERT INTO dst SELECT id * 16, LN(-id) FROM src",
				"INSERT INTO dst SELECT id * 17, JSON_EXTRACT('[\"x\"]', '$[0]') + id FROM src",
				"INSERT INTO dst SELECT id * 18, LENGTH(FROM_BASE64('?')) FROM src",
				"INSERT INTO dst SELECT id * 19, LENGTH(CONVERT(_binary x'ff' USING utf8mb4)) FROM src",
				"INSERT INTO dst SELECT id * 20, LENGTH(UNCOMPRESS('x')) FROM src",
				"INSERT INTO dst SELECT id * 21, LENGTH(REPEAT('a', 2000000000)) FROM src",
				"INSERT INTO dst SELECT id * 22, s + 0 FROM src ORDER BY s + 0, id LIMIT 1",
				"CREATE TEMPORARY TABLE dst SELECT id AS k, s + 0 AS n FROM src",
				"CREATE TEMPORARY TABLE dst SELECT id AS k, s + 0 AS n FROM src WHERE id = 1 OR id = 4",
				"CREATE TEMPORARY TABLE dst IGNORE SELECT id AS k, s + 0 AS n FROM src",
				"CREATE TEMPORARY TABLE dst SELECT id AS k, s + 0 AS n FROM src ORDER BY s + 0, id LIMIT 1",
			} {
				var codes [2]uint16
				var warnings [2][]string
				for i, c := range []*sql.Conn{shunt, plain} {
					mustExec(t, c, "SET sql_mode = '"+mode+"'")
					mustExec(t, c, "DELETE FROM dst")
					_, err := c.ExecContext(t.Context(), statement)
					codes[i] = errorCode(err)
					if err == nil {
						warnings[i] = slices.Compact(flat(mustRows(t, c, "SHOW WARNINGS"), "Code"))
					}
				}
				if !slices.Equal(warnings[0], warnings[1]) {
					t.Errorf("in the mode %q, %s: warnings %v, want %v", mode, statement, warnings[0], warnings[1])
				}
				if codes[0] != codes[1] {
					t.Errorf("in the mode %q, %s: error %d, want %d", mode, statement, codes[0], codes[1])
				}
				const all = "SELECT k, n FROM dst ORDER BY k"
				want(t, shunt, all, "k n", flat(mustRows(t, plain, all), "k", "n")...)
				mustExec(t, shunt, "DROP TEMPORARY TABLE IF EXISTS dst")
				mustExec(t, plain, "DROP TEMPORARY TABLE IF EXISTS dst")
			}
		}
		// A server stores 0 for the NULL of a query's row, even of a single one,
		// and fails for a row of VALUES.
		for _, c := range []*sql.Conn{shunt, plain} {
			mustExec(t, c, "SET sql_mode = ''")
			mustExec(t, c, "CREATE TABLE filled (k INT PRIMARY KEY, n INT NOT NULL)")
		}
		_, err := shunt.ExecContext(t.Context(), "INSERT INTO filled SELECT id * 2, NULL FROM src WHERE id = 1")
		wantError(t, err, 1235, "which is NOT NULL")
		want(t, shunt, "SELECT COUNT(*) AS n FROM filled", "n", "0")
	})
}
