package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// startSpread starts Shunt over tables that no shard has all of: flags and
// settings are on one shard each. one has the same tables and rows on one
// server.
func startSpread(t *testing.T, f *flavour) (p *process, c, one conn) {
	t.Helper()
	p = start(t, f, setup{tables: []string{
		"users: {shard_key: id}", "orders: {shard_key: user_id}", "countries: {placement: reference}",
		"settings: {placement: single, shard: s2}", "flags: {placement: single, shard: s3}",
	}})
	c = p.conn()
	plain := onShard(t, p.servers[0], "")
	mustExec(t, plain, "CREATE DATABASE "+p.schema+"_one")
	t.Cleanup(func() {
		_, _ = onShard(t, p.servers[0], "").ExecContext(context.Background(), "DROP DATABASE IF EXISTS "+p.schema+"_one")
	})
	o := connOf(t, onShard(t, p.servers[0], p.schema+"_one"))
	one = o
	var users, orders []string
	for i := range 100 {
		users = append(users, fmt.Sprintf("(%d, 'p%d@x', 'Name %d')", i+1, i, i%7))
		orders = append(orders, fmt.Sprintf("(%d, %d, %d)", i, i%40+1, i*3))
	}
	for _, q := range []queryer{c, o} {
		mustExec(t, q, "CREATE TABLE users (id BIGINT NOT NULL PRIMARY KEY, email VARCHAR(100) NOT NULL, name VARCHAR(50), KEY by_email (email))")
		mustExec(t, q, "CREATE TABLE orders (id BIGINT NOT NULL, user_id BIGINT NOT NULL, total INT, PRIMARY KEY (user_id, id))")
		mustExec(t, q, "CREATE TABLE countries (code CHAR(2) PRIMARY KEY, name VARCHAR(50)) COMMENT 'ISO 3166'")
		mustExec(t, q, "CREATE TABLE settings (k VARCHAR(50) PRIMARY KEY, v TEXT)")
		mustExec(t, q, "CREATE TABLE flags (k VARCHAR(50) PRIMARY KEY, v INT NOT NULL DEFAULT 7)")
		mustExec(t, q, "CREATE TRIGGER loud BEFORE INSERT ON flags FOR EACH ROW SET NEW.k = UPPER(NEW.k)")
		mustExec(t, q, "INSERT INTO users VALUES "+strings.Join(users, ", "))
		mustExec(t, q, "INSERT INTO orders VALUES "+strings.Join(orders, ", "))
		mustExec(t, q, "INSERT INTO countries VALUES ('de', 'Germany'), ('us', 'United States'), ('fr', NULL)")
		mustExec(t, q, "INSERT INTO settings VALUES ('a', 'b')")
		mustExec(t, q, "INSERT INTO flags VALUES ('x', 1), ('y', 2)")
		mustRows(t, q, "ANALYZE TABLE users, orders, countries, settings, flags")
	}
	return p, c, one
}

// conn is one connection, to Shunt or to a server.
type conn = queryer

// alike compares what Shunt says with what one server says of the same tables,
// but for the schema's name.
func (p *process) alike(c, one conn, query string, columns ...string) {
	p.t.Helper()
	got := flat(mustRows(p.t, c, query), columns...)
	want := flat(mustRows(p.t, one, strings.ReplaceAll(query, p.schema, p.schema+"_one")), columns...)
	for i := range want {
		want[i] = strings.ReplaceAll(want[i], p.schema+"_one", p.schema)
	}
	if !slices.Equal(got, want) {
		p.t.Errorf("%s\n shunt says %q\none server %q", query, got, want)
	}
	if len(want) == 0 {
		p.t.Errorf("%s answers nothing", query)
	}
}

