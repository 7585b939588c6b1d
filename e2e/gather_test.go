package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// gathering is Shunt over four shards beside one plain server that holds the
// same rows.
type gathering struct {
	t            *testing.T
	p            *process
	shunt, plain *sql.Conn
	mariaDB      bool
}

var gatherTables = []string{
	"users: {shard_key: id}", "orders: {shard_key: id}", "countries: {placement: reference}",
	"settings: {placement: single, shard: s1}", "notes: {placement: anywhere}",
}

// startGathering makes the same tables and rows on both sides. The plain
// schema has the same name, on a server that is no shard.
func startGathering(t *testing.T, f *flavour, s setup) *gathering {
	t.Helper()
	servers := f.servers(t)
	s.tables, s.servers = append(gatherTables, s.tables...), servers[:3]
	g := &gathering{t: t, p: start(t, f, s), mariaDB: f.name == "mariadb"}
	direct := onShard(t, servers[3], "")
	mustExec(t, direct, "CREATE DATABASE "+g.p.schema)
	t.Cleanup(func() {
		db := open(t, servers[3].Addr(), servers[3].User, servers[3].Password, "")
		_, _ = db.ExecContext(context.Background(), "DROP DATABASE "+g.p.schema) // the servers go anyway
	})
	g.shunt = g.p.conn()
	var err error
	if g.plain, err = onShard(t, servers[3], g.p.schema).Conn(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.plain.Close() })
	for _, sql := range []string{
		"CREATE TABLE users (id BIGINT NOT NULL PRIMARY KEY, email VARCHAR(40) COLLATE utf8mb4_general_ci, country CHAR(2), age INT, boss BIGINT, KEY (email))",
		"CREATE TABLE orders (id BIGINT NOT NULL PRIMARY KEY, user_id BIGINT, total DECIMAL(10,2) NOT NULL, made DATETIME(3), tag VARCHAR(20), KEY by_user (user_id))",
		"CREATE TABLE countries (code CHAR(2) NOT NULL PRIMARY KEY, name VARCHAR(30))",
		"CREATE TABLE settings (k VARCHAR(20) NOT NULL PRIMARY KEY, v INT)",
		"CREATE TABLE notes (id INT NOT NULL PRIMARY KEY, user_id BIGINT, txt VARCHAR(50))",
		"INSERT INTO countries VALUES ('DE', 'Germany'), ('FR', 'France'), ('US', 'States'), ('XX', NULL)",
		"INSERT INTO settings VALUES ('min_age', 25), ('max_total', 50)",
		"INSERT INTO users VALUES " + rowsFor(40, func(i int) string {
			return fmt.Sprintf("(%d, %s, %s, %s, %s)", i, nullEvery(i, 7, fmt.Sprintf("'U%d@x'", i%25)), nullEvery(i, 9, []string{"'DE'", "'FR'", "'US'", "'YY'"}[i%4]),
				nullEvery(i, 11, fmt.Sprint(18+i%30)), nullEvery(i, 5, fmt.Sprint(i/2)))
		}),
		"INSERT INTO orders VALUES " + rowsFor(90, func(i int) string {
			return fmt.Sprintf("(%d, %s, %d.%02d, '2024-01-%02d 10:00:00.%03d', %s)", 1000+i, nullEvery(i, 13, fmt.Sprint(i*7%50)), i*3%97, i%100, 1+i%28, i, nullEvery(i, 4, fmt.Sprintf("'t%d'", i%6)))
		}),
		"INSERT INTO notes VALUES " + rowsFor(20, func(i int) string {
			return fmt.Sprintf("(%d, %d, 'it''s \\\\ note %d é')", i, i*3, i)
		}),
	} {
		mustExec(t, g.shunt, sql)
		mustExec(t, g.plain, sql)
	}
	return g
}

func nullEvery(i, n int, v string) string {
	if i%n == 0 {
		return "NULL"
	}
	return v
}

