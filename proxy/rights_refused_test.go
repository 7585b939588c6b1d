package proxy

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// unsent checks that no shard was sent a statement that has the word, in any case.
func (s *fakes) unsent(word string) {
	s.t.Helper()
	for _, f := range s.shards {
		f.mu.Lock()
		for _, st := range f.got {
			if strings.Contains(strings.ToLower(st.text), strings.ToLower(word)) {
				s.t.Errorf("%s got %s", f.name, st.text)
			}
		}
		f.mu.Unlock()
	}
}

type refusal struct {
	code uint16
	sql  string
}

// refuses checks that a user is refused statements, and that they can't be prepared.
func (s *fakes) refuses(user string, preparable bool, refusals []refusal) {
	s.t.Helper()
	c := s.connOf(user, "")
	for _, x := range refusals {
		fails(s.t, c, x.sql, x.code, "")
		st, err := c.PrepareContext(s.t.Context(), x.sql)
		if err == nil {
			_ = st.Close()
		}
		if err == nil && !preparable {
			s.t.Errorf("%s can be prepared", x.sql)
		}
	}
}

// refusals are those of a file of the end-to-end tests.
func refusals(t *testing.T, name string) (all []refusal) {
	t.Helper()
	text, err := os.ReadFile("../e2e/testdata/refused_" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(strings.NewReplacer("OTHER", "other", "UPPER", "SHOP").Replace(string(text))) {
		code, sql, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseUint(code, 10, 16); err == nil {
			all = append(all, refusal{uint16(n), sql})
		}
	}
	if len(all) == 0 {
		t.Fatalf("no refusals of %s", name)
	}
	return all
}

// TestSchemasRefused: a user who may see some schemas gets a server's errors for the
// others, whatever way he names them, and the shards get none of it.
func TestSchemasRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, 2, fakeOptions{}, func(o *Options) { o.Users["narrow"] = User{Schemas: []string{"shop"}} })
	s.refuses("narrow", false, refusals(t, "schemas"))
	s.unsent("secrets")
	failed(t, "log-in", s.ping("narrow", "", "other"), 1044, "other")
	failed(t, "log-in", s.ping("narrow", "", "mysql"), 1044, "mysql")
}

// TestReachRefused: he reaches no others by what Shunt's account may do: not by SET and DO, by what
// he stores, by files, nor by SHOW.
func TestReachRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, 2, fakeOptions{}, func(o *Options) { o.Users["narrow"] = User{Schemas: []string{"shop"}} })
	s.refuses("narrow", true, refusals(t, "reach"))
	s.unsent("other")
	s.unsent("passwd")
}

