package e2e

import (
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"
	mysqldriver "github.com/go-sql-driver/mysql"
)

// TestMeetCounted: REPLACE, INSERT IGNORE and ON DUPLICATE KEY UPDATE without a value for
// the shard key, which is counted, meet the row of another unique key wherever it is.
func TestMeetCounted(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		dial := packetSides(t, f)
		p := dial(t, mysql.CLIENT_DEPRECATE_EOF)
		p.query("CREATE TABLE options (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20) NOT NULL, v INT DEFAULT 0, UNIQUE KEY (name))",
			"CREATE TABLE Options LIKE options", "CREATE TABLE óptions (id INT) ENGINE = MyISAM") // other tables
		for k := range 12 {
			p.query(fmt.Sprintf("INSERT INTO options (name) VALUES ('n%d')", k))
		}
		for k := range 6 {
			for _, sql := range []string{
				"INSERT IGNORE INTO options (name) VALUES ('N%d')", "SHOW WARNINGS",
				"INSERT INTO options (name, v) VALUES ('n%d', 7) ON DUPLICATE KEY UPDATE name = VALUES(name), v = v + VALUES(v)", "SELECT LAST_INSERT_ID(), ROW_COUNT()",
				"INSERT INTO options SET name = 'n%d' ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id)", "SELECT LAST_INSERT_ID()",
				"INSERT INTO options (id, name) VALUES (NULL, 'n%d') ON DUPLICATE KEY UPDATE v = v", "INSERT INTO options (id, name) VALUES (DEFAULT, 'n%d') ON DUPLICATE KEY UPDATE v = NULL",
				"INSERT IGNORE INTO options (name) VALUES ('new%d')", "SELECT LAST_INSERT_ID()",
				"INSERT INTO options (name) VALUES ('newer%d') ON DUPLICATE KEY UPDATE v = 9",
				"SELECT * FROM options WHERE name LIKE '%%d' ORDER BY id",
			} {
				p.query(strings.ReplaceAll(sql, "%d", fmt.Sprint(k)))
			}
		}
		p.query("BEGIN", "INSERT IGNORE INTO options (name) VALUES ('gone'), ('n1')", "INSERT INTO options (name) VALUES ('gone') ON DUPLICATE KEY UPDATE v = 5", "SELECT name, v FROM options WHERE name = 'gone'", "ROLLBACK",
			"SELECT name, v FROM options WHERE name = 'gone'", "SELECT name, v FROM options ORDER BY name")

		p.query("INSERT INTO options (name, v) VALUES ('many', 1), ('n2', 1), ('many', 2) ON DUPLICATE KEY UPDATE v = 4", "SELECT LAST_INSERT_ID()",
			"INSERT INTO options (name) VALUES ('n4'), ('n5'), ('n6') ON DUPLICATE KEY UPDATE v = 3", "SELECT LAST_INSERT_ID()", "INSERT IGNORE INTO options (name) VALUES ('n4'), ('n5')", "SELECT LAST_INSERT_ID()", "SELECT name, v FROM options WHERE v < 5 ORDER BY name")
	})
}

// TestMeetCountedAtOnce: sessions that insert the same at the same time make one row.
func TestMeetCountedAtOnce(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{})
		db := p.open(p.schema)
		mustExec(t, db, "CREATE TABLE options (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20) NOT NULL, v INT DEFAULT 1, UNIQUE KEY (name))")
		const sessions, each = 8, 12
		var wg sync.WaitGroup
		for n := range sessions {
			wg.Go(func() {
				for k := range each {
					err := inOne(t, db, n%2 == 0, fmt.Sprintf("INSERT INTO options (name) VALUES ('n%d') ON DUPLICATE KEY UPDATE v = v + 1", k))
					if err != nil {
						t.Errorf("%v", err)
					}
				}
			})
		}
		wg.Wait()
		want(t, db, "SELECT COUNT(*) AS n, COUNT(DISTINCT name) AS d, SUM(v) AS s FROM options", "n d s", fmt.Sprintf("%d %d %d", each, each, sessions*each))

		_, err := db.ExecContext(t.Context(), "INSERT INTO options (name) VALUES ('n1') ON DUPLICATE KEY UPDATE id = VALUES(id)")
		wantError(t, err, 1235, "shard key")
		mustExec(t, db, "CREATE TRIGGER looks BEFORE INSERT ON options FOR EACH ROW SET NEW.v = NEW.v + 1")
		_, err = db.ExecContext(t.Context(), "INSERT IGNORE INTO options (name) VALUES ('n1')")
		wantError(t, err, 1235, "without a value")
	})
}