// same compares the answers of both sides, in order where the query has one.
func (g *gathering) same(query string, args ...any) {
	g.t.Helper()
	got, gotErr := gatherAnswer(g.t.Context(), g.shunt, query, args...)
	want, wantErr := gatherAnswer(g.t.Context(), g.plain, query, args...)
	if (gotErr == nil) != (wantErr == nil) || errorCode(gotErr) != errorCode(wantErr) {
		g.t.Errorf("%s\n shunt: %v\n plain: %v", query, gotErr, wantErr)
		return
	}
	if !strings.Contains(strings.ToUpper(query), "ORDER BY") {
		if len(got) > 0 {
			slices.Sort(got[1:])
		}
		if len(want) > 0 {
			slices.Sort(want[1:])
		}
	}
	if !slices.Equal(got, want) {
		g.t.Errorf("%s\n shunt: %q\n plain: %q", query, got, want)
	}
}

// TestGatherJSON: the order of the parts is not said, so they are put in order.
func TestGatherJSON(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		g := startGathering(t, f, setup{})
		query := "SELECT country, JSON_LENGTH(JSON_ARRAYAGG(o.id)) AS n, JSON_LENGTH(JSON_OBJECTAGG(CONCAT('k', o.id), u.age)) AS m FROM users u JOIN orders o ON o.user_id = u.id GROUP BY country ORDER BY country"
		g.gathered(query)
	})
}

// TestGatherPrepared runs prepared statements, with parameters in what is
// copied, in what is not, and both.
func TestGatherPrepared(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		g := startGathering(t, f, setup{})
		for _, q := range []struct {
			sql  string
			args [][]any
		}{
			{"SELECT ?, u.id, o.total FROM users u JOIN orders o ON o.user_id = u.id WHERE u.age > ? AND o.tag = ?", [][]any{{"x", 20, "t1"}, {1.5, "25", "T2"}, {nil, nil, "t3"}, {7, 20.5, nil}, {"y", 18, 3}}},
			{"SELECT id, made FROM orders WHERE made > ? AND user_id IN (SELECT id FROM users WHERE country <> ? OR age < ?)", [][]any{{"2024-01-10", "DE", 30}, {time.Date(2024, 1, 5, 10, 0, 0, 0, time.UTC), "FR", int64(20)}}},
			{"SELECT u.*, o.* FROM users u LEFT JOIN orders o ON o.user_id = u.id AND o.total BETWEEN ? AND ? ORDER BY u.id, o.id LIMIT ?", [][]any{{10, 50, 12}, {"20.5", 21, 100}}},
			{"SELECT DISTINCT u.email FROM users u, orders o WHERE u.email IN (?, ?) AND o.user_id = u.id", [][]any{{"u3@x", []byte("U5@X")}, {"u3@x ", "none"}}},
		} {
			for _, conn := range []*sql.Conn{g.shunt} {
				st, err := conn.PrepareContext(t.Context(), q.sql)
				if err != nil {
					t.Errorf("prepare %s: %v", q.sql, err)
					continue
				}
				st.Close()
			}
			for _, args := range q.args {
				g.same(q.sql, args...)
			}
		}
		if left := g.scratchLeft(); len(left) > 0 {
			t.Errorf("scratch tables are left: %q", left)
		}
	})
}

// TestGatherTransaction: a transaction's own writes are seen, others' not, and it
// survives a gather that fails.
func TestGatherTransaction(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		g := startGathering(t, f, setup{extra: "gather_max_rows: 500"})
		other := g.p.conn()
		query := "SELECT u.id, u.age, o.total, c.name, s.v FROM users u JOIN orders o ON o.user_id = u.id JOIN countries c ON c.code = u.country JOIN settings s WHERE s.k = 'min_age' ORDER BY u.id, o.id"
		before, err := gatherAnswer(t.Context(), other, query)
		if err != nil {
			t.Fatal(err)
		}
		for _, sql := range []string{
			"BEGIN",
			"UPDATE users SET age = age + 100 WHERE id < 20",
			"INSERT INTO orders VALUES (5001, 3, 11.5, NULL, 'new'), (5002, 4, 12.5, NULL, 'new')",
			"DELETE FROM orders WHERE id = 1001",
			"UPDATE countries SET name = 'changed' WHERE code = 'FR'",
			"UPDATE settings SET v = 26 WHERE k = 'min_age'",
		} {
			mustExec(t, g.shunt, sql)
			mustExec(t, g.plain, sql)
		}
		g.gathered(query)
		g.gathered("SELECT id FROM users WHERE id NOT IN (SELECT user_id FROM orders WHERE tag = 'new') AND age > 100")
		if got, err := gatherAnswer(t.Context(), other, query); err != nil || !slices.Equal(got, before) {
			t.Errorf("another session sees what is not committed: %v\n got %q\nwant %q", err, got, before)
		}
		mustExec(t, g.shunt, "SAVEPOINT a")
		mustExec(t, g.plain, "SAVEPOINT a")
		_, err = rowsOf(t.Context(), g.shunt, "SELECT a.id FROM users a CROSS JOIN (SELECT u.id FROM users u, orders o, orders p, orders q, orders r, orders s, orders t) b ON a.id = b.id")
		wantError(t, err, 1104, "gather_max_rows (500)")
		g.same("SELECT id, age FROM users WHERE id < 5 ORDER BY id")
		g.gathered(query)
		mustExec(t, g.shunt, "ROLLBACK TO a")
		mustExec(t, g.plain, "ROLLBACK TO a")
		mustExec(t, g.shunt, "COMMIT")
		mustExec(t, g.plain, "COMMIT")
		g.gathered(query)
		if left := g.scratchLeft(); len(left) > 0 {
			t.Errorf("scratch tables are left: %q", left)
		}
	})
}