func TestShowOverShards(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p, c, one := startSpread(t, f)
		if got := mustRows(t, c, "SHOW TABLES FROM "+p.schema+" LIKE '%gs'"); len(got) != 2 || got[0]["Tables_in_"+p.schema+" (%gs)"] != "flags" || got[1]["Tables_in_"+p.schema+" (%gs)"] != "settings" {
			t.Errorf("SHOW TABLES LIKE: %v", got)
		}
		p.alike(c, one, "SHOW FULL TABLES WHERE Table_type = 'BASE TABLE'", "Table_type")
		p.alike(c, one, "SHOW TABLE STATUS", "Name", "Engine", "Rows", "Collation", "Comment")
		p.alike(c, one, "SHOW TABLE STATUS LIKE 'users'", "Name", "Rows")
		p.alike(c, one, "SHOW TRIGGERS", "Trigger", "Event", "Table", "Statement", "Timing")
		p.alike(c, one, "SHOW CREATE TRIGGER loud", "Trigger")
		p.alike(c, one, "SHOW INDEX FROM users", "Key_name", "Seq_in_index", "Column_name", "Cardinality")
		p.alike(c, one, "SHOW INDEX FROM countries", "Key_name", "Cardinality")
		p.alike(c, one, "SHOW FULL COLUMNS FROM flags", "Field", "Type", "Default")
		p.alike(c, one, "SHOW CREATE TABLE flags", "Table", "Create Table")
		p.alike(c, one, "SHOW DATABASES LIKE 'mysql'", "Database (mysql)")
		var names []string
		for _, r := range mustRows(t, c, "SHOW TABLES") {
			names = append(names, r["Tables_in_"+p.schema])
		}
		if !slices.Equal(names, []string{"countries", "flags", "orders", "settings", "users"}) {
			t.Errorf("SHOW TABLES: %v", names)
		}
		// Shunt's own schema for copies is not shown.
		mustRows(t, c, "SELECT COUNT(*) AS n FROM users a JOIN orders b ON a.name = b.id")
		for _, r := range append(mustRows(t, c, "SHOW DATABASES"), mustRows(t, c, "SELECT schema_name AS `Database` FROM information_schema.schemata")...) {
			if r["Database"] == "shunt_scratch" {
				t.Error("shunt_scratch is shown")
			}
		}
		_, err := c.ExecContext(t.Context(), "SHOW TABLE STATUS WHERE `Rows` > 10")
		wantError(t, err, 1235, "information_schema")
		_, err = c.ExecContext(t.Context(), "SHOW BINARY LOGS")
		wantError(t, err, 1235, "shard=NAME")
		_, err = c.ExecContext(t.Context(), "SHOW CREATE TRIGGER quiet")
		wantError(t, err, 1360, "")
		if got := mustRows(t, c, "SHOW GRANTS"); len(got) == 0 || !strings.Contains(got[0]["Grants for app@%"], "TO `app`@`%`") || strings.Contains(fmt.Sprint(got), "PASSWORD '") {
			t.Errorf("SHOW GRANTS: %v", got)
		}
	})
}

