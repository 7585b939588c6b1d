package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// TestGivenIDs: LAST_INSERT_ID() tells what was counted, not what rows were given, though
// both are in the answer.
func TestGivenIDs(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		dial := packetSides(t, f)
		p := dial(t, mysql.CLIENT_DEPRECATE_EOF)
		p.query("CREATE TABLE settings (k INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(20))", "CREATE TABLE cities (k BIGINT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(20))", "CREATE TEMPORARY TABLE mine (k INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(20))")
		for _, table := range []string{"settings", "cities", "mine"} {
			p.query("SET LAST_INSERT_ID = 55")
			for _, sql := range []string{
				"INSERT INTO t (k, v) VALUES (800, 'x')", "INSERT INTO t (v) VALUES ('y')", "INSERT INTO t (k, v) VALUES (700, 'x'), (NULL, 'z'), (900, 'u')", "INSERT INTO t (k, v) VALUES (600, 'x'), (601, 'z')",
				"REPLACE INTO t (k, v) VALUES (600, 'x')", "INSERT INTO t VALUES (500, 'x')", "INSERT IGNORE INTO t VALUES (500, 'x'), (501, 'y')", "INSERT INTO t SET k = 450", "INSERT INTO t (k, v) VALUES (500, 'x') ON DUPLICATE KEY UPDATE v = 'again'",
				"INSERT INTO t VALUES (NULL, 'n')", "INSERT INTO t VALUES (0, 'n')", "INSERT INTO t VALUES (DEFAULT, 'n')", "INSERT INTO t VALUES (410, 'x')", "UPDATE t SET v = 'q' WHERE k = 500", "BEGIN", "INSERT INTO t (k, v) VALUES (430, 'x')", "ROLLBACK",
			} {
				p.query(strings.Replace(sql, " t ", " "+table+" ", 1), "SELECT LAST_INSERT_ID()")
			}
			if table == "settings" { // computed, which others refuse
				p.query("INSERT INTO settings (k) VALUES (400 + 4)", "SELECT LAST_INSERT_ID()", "INSERT INTO settings (k) SELECT 406", "SELECT LAST_INSERT_ID()", "INSERT INTO settings (v) SELECT 'z'", "SELECT LAST_INSERT_ID()")
			}
			ids := map[*packetClient]uint32{}
			p.both("prepare", func(c *packetClient) (out string) {
				ids[c], out = c.prepare("INSERT INTO " + table + " (k, v) VALUES (?, 'p')")
				return out
			})
			for _, payload := range [][]byte{{0, 1, 3, 0, 0xa4, 1, 0, 0}, {1, 1, 3, 0}} { // 420, NULL
				p.both("execute", func(c *packetClient) string {
					c.say(mysql.COM_STMT_EXECUTE, uint32s(ids[c]), []byte{0}, uint32s(1), payload)
					return c.answer()
				})
				p.query("SELECT LAST_INSERT_ID()")
			}
			p.query("SELECT * FROM " + table)
		}
	})
}