// TestGatherSession: what a session has set holds for a gathered query.
func TestGatherSession(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		g := startGathering(t, f, setup{})
		for _, set := range []string{
			"SET @low = 20, @name = 'u3@X'",
			"SET time_zone = '+03:00', div_precision_increment = 7",
			"SET sql_mode = 'ANSI_QUOTES'",
			"SET NAMES latin1 COLLATE latin1_bin",
			"SET sql_mode = 'PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES', timestamp = 1700000000",
			"SET binlog_format = 'STATEMENT'", // which MySQL refuses beside a temporary table
		} {
			mustExec(t, g.shunt, set)
			mustExec(t, g.plain, set)
			for _, q := range []string{
				"SELECT u.id, o.total / 3, @low, DATABASE(), @@time_zone FROM users u JOIN orders o ON o.user_id = u.id WHERE u.age > @low AND o.tag <> 't1' || 'x' ORDER BY o.id",
				"SELECT COUNT(*), MAX(o.made), u.email = @name, 'a\\b' FROM users u JOIN orders o ON o.user_id = u.id WHERE u.email LIKE 'u3%' GROUP BY u.email",
				"SELECT u.id FROM users u, orders o WHERE o.id = u.id + 1000 AND o.made > NOW() - INTERVAL 100 YEAR AND u.email > 'U2'",
			} {
				g.same(q)
			}
		}
		mustExec(t, g.shunt, "SET timestamp = DEFAULT")
		if _, err := rowsOf(t.Context(), g.shunt, "SELECT 1/0 AS z, CAST('x' AS SIGNED) AS n FROM users u JOIN orders o ON o.user_id = u.id WHERE u.id = 3"); err != nil {
			t.Error(err)
		}
		if w := mustRows(t, g.shunt, "SHOW WARNINGS"); len(w) == 0 || !strings.Contains(w[0]["Message"], "incorrect INTEGER") && !strings.Contains(w[0]["Message"], "Division by 0") {
			t.Errorf("warnings of a gathered query: %v", w)
		}
	})
}

// TestGatherErrors: the client sees the error that one server gives, in terms of
// its own tables.
func TestGatherErrors(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		g := startGathering(t, f, setup{})
		for _, q := range []string{
			"SELECT u.nothing FROM users u JOIN orders o ON o.user_id = u.id",
			"SELECT id FROM users u JOIN orders o ON o.user_id = u.id",
			"SELECT u.id FROM users u JOIN orders o ON o.user_id = u.id WHERE u.id = (SELECT boss FROM users)",
			"SELECT u.age, COUNT(*) FROM users u JOIN orders o ON o.user_id = u.id GROUP BY u.country",
			"SELECT CAST(u.age AS UNSIGNED) - 100 FROM users u JOIN orders o ON o.user_id = u.id",
			"SELECT u.id FROM users u JOIN orders o USING (nothing)",
		} {
			g.same(q)
		}
		for _, q := range []string{
			"SELECT CAST(u.age AS UNSIGNED) - 100 FROM users u JOIN orders o ON o.user_id = u.id",
			"SELECT u.id FROM users u JOIN orders o ON o.user_id = u.id WHERE u.id = (SELECT boss FROM users) OR JSON_EXTRACT(u.email, '$') = 1",
		} {
			if _, err := rowsOf(t.Context(), g.shunt, q); err == nil || strings.Contains(err.Error(), "shunt_scratch") || strings.Contains(err.Error(), "g_"+g.instance()) {
				t.Errorf("%s: %v", q, err)
			}
		}
		if left := g.scratchLeft(); len(left) > 0 {
			t.Errorf("scratch tables are left: %q", left)
		}
	})
}