// TestOwnTablesNotShown: what Shunt keeps on the shards is not among the tables that clients are
// told of, also where one shard can answer.
func TestOwnTablesNotShown(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{servers: f.servers(t)[:2], tables: []string{"countries: {placement: reference}"}})
		c := p.conn()
		mustExec(t, c, "CREATE TABLE countries (code CHAR(2) PRIMARY KEY, name VARCHAR(50), KEY (name))")
		direct := onShard(t, p.servers[0], "")
		if len(mustRows(t, direct, "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'shunt_scratch'")) == 0 {
			t.Fatal("there are none")
		}
		for _, table := range []string{"TABLES", "COLUMNS", "STATISTICS", "PARTITIONS", "TABLE_CONSTRAINTS", "KEY_COLUMN_USAGE", "SCHEMATA"} {
			owner := map[string]string{"TABLE_CONSTRAINTS": "CONSTRAINT_SCHEMA", "KEY_COLUMN_USAGE": "CONSTRAINT_SCHEMA", "SCHEMATA": "SCHEMA_NAME"}[table]
			if owner == "" {
				owner = "TABLE_SCHEMA"
			}
			for _, q := range []string{
				"SELECT DISTINCT " + owner + " AS s FROM information_schema." + table, "SELECT " + owner + " AS s FROM information_schema." + table + " x WHERE x." + owner + " LIKE 'shunt%'",
				"SELECT " + owner + " AS s FROM information_schema." + table + " WHERE " + owner + " = 'mysql' OR " + owner + " <> 'sys'", "SELECT s FROM (SELECT " + owner + " AS s FROM information_schema." + table + ") d",
			} {
				rows := mustRows(t, c, q)
				stmt, err := c.PrepareContext(t.Context(), q)
				if err != nil {
					t.Fatalf("%s: %v", q, err)
				}
				prepared, err := stmt.QueryContext(t.Context())
				if err != nil {
					t.Fatalf("%s: %v", q, err)
				}
				for prepared.Next() {
					var s string
					if err := prepared.Scan(&s); err != nil {
						t.Fatal(err)
					}
					rows = append(rows, row{"s": s})
				}
				stmt.Close()
				for _, r := range rows {
					if r["s"] == "shunt_scratch" {
						t.Errorf("%s shows Shunt's own", q)
						break
					}
				}
			}
			// Other tests' schemas come and go.
			q := "SELECT * FROM information_schema." + table + " WHERE " + owner + " = '" + p.schema + "'"
			if table != "TABLES" && table != "PARTITIONS" && table != "STATISTICS" { // those have counts
				if got, want := fmt.Sprint(mustRows(t, c, q)), fmt.Sprint(mustRows(t, direct, q)); got != want {
					t.Errorf("%s\n got %s\nwant %s", q, got, want)
				}
			}
		}
		want(t, c, "SELECT COUNT(*) AS n FROM information_schema.TABLES WHERE TABLE_SCHEMA NOT IN ('mysql') AND table_schema LIKE 'shunt%'", "n", "0")
		want(t, c, "SELECT t.TABLE_NAME AS t, c.column_name AS c FROM information_schema.TABLES t JOIN information_schema.COLUMNS c USING (TABLE_SCHEMA, TABLE_NAME) WHERE t.TABLE_SCHEMA = '"+p.schema+"' ORDER BY 1, 2", "t c", "countries code", "countries name")
		if rows := mustRows(t, c, "SHOW DATABASES LIKE 'shunt%'"); len(rows) > 0 {
			t.Errorf("SHOW DATABASES: %v", rows)
		}
	})
}

