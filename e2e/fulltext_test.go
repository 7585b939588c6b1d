package e2e

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestFullText: a search by relevance over shards answers every row that matches, in the order of the
// scores that their own shards give.
func TestFullText(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"pages: {shard_key: id}", "searchindex: {shard_key: page}"}})
		c := p.conn()
		mustExec(t, c, "CREATE TABLE pages (id INT NOT NULL PRIMARY KEY, title VARCHAR(40), space INT NOT NULL)")
		mustExec(t, c, "CREATE TABLE searchindex (page INT NOT NULL PRIMARY KEY, body TEXT, FULLTEXT KEY (body)) ENGINE=InnoDB")
		wanted := 0
		for i := range 60 {
			body := "nothing of note here"
			if i%3 == 0 {
				body = strings.Repeat("shard ", i%4+1) + "of a table"
				wanted++
			}
			mustExec(t, c, fmt.Sprintf("INSERT INTO pages VALUES (%d, 'page %d', %d)", i, i, i%2))
			mustExec(t, c, fmt.Sprintf("INSERT INTO searchindex VALUES (%d, '%s')", i, body))
		}
		for _, statement := range []string{
			"SELECT page, MATCH (body) AGAINST ('shard') AS score FROM searchindex WHERE MATCH (body) AGAINST ('shard') ORDER BY score DESC LIMIT 100",
			"SELECT page, MATCH (body) AGAINST ('shard' IN BOOLEAN MODE) AS score FROM searchindex WHERE MATCH (body) AGAINST ('+shard -nothing' IN BOOLEAN MODE) ORDER BY MATCH (body) AGAINST ('shard' IN BOOLEAN MODE) DESC, page",
			"SELECT page, MATCH (body) AGAINST ('shard') AS score FROM searchindex WHERE MATCH (body) AGAINST ('shard') > 0 ORDER BY score DESC",
			"SELECT page, MATCH (body) AGAINST ('shard') AS score FROM searchindex WHERE 0 < MATCH (body) AGAINST ('shard') ORDER BY score DESC, page LIMIT 50",
			"SELECT p.id, MATCH (s.body) AGAINST ('shard') AS score FROM pages p JOIN searchindex s ON s.page = p.id WHERE MATCH (s.body) AGAINST ('shard') > 0 ORDER BY score DESC",
			"SELECT p.id, MATCH (s.body) AGAINST ('shard') AS score FROM pages p JOIN searchindex s ON s.page = p.id WHERE MATCH (s.body) AGAINST ('shard') AND p.space IN (0, 1) ORDER BY score DESC",
		} {
			for i, prepared := range []bool{false, true, false} {
				mustExec(t, c, "SET NAMES "+[]string{"utf8mb4", "utf8mb4", "binary"}[i])
				scores := scoresOf(t, c, statement, prepared)
				if len(scores) != wanted || !slices.IsSortedFunc(scores, func(a, b float64) int {
					switch {
					case a > b:
						return -1
					case a < b:
						return 1
					}
					return 0
				}) {
					t.Errorf("%s (prepared: %v): %d rows, want %d, by %v", statement, prepared, len(scores), wanted, scores)
				}
			}
		}
		for _, matches := range []string{"MATCH (s.body) AGAINST ('shard')", "MATCH (s.body) AGAINST ('shard') > 0"} {
			want(t, c, "SELECT COUNT(*) AS n FROM pages p JOIN searchindex s ON s.page = p.id WHERE "+matches+" AND p.space = 0", "n", "10")
		}
		p.check()
	})
}

func scoresOf(t *testing.T, c *sql.Conn, statement string, prepared bool) (scores []float64) {
	t.Helper()
	query := func() (*sql.Rows, error) { return c.QueryContext(t.Context(), statement) }
	if prepared {
		st, err := c.PrepareContext(t.Context(), statement)
		if err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
		defer st.Close()
		query = func() (*sql.Rows, error) { return st.QueryContext(t.Context()) }
	}
	rows, err := query()
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	defer rows.Close()
	for rows.Next() {
		var id int
		var score float64
		if err := rows.Scan(&id, &score); err != nil {
			t.Fatal(err)
		}
		scores = append(scores, score)
	}
	if err := rows.Err(); err != nil {
		t.Errorf("%s: %v", statement, err)
	}
	return scores
}
