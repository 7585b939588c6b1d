package e2e

import (
	"database/sql"
	"fmt"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// TestLoadVariables: LOAD DATA with user variables among its fields, and SET, as one server does it.
func TestLoadVariables(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"people: {shard_key: id}"}})
		shunt := p.conn(func(c *mysql.Config) { c.AllowAllFiles = true })
		plain := plainServer(t, p.servers[0], p.schema+"_plain")
		full := localFile(t, "1\tAnn\t2024-01-02\n2\tb'ob\t\\N\n3\tDée\t\n")
		short := localFile(t, "4\tEve\n5\n")
		both := []*sql.Conn{shunt, plain}
		for _, c := range both {
			mustExec(t, c, "CREATE TABLE people (id INT NOT NULL PRIMARY KEY, name VARCHAR(40), size INT DEFAULT 7, born DATE, note VARCHAR(40) DEFAULT 'none')")
			if c == plain {
				mustExec(t, c, "SET GLOBAL local_infile = ON")
			}
		}
		for _, statement := range []string{
			"LOAD DATA LOCAL INFILE " + full + " INTO TABLE people CHARACTER SET utf8mb4 (id, @n, @born) SET name = UPPER(@n), size = id * 2, born = NULLIF(@born, '')",
			"LOAD DATA LOCAL INFILE " + full + " REPLACE INTO TABLE people CHARACTER SET utf8mb4 (@id, name, @`b c`) SET id = @id + 10, note = CONCAT(name, ',', IFNULL(@`b c`, 'NULL'), '@n')",
			"LOAD DATA LOCAL INFILE " + short + " INTO TABLE people CHARACTER SET utf8mb4 (id, @N, @born) SET note = @n, size = DEFAULT, born = @born",
			"LOAD DATA LOCAL INFILE " + full + " IGNORE INTO TABLE people CHARACTER SET utf8mb4 (@skipped, @name, @also) SET id = 100 + LENGTH(@name), name = @name",
		} {
			var results [2]string
			for k, c := range both {
				results[k] = answer(t.Context(), c, statement)
				results[k] += fmt.Sprint(mustRows(t, c, "SELECT * FROM people ORDER BY id"), mustRows(t, c, "SELECT @n, @born, @id, @`b c`, @skipped"))
			}
			if results[0] != results[1] {
				t.Errorf("%s:\n got %s\nwant %s", statement, results[0], results[1])
			}
		}
		_, err := shunt.ExecContext(t.Context(), "LOAD DATA LOCAL INFILE "+full+" INTO TABLE people (id, name) SET name = 'x'")
		wantError(t, err, 1235, "list of columns too")
		_, err = shunt.ExecContext(t.Context(), "LOAD DATA LOCAL INFILE "+full+" INTO TABLE people (@n, name) SET id = LENGTH(name)")
		wantError(t, err, 1235, "must be a literal")
		p.check()
	})
}