func TestInformationSchemaOverShards(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c, one := startSpread(t, f)
		where := " WHERE table_schema = '" + p.schema + "'"
		p.alike(c, one, "SELECT TABLE_NAME AS n, TABLE_ROWS AS r, TABLE_TYPE AS t, TABLE_COMMENT AS c FROM information_schema.tables"+where, "n", "r", "t", "c")
		p.alike(c, one, "SELECT COUNT(*) AS n, SUM(table_rows) AS r FROM information_schema.TABLES"+where+" AND table_rows > 2", "n", "r")
		p.alike(c, one, "SELECT t.table_name AS t, c.column_name AS c, c.data_type AS d FROM `information_schema`.`TABLES` t JOIN information_schema.columns AS c USING (table_schema, table_name)"+where+" ORDER BY t.table_rows DESC", "t", "c", "d")
		p.alike(c, one, "SELECT TABLES.TABLE_NAME AS n FROM information_schema.TABLES"+where+" AND EXISTS (SELECT 1 FROM information_schema.TRIGGERS WHERE event_object_schema = table_schema AND event_object_table = table_name)", "n")
		p.alike(c, one, "SELECT information_schema.TABLES.TABLE_NAME AS n FROM information_schema.TABLES"+where, "n")
		p.alike(c, one, "SELECT index_name AS i, cardinality AS c FROM information_schema.statistics"+where+" AND table_name = 'users'", "i", "c")
		p.alike(c, one, "SELECT constraint_name AS c, table_name AS t FROM information_schema.key_column_usage WHERE constraint_schema = '"+p.schema+"'", "c", "t")
		p.alike(c, one, "SELECT schema_name AS s FROM information_schema.schemata WHERE schema_name = '"+p.schema+"'", "s")
		p.alike(c, one, "SELECT table_name AS n FROM information_schema.columns WHERE table_schema = 'mysql' AND column_name = 'Host' AND table_name IN ('db', 'tables_priv')", "n")
		// A column's own name, as the server gives it.
		if a, b := mustRows(t, c, "SELECT table_name, Table_Rows FROM information_schema.tables"+where+" LIMIT 1"), mustRows(t, one, "SELECT table_name, Table_Rows FROM information_schema.tables LIMIT 1"); fmt.Sprint(keysOf(a[0])) != fmt.Sprint(keysOf(b[0])) {
			t.Errorf("columns are %v, on one server %v", keysOf(a[0]), keysOf(b[0]))
		}

		// Prepared, executed again as the tables change.
		db := p.db()
		st, err := db.PrepareContext(t.Context(), "SELECT table_name, data_length > 0 FROM information_schema.tables WHERE table_schema = ? AND table_name LIKE ? ORDER BY table_name")
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		read := func(like string) (names []string) {
			t.Helper()
			rows, err := st.QueryContext(t.Context(), p.schema, like)
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			for rows.Next() {
				var name string
				var size bool
				if err := rows.Scan(&name, &size); err != nil {
					t.Fatal(err)
				}
				names = append(names, name)
			}
			return names
		}
		for range 3 {
			if got := read("%s"); !slices.Equal(got, []string{"countries", "flags", "orders", "settings", "users"}) {
				t.Errorf("prepared: %v", got)
			}
		}
		mustExec(t, c, "CREATE TABLE aliases (id INT PRIMARY KEY)")
		if got := read("%s"); !slices.Contains(got, "aliases") {
			t.Errorf("prepared, after CREATE TABLE: %v", got)
		}

		// In another character set, inside of a transaction, and by USE.
		l := p.conn()
		mustExec(t, l, "SET NAMES latin1")
		mustExec(t, l, "BEGIN")
		want(t, l, "SELECT table_comment AS c, table_rows AS r FROM information_schema.tables"+where+" AND table_name = 'countries'", "c r", "ISO 3166 3")
		mustExec(t, l, "ROLLBACK")
		mustExec(t, l, "SET NAMES binary")
		want(t, l, "SELECT SUM(table_rows) AS r FROM information_schema.tables"+where+" AND table_name = 'users'", "r", "100")
		if v := mustRows(t, l, "SHOW VARIABLES WHERE Variable_name = 'character_set_client'"); len(v) != 1 {
			t.Errorf("SHOW VARIABLES in binary: %v", v)
		}
		mustExec(t, l, "SET NAMES latin1")
		mustExec(t, l, "USE information_schema")
		want(t, l, "SELECT table_rows AS r FROM tables"+where+" AND table_name = 'users'", "r", "100")
		want(t, l, "SELECT SUM(t.table_rows) AS r FROM tables AS t, columns AS c"+strings.ReplaceAll(where, "table_schema", "t.table_schema")+" AND c.table_schema = t.table_schema AND c.table_name = t.table_name AND c.column_name = 'email'", "r", "100")

		_, err = c.ExecContext(t.Context(), "SELECT t.table_rows, u.id FROM information_schema.tables t, users u")
		wantError(t, err, 1235, "")
		_, err = c.ExecContext(t.Context(), "SELECT information_schema.t.table_rows FROM information_schema.tables t")
		wantError(t, err, 1235, "")
	})
}

func keysOf(r row) []string {
	var names []string
	for k := range r {
		names = append(names, k)
	}
	slices.Sort(names)
	return names
}

