package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// TestInsertSelectLarge: rows that go to other shards are kept on disk meanwhile, up to
// cursor_max_bytes, beyond which nothing is inserted and all that they took is given back.
func TestInsertSelectLarge(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{extra: "cursor_max_bytes: 8MiB", tables: []string{"src: {shard_key: id}", "dst: {shard_key: k}"}})
		c := p.conn()
		mustExec(t, c, "CREATE TABLE src (id BIGINT PRIMARY KEY, pad TEXT, at TIMESTAMP NULL)")
		mustExec(t, c, "CREATE TABLE dst (k BIGINT PRIMARY KEY, pad TEXT, at TIMESTAMP NULL)")
		mustExec(t, c, "INSERT INTO src VALUES (0, REPEAT('é', 10000), '2024-01-02 03:04:05')")
		for n := 1; n < 256; n *= 2 {
			for id := range n {
				mustExec(t, c, "INSERT INTO src SELECT ?, REPEAT(CHAR(65 + ? % 26), 20000), at + INTERVAL ? DAY FROM src WHERE id = 0", n+id, n+id, n+id)
			}
		}
		mustExec(t, c, "INSERT INTO dst SELECT id * 3 + 1, pad, at FROM src")
		mustExec(t, c, "CREATE TABLE backup (id BIGINT PRIMARY KEY) SELECT id + 1 AS id, pad, at FROM src")
		for _, alike := range []string{"dst x ON x.k = src.id * 3 + 1", "backup x ON x.id = src.id + 1"} {
			var n int
			if err := c.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM src JOIN "+alike+" AND x.pad = src.pad AND x.at = src.at").Scan(&n); err != nil || n != 256 {
				t.Errorf("%s: %d rows are as they were, want 256 (%v)", alike, n, err)
			}
		}
		mustExec(t, c, "BEGIN")
		mustExec(t, c, "INSERT INTO dst VALUES (-1, 'before', NULL)")
		_, err := c.ExecContext(t.Context(), "INSERT INTO dst SELECT -10 - a.id * 1000 - b.id, a.pad, a.at FROM src a JOIN src b ON b.id < 3")
		if e, ok := errors.AsType[*mysql.MySQLError](err); !ok || e.Number != 1114 {
			t.Errorf("more than cursor_max_bytes: %v", err)
		}
		mustExec(t, c, "COMMIT")
		var less int
		if err := c.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM dst WHERE k < 0").Scan(&less); err != nil || less != 1 {
			t.Errorf("%d rows before the others, want 1 (%v)", less, err)
		}
		mustExec(t, c, "INSERT INTO dst SELECT id * 3 + 2, pad, at FROM src") // all that was kept is given back
		if files, err := os.ReadDir(filepath.Join(filepath.Dir(p.config), "data", "cursors")); err != nil || len(files) > 0 {
			t.Errorf("files of rows: %v, %v", files, err)
		}
	})
}