// TestCountedBesideLastInsertID: what was counted is LAST_INSERT_ID() behind a statement, whatever
// LAST_INSERT_ID() and LAST_INSERT_ID(expr) are in it; the latter's value where no row was counted.
func TestCountedBesideLastInsertID(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		dial := packetSides(t, f)
		p := dial(t, mysql.CLIENT_DEPRECATE_EOF)
		p.query("CREATE TABLE parents (k BIGINT AUTO_INCREMENT PRIMARY KEY, v INT)", "CREATE TABLE children (k BIGINT AUTO_INCREMENT PRIMARY KEY, parent BIGINT, code INT UNIQUE)",
			"INSERT INTO children (parent) VALUES (0), (0), (0), (0)")
		for _, sql := range []string{
			"INSERT INTO parents (v) VALUES (7)", "INSERT INTO children (parent) VALUES (LAST_INSERT_ID())", "INSERT INTO parents (v) VALUES (8)",
			"INSERT INTO children (parent) VALUES (LAST_INSERT_ID()), (LAST_INSERT_ID())", "INSERT INTO children (parent) VALUES (@@last_insert_id)", "INSERT INTO children (parent) VALUES (@@identity)",
			"SET LAST_INSERT_ID = 55", "INSERT INTO children (k, parent) VALUES (50, LAST_INSERT_ID())", "INSERT IGNORE INTO children (parent) VALUES (LAST_INSERT_ID())", "REPLACE INTO children (parent) VALUES (LAST_INSERT_ID())",
			"INSERT INTO children SET parent = LAST_INSERT_ID(100)", "INSERT INTO children (parent) VALUES (LAST_INSERT_ID(200)), (LAST_INSERT_ID(201))", "INSERT INTO children (k, parent) VALUES (70, LAST_INSERT_ID(300))",
			"INSERT INTO children (code) VALUES (1) ON DUPLICATE KEY UPDATE k = LAST_INSERT_ID(k), parent = 1", "INSERT INTO children (code) VALUES (2) ON DUPLICATE KEY UPDATE k = LAST_INSERT_ID(k), parent = 1",
			"INSERT INTO children (code) VALUES (1) ON DUPLICATE KEY UPDATE k = LAST_INSERT_ID(k), parent = 2", "INSERT INTO children (code) VALUES (1) ON DUPLICATE KEY UPDATE k = LAST_INSERT_ID(k), parent = 2",
			"INSERT INTO children (code, parent) VALUES (2, LAST_INSERT_ID(400)) ON DUPLICATE KEY UPDATE parent = 3", "INSERT INTO children (code, parent) VALUES (3, LAST_INSERT_ID(401)) ON DUPLICATE KEY UPDATE parent = 3",
			"INSERT IGNORE INTO children (code, parent) VALUES (3, LAST_INSERT_ID(500))", "INSERT IGNORE INTO children (code, parent) VALUES (4, LAST_INSERT_ID(501))",
			"INSERT INTO children (code, parent) VALUES (5, LAST_INSERT_ID()), (6, LAST_INSERT_ID()) ON DUPLICATE KEY UPDATE k = LAST_INSERT_ID(k)",
			"INSERT IGNORE INTO children (code, parent) VALUES (7, LAST_INSERT_ID()), (8, LAST_INSERT_ID())", "REPLACE INTO children (parent) VALUES (LAST_INSERT_ID()), (LAST_INSERT_ID())",
			"BEGIN", "INSERT INTO children (parent) VALUES (LAST_INSERT_ID(600))", "ROLLBACK", "INSERT INTO children (parent) SELECT LAST_INSERT_ID() FROM parents",
		} {
			p.query(sql, "SELECT LAST_INSERT_ID(), @@last_insert_id")
		}
		for i, sql := range []string{"INSERT INTO children (parent) VALUES (LAST_INSERT_ID() + ?)", "INSERT INTO children SET parent = LAST_INSERT_ID(?)"} {
			ids := map[*packetClient]uint32{}
			p.both("prepare", func(c *packetClient) (out string) {
				ids[c], out = c.prepare(sql)
				return out
			})
			p.query(fmt.Sprintf("INSERT INTO children (k) VALUES (%d)", 1000*(i+1))) // from where on both count
			p.both("execute", func(c *packetClient) string {
				c.say(mysql.COM_STMT_EXECUTE, uint32s(ids[c]), []byte{0}, uint32s(1), []byte{0, 1, 3, 0}, uint32s(7))
				return c.answer()
			})
			p.query("SELECT LAST_INSERT_ID(), @@last_insert_id")
		}
		p.query("SELECT * FROM parents ORDER BY k", "SELECT * FROM children ORDER BY k")
	})
}

// TestLastInsertIDOfRows: LAST_INSERT_ID(expr) of rows that are changed is that of the last one, and
// one in a condition counts, too, whatever the answer says. Which of several shards' rows is the last
// isn't known without ORDER BY.
func TestLastInsertIDOfRows(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		dial := packetSides(t, f)
		p := dial(t, mysql.CLIENT_DEPRECATE_EOF)
		p.query("CREATE TABLE jobs (k BIGINT PRIMARY KEY, v BIGINT)", "INSERT INTO jobs VALUES (1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0), (7, 0), (8, 0)")
		for _, sql := range []string{
			"UPDATE jobs SET v = LAST_INSERT_ID(k + 100) WHERE v = 0 ORDER BY k LIMIT 1", "UPDATE jobs SET v = LAST_INSERT_ID(k + 100) WHERE v = 0 ORDER BY k LIMIT 3",
			"UPDATE jobs SET v = LAST_INSERT_ID(k + 200) ORDER BY k DESC LIMIT 3", "UPDATE jobs SET v = LAST_INSERT_ID(k + 300) WHERE v = 77 ORDER BY k LIMIT 1", "UPDATE jobs SET v = 5 ORDER BY k LIMIT 2",
			"BEGIN", "UPDATE jobs SET v = LAST_INSERT_ID(k + 400) ORDER BY k LIMIT 2", "ROLLBACK", "UPDATE jobs SET v = LAST_INSERT_ID(k + 500) WHERE k = 4",
			"DELETE FROM jobs WHERE k = LAST_INSERT_ID(9)", "UPDATE jobs SET v = 6 WHERE k = LAST_INSERT_ID(10)", "BEGIN", "DELETE FROM jobs WHERE k = LAST_INSERT_ID(11)", "COMMIT", "UPDATE jobs SET v = 6 WHERE k = 1",
		} {
			p.query(sql, "SELECT LAST_INSERT_ID(), @@last_insert_id")
		}
		ids := map[*packetClient]uint32{}
		p.both("prepare", func(c *packetClient) (out string) {
			ids[c], out = c.prepare("UPDATE jobs SET v = LAST_INSERT_ID(k + ?) ORDER BY k LIMIT 2")
			return out
		})
		p.both("execute", func(c *packetClient) string {
			c.say(mysql.COM_STMT_EXECUTE, uint32s(ids[c]), []byte{0}, uint32s(1), []byte{0, 1, 3, 0}, uint32s(600))
			return c.answer()
		})
		p.query("SELECT LAST_INSERT_ID(), @@last_insert_id", "SELECT * FROM jobs ORDER BY k")

		q := start(t, f, setup{})
		c := q.conn()
		mustExec(t, c, "CREATE TABLE jobs (k BIGINT PRIMARY KEY, v BIGINT)")
		mustExec(t, c, "INSERT INTO jobs VALUES (1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0), (7, 0), (8, 0)")
		unchanged := func() {
			t.Helper()
			if got := mustRows(t, c, "SELECT k FROM jobs WHERE v <> 0"); len(got) > 0 {
				t.Errorf("changed all the same: %v", got)
			}
		}
		for _, in := range []string{"SELECT 1", "BEGIN"} {
			mustExec(t, c, in)
			failsWith(t, c, "UPDATE jobs SET v = LAST_INSERT_ID(k)", 1235, "ORDER BY")
			unchanged()
			mustExec(t, c, "UPDATE jobs SET v = LAST_INSERT_ID(0)")
			mustExec(t, c, "ROLLBACK")
		}
	})
}

