package e2e

import (
	"bytes"
	"cmp"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// adviseReport is what the test looks at of `shunt advise --json`.
type adviseReport struct {
	Executions uint64             `json:"executions"`
	Reached    float64            `json:"reached"`
	Shares     map[string]float64 `json:"shares"`
	Tables     []struct {
		Table, Placement string
		ShardKey         string `json:"shard_key"`
	}
	Indexes []advisedIndex
	Broken  []struct {
		Kind, Table string
		Columns     []string
	}
	Statements []struct{ Digest, Route, Reason string }
}

type advisedIndex struct {
	Name, Table, Basis string
	Columns            []string
	FanOut             float64 `json:"fan_out"`
}

// advised runs shunt advise, and returns what it prints.
func advised(t *testing.T, args ...string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary(t), append([]string{"advise"}, args...)...)
	var out, failed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failed
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String() + failed.String(), cmd.ProcessState.ExitCode()
}

// followed is a Shunt that was set up as `shunt advise` says of a server.
type followed struct {
	dsn, yaml string
	report    adviseReport
	placed    map[string]string // shard keys, or placements, by table
	db        *sql.DB
}

// follow asks for advice about a server's schema, and starts a Shunt by it, which is filled.
func follow(t *testing.T, f *flavour, server *throwaway.Server, schema string, fill func(queryer)) *followed {
	t.Helper()
	a := &followed{
		dsn: fmt.Sprintf("%s:%s@tcp(%s)/%s", server.User, server.Password, server.Addr(), schema), yaml: filepath.Join(t.TempDir(), "shunt.yaml"), placed: map[string]string{},
	}
	args := []string{a.dsn, "--json", "--write", a.yaml}
	for _, s := range f.servers(t) {
		args = append(args, "--shard", s.Addr())
	}
	out, code := advised(t, args...)
	if err := json.Unmarshal([]byte(out), &a.report); code != 0 || err != nil {
		t.Fatalf("status %d, %v:\n%s", code, err, out)
	}
	for _, x := range a.report.Tables {
		a.placed[x.Table] = cmp.Or(x.ShardKey, x.Placement)
	}
	text, err := os.ReadFile(a.yaml)
	if err != nil {
		t.Fatal(err)
	}
	_, written, _ := strings.Cut(string(text), "schemas:")
	p := start(t, f, setup{extra: "schemas:" + written})
	t.Cleanup(func() { p.clean("DROP DATABASE IF EXISTS " + schema) })
	mustExec(t, p.open(""), "CREATE DATABASE "+schema)
	a.db = p.open(schema)
	fill(a.db)
	eventually(t, "the virtual indexes are ready", func() bool {
		rows := mustRows(t, a.db, "SHOW VIRTUAL INDEXES")
		return len(rows) == len(a.report.Indexes) && !slices.ContainsFunc(rows, func(r row) bool { return r["Status"] != "ready" })
	})
	allKnown(t, a.db)
	return a
}

// measured holds the fan-outs that were estimated to what reads have asked.
func (a *followed) measured(t *testing.T, q queryer) {
	t.Helper()
	for _, r := range mustRows(t, q, "SHOW VIRTUAL INDEXES") {
		for _, x := range a.report.Indexes {
			if x.Name == r["Name"] {
				alike(t, "shards of a key of "+x.Name, x.FanOut, float(t, r["Mean_shards"]))
			}
		}
	}
}

