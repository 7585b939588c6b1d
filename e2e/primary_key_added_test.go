package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestKeyAddedLater: a table made without a primary key, as dumps of phpMyAdmin and older
// migrations make theirs, is on one shard. It stays there when it is given one: through
// Shunt or behind its back, after a restart, and without Shunt's store. A table of a
// server that was there before Shunt does so too.
func TestKeyAddedLater(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{})
		const rows = 20
		insert := func(table string, from int) {
			t.Helper()
			for i := from; i < from+rows; i++ {
				mustExec(t, p.db(), fmt.Sprintf("INSERT INTO %s (id, name) VALUES (%d, 'n%d')", table, i, i))
			}
		}
		wantRows := func(table string, n int) {
			t.Helper()
			wantRoute(t, p.db(), "SELECT name FROM "+table+" WHERE id = 3", 1, "single")
			want(t, p.db(), "SELECT COUNT(*) FROM "+table, "COUNT(*)", fmt.Sprint(n))
			for i := 1; i <= n; i++ {
				want(t, p.db(), fmt.Sprintf("SELECT name FROM %s WHERE id = %d", table, i), "name", fmt.Sprintf("n%d", i))
			}
		}
		mustExec(t, p.db(), "CREATE TABLE dumped (id INT NOT NULL, name VARCHAR(20))")
		insert("dumped", 1)
		mustExec(t, p.db(), "ALTER TABLE dumped ADD PRIMARY KEY (id), ADD KEY by_name (name)")
		mustExec(t, p.db(), fmt.Sprintf("ALTER TABLE dumped MODIFY id INT NOT NULL AUTO_INCREMENT, AUTO_INCREMENT=%d", rows+1))
		wantRows("dumped", rows)
		insert("dumped", rows+1)
		mustExec(t, p.db(), "INSERT INTO dumped (name) VALUES ('n41')")
		wantRows("dumped", 2*rows+1)

		mustExec(t, p.db(), "CREATE TABLE migrated (id INT NOT NULL, name VARCHAR(20))")
		mustExec(t, p.db(), "ALTER TABLE migrated ADD COLUMN n INT AUTO_INCREMENT PRIMARY KEY")
		insert("migrated", 1)
		mustExec(t, p.db(), "CREATE TABLE behind (id INT NOT NULL, name VARCHAR(20))")
		insert("behind", 1)
		mustExec(t, p.shard(0), "ALTER TABLE behind ADD PRIMARY KEY (id)")
		mustExec(t, p.db(), "CREATE TABLE elsewhere (id INT)") // the catalog is read
		wantRows("behind", rows)

		if f.name == "mariadb" { // a statement that Shunt's parser doesn't know
			mustExec(t, p.db(), "CREATE TABLE unparsed (id INT NOT NULL, name VARCHAR(20), KEY by_name (name))")
			insert("unparsed", 1)
			mustExec(t, p.db(), "ALTER TABLE unparsed ADD PRIMARY KEY (id), ALTER INDEX by_name IGNORED")
			wantRows("unparsed", rows)
		}

		// The note says what to do.
		mustExec(t, p.db(), "CREATE TABLE noted (id INT NOT NULL)")
		conn := p.conn()
		mustExec(t, conn, "ALTER TABLE noted ADD PRIMARY KEY (id)")
		var level, code, message string
		if err := conn.QueryRowContext(t.Context(), "SHOW WARNINGS").Scan(&level, &code, &message); err != nil || level != "Note" {
			t.Errorf("%s %s %v", level, message, err)
		}
		_, err := p.db().ExecContext(t.Context(), "ALTER TABLE noted RENAME TO other")
		wantError(t, err, 1235, "add "+p.schema+".other to the configuration")
		_, err = p.db().ExecContext(t.Context(), "ALTER TABLE elsewhere ADD PRIMARY KEY (id), RENAME TO other")
		wantError(t, err, 1235, "rename it first")

		// One made with its key is spread, under a name that was single before, too.
		mustExec(t, p.db(), "DROP TABLE noted")
		mustExec(t, p.db(), "CREATE TABLE noted (id INT PRIMARY KEY, name VARCHAR(20))")
		insert("noted", 1)
		wantRoute(t, p.db(), "SELECT name FROM noted WHERE id = 3", 1, "shard_key")

		again := func(t *testing.T) {
			t.Helper()
			wantRows("dumped", 2*rows+1)
			wantRows("migrated", rows)
			wantRows("behind", rows)
			wantRoute(t, p.db(), "SELECT name FROM noted WHERE id = 3", 1, "shard_key")
			want(t, p.db(), "SELECT COUNT(*) FROM noted", "COUNT(*)", fmt.Sprint(rows))
		}
		p.stop()
		p.run()
		again(t)
		p.stop()
		// So do tables of a server that was there before Shunt.
		for _, table := range []string{"adopted (id INT PRIMARY KEY, ", "keyless (id INT, "} {
			mustExec(t, p.shard(2), "CREATE TABLE "+table+"name VARCHAR(20))")
			name, _, _ := strings.Cut(table, " ")
			for i := range rows {
				mustExec(t, p.shard(2), fmt.Sprintf("INSERT INTO %s VALUES (%d, 'n%d')", name, i+1, i+1))
			}
		}
		if err := os.RemoveAll(filepath.Join(filepath.Dir(p.config), "data")); err != nil {
			t.Fatal(err)
		}
		p.run()
		again(t)
		wantRows("adopted", rows)
		wantRows("keyless", rows)
		mustExec(t, p.db(), "ALTER TABLE keyless ADD PRIMARY KEY (id)")
		insert("keyless", rows+1)
		wantRows("keyless", 2*rows)
	})
}