// TestGivenLikeBefore: rows that are inserted one by one, since each may meet one on any
// shard, have got ids even where the first is what LAST_INSERT_ID() was before.
func TestGivenLikeBefore(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		dial := packetSides(t, f)
		p := dial(t, mysql.CLIENT_DEPRECATE_EOF)
		p.query("CREATE TABLE cities (k BIGINT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(20) UNIQUE, n INT)")
		for _, sql := range []string{
			"SET LAST_INSERT_ID = 1", "INSERT INTO cities (v) VALUES ('a'), ('b') ON DUPLICATE KEY UPDATE n = 1",
			"SET LAST_INSERT_ID = 3", "INSERT IGNORE INTO cities (v) VALUES ('c'), ('d')",
			"SET LAST_INSERT_ID = 5", "REPLACE INTO cities (v) VALUES ('e'), ('f')",
			"INSERT IGNORE INTO cities (k, v) VALUES (7, 'x'), (8, 'y')",
		} {
			p.query(sql, "SELECT LAST_INSERT_ID()")
		}
		p.query("SELECT * FROM cities")
	})
}

// TestNeverMissLastInsertID: LAST_INSERT_ID(c) makes an unsigned integer of what c holds.
func TestNeverMissLastInsertID(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{maintenance: "{delay: 1h}"})
		c := p.conn()
		mustExec(t, c, "CREATE TABLE items (id INT PRIMARY KEY, code VARCHAR(20), price DECIMAL(10,2), n INT)")
		mustExec(t, c, "CREATE TABLE skus (sku VARCHAR(20) PRIMARY KEY, n INT)")
		for _, column := range []string{"code", "price", "n"} {
			p.createIndex(c, "by_"+column, "items ("+column+")")
		}
		for id := 1; id <= 8; id++ {
			mustExec(t, c, fmt.Sprintf("INSERT INTO items VALUES (%d, '00%[1]d', %[1]d.75, -1)", id))
			mustExec(t, c, fmt.Sprintf("INSERT INTO items (id) VALUES (%d) ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id), code = LAST_INSERT_ID(code), price = LAST_INSERT_ID(price)", id))
		}
		mustExec(t, c, "SET sql_mode = ''")
		for id := 1; id <= 8; id++ {
			mustExec(t, c, fmt.Sprintf("INSERT INTO items (id) VALUES (%d) ON DUPLICATE KEY UPDATE n = LAST_INSERT_ID(n)", id))
			want(t, c, fmt.Sprintf("SELECT id FROM items WHERE code = '%d'", id), "id", fmt.Sprint(id))
			want(t, c, fmt.Sprintf("SELECT id FROM items WHERE price = %d", id+1), "id", fmt.Sprint(id))
		}
		want(t, c, "SELECT COUNT(*) AS c FROM items WHERE n = 2147483647", "c", "8")
		_, err := c.ExecContext(t.Context(), "INSERT INTO skus VALUES ('007', 1) ON DUPLICATE KEY UPDATE sku = LAST_INSERT_ID(sku)")
		wantError(t, err, 1235, "changing the shard key skus.sku")
	})
}