// TestMembersMeetCounted: so do sessions of several members, of which some may have to begin anew, as behind a deadlock.
func TestMembersMeetCounted(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{servers: f.own(t, 3), tables: []string{"free: {placement: anywhere}"}, extra: "store: {shards: true}"})
		q := p.beside()
		q.run()
		for _, table := range []string{"options", "free"} {
			mustExec(t, p.db(), "CREATE TABLE "+table+" (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20) NOT NULL, v INT DEFAULT 1, UNIQUE KEY (name))")
		}
		dbs := []*sql.DB{p.db(), q.db()}
		for _, table := range []string{"options", "free"} {
			const sessions, each = 4, 6
			var wg sync.WaitGroup
			for n := range sessions {
				wg.Go(func() {
					for k := range each {
						for {
							err := inOne(t, dbs[n%2], n%4 < 2, fmt.Sprintf("INSERT INTO %s (name) VALUES ('n%d') ON DUPLICATE KEY UPDATE v = v + 1", table, k))
							if e, ok := errors.AsType[*mysqldriver.MySQLError](err); ok && (e.Number == 1213 || e.Number == 1205) {
								continue
							}
							if err != nil {
								t.Errorf("%v", err)
							}
							break
						}
					}
				})
			}
			wg.Wait()
			want(t, dbs[1], "SELECT COUNT(*) AS n, COUNT(DISTINCT name) AS d, SUM(v) AS s FROM "+table, "n d s", fmt.Sprintf("%d %d %d", each, each, sessions*each))
		}
		mustExec(t, dbs[0], "REPLACE INTO options (name, v) VALUES ('n1', 5), ('n2', 6), ('new', 7)")
		mustExec(t, dbs[1], "INSERT IGNORE INTO options (name, v) VALUES ('n1', 8), ('newer', 9)")
		want(t, dbs[1], "SELECT name, v FROM options WHERE name IN ('n1', 'n2', 'new', 'newer') ORDER BY name", "name v", "n1 5", "n2 6", "new 7", "newer 9")
	})
}

// answeredID is the last insert id in an answer. A REPLACE leaves gaps where the next value
// doesn't belong to the shard of the row that it meets.
var answeredID = regexp.MustCompile(`(OK 00 [0-9]+) [0-9]+`)

// TestReplaceCounted: the row that a REPLACE makes of one that it meets is found by its new
// shard key and by every index, and the old one is gone.
func TestReplaceCounted(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		dial := packetSides(t, f)
		p := dial(t, mysql.CLIENT_DEPRECATE_EOF)
		query := func(statements ...string) {
			t.Helper()
			for _, sql := range statements {
				p.both(sql, func(c *packetClient) string { return answeredID.ReplaceAllString(c.query(sql), "$1 id") })
			}
		}
		query("CREATE TABLE options (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20) NOT NULL, code INT, v INT DEFAULT 0, UNIQUE KEY (name), UNIQUE KEY (code))")
		query("REPLACE INTO options (name, code, v) VALUES ('a', 1, 1), ('b', 2, 1), ('c', 3, 1), ('A', 4, 2)", "SELECT ROW_COUNT()")
		for k := range 8 {
			for _, sql := range []string{
				"REPLACE INTO options (name, v) VALUES ('a', %d)", "REPLACE INTO options SET name = 'n%d', code = 2", "REPLACE INTO options (id, name, code) VALUES (NULL, 'm%d', %d00), (DEFAULT, 'M%d', %d01)",
				"SELECT name, code, v FROM options ORDER BY name", "SELECT o.name, o.v FROM options o JOIN options p ON o.id = p.id AND o.name = p.name ORDER BY 1",
				"BEGIN", "REPLACE INTO options (name) VALUES ('a'), ('gone')", "SELECT name, code, v FROM options ORDER BY name", "ROLLBACK", "SELECT name, code, v FROM options ORDER BY name",
			} {
				query(strings.ReplaceAll(sql, "%d", fmt.Sprint(k)))
			}
		}
		query("REPLACE INTO options (name, code) SELECT name, code + 1000 FROM options WHERE code < 300", "SELECT name, code, v FROM options ORDER BY name")

		shunt := start(t, f, setup{})
		db := shunt.open(shunt.schema)
		mustExec(t, db, "CREATE TABLE options (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20) NOT NULL, v INT, UNIQUE KEY (name))")
		shunt.createIndex(db, "by_name", "options (name)")
		for k := range 40 {
			mustExec(t, db, fmt.Sprintf("REPLACE INTO options (name, v) VALUES ('n%d', %d)", k%5, k))
			var id int
			if err := db.QueryRowContext(t.Context(), fmt.Sprintf("SELECT id FROM options WHERE name = 'n%d'", k%5)).Scan(&id); err != nil {
				t.Fatal(err)
			}
			want(t, db, fmt.Sprintf("SELECT v FROM options WHERE id = %d", id), "v", fmt.Sprint(k))
		}
		want(t, db, "SELECT COUNT(*) AS n FROM options", "n", "5")
	})
}

// inOne executes a statement, in a transaction of its own.
func inOne(t *testing.T, db *sql.DB, transaction bool, statement string) error {
	if !transaction {
		_, err := db.ExecContext(t.Context(), statement)
		return err
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(t.Context(), statement); err != nil {
		_ = tx.Rollback()
		return err
	}
	return tx.Commit()
}
