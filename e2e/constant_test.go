package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestInsertComputedKeys: a row whose shard key is an expression is where its key
// is looked for, be the expression another one each time.
func TestInsertComputedKeys(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"docs: {shard_key: k}", "users: {shard_key: id}", "posts: {shard_key: user_id}"}})
		c := p.conn()
		mustExec(t, c, "CREATE TABLE docs (k VARCHAR(40) NOT NULL PRIMARY KEY, n INT, other VARCHAR(40))")
		mustExec(t, c, "CREATE TABLE users (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20))")
		mustExec(t, c, "CREATE TABLE posts (user_id BIGINT NOT NULL, n INT NOT NULL, at DATETIME, PRIMARY KEY (user_id, n))")
		mustExec(t, c, "SET @offset = 7")
		for i := range 20 {
			mustExec(t, c, fmt.Sprintf("INSERT INTO docs VALUES (UUID(), %d, UUID()), (CONCAT('k', @offset, %d), %d, NULL)", i, i, 100+i))
			mustExec(t, c, "INSERT INTO docs VALUES (CONCAT(?, '-', ?), ?, NULL)", "p", i, 200+i)
			mustExec(t, c, "INSERT INTO users (name) VALUES ('u')")
			mustExec(t, c, "INSERT INTO posts VALUES (LAST_INSERT_ID(), 1, NOW()), (LAST_INSERT_ID(), 2, NOW())")
		}
		on := 0
		for _, n := range p.onShards("SELECT COUNT(*) FROM docs") {
			if n > 0 {
				on++
			}
		}
		if on < 2 {
			t.Errorf("documents are on %d shards", on)
		}
		keys := flat(mustRows(t, c, "SELECT k FROM docs ORDER BY n"), "k")
		if len(keys) != 60 {
			t.Fatalf("%d documents", len(keys))
		}
		for i, k := range keys {
			wantRoute(t, c, "SELECT n FROM docs WHERE k = '"+k+"'", 1, "shard_key")
			want(t, c, "SELECT COUNT(*) AS n FROM docs WHERE k = '"+k+"'", "n", "1")
			if i == 20 && k != "k70" {
				t.Errorf("key %q, want k70", k)
			}
		}
		for i := range 20 {
			want(t, c, fmt.Sprintf("SELECT n FROM posts WHERE user_id = %d ORDER BY n", i+1), "n", "1", "2")
		}
		_, err := c.ExecContext(t.Context(), "INSERT INTO posts VALUES (UNIX_TIMESTAMP(), 1, NOW())")
		wantError(t, err, 1235, "shard key")
		_, err = c.ExecContext(t.Context(), "INSERT INTO posts VALUES (1 / 0, 1, NOW())")
		wantError(t, err, 1235, "shard key")
		_, err = c.ExecContext(t.Context(), "INSERT INTO posts VALUES (n + 1, 1, NOW())")
		wantError(t, err, 1235, "shard key")
		want(t, c, "SELECT COUNT(*) AS n FROM posts", "n", "40")
	})
}

// TestInsertDefaultKeys: a row that leaves its shard key to an expression is where its key
// is looked for.
func TestInsertDefaultKeys(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"kept: {placement: anywhere}"}})
		c := p.conn()
		byDefault := []string{"CHAR(36) NOT NULL DEFAULT (UUID())", "BINARY(16) NOT NULL DEFAULT (UNHEX(REPLACE(UUID(), '-', '')))", "VARCHAR(60) DEFAULT (CONCAT('d-', UUID()))", "BIGINT UNSIGNED DEFAULT (UUID_SHORT())"}
		if f.name == "mysql" {
			byDefault = append(byDefault, "BINARY(16) DEFAULT (UUID_TO_BIN(UUID(), 1))")
		}
		for i, d := range append(byDefault, byDefault[0]) {
			table := fmt.Sprintf("docs%d", i)
			if i == len(byDefault) {
				table = "kept"
			}
			mustExec(t, c, "CREATE TABLE "+table+" (k "+d+", n INT, PRIMARY KEY (k))")
			mustExec(t, c, "INSERT INTO "+table+" (n) VALUES (1), (2), (3), (4), (5), (6), (7), (8)")
			mustExec(t, c, "INSERT INTO "+table+" (n, k) VALUES (?, DEFAULT), (ABS(?), DEFAULT)", 9, 10)
			mustExec(t, c, "INSERT INTO "+table+" VALUES (DEFAULT, ?)", 11)
			mustExec(t, c, "INSERT INTO "+table+" SET n = 12")
			mustExec(t, c, "INSERT INTO "+table+" VALUES ()")
			mustExec(t, c, "INSERT INTO "+table+" (n) VALUES (13) ON DUPLICATE KEY UPDATE n = VALUES(n) + 1")
			mustExec(t, c, "UPDATE "+table+" SET n = 14 WHERE n IS NULL")
			mustExec(t, c, "INSERT INTO "+table+" (n) SELECT n + 14 FROM "+table+" WHERE n < 5")
			mustExec(t, c, "LOAD DATA LOCAL INFILE "+localFile(t, "19\n20\n21\n")+" INTO TABLE "+table+" (n)")
			on := 0
			for _, n := range p.onShards("SELECT COUNT(*) FROM " + table) {
				if n > 0 {
					on++
				}
			}
			if on < 2 {
				t.Errorf("%s: rows are on %d shards", d, on)
			}
			rows := mustRows(t, c, "SELECT n, HEX(k) AS k FROM "+table+" ORDER BY n")
			if len(rows) != 21 {
				t.Fatalf("%s: %d rows", d, len(rows))
			}
			for i, r := range rows {
				key := "X'" + r["k"] + "'"
				if strings.HasPrefix(d, "BIGINT") {
					key = "0x" + r["k"]
				} else if !strings.HasPrefix(d, "BINARY") {
					key = "_utf8mb4 " + key
				}
				if r["n"] != fmt.Sprint(i+1) {
					t.Errorf("%s: row %d has %s", d, i+1, r["n"])
				}
				want(t, c, "SELECT n FROM "+table+" WHERE k = "+key, "n", r["n"])
			}
		}
		mustExec(t, c, "CREATE TABLE stamped (at DATETIME DEFAULT CURRENT_TIMESTAMP PRIMARY KEY, n INT)")
		failsWith(t, c, "INSERT INTO stamped (n) VALUES (1)", 1235, "without a value for its shard key")
	})
}
