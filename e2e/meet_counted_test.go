package e2e

import (
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// TestMeetCounted: INSERT IGNORE and ON DUPLICATE KEY UPDATE without a value for the
// shard key, which is counted, meet the row of another unique key wherever it is.
func TestMeetCounted(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		dial := packetSides(t, f)
		p := dial(t, mysql.CLIENT_DEPRECATE_EOF)
		p.query("CREATE TABLE options (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20) NOT NULL, v INT DEFAULT 0, UNIQUE KEY (name))")
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
		_, err = db.ExecContext(t.Context(), "REPLACE INTO options (name) VALUES ('n1')")
		wantError(t, err, 1235, "without a value")
		mustExec(t, db, "CREATE TRIGGER looks BEFORE INSERT ON options FOR EACH ROW SET NEW.v = NEW.v + 1")
		_, err = db.ExecContext(t.Context(), "INSERT IGNORE INTO options (name) VALUES ('n1')")
		wantError(t, err, 1235, "without a value")
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