// TestProcesslistAndKill: the numbers are those of Shunt's connections.
func TestProcesslistAndKill(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 40, setup{})
		for _, inTransaction := range []bool{false, true} {
			victim := p.conn()
			id := mustRows(t, victim, "SELECT CONNECTION_ID() AS id")[0]["id"]
			if inTransaction {
				mustExec(t, victim, "BEGIN")
				mustExec(t, victim, "UPDATE people SET city = 'x' WHERE id = 3")
			}
			// In the midst of a statement too it is that number.
			want(t, victim, "SELECT CONNECTION_ID() + 0 AS n FROM people WHERE id = 3", "n", id)
			done := make(chan error, 1)
			go func() {
				_, err := victim.ExecContext(context.WithoutCancel(t.Context()), "SELECT id, SLEEP(60) FROM people WHERE id IN (1, 2, 3, 4, 5, 6)")
				done <- err
			}()
			running := func() bool {
				for _, r := range mustRows(t, c, "SHOW FULL PROCESSLIST") {
					if r["Id"] == id && r["Command"] == "Query" && strings.Contains(r["Info"], "SLEEP(60)") && r["User"] == "app" && r["db"] == p.schema {
						return true
					}
				}
				return false
			}
			eventually(t, "the statement is in the processlist", running)
			want(t, c, "SELECT user AS u FROM information_schema.processlist WHERE id = "+id, "u", "app")
			// Its servers may not have got it yet: kill until it ends.
			var err error
			eventually(t, "KILL QUERY ends it", func() bool {
				mustExec(t, c, "KILL QUERY "+id)
				select {
				case err = <-done:
					return true
				case <-time.After(200 * time.Millisecond):
					return false
				}
			})
			if err != nil { // else SLEEP() was interrupted, which answers 1
				wantError(t, err, 1317, "")
			}
			want(t, victim, "SELECT id FROM people WHERE id = 4", "id", "4")
			if inTransaction {
				want(t, victim, "SELECT city FROM people WHERE id = 3", "city", "x")
				mustExec(t, victim, "COMMIT")
			}
			mustExec(t, c, "KILL "+id)
			if _, err := victim.ExecContext(t.Context(), "SELECT 1"); err == nil {
				t.Error("the connection outlived KILL")
			}
			eventually(t, "it has left the processlist", func() bool {
				return len(mustRows(t, c, "SELECT 1 FROM information_schema.processlist WHERE id = "+id)) == 0
			})
		}
		// The same by a command, which some clients have in its place.
		victim := dialPackets(t, p.addr, "empty", p.schema, 0)
		by := dialPackets(t, p.addr, "empty", p.schema, 0)
		eventually(t, "both are in the processlist", func() bool {
			return len(mustRows(t, c, "SELECT id FROM information_schema.processlist WHERE user = 'empty'")) == 2
		})
		id := victim.connectionID()
		by.say(mysql.COM_PROCESS_KILL, uint32s(id))
		if got := by.answer(); !strings.HasPrefix(got, "OK") {
			t.Errorf("COM_PROCESS_KILL: %s", got)
		}
		eventually(t, "the killed connection has left the processlist", func() bool {
			return len(mustRows(t, c, fmt.Sprint("SELECT 1 FROM information_schema.processlist WHERE id = ", id))) == 0
		})
		by.say(mysql.COM_PROCESS_KILL, uint32s(id))
		if got := by.answer(); !strings.Contains(got, "1094") {
			t.Errorf("COM_PROCESS_KILL of what is gone: %s", got)
		}
		_, err := c.ExecContext(t.Context(), "KILL 4000000000")
		wantError(t, err, 1094, "4000000000")
		_, err = c.ExecContext(t.Context(), "KILL QUERY CONNECTION_ID()")
		wantError(t, err, 1317, "")
		want(t, c, "SELECT USER() AS u, CURRENT_USER AS c, SCHEMA() AS s LIMIT 1", "u c s", "app@127.0.0.1 app@127.0.0.1 "+p.schema)
	})
}

func TestConditions(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		_, c := startPeople(t, f, 20, setup{})
		if rows := mustRows(t, c, "SELECT id, 1/0 FROM people WHERE id < 9"); len(rows) == 0 {
			t.Fatal("no rows")
		}
		n := len(mustRows(t, c, "SHOW WARNINGS"))
		if n == 0 {
			t.Error("no warnings of 1/0")
		}
		want(t, c, "SHOW COUNT(*) WARNINGS", "@@session.warning_count", fmt.Sprint(n))
		want(t, c, "SHOW WARNINGS LIMIT 1, 1", "Code", []string{"1365"}[:min(1, n-1)]...)
		want(t, c, "SELECT @@warning_count AS w, @@session.error_count AS e", "w e", fmt.Sprintf("%d 0", n))
		// Errors of a shard and of Shunt itself.
		_, err := c.ExecContext(t.Context(), "SELECT nope FROM people WHERE id = 1")
		wantError(t, err, 1054, "nope")
		want(t, c, "SHOW WARNINGS", "Level Code", "Error 1054")
		_, err = c.ExecContext(t.Context(), "HANDLER people OPEN")
		wantError(t, err, 1235, "HANDLER")
		want(t, c, "SHOW ERRORS", "Level Code", "Error 1235")
		want(t, c, "SHOW COUNT(*) ERRORS", "@@session.error_count", "1")
		want(t, c, "SELECT id FROM people WHERE id = 1", "id", "1")
		want(t, c, "SHOW WARNINGS", "Level Code")
	})
}