// TestGatherNarrowed: rows without a partner in a copy that is filled first are
// not copied.
func TestGatherNarrowed(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		g := startGathering(t, f, setup{})
		for _, q := range []struct {
			sql  string
			most float64
		}{
			{"SELECT u.id, o.id FROM users u JOIN orders o ON o.user_id = u.id WHERE u.id = 3", 5},
			{"SELECT u.id, o.id FROM users u LEFT JOIN orders o ON o.user_id = u.id WHERE u.email IN ('u3@x', 'U4@X ')", 20},
			{"SELECT u.id FROM users u WHERE id IN (SELECT user_id FROM orders WHERE id IN (1003, 1004))", 4},
			{"SELECT u.id FROM users u JOIN orders o ON o.user_id = u.id JOIN notes n ON n.user_id = u.id WHERE o.id < 1005", 15},
			{"SELECT u.id FROM users u JOIN notes n ON n.txt = u.email WHERE n.id = 5", 1},
			{"SELECT u.id, (SELECT COUNT(*) FROM orders o WHERE o.user_id = u.id) FROM users u WHERE u.id IN (5, 6)", 9},
			{"SELECT o.id FROM users u JOIN orders o ON o.user_id = u.id WHERE u.id = 3 AND u.age < 0", 1},
		} {
			before, _ := g.p.metric("shunt_gather_rows_total")
			g.gathered(q.sql)
			after, found := g.p.metric("shunt_gather_rows_total")
			if !found || after-before > q.most {
				t.Errorf("%s: %v rows were copied, want at most %v", q.sql, after-before, q.most)
			}
			mustExec(t, g.shunt, "BEGIN")
			g.same(q.sql)
			mustExec(t, g.shunt, "ROLLBACK")
		}
	})
}

// TestGatherLimit: a gather over its limit fails cleanly and leaves nothing.
func TestGatherLimit(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		g := startGathering(t, f, setup{extra: "gather_max_rows: 100\ngather_max_bytes: 1500B"})
		_, err := rowsOf(t.Context(), g.shunt, "SELECT u.id FROM users u JOIN orders o ON o.user_id = u.id")
		wantError(t, err, 1104, "gather_max_rows (100)")
		_, err = rowsOf(t.Context(), g.shunt, "SELECT u.id, o.* FROM users u JOIN orders o ON o.user_id = u.id WHERE o.id < 1060")
		wantError(t, err, 1104, "gather_max_bytes (1500)")
		if left := g.scratchLeft(); len(left) > 0 {
			t.Errorf("scratch tables are left: %q", left)
		}
		g.gathered("SELECT u.id FROM users u JOIN orders o ON o.user_id = u.id WHERE o.id < 1050")
	})
}

// gathered is same for a query that must be gathered.
func (g *gathering) gathered(query string) {
	g.t.Helper()
	rows, err := rowsOf(g.t.Context(), g.shunt, "EXPLAIN ROUTE "+query)
	if err != nil || len(rows) == 0 || rows[0]["Plan"] != "gather" {
		g.t.Errorf("EXPLAIN ROUTE %s: %v %v", query, rows, err)
		return
	}
	g.same(query)
}

