package e2e

import (
	"fmt"
	"testing"
)

// TestDefaultBeyondUTF8MB3: information_schema has a ? for characters that utf8mb3 lacks.
func TestDefaultBeyondUTF8MB3(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"moods: {shard_key: id}", "keyed: {shard_key: k}"}})
		c := p.conn()
		mustExec(t, c, "CREATE TABLE moods (id INT PRIMARY KEY, mood VARCHAR(10) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT '😀')")
		mustExec(t, c, "CREATE TABLE keyed (k VARCHAR(10) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '😀', id INT)")
		p.createIndex(c, "by_mood", "moods (mood)")
		var ids []string
		for i := range 8 {
			mustExec(t, c, fmt.Sprintf("INSERT INTO moods (id) VALUES (%d)", i))
			ids = append(ids, fmt.Sprint(i))
		}
		want(t, c, "SELECT id FROM moods WHERE mood = '😀'", "id", ids...)
		_, err := c.ExecContext(t.Context(), "INSERT INTO keyed (id) VALUES (1)")
		wantError(t, err, 1235, "without a value for its shard key")
		mustExec(t, c, "INSERT INTO keyed VALUES ('😀', 1)")
		want(t, c, "SELECT id FROM keyed WHERE k = '😀'", "id", "1")
	})
}