func TestExplainHasTheRoute(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		_, c := startPeople(t, f, 40, setup{})
		shard := routeOf(t, c, "SELECT * FROM people WHERE email = 'p5@x'").shards[0]
		// It is the last row, below what programs ask of a plan's first one, or the first
		// line of a text.
		told := func(query string) string {
			t.Helper()
			rows := mustRows(t, c, query)
			if len(rows) == 0 {
				t.Fatalf("%s: no rows", query)
			}
			last := rows[len(rows)-1]
			if len(last) == 1 {
				for _, text := range rows[0] {
					return text
				}
			}
			if first := rows[0]; len(rows) == 1 || first["select_type"] == "ROUTE" || first["rows"] == "NULL" {
				t.Errorf("%s: the first row is %v", query, first)
			}
			return fmt.Sprint(last)
		}
		for _, query := range []string{
			"EXPLAIN FORMAT=TRADITIONAL SELECT * FROM people WHERE email = 'p5@x'", "EXPLAIN FORMAT=JSON SELECT * FROM people WHERE email = 'p5@x'",
			"EXPLAIN SELECT * FROM people WHERE email = 'p5@x'", "DESCRIBE SELECT * FROM people WHERE email = 'p5@x'",
			map[bool]string{true: "EXPLAIN ANALYZE", false: "ANALYZE"}[f.name == "mysql"] + " SELECT * FROM people WHERE email = 'p5@x'",
			"EXPLAIN UPDATE people SET city = 'q' WHERE email = 'p5@x'",
		} {
			if query == "EXPLAIN FORMAT=TRADITIONAL SELECT * FROM people WHERE email = 'p5@x'" && f.name == "mariadb" {
				continue
			}
			if got := told(query); !strings.Contains(got, shard) || !strings.Contains(got, "index:idx_email") || !strings.Contains(got, "1 shard of 4") {
				t.Errorf("%s: %s", query, got)
			}
		}
		if got := told("EXPLAIN SELECT * FROM people"); !strings.Contains(got, "s0,s1,s2,s3") {
			t.Errorf("EXPLAIN of a scatter: %s", got)
		}
		want(t, c, "SELECT city FROM people WHERE city = 'q'", "city")
	})
}

// TestTableMaintenance: on every shard, answered as by one server.
func TestTableMaintenance(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p, c, one := startSpread(t, f)
		p.alike(c, one, "CHECKSUM TABLE users, orders, countries, settings, flags", "Table", "Checksum")
		p.alike(c, one, "ANALYZE TABLE users, settings, nowhere", "Table", "Op", "Msg_type", "Msg_text")
		p.alike(c, one, "OPTIMIZE TABLE users", "Table", "Op", "Msg_type", "Msg_text")
		p.alike(c, one, "CHECK TABLE flags, users", "Table", "Op", "Msg_type", "Msg_text")
		p.alike(c, one, "REPAIR TABLE countries", "Table", "Op", "Msg_type", "Msg_text")
		for i, r := range mustRows(t, c, "ANALYZE TABLE flags, users, settings") {
			if name := []string{"flags", "users", "settings"}[i]; r["Table"] != p.schema+"."+name {
				t.Errorf("row %d of ANALYZE TABLE is of %s", i, r["Table"])
			}
		}
		// A shard with something of its own to say is named.
		mustExec(t, p.shard(1), "DROP TABLE orders")
		rows := flat(mustRows(t, c, "CHECK TABLE orders"), "Msg_type", "Msg_text")
		if text := strings.Join(rows, "\n"); !strings.Contains(text, "(shard s1)") || !strings.Contains(text, "OK (shard s0, s2, s3)") {
			t.Errorf("CHECK TABLE with a table missing: %s", text)
		}
		mustExec(t, c, "FLUSH TABLES")
		mustExec(t, c, "FLUSH LOCAL STATUS")
		// As on a server they end a transaction.
		mustExec(t, c, "BEGIN")
		mustExec(t, c, "INSERT INTO users VALUES (1000, 'late@x', 'Late')")
		mustRows(t, c, "ANALYZE TABLE users")
		mustExec(t, c, "ROLLBACK")
		want(t, c, "SELECT name FROM users WHERE id = 1000", "name", "Late")
		mustExec(t, c, "DO SLEEP(0)")
	})
}