// gatherAnswer is the header and the rows of an answer.
func gatherAnswer(ctx context.Context, c *sql.Conn, query string, args ...any) ([]string, error) {
	rows, err := c.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	types, err := rows.ColumnTypes()
	if err != nil {
		return nil, err
	}
	var head []string
	for _, t := range types {
		nullable, _ := t.Nullable()
		precision, scale, _ := t.DecimalSize()
		// Where the server makes a temporary table, which depends on how it goes
		// about the query, integers become wider and CHAR becomes VARCHAR.
		typ := strings.NewReplacer("BIGINT", "INT", "VARCHAR", "CHAR").Replace(t.DatabaseTypeName())
		head = append(head, fmt.Sprint(t.Name(), " ", typ, " ", nullable, " ", precision, " ", scale))
	}
	out := []string{strings.Join(head, "|")}
	cells := make([]sql.NullString, len(types))
	into := make([]any, len(types))
	for i := range cells {
		into[i] = &cells[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		var line []string
		for _, c := range cells {
			if c.Valid {
				line = append(line, "="+c.String)
			} else {
				line = append(line, "NULL")
			}
		}
		out = append(out, strings.Join(line, "|"))
	}
	return out, rows.Err()
}

// scratchLeft lists the scratch tables on all servers.
func (g *gathering) scratchLeft() []string {
	g.t.Helper()
	var out []string
	for i := range g.p.servers {
		for _, r := range mustRows(g.t, onShard(g.t, g.p.servers[i], ""), "SELECT table_name AS n FROM information_schema.tables WHERE table_schema = 'shunt_scratch'") {
			if !strings.HasPrefix(r["n"], "g_"+g.instance()+"_") {
				continue // another test's
			}
			out = append(out, fmt.Sprintf("s%d %s", i, r["n"]))
		}
	}
	return out
}

func TestGather(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		g := startGathering(t, f, setup{})
		queries := gatherQueries
		if !g.mariaDB {
			queries = append(slices.Clip(queries),
				"SELECT u.id, l.total FROM users u, LATERAL (SELECT total FROM orders o WHERE o.user_id = u.id ORDER BY total DESC, id LIMIT 1) l ORDER BY u.id",
				"SELECT u.id, x.s FROM users u LEFT JOIN LATERAL (SELECT SUM(total) AS s FROM orders WHERE user_id = u.id) x ON TRUE ORDER BY u.id",
				"SELECT country, GROUPING(country), COUNT(*) FROM users WHERE id IN (SELECT user_id FROM orders) GROUP BY country WITH ROLLUP",
				"SELECT id, NTILE(3) OVER (ORDER BY id) FROM users WHERE id IN (SELECT user_id FROM orders) ORDER BY id")
		}
		for _, q := range queries {
			q = strings.ReplaceAll(q, "{db}", g.p.schema)
			g.gathered(q)
		}
		if left := g.scratchLeft(); len(left) > 0 {
			t.Errorf("scratch tables are left: %q", left)
		}
		for _, r := range mustRows(t, g.shunt, "SHOW DATABASES") {
			if r["Database"] == "shunt_scratch" {
				t.Error("SHOW DATABASES shows the scratch schema")
			}
		}
	})
}

