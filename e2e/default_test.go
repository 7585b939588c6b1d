package e2e

import (
	"fmt"
	"testing"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestDefaultBeyondUTF8MB3: information_schema has a ? for characters that utf8mb3 lacks.
func TestDefaultBeyondUTF8MB3(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
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

// TestDefaultsOfCopies: a column that is added to a reference table has the same values in each copy.
func TestDefaultsOfCopies(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"countries: {placement: reference}"}})
		c := p.conn()
		mustExec(t, c, "CREATE TABLE countries (id INT PRIMARY KEY, v VARCHAR(40), u VARCHAR(40) DEFAULT (UUID()))")
		mustExec(t, c, "INSERT INTO countries (id, u) VALUES (1, 'a'), (2, 'b')")
		mustExec(t, c, "ALTER TABLE countries ADD COLUMN made DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)")
		failsWith(t, c, "ALTER TABLE countries ADD COLUMN token CHAR(36) DEFAULT (UUID())", 1235, "UUID()")
		mustExec(t, c, "ALTER TABLE countries ADD COLUMN token CHAR(36), ALTER COLUMN v SET DEFAULT 'x'")
		if f.name == throwaway.MariaDB {
			failsWith(t, c, "UPDATE countries SET v = DEFAULT(u)", 1235, "DEFAULT(u)")
		}
		mustExec(t, c, "UPDATE countries SET v = DEFAULT(v)")
		const query = "SELECT id, v, u, made, token FROM countries"
		for i := range p.servers {
			want(t, p.shard(i), query, "id v u made token", flat(mustRows(t, c, query), "id", "v", "u", "made", "token")...)
		}
		want(t, c, "SELECT COUNT(*) AS n FROM countries WHERE made BETWEEN NOW() - INTERVAL 1 HOUR AND NOW() + INTERVAL 1 HOUR AND @@timestamp > 0", "n", "2")
	})
}