// TestReadOnlyRefused: who only reads changes and locks nothing.
func TestReadOnlyRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, 2, fakeOptions{}, func(o *Options) { o.Users["reader"] = User{ReadOnly: true} })
	r := s.connOf("reader", "")
	for _, query := range []string{
		"INSERT INTO people (id) VALUES (100)", "UPDATE people SET city = 1", "UPDATE people SET city = 1 WHERE id = 3", "DELETE FROM people WHERE id = 3",
		"REPLACE INTO people (id) VALUES (3)", "TRUNCATE TABLE people", "DROP TABLE people", "CREATE TABLE x (id INT)", "ALTER TABLE people ADD x INT", "CREATE DATABASE xyz",
		"SELECT * FROM people WHERE id = 3 FOR UPDATE", "SELECT * FROM people LOCK IN SHARE MODE", "CREATE TEMPORARY TABLE x (id INT)", "INSERT INTO notes SELECT id FROM people",
		"CREATE VIRTUAL INDEX x ON people (age)", "DROP VIRTUAL INDEX idx_email ON people", "REBUILD VIRTUAL INDEX idx_email ON people",
		"/* shunt: shard=s0 */ CALL nothing()", "/* shunt: shard=s0 */ INSERT INTO people (id) VALUES (100)", "LOAD DATA LOCAL INFILE 'x' INTO TABLE people",
		"ANALYZE TABLE people", "/*!50000 DELETE */ FROM people", "LOCK TABLES people READ", "FLUSH TABLES people WITH READ LOCK", "DO (SELECT id FROM notes WHERE id = 1 FOR UPDATE)",
	} {
		fails(t, r, query, 1290, "read")
	}
	for _, query := range []string{
		"SHOW ENGINE INNODB STATUS", "/* shunt: shard=s0 */ SHOW ENGINE INNODB STATUS", "/* shunt: shard=s0 */ SHOW FULL PROCESSLIST", "/* shunt: shard=s0 */ SHOW GRANTS",
		"/* shunt: shard=s0 */ SELECT * FROM information_schema.PROCESSLIST", "SHOW CREATE USER root", "SELECT LOAD_FILE('/etc/passwd')", "/* shunt: shard=s0 */ SELECT LOAD_FILE('/etc/passwd')",
		"SET @a = LOAD_FILE('/etc/passwd')", "SET SESSION binlog_format = 'STATEMENT'", "SELECT asynchronous_connection_failover_reset()",
	} {
		fails(t, r, query, 1227, "")
	}
	if st, err := r.PrepareContext(t.Context(), "UPDATE people SET city = ?"); err == nil {
		_ = st.Close()
		t.Error("a write can be prepared")
	}
	s.unsent("people")
	s.unsent("notes")
	s.p.SetUsers(map[string]User{"reader": {}})
	if _, err := r.ExecContext(t.Context(), "UPDATE people SET city = 'x' WHERE id = 3"); err != nil {
		t.Errorf("the same connection when he may write: %v", err)
	}
}

// TestLocksElsewhere: a lock that another statement than SELECT or DO would take stays with a
// pooled connection.
func TestLocksElsewhere(t *testing.T) {
	t.Parallel()
	s := serve(t, 2, fakeOptions{})
	c := s.conn()
	for _, sql := range []string{
		"EXPLAIN ANALYZE SELECT GET_LOCK('elsewhere', 0)", "CALL told(GET_LOCK('elsewhere', 0))", "CALL told(`get_lock`('elsewhere', 0))", "SHOW VARIABLES WHERE GET_LOCK('elsewhere', 0)",
		"SHOW TABLES WHERE GET_LOCK('elsewhere', 0)", "CREATE TEMPORARY TABLE held SELECT GET_LOCK('elsewhere', 0) AS g",
	} {
		fails(t, c, sql, 1235, "take the lock by a statement of its own")
	}
	fails(t, c, "SELECT GET_LOCK('m', 1) FROM people", 1235, "without tables")
	s.unsent("elsewhere")
}

// TestReservedNames: Shunt's own tables are not for clients.
func TestReservedNames(t *testing.T) {
	t.Parallel()
	s := serve(t, 2, fakeOptions{})
	const table = "shunt_scratch.owner_serial_5"
	s.refuses("root", true, []refusal{
		{1044, "USE shunt_scratch"},
		{1044, "SELECT * FROM " + table},
		{1044, "INSERT INTO " + table + " VALUES (18446744073709551615)"},
		{1044, "/* shunt: shard=s0 */ INSERT INTO " + table + " VALUES (18446744073709551615)"},
		{1044, "/* shunt: shard=s0 */ DROP TABLE " + table},
		{1044, "/* shunt: shard=s0 */ DROP DATABASE Shunt_Scratch"},
		{1044, "DROP DATABASE `shunt_scratch`"},
		{1044, "CREATE TABLE shunt_scratch.a (id INT PRIMARY KEY)"},
		{1044, "RENAME TABLE people TO shunt_scratch.people"},
		{1044, "CREATE VIEW v AS SELECT * FROM " + table},
		{1044, "CREATE TRIGGER tr AFTER INSERT ON people FOR EACH ROW DELETE FROM " + table},
		{1044, "SHOW TABLES FROM shunt_scratch"},
		{1044, "CHECK TABLE " + table},
	})
	s.unsent("shunt_scratch")
	if err := s.ping("root", "", "shunt_scratch"); err == nil {
		t.Error("the schema can be chosen at log-in")
	}
}