// TestAdvise: the advice about a server's application is followed, and what EXPLAIN ROUTE then
// says of the application's statements is what was estimated.
func TestAdvise(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		server := f.own(t, 1, "--performance-schema=ON")[0]
		schema := newSchemaName(t)
		one := onShard(t, server, "")
		mustExec(t, one, "CREATE DATABASE "+schema)
		app := onShard(t, server, schema)
		fill := func(q queryer) {
			t.Helper()
			for _, ddl := range []string{
				"CREATE TABLE users (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, email VARCHAR(60) NOT NULL UNIQUE, country CHAR(2) NOT NULL, name VARCHAR(40) NOT NULL)",
				"CREATE TABLE orders (id BIGINT NOT NULL AUTO_INCREMENT, user_id BIGINT NOT NULL, code VARCHAR(20) NOT NULL, total DECIMAL(10,2) NOT NULL, PRIMARY KEY (id), KEY (user_id), KEY (code))",
				"CREATE TABLE countries (code CHAR(2) NOT NULL PRIMARY KEY, name VARCHAR(40) NOT NULL)",
			} {
				mustExec(t, q, ddl)
			}
			mustExec(t, q, "INSERT INTO countries VALUES ('de', 'Germany'), ('fr', 'France'), ('it', 'Italy')")
			mustExec(t, q, "INSERT INTO users VALUES "+rowsFor(advisedUsers, func(i int) string {
				return fmt.Sprintf("(%d, 'user%d@example.com', '%s', 'name %d')", i, i, []string{"de", "fr", "it"}[i%3], i)
			}))
			mustExec(t, q, "INSERT INTO orders VALUES "+rowsFor(advisedOrders, func(i int) string {
				return fmt.Sprintf("(%d, %d, 'code%d', %d.50)", i, 1+i*7919%advisedUsers, i%advisedCodes, i)
			}))
		}
		fill(app)
		mustRows(t, app, "ANALYZE TABLE users, orders, countries")
		mustExec(t, one, "TRUNCATE performance_schema.events_statements_summary_by_digest")
		var statements []string // with their values, as they are executed
		for i := 1; i <= 60; i++ {
			id := 1 + i*31%advisedUsers
			statements = append(statements,
				fmt.Sprintf("SELECT * FROM users WHERE id = %d", id),
				fmt.Sprintf("SELECT * FROM users WHERE email = 'user%d@example.com'", id),
				fmt.Sprintf("SELECT u.name, c.name FROM users u JOIN countries c ON c.code = u.country WHERE u.id = %d", id),
				fmt.Sprintf("SELECT o.total FROM users u JOIN orders o ON o.user_id = u.id WHERE u.id = %d ORDER BY o.id", id),
				fmt.Sprintf("SELECT id, total FROM orders WHERE code = 'code%d'", i*13%advisedCodes),
				fmt.Sprintf("UPDATE users SET name = 'new' WHERE id = %d", id),
				fmt.Sprintf("INSERT INTO orders (user_id, code, total) VALUES (%d, 'fresh%d', 5)", id, i),
			)
			if i%10 == 0 {
				statements = append(statements, "SELECT COUNT(*) FROM orders")
			}
		}
		for i, sql := range statements {
			if i%5 == 0 && strings.HasPrefix(sql, "SELECT") { // as drivers have it
				mustRows(t, app, sql+" LIMIT ?", 100)
				statements[i] = sql + " LIMIT 100"
				continue
			}
			if strings.HasPrefix(sql, "SELECT") {
				mustRows(t, app, sql)
			} else {
				mustExec(t, app, sql)
			}
		}

		a := follow(t, f, server, schema, fill)
		r, c, dsn := a.report, a.db, a.dsn
		var got []string
		for _, x := range r.Tables {
			got = append(got, x.Table+" "+x.Placement+" "+x.ShardKey)
		}
		for _, x := range r.Indexes {
			got = append(got, "index "+x.Table+" "+strings.Join(x.Columns, ",")+" by "+x.Basis)
		}
		for _, x := range r.Broken {
			got = append(got, x.Kind+" "+x.Table+" "+strings.Join(x.Columns, ","))
		}
		slices.Sort(got)
		advice := []string{
			"countries reference ", "index orders code by sample", "index users email by unique", "orders hash user_id", "unique key users email", "users hash id",
		}
		if !slices.Equal(got, advice) {
			t.Fatalf("advised\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(advice, "\n"))
		}

		reached, by := 0, map[string]int{}
		for _, sql := range statements {
			n := len(routeOf(t, c, sql).shards)
			reached += n
			switch n {
			case 1:
				by["one"]++
			case 4:
				by["all"]++
			default:
				by["few"]++
			}
		}
		alike(t, "shards of a statement", r.Reached, float64(reached)/float64(len(statements)))
		// What goes to few shards on average may go to one, or to all, with some values.
		if one, least := r.Shares["one"], float64(by["one"])/float64(len(statements)); one > least+0.01 || r.Shares["refused"]+r.Shares["unread"] > 0.01 {
			t.Errorf("shares %v, measured %v of %d", r.Shares, by, len(statements))
		}
		for _, x := range r.Indexes {
			sum, n := 0, 200
			for i := range n {
				sql := fmt.Sprintf("SELECT id FROM orders WHERE code = 'code%d'", i*7%advisedCodes)
				if x.Table == "users" {
					sql = fmt.Sprintf("SELECT id FROM users WHERE email = 'user%d@example.com'", 1+i)
				}
				sum += len(routeOf(t, c, sql).shards)
			}
			alike(t, "shards of a key in "+x.Table, x.FanOut, float64(sum)/float64(n))
		}

		if out, code := advised(t, dsn, "--write", a.yaml); code != 1 || !strings.Contains(out, "exists") {
			t.Errorf("status %d: %s", code, out)
		}
		mustExec(t, one, "CREATE USER blind@'%' IDENTIFIED BY 'x'")
		mustExec(t, one, "GRANT SELECT ON "+schema+".* TO blind@'%'")
		out, code := advised(t, fmt.Sprintf("blind:x@tcp(%s)/%s", server.Addr(), schema))
		if code != 1 || !strings.Contains(out, "GRANT SELECT ON performance_schema") {
			t.Errorf("status %d: %s", code, out)
		}
		if f.name == throwaway.MySQL {
			return
		}
		log := filepath.Join(t.TempDir(), "log.sql")
		if err := os.WriteFile(log, []byte(strings.Join(statements, ";\n")+";\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		out, code = advised(t, fmt.Sprintf("blind:x@tcp(%s)/%s", server.Addr(), schema), "--statements", log)
		if code != 0 || !strings.Contains(out, "hash by user_id") {
			t.Errorf("status %d: %s", code, out)
		}
	})
}

const advisedUsers, advisedOrders, advisedCodes = 1500, 4500, 1400

// alike holds an estimate to what was measured.
func alike(t *testing.T, what string, estimated, measured float64) {
	t.Helper()
	t.Logf("%s: estimated %.2f, measured %.2f", what, estimated, measured)
	if ratio := math.Max(estimated/measured, measured/estimated); !(ratio <= 1.3) {
		t.Errorf("%s: estimated %.2f, measured %.2f", what, estimated, measured)
	}
}
