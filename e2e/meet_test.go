package e2e

import (
	"database/sql"
	"fmt"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// TestAnywhereMeets: REPLACE, INSERT IGNORE and ON DUPLICATE KEY UPDATE find the
// row that they meet on whichever shard it is, as on one server.
func TestAnywhereMeets(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"old: {placement: anywhere}", "counted: {placement: anywhere}", "plain_files: {placement: anywhere}"}})
		shunt, plain := p.conn(), plainServer(t, p.servers[1], p.schema+"_plain")
		found := func(c *mysql.Config) { c.ClientFoundRows = true }
		shuntFound := p.conn(found)
		both := []*sql.Conn{shunt, plain}
		for _, c := range both {
			mustExec(t, c, "CREATE TABLE old (id INT NOT NULL PRIMARY KEY, email VARCHAR(30) COLLATE utf8mb4_general_ci, n INT, UNIQUE KEY (email))")
			mustExec(t, c, "CREATE TABLE counted (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, email VARCHAR(30), n INT, UNIQUE KEY (email))")
			mustExec(t, c, "CREATE TABLE plain_files (id INT NOT NULL PRIMARY KEY) ENGINE=MyISAM")
		}
		p.createIndex(shunt, "i_email", "old (email)")
		// Behind Shunt's back, on shards that the hash doesn't choose.
		for i := range 24 {
			row := fmt.Sprintf("INSERT INTO old VALUES (%d, 'E%d@x', %d)", i, i, i)
			mustExec(t, p.shard(i%3), row)
			mustExec(t, plain, row)
		}
		mustExec(t, shunt, "REBUILD VIRTUAL INDEX i_email ON old")
		p.settled(shunt)
		for i, statement := range []string{
			"REPLACE INTO old VALUES (1, 'e1@X', 100), (2, 'new2@x', 101), (50, 'e50@x', 102)",
			"REPLACE INTO old (id, email, n) VALUES (60, 'E3@x', 103), (61, 'E4@x', 104)", // by the other key
			"INSERT IGNORE INTO old VALUES (5, 'x@x', 1), (51, 'E6@x', 2), (52, 'e52@x', 3), (52, 'e53@x', 4)",
			"INSERT INTO old VALUES (7, 'y@x', 1), (70, 'E8@x', 2), (71, 'e71@x', 3), (71, 'e71@x', 4) ON DUPLICATE KEY UPDATE n = n + VALUES(n) * 1000",
			"INSERT INTO old VALUES (9, 'y@x', 9) ON DUPLICATE KEY UPDATE n = n",
			"INSERT INTO old VALUES (10, 'z@x', 9) ON DUPLICATE KEY UPDATE email = VALUES(email), n = 7",
			"INSERT INTO counted (email, n) VALUES ('a', 1), ('b', 2), ('a', 3) ON DUPLICATE KEY UPDATE n = n + 10",
			"REPLACE INTO old (id, email) VALUES (11, NULL), (11, NULL), (12, 'E12@x')",
			"INSERT IGNORE INTO old (id, email) SELECT id + 1, CONCAT(email, 'q') FROM old WHERE id < 15",
		} {
			var results [2]int64
			for k, c := range both {
				results[k] = affected(t, mustExec(t, c, statement))
			}
			if results[0] != results[1] {
				t.Errorf("%s: %d rows affected, want %d", statement, results[0], results[1])
			}
			const rows = "SELECT * FROM old ORDER BY id"
			got, wanted := fmt.Sprint(mustRows(t, shunt, rows)), fmt.Sprint(mustRows(t, plain, rows))
			if got != wanted {
				t.Fatalf("after statement %d %s:\n got %s\nwant %s", i, statement, got, wanted)
			}
		}
		for _, e := range flat(mustRows(t, plain, "SELECT email FROM old WHERE email IS NOT NULL"), "email") {
			want(t, shunt, "SELECT COUNT(*) AS n FROM old WHERE email = '"+e+"'", "n", "1")
		}
		want(t, shunt, "SELECT email, n FROM counted ORDER BY email", "email n", "a 11", "b 2")
		// With CLIENT_FOUND_ROWS a row that is met and kept counts as one.
		if n := affected(t, mustExec(t, shuntFound, "INSERT INTO old VALUES (?, ?, 9) ON DUPLICATE KEY UPDATE n = n", 13, "w@x")); n != 1 {
			t.Errorf("%d rows affected with CLIENT_FOUND_ROWS, want 1", n)
		}
		want(t, shunt, "SELECT COUNT(*) AS n FROM old WHERE id = 13", "n", "1")
		// What can't be as on one server is refused, and nothing changed.
		before := fmt.Sprint(mustRows(t, shunt, "SELECT * FROM old ORDER BY id"))
		mustExec(t, p.shard(0), "INSERT INTO old VALUES (900, 's0@x', 0)")
		mustExec(t, p.shard(1), "INSERT INTO old VALUES (901, 's1@x', 0)")
		_, err := shunt.ExecContext(t.Context(), "REPLACE INTO old VALUES (902, 'e902@x', 0), (900, 's1@x', 1)")
		wantError(t, err, 1235, "several shards")
		_, err = shunt.ExecContext(t.Context(), "INSERT INTO old VALUES (14, 'q@x', 9) ON DUPLICATE KEY UPDATE email = 'e15@x'")
		wantError(t, err, 1235, "unique")
		_, err = shunt.ExecContext(t.Context(), "REPLACE INTO plain_files VALUES (1)")
		wantError(t, err, 1235, "InnoDB")
		// Without a strict mode a server stores 0 for this NULL, but not in a row of its own.
		mustExec(t, shunt, "SET sql_mode = ''")
		_, err = shunt.ExecContext(t.Context(), "REPLACE INTO old VALUES (902, 'e902@x', 0), (NULL, 'e903@x', 1)")
		wantError(t, err, 1235, "which is NOT NULL")
		mustExec(t, shunt, "SET sql_mode = DEFAULT")
		mustExec(t, shunt, "DELETE FROM old WHERE id >= 900")
		if after := fmt.Sprint(mustRows(t, shunt, "SELECT * FROM old ORDER BY id")); after != before {
			t.Errorf("after a refusal:\n got %s\nwant %s", after, before)
		}
		_, err = shunt.ExecContext(t.Context(), "REPLACE INTO old VALUES (903, 'e903@x', 0), (904, REPEAT('long', 10), 1)")
		wantError(t, err, 1406, "at row 2")
		want(t, shunt, "SELECT COUNT(*) AS n FROM old WHERE id = 903", "n", "0")
		p.check()
	})
}
