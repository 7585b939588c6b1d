package e2e

import (
	"fmt"
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