var gatherQueries = []string{
	"SELECT u.id, o.id, o.total FROM users u JOIN orders o ON o.user_id = u.id WHERE u.age > 20",
	"SELECT u.id, b.email AS boss FROM users u JOIN users b ON b.id = u.boss",
	"SELECT u.id, COUNT(o.id) AS n FROM users u LEFT JOIN orders o ON o.user_id = u.id AND o.total > 30 GROUP BY u.id ORDER BY n DESC, u.id",
	"SELECT u.id FROM users u LEFT JOIN orders o ON o.user_id = u.id WHERE o.id IS NULL",
	"SELECT o.id, u.email FROM users u RIGHT JOIN orders o ON o.user_id = u.id AND u.country = 'DE' WHERE o.total < 40",
	"SELECT id FROM users u WHERE EXISTS (SELECT 1 FROM orders o WHERE o.user_id = u.id AND o.total > 50)",
	"SELECT id FROM users u WHERE NOT EXISTS (SELECT * FROM orders o WHERE o.user_id = u.id)",
	"SELECT id FROM users WHERE id IN (SELECT user_id FROM orders WHERE tag = 't1')",
	"SELECT id FROM users WHERE id NOT IN (SELECT user_id FROM orders)",
	"SELECT id FROM users WHERE id NOT IN (SELECT user_id FROM orders WHERE user_id IS NOT NULL)",
	"SELECT id, (SELECT MAX(total) FROM orders o WHERE o.user_id = u.id) FROM users u",
	"SELECT id FROM users WHERE age > (SELECT AVG(age) FROM users)",
	"SELECT d.country, d.n FROM (SELECT country, COUNT(*) AS n FROM users GROUP BY country) d WHERE d.n > 3",
	"WITH big AS (SELECT user_id, SUM(total) AS s FROM orders GROUP BY user_id) SELECT a.user_id, b.s FROM big a JOIN big b ON a.user_id = b.user_id",
	"WITH RECURSIVE chain (id, boss, depth) AS (SELECT id, boss, 0 FROM users WHERE id = 40 UNION ALL SELECT u.id, u.boss, c.depth + 1 FROM users u JOIN chain c ON u.id = c.boss) SELECT * FROM chain ORDER BY depth",
	"WITH users AS (SELECT id FROM users WHERE age < 30) SELECT COUNT(*) FROM users",
	"SELECT id, country, ROW_NUMBER() OVER (PARTITION BY country ORDER BY id) AS rn, SUM(age) OVER w AS s FROM users WINDOW w AS (PARTITION BY country)",
	"SELECT country, GROUP_CONCAT(id ORDER BY id DESC SEPARATOR '/') FROM users GROUP BY country",
	"SELECT country, age, COUNT(*) AS n FROM users GROUP BY country, age WITH ROLLUP",
	"SELECT id FROM users INTERSECT SELECT user_id FROM orders",
	"SELECT id FROM users EXCEPT SELECT user_id FROM orders",
	"(SELECT id FROM users WHERE age < 22) UNION (SELECT user_id FROM orders WHERE total < 9) ORDER BY 1 LIMIT 5",
	"SELECT {db}.users.id, {db}.orders.total FROM {db}.users JOIN {db}.orders ON {db}.orders.user_id = {db}.users.id WHERE {db}.users.age = 20",
	"SELECT `u`.`ID`, /* a, comment FROM t */ O.Total FROM `users` /* x */ AS `u` -- more\n JOIN {db} . orders\n#y\n AS O USE INDEX (by_user) ON O.USER_ID = u.Id",
	"SELECT id, code, name FROM users JOIN countries ON code = country JOIN notes USING (id)",
	"SELECT * FROM users NATURAL JOIN notes",
	"SELECT n.*, u.* FROM notes n JOIN users u ON u.id = n.user_id ORDER BY n.id",
	"SELECT u.id, s.v FROM users u, settings s, orders o WHERE s.k = 'min_age' AND u.age > s.v AND o.user_id = u.id",
	"SELECT COUNT(*), COUNT(DISTINCT o.tag) FROM users u CROSS JOIN orders o WHERE u.id + 1000 = o.id",
	"SELECT u.id FROM users u WHERE (u.id, u.country) IN (SELECT o.user_id, 'DE' FROM orders o)",
	"SELECT u.country, SUM(o.total) AS s FROM users u JOIN orders o ON o.user_id = u.id GROUP BY u.country HAVING s > (SELECT AVG(total) FROM orders) ORDER BY u.country",
	"SELECT u.id, u.email, COUNT(*) FROM users u JOIN orders o ON o.user_id = u.id GROUP BY u.id ORDER BY u.id",
	"SELECT CASE WHEN EXISTS (SELECT 1 FROM orders WHERE total > 96) THEN 'y' ELSE 'n' END FROM users WHERE age BETWEEN 20 AND 22 OR (email LIKE 'u1%' AND NOT country = 'FR')",
	"SELECT u.id FROM users u JOIN (orders o JOIN notes n ON n.user_id = o.user_id) ON o.user_id = u.id WHERE u.email IS NOT NULL AND LOWER(u.email) <> 'u3@x'",
	"SELECT c.name, t.n FROM countries c LEFT JOIN (SELECT country, COUNT(*) n FROM users WHERE age > 20 GROUP BY country) t ON t.country = c.code",
	"SELECT a.id FROM users a LEFT JOIN (users b LEFT JOIN orders c ON c.user_id = b.id) ON b.id = a.id AND c.id IS NULL WHERE b.id IS NOT NULL",
}

// instance is what the names of the process's scratch tables begin with.
func (g *gathering) instance() string {
	g.t.Helper()
	b, err := os.ReadFile(filepath.Join(filepath.Dir(g.p.config), "data", "scratch-instance"))
	if err != nil {
		g.t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}
