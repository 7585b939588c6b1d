package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/shunt-sql/shunt/e2e/generate"
)

// TestCreateAsKilled: a table that a killed CREATE TABLE ... SELECT has made, and not
// filled, is dropped again.
func TestCreateAsKilled(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{})
		c, admin := p.conn(), p.conn()
		id := mustRows(t, c, "SELECT CONNECTION_ID() AS id")[0]["id"]
		failed := make(chan error, 1)
		go func() {
			_, err := c.ExecContext(context.WithoutCancel(t.Context()), "CREATE TABLE filled (id INT PRIMARY KEY) WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999)"+
				" SELECT a.i * 1000 + b.i AS id, REPEAT('x', 50) AS filler FROM n AS a, n AS b WHERE a.i < 400")
			failed <- err
		}()
		for _, srv := range p.servers { // before, KILL ends its CREATE TABLE on some of them
			db := onShard(t, srv, p.schema)
			eventually(t, "the table is made", func() bool { return len(mustRows(t, db, "SHOW TABLES LIKE 'filled'")) > 0 })
		}
		mustExec(t, admin, fmt.Sprintf("KILL QUERY %v", id))
		wantError(t, <-failed, 1317, "interrupted")
		want(t, admin, "SHOW TABLES LIKE 'filled'", "")
		want(t, c, "SELECT 1 AS one", "one", "1")
		// With the name free, and not its rows.
		mustExec(t, c, "CREATE TABLE filled (id INT PRIMARY KEY) SELECT 7 AS id")
		want(t, c, "SELECT id FROM filled", "id", "7")
	})
}

// TestCreateAsUnlikeTypes: a column that CREATE TABLE ... SELECT declares, of another type than
// the query's, has what one server stores there, or the table is refused and isn't there.
func TestCreateAsUnlikeTypes(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		w := newTwins(t, f, setup{tables: []string{"src: {shard_key: id}"}})
		shunt, plain := &wireConn{w.shunt}, &wireConn{w.plain}
		w.exec("SET sql_mode = ''", "CREATE TABLE src (id INT PRIMARY KEY, e ENUM('10','20'), f FLOAT, d DOUBLE(10,3), z INT(6) ZEROFILL, b BIT(16), l VARCHAR(20) CHARACTER SET latin1,"+
			" u VARCHAR(20), at TIMESTAMP NULL, j JSON) CHARACTER SET utf8mb4",
			`INSERT INTO src VALUES (1, '20', 0.1, 1.5, 42, 24930, 'é', 'é', '2024-02-29 10:11:12', '{"a": 1.5}'), (2, '10', 1.1, 2.5, 43, 24930, 'é', 'é', '2024-02-29 10:11:12', '{"a": 1.5}')`)
		made, refused := 0, 0
		for _, create := range []string{"CREATE TABLE", "CREATE TEMPORARY TABLE"} {
			for _, from := range []string{"e", "f", "d", "z", "b", "l", "u", "at", "j"} {
				for _, into := range []string{"BIGINT", "VARBINARY(40)", "TEXT"} {
					sql := fmt.Sprintf("%s made (id BIGINT PRIMARY KEY, v %s) SELECT id, %s AS v FROM src", create, into, from)
					query := "SELECT id, v, HEX(v) FROM made ORDER BY id"
					got := shunt.do(sql, nil, false)
					if got.refused() {
						if stored := shunt.do(query, nil, false); stored.code != 1146 {
							t.Errorf("behind the refused %s: %s", sql, stored)
						}
						refused++
						continue
					}
					made++
					want := plain.do(sql, nil, false)
					stored, wanted := shunt.do(query, nil, false), plain.do(query, nil, false)
					if d := compareReplies(stored, wanted, generate.Check{}, false); got.code != want.code || d.class == "rows" {
						t.Errorf("%s: %s\n shunt: %s %s\n plain: %s %s", sql, d.detail, got, stored, want, wanted)
					}
					w.exec("DROP TABLE IF EXISTS made")
				}
			}
		}
		if refused > made/4 {
			t.Errorf("%d are refused, %d are not", refused, made)
		}
	})
}
