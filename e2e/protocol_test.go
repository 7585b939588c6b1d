package e2e

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// packetPair is a client of Shunt's and one of a plain server's.
type packetPair struct {
	t            *testing.T
	shunt, plain *packetClient
	// schemas are their names, which are made equal before answers are compared.
	schema, plainSchema string
}

// packetSides starts Shunt and makes an account and a schema on a plain server.
func packetSides(t *testing.T, f *flavour) (dial func(t *testing.T, capabilities uint32) *packetPair) {
	t.Helper()
	p, _ := startPeople(t, f, 0, setup{})
	server := f.servers(t)[3]
	plainSchema := p.schema + "_plain"
	admin := onShard(t, server, "")
	for _, sql := range []string{"CREATE DATABASE " + plainSchema, "CREATE USER " + plainSchema + " IDENTIFIED BY ''", "GRANT ALL ON *.* TO " + plainSchema} {
		mustExec(t, admin, sql)
	}
	t.Cleanup(func() {
		_, _ = admin.Exec("DROP DATABASE " + plainSchema) //nolint:noctx // the test's is over
		_, _ = admin.Exec("DROP USER " + plainSchema)     //nolint:noctx // the test's is over
	})
	mustExec(t, plainConn(t, f, plainSchema), people)
	return func(t *testing.T, capabilities uint32) *packetPair {
		out := &packetPair{t, dialPackets(t, p.addr, "empty", p.schema, capabilities), dialPackets(t, server.Addr(), plainSchema, plainSchema, capabilities), p.schema, plainSchema}
		out.shunt.unordered, out.plain.unordered = f.name == throwaway.MariaDB, f.name == throwaway.MariaDB
		return out
	}
}

// both compares what the two do.
func (p *packetPair) both(what string, do func(c *packetClient) string) {
	p.t.Helper()
	plain := do(p.plain)
	shunt := do(p.shunt)
	if os.Getenv("SHUNT_E2E_SHOW") != "" {
		p.t.Logf("%s\n%s", what, plain)
	}
	if want := strings.ReplaceAll(plain, p.plainSchema, p.schema); shunt != want {
		p.t.Errorf("%s:\nshunt: %s\nplain: %s", what, shunt, want)
	}
}

func (p *packetPair) query(sql ...string) {
	p.t.Helper()
	for _, sql := range sql {
		p.both(sql, func(c *packetClient) string {
			if c == p.plain {
				return c.query(strings.ReplaceAll(sql, "SCHEMA", p.plainSchema))
			}
			return c.query(strings.ReplaceAll(sql, "SCHEMA", p.schema))
		})
	}
}

// TestDeprecateEOF: answers of every kind, as a server gives them to clients with
// and without EOF packets.
func TestDeprecateEOF(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		dial := packetSides(t, f)
		for name, capabilities := range map[string]uint32{"EOF": 0, "no EOF": mysql.CLIENT_DEPRECATE_EOF} {
			t.Run(name, func(t *testing.T) {
				p := dial(t, capabilities)
				if !p.shunt.supported(mysql.CLIENT_DEPRECATE_EOF) {
					t.Fatal("not announced")
				}
				p.query("DELETE FROM people",
					"INSERT INTO people (id, email, age) VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3), (4, 'd', 4), (5, 'e', 5), (6, 'f', 6), (7, 'g', 7), (8, 'h', 8)",
					"SELECT id, email FROM people WHERE id = 3",                                  // one shard
					"SELECT id, email FROM people WHERE id = 300",                                // no row
					"SELECT email FROM people WHERE id IN (4)",                                   //
					"SELECT COUNT(*) FROM people",                                                // a merge
					"SELECT id, email FROM people ORDER BY id",                                   // rows of several
					"SELECT a.id FROM people a JOIN people b ON a.age = b.age + 1 ORDER BY a.id", // a gather
					"SELECT 'one'",
					"SELECT nonsense FROM people WHERE id = 1",
					"SELECT 1/0, 'x' FROM people WHERE id = 1", // a warning
					"SHOW WARNINGS",
					"SELECT email FROM people WHERE id = 1; UPDATE people SET age = 5 WHERE id = 1; SELECT email FROM people WHERE id = 2; SELECT nonsense",
					"SELECT email FROM people WHERE id = 1; SELECT COUNT(*) FROM people; SET @a = 1",
					"BEGIN", "SELECT email FROM people WHERE id = 2 FOR UPDATE", "COMMIT",
					"USE SCHEMA", "SHOW TABLES LIKE 'people'",
				)
				for _, c := range []byte{mysql.COM_PING, mysql.COM_RESET_CONNECTION} {
					p.both("command", func(r *packetClient) string { r.say(c); return r.answer() })
				}
				p.both("COM_SET_OPTION", func(r *packetClient) string { r.say(mysql.COM_SET_OPTION, []byte{0, 0}); return r.answer() })
				p.both("COM_INIT_DB", func(r *packetClient) string {
					if r == p.plain {
						r.say(mysql.COM_INIT_DB, []byte(p.plainSchema))
					} else {
						r.say(mysql.COM_INIT_DB, []byte(p.schema))
					}
					return r.answer()
				})
				p.prepared()
			})
		}
	})
}

// changeUser has the session begin anew with this collation.
func (p *packetPair) changeUser(collation int) {
	p.t.Helper()
	p.both(fmt.Sprint("COM_CHANGE_USER with collation ", collation), func(r *packetClient) string {
		user, schema := "empty", p.schema
		if r == p.plain {
			user, schema = p.plainSchema, p.plainSchema
		}
		r.say(mysql.COM_CHANGE_USER, []byte(user), []byte{0, 0}, []byte(schema), []byte{0, byte(collation), byte(collation >> 8)}, []byte(mysql.AUTH_NATIVE_PASSWORD), []byte{0, 0})
		var out strings.Builder
		r.describeEnd(&out, r.authenticated())
		return out.String()
	})
}

// prepared prepares statements of all kinds, and executes them with and without
// cursors.
func (p *packetPair) prepared() {
	p.t.Helper()
	for _, sql := range []string{
		"SELECT id, email FROM people WHERE id = 3", "SELECT id, email FROM people ORDER BY id", "SELECT COUNT(*) FROM people", "SELECT 'one'",
		"UPDATE people SET age = 7 WHERE id = 3", "SELECT a.id FROM people a JOIN people b ON a.age = b.age + 1 ORDER BY a.id", "SELECT nonsense",
	} {
		ids := map[*packetClient]uint32{}
		p.both("prepare "+sql, func(c *packetClient) (out string) { ids[c], out = c.prepare(sql); return out })
		if ids[p.plain] == 0 {
			continue
		}
		execute := func(flags byte) {
			p.t.Helper()
			p.both("execute "+sql, func(c *packetClient) string {
				c.say(mysql.COM_STMT_EXECUTE, uint32s(ids[c]), []byte{flags}, uint32s(1))
				if flags == 0 || !c.has(mysql.CLIENT_DEPRECATE_EOF) {
					return c.answer()
				}
				return c.answerOfCursor()
			})
		}
		execute(0)
		if !strings.HasPrefix(sql, "SELECT") {
			execute(1)
			continue
		}
		for _, n := range []uint32{3, 10} {
			execute(1)
			for range 3 {
				p.both("fetch "+sql, func(c *packetClient) string {
					c.say(mysql.COM_STMT_FETCH, uint32s(ids[c], n))
					var out strings.Builder
					c.rows(&out)
					return out.String()
				})
			}
		}
	}
}

// TestOptionalMetadata: SET resultset_metadata = NONE, for a client that may.
func TestOptionalMetadata(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		dial := packetSides(t, f)
		const optional = mysql.CLIENT_OPTIONAL_RESULTSET_METADATA
		for name, capabilities := range map[string]uint32{"EOF": optional, "no EOF": optional | mysql.CLIENT_DEPRECATE_EOF | mysql.CLIENT_SESSION_TRACK, "not asked for": 0} {
			if f.name == throwaway.MariaDB {
				capabilities &^= optional // it has none, nor has Shunt before it
			}
			t.Run(name, func(t *testing.T) {
				p := dial(t, capabilities)
				if p.shunt.supported(optional) != p.plain.supported(optional) {
					t.Fatalf("announced %v", p.shunt.supported(optional))
				}
				p.query("INSERT INTO people (id, email, age) VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3), (4, 'd', 4), (5, 'e', 5), (6, 'f', 6), (7, 'g', 7), (8, 'h', 8)")
				for _, set := range []string{"SET @a = 1", "SET resultset_metadata = NONE", "SET resultset_metadata = 'FULL'", "SET @@session.resultset_metadata = 0", "SET resultset_metadata = DEFAULT"} {
					p.query(set,
						"SELECT email FROM people WHERE id = 3", "SELECT email FROM people WHERE id = 300", "SELECT id, email FROM people ORDER BY id", "SELECT COUNT(*) FROM people",
						"SELECT a.id FROM people a JOIN people b ON a.age = b.age + 1 ORDER BY a.id", "SELECT nonsense FROM people", "SHOW WARNINGS", "SELECT 1; DO 1; SELECT COUNT(*), 'x' FROM people",
						"SELECT @@resultset_metadata", "SELECT @@session.resultset_metadata, id FROM people WHERE id = 1", "SHOW VARIABLES LIKE 'resultset_metadata'",
						"SHOW TABLES LIKE 'people'", "UPDATE people SET age = 20 WHERE id = 8", "SET resultset_metadata = 5")
					p.prepared()
					p.both("COM_FIELD_LIST", func(c *packetClient) string {
						c.say(mysql.COM_FIELD_LIST, []byte("people\x00"))
						n := 0
						for ; ; n++ {
							if end := c.packet(); end[0] == mysql.EOF_HEADER {
								return fmt.Sprintf("%d columns %x", n, end)
							}
						}
					})
				}
				p.query("SET resultset_metadata = NONE")
				p.both("reset", func(c *packetClient) string { c.say(mysql.COM_RESET_CONNECTION); return c.answer() })
				p.query("SELECT 1", "DELETE FROM people")
			})
		}
	})
}

// transactionsToTrack is what session_track_transaction_info tells of.
var transactionsToTrack = []string{
	"DELETE FROM people", "INSERT INTO people (id, email, age) VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3), (4, 'd', 4)",
	"SET session_track_transaction_info = 'STATE'", "SELECT 1", "SELECT id FROM people WHERE id = 2", "UPDATE people SET age = 9 WHERE id = 2", "UPDATE people SET age = 8",
	"BEGIN", "SELECT 1", "SELECT id FROM people WHERE id = 2", "SELECT id FROM people WHERE id = 2", "UPDATE people SET age = 7 WHERE id = 2", "DO 1", "COMMIT",
	"START TRANSACTION WITH CONSISTENT SNAPSHOT", "DO 1", "ROLLBACK",
	"BEGIN", "SELECT UUID() = ''", "INSERT INTO people (id) VALUES (5)", "SAVEPOINT a", "ROLLBACK TO a", "COMMIT AND CHAIN", "SELECT COUNT(*) FROM people", "ROLLBACK AND CHAIN", "ROLLBACK",
	"SET autocommit = 0", "SELECT 1", "SELECT COUNT(*) FROM people", "COMMIT", "UPDATE people SET age = 6", "ROLLBACK", "BEGIN", "COMMIT", "SET autocommit = 1",
	"LOCK TABLES people WRITE", "SELECT COUNT(*) FROM people", "UPDATE people SET age = 5 WHERE id = 1", "UNLOCK TABLES", "LOCK TABLES people READ", "BEGIN", "UNLOCK TABLES",
	"START TRANSACTION READ ONLY", "SELECT COUNT(*) FROM people", "COMMIT", "BEGIN", "CREATE TABLE x (i INT PRIMARY KEY)", "DROP TABLE x",
	"BEGIN", "SELECT nonsense FROM nosuch", "SELECT id FROM people WHERE id = 99", "UPDATE people SET age = 3 WHERE id = 99", "ROLLBACK", "BEGIN", "INSERT INTO people (id) VALUES (1)", "DO 1", "SELECT 1", "ROLLBACK",
	"BEGIN", "BEGIN", "SELECT id FROM people WHERE id = 1 FOR UPDATE", "ROLLBACK", "BEGIN", "SELECT id FROM people ORDER BY id LOCK IN SHARE MODE", "ROLLBACK", "BEGIN", "SET @a = 1", "SHOW WARNINGS", "ROLLBACK",
	"BEGIN", "SELECT id FROM people ORDER BY id LIMIT 1", "SELECT a.id FROM people a JOIN people b ON a.age = b.age AND a.id = b.id + 1 ORDER BY a.id", "ROLLBACK",
	"BEGIN", "UPDATE people SET age = 2 ORDER BY id LIMIT 1", "DELETE FROM people WHERE id > 3", "ROLLBACK", "BEGIN", "SELECT @@autocommit", "ROLLBACK", "BEGIN", "SELECT LENGTH(USER()) > 0", "ROLLBACK", "BEGIN", "SELECT DATABASE() = '', NOW() = 0, LAST_INSERT_ID() < 0, CONNECTION_ID() < 0", "ROLLBACK",
	"BEGIN", "REPLACE INTO people (id) VALUES (2)", "INSERT IGNORE INTO people (id) VALUES (2)", "ROLLBACK", "BEGIN", "INSERT INTO people (id, age) SELECT id + 100, age FROM people", "ROLLBACK",
	"BEGIN", "WITH c AS (SELECT id FROM people) SELECT COUNT(*) FROM c", "ROLLBACK", "BEGIN", "SELECT 1; SELECT id FROM people WHERE id = 1; DO 1", "COMMIT",
	"SET TRANSACTION READ ONLY", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SELECT id FROM people WHERE id = 1", "SELECT id FROM people WHERE id = 1",
	"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "BEGIN", "ROLLBACK", "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
	"SET session_track_transaction_info = 'CHARACTERISTICS'", "SELECT 1", "BEGIN", "COMMIT", "BEGIN", "SELECT COUNT(*) FROM people", "COMMIT AND CHAIN", "ROLLBACK",
	"START TRANSACTION READ ONLY", "COMMIT", "START TRANSACTION READ WRITE", "COMMIT", "START TRANSACTION WITH CONSISTENT SNAPSHOT", "COMMIT", "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY", "COMMIT",
	"SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "BEGIN", "COMMIT", "SET TRANSACTION READ ONLY", "BEGIN", "COMMIT",
	"SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY", "BEGIN", "SELECT COUNT(*) FROM people", "COMMIT", "SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY", "START TRANSACTION READ WRITE", "COMMIT AND CHAIN", "COMMIT",
	"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SELECT 1", "SELECT id FROM people WHERE id = 1", "SET SESSION TRANSACTION READ ONLY", "BEGIN", "COMMIT", "SET SESSION TRANSACTION READ WRITE",
	"SET TRANSACTION READ ONLY", "SET TRANSACTION READ WRITE", "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED", "ROLLBACK", "SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "BEGIN", "BEGIN", "COMMIT",
	"SET autocommit = 0", "SELECT COUNT(*) FROM people", "COMMIT", "SET TRANSACTION READ ONLY", "SELECT COUNT(*) FROM people", "COMMIT", "UPDATE people SET age = 1 WHERE id = 1", "COMMIT AND CHAIN", "UPDATE people SET age = 1 WHERE id = 1", "COMMIT", "SET autocommit = 1",
	"SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "UPDATE people SET age = 1 WHERE id = 1", "SET session_track_transaction_info = 'STATE'", "BEGIN", "SET session_track_transaction_info = 'CHARACTERISTICS'", "SET session_track_transaction_info = 'OFF'", "ROLLBACK",
	"SET session_track_transaction_info = 5", "SET session_track_transaction_info = NULL", "SELECT @@session_track_transaction_info",
}

// TestSessionTracking: what a server tells of a session with its OK packets, Shunt
// tells of its own, and nothing of what it does on the shards' connections.
func TestSessionTracking(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		dial := packetSides(t, f)
		for name, capabilities := range map[string]uint32{"EOF": mysql.CLIENT_SESSION_TRACK, "no EOF": mysql.CLIENT_SESSION_TRACK | mysql.CLIENT_DEPRECATE_EOF, "not asked for": 0} {
			t.Run(name, func(t *testing.T) {
				p := dial(t, capabilities)
				p.both("login", func(c *packetClient) string {
					var out strings.Builder
					c.describeEnd(&out, c.login)
					if f.name == throwaway.MariaDB {
						return regexp.MustCompile(`(?m)^ *change 0 .*\n`).ReplaceAllString(out.String(), "") // 11.8 tells of all variables
					}
					return out.String()
				})
				statements := []string{
					"USE SCHEMA", "USE SCHEMA", "USE no_such_schema", "DO 1",
					"SET autocommit = 0", "SET autocommit = 1", "SET autocommit = on",
					"SET NAMES utf8mb4", "SET NAMES latin1", "SET NAMES utf8mb4 COLLATE utf8mb4_bin", "SET NAMES utf8mb4, @c = 1",
					"SET time_zone = '+2:00'", "SET time_zone = 'SYSTEM'", "SET SESSION time_zone = DEFAULT", "SET @@session.time_zone = CONCAT('+0', '1:00')",
					"SET time_zone = 'no such zone'", "SET time_zone = '+03:00', nonsense = 1",
					"SET character_set_results = NULL", "SET character_set_results = utf8mb4", "SET character_set_client = utf8mb4", "SET character_set_connection = utf8mb4",
					"SET sql_mode = ''", "SET wait_timeout = 100", "SET @a = 1", "SET autocommit = 1, time_zone = '+1:00', character_set_client = latin1", "SET NAMES utf8mb4",
					"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
					// Statements of all kinds, over one shard and over several.
					"INSERT INTO people (id, email, age) VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3), (4, 'd', 4)", "UPDATE people SET age = 9 WHERE id = 2", "UPDATE people SET age = 8",
					"SELECT email FROM people WHERE id = 2", "SELECT id FROM people ORDER BY id", "SELECT COUNT(*) FROM people", "SELECT a.id FROM people a JOIN people b ON a.age = b.age AND a.id = b.id + 1 ORDER BY a.id",
					"BEGIN", "UPDATE people SET age = 9 WHERE id = 2", "UPDATE people SET age = 8", "COMMIT", "DELETE FROM people",
					"BEGIN", "BEGIN", "COMMIT AND CHAIN", "UPDATE people SET age = 8", "ROLLBACK AND CHAIN", "CREATE TABLE x (i INT PRIMARY KEY)", "DROP TABLE x",
					"BEGIN", "SELECT GET_LOCK('SCHEMA', 0)", "DO RELEASE_LOCK('SCHEMA')", "SELECT IS_FREE_LOCK('SCHEMA')", "ROLLBACK",
					"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT", "SELECT COUNT(*) FROM people", "ROLLBACK", "BEGIN", "SELECT nonsense", "SET autocommit = 0", "SET autocommit = 1",
					"SET autocommit = 0", "SELECT COUNT(*) FROM people", "UPDATE people SET age = 8", "COMMIT", "BEGIN", "SELECT COUNT(*) FROM people", "ROLLBACK", "SET autocommit = 1",
					"SET session_track_state_change = 1", "SET @a = 2", "USE SCHEMA", "SET sql_mode = ''", "SET NAMES utf8mb4", "SELECT 1",
					"CREATE TEMPORARY TABLE tt (i INT)", "INSERT INTO tt VALUES (1)", "ALTER TABLE tt ADD j INT", "TRUNCATE TABLE tt", "DROP TEMPORARY TABLE tt",
					"CREATE TEMPORARY TABLE t2 SELECT 1 AS a", "DROP TABLE t2",
					"SET TRANSACTION READ ONLY", "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SET timestamp = 1000", "SET timestamp = DEFAULT",
					"SET @a = 1, nonsense = 2", "SET session_track_state_change = 1", "SET session_track_state_change = 0", "SET @a = 3",
					"SET session_track_system_variables = ' sql_mode , wait_timeout,max_sort_length,autocommit'",
					"SET sql_mode = 'ANSI_QUOTES', wait_timeout = 70, max_sort_length = 2000, autocommit = 1, time_zone = '+05:00'",
					"SET sql_mode = '', max_sort_length = DEFAULT",
					"SET session_track_system_variables = ''", "SET autocommit = 1", "SET session_track_system_variables = DEFAULT", "SET autocommit = 1",
					"SET session_track_schema = 0", "USE SCHEMA", "SET session_track_schema = ON", "USE SCHEMA", "SET session_track_schema = 5",
					"SELECT @@session_track_schema, @@session_track_state_change",
					"SET session_track_transaction_info = 'OFF'", "SET session_track_transaction_info = 5",
					"USE SCHEMA; SELECT 1; SET @a = 1; SET time_zone = '+01:00'; SET nonsense = 3",
					"CREATE DATABASE SCHEMA_2", "USE SCHEMA_2", "DROP DATABASE SCHEMA_2", "SELECT DATABASE()", "SELECT 1 FROM people", "USE SCHEMA",
				}
				if f.name == throwaway.MySQL {
					// MariaDB 11.8 tells of character_set_connection and of autocommit here.
					statements = append(statements, "SET collation_connection = utf8mb4_bin", "SET session_track_system_variables = 'foreign_key_checks'", "SET foreign_key_checks = 0", "SET foreign_key_checks = DEFAULT")
					statements = append(statements, "SET session_track_gtids = 'OFF'", "SET session_track_system_variables = 'TIME_ZONE, Autocommit'", "SET time_zone = '+06:00', autocommit = ON", "SET session_track_system_variables = DEFAULT")
				} else {
					statements = append(statements, "SET NAMES utf8mb3", "SET NAMES utf8", "SET NAMES utf8mb4", "SET session_track_gtids = 'OFF'", "SET session_track_system_variables = 'autocommit, *'", "SET max_sort_length = 3000", "SET session_track_system_variables = DEFAULT")
				}
				p.query(statements...)
				p.query("BEGIN")
				for _, c := range []byte{mysql.COM_PING, mysql.COM_RESET_CONNECTION, mysql.COM_PING} {
					p.both("command", func(r *packetClient) string { r.say(c); return r.answer() })
				}
				p.query("SET time_zone = '+01:00'")
				p.both("COM_INIT_DB", func(r *packetClient) string {
					if r == p.plain {
						r.say(mysql.COM_INIT_DB, []byte(p.plainSchema))
					} else {
						r.say(mysql.COM_INIT_DB, []byte(p.schema))
					}
					return r.answer()
				})
				p.changeUser(45)
				p.query("SET autocommit = 1")
				id := map[*packetClient]uint32{}
				p.both("prepare", func(c *packetClient) (out string) { id[c], out = c.prepare("SET time_zone = '+02:00'"); return out })
				p.both("execute", func(c *packetClient) string {
					c.say(mysql.COM_STMT_EXECUTE, uint32s(id[c]), []byte{0}, uint32s(1))
					return c.answer()
				})
				for _, refused := range []string{"SET session_track_gtids = 'OWN_GTID'"} {
					if got := p.shunt.query(refused); !strings.HasPrefix(got, "ERR 1235") && (f.name != throwaway.MariaDB || !strings.HasPrefix(got, "ERR 1193")) {
						t.Errorf("%s: %s", refused, got)
					}
					if name != "no EOF" {
						return // an EOF packet has no place for changes, and servers forget them then
					}
					p.query(transactionsToTrack...)
					if f.name == throwaway.MySQL {
						p.query("SET SESSION session_track_transaction_info = 'OFF'", "BEGIN", "SET session_track_transaction_info = 'STATE'", "SET session_track_transaction_info = 2", "ROLLBACK", "SET session_track_transaction_info = DEFAULT",
							"BEGIN", "SELECT COUNT(*) FROM people", "COMMIT", "SET session_track_transaction_info = STATE", "BEGIN", "SHOW TABLES LIKE 'x'", "DESC people", "COMMIT", "BEGIN", "SHOW VARIABLES LIKE 'autocommit'", "COMMIT",
							"BEGIN", "SELECT COUNT(*) FROM people FOR SHARE", "COMMIT", "BEGIN", "DO IS_FREE_LOCK('SCHEMA')", "SELECT GET_LOCK('SCHEMA', 0)", "SELECT RELEASE_ALL_LOCKS()", "COMMIT", "SET session_track_transaction_info = OFF")
					}
				}
			})
		}
	})
}

// TestConnectionAttributes: what clients say of themselves is shown as a server
// shows it, by Shunt's own numbers of connections.
func TestConnectionAttributes(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{users: []string{"{name: other, password: ''}"}})
		name := strings.Repeat("n", 40)
		c := dialPackets(t, p.addr, "empty", p.schema, 0, "program_name", "it's", "_pid", "12", "nothing", "", name, "v")
		dialPackets(t, p.addr, "other", p.schema, 0, "program_name", "another")
		const own = "SELECT ATTR_NAME, ATTR_VALUE, ORDINAL_POSITION FROM performance_schema.session_connect_attrs WHERE PROCESSLIST_ID = CONNECTION_ID() ORDER BY ORDINAL_POSITION"
		rows := fmt.Sprintf("row %x\nrow %x\nrow %x\nrow %x\n", "\x0cprogram_name\x04it's\x010", "\x04_pid\x0212\x011", "\x07nothing\xfb\x012", "\x20"+name[:32]+"\x01v\x013")
		if got := c.query(own); !strings.Contains(got, "\n"+rows+"EOF") {
			t.Errorf("got %s, want %s", got, rows)
		}
		names := func(sql string, want ...string) {
			t.Helper()
			var rows string
			for _, w := range want {
				rows += fmt.Sprintf("row %x\n", append([]byte{byte(len(w))}, w...))
			}
			if got := c.query(sql); !strings.Contains(got, "\n"+rows+"EOF") {
				t.Errorf("%s: %s, want %v", sql, got, want)
			}
		}
		names("SELECT ATTR_VALUE FROM performance_schema.session_connect_attrs WHERE ATTR_NAME = 'program_name' AND ATTR_VALUE IN ('another', 'it''s', 'shunt') ORDER BY 1", "another", "it's")
		names("SELECT a.ATTR_VALUE FROM performance_schema.session_account_connect_attrs AS a WHERE a.ATTR_NAME = 'program_name'", "it's")
		if got := c.query("USE performance_schema"); !strings.HasPrefix(got, "OK") {
			t.Fatal(got)
		}
		names("SELECT ATTR_VALUE FROM session_account_connect_attrs WHERE ATTR_NAME = 'program_name'", "it's")
		names("SELECT session_account_connect_attrs.ATTR_VALUE FROM session_account_connect_attrs WHERE performance_schema.session_account_connect_attrs.ATTR_NAME = 'program_name'", "it's")

		// Another user's after COM_CHANGE_USER, which brings attributes of its own.
		c.say(mysql.COM_CHANGE_USER, []byte("other"), []byte{0, 0}, []byte(p.schema), []byte{0, 45, 0}, []byte(mysql.AUTH_NATIVE_PASSWORD), []byte("\x00\x12\x0cprogram_name\x04next"))
		if end := c.authenticated(); end[0] != mysql.OK_HEADER {
			t.Fatalf("%q", end)
		}
		names("SELECT ATTR_VALUE FROM performance_schema.session_account_connect_attrs WHERE ATTR_NAME = 'program_name' ORDER BY 1", "another", "next")
	})
}

// TestNoMariaDBExtensions: what Shunt hasn't of MariaDB's own protocol it doesn't
// announce, and a client that asks for it all the same gets plain answers.
func TestNoMariaDBExtensions(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{})
		c := dialPackets(t, p.addr, "empty", p.schema, 0)
		rest := c.greeting[strings.IndexByte(string(c.greeting), 0)+1:]
		// A MariaDB that has extended capabilities (in the last four of ten bytes that
		// are nothing to MySQL) says so by not being CLIENT_LONG_PASSWORD.
		if !c.supported(mysql.CLIENT_LONG_PASSWORD) || string(rest[21:31]) != strings.Repeat("\x00", 10) {
			t.Errorf("greeting %x", c.greeting)
		}
		// MARIADB_CLIENT_PROGRESS, COM_MULTI, STMT_BULK_OPERATIONS, EXTENDED_METADATA
		// and CACHE_METADATA.
		eager := dialPackets(t, p.addr, "empty", p.schema, mariaDBExtensions)
		if got, want := eager.query("SELECT 'a'"), c.query("SELECT 'a'"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		id, got := eager.prepare("SELECT ?")
		if _, want := c.prepare("SELECT ?"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		const comStmtBulkExecute = 0xfa
		eager.say(comStmtBulkExecute, uint32s(id), []byte{128, 0, 8, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0})
		if got := eager.answer(); !strings.HasPrefix(got, "ERR 1047") {
			t.Error(got)
		}
		if got := eager.query("DO 1"); got != "OK 00 0 0 0002 0\n" {
			t.Error(got)
		}
	})
}

// TestIgnoreSpace: Node.js's drivers ask for the SQL mode IGNORE_SPACE by a flag of the
// handshake.
func TestIgnoreSpace(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		dial := packetSides(t, f)
		for _, capabilities := range []uint32{mysql.CLIENT_IGNORE_SPACE, 0} {
			p := dial(t, capabilities)
			look := []string{"SELECT @@sql_mode", "SELECT COUNT (*), MAX (id) FROM people", "SELECT NOW () > 0"}
			p.query(look...)
			p.query("SET sql_mode = ''")
			p.query(look...)
			p.query("SET sql_mode = DEFAULT")
			p.query(look...)
			p.both("reset", func(r *packetClient) string { r.say(mysql.COM_RESET_CONNECTION); return r.answer() })
			p.query(look...)
			p.changeUser(45)
			p.query(look...)
		}
	})
}

// TestChangeUserCollation: COM_CHANGE_USER has place for numbers that a handshake hasn't.
func TestChangeUserCollation(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := packetSides(t, f)(t, 0)
		for _, id := range []int{309, 255, 46, 8} { // the first two are MySQL's alone
			p.changeUser(id)
			p.query("SELECT @@character_set_client, @@collation_connection, @@character_set_results")
		}
	})
}

// TestWithoutSchema: a session that has none gets no other client's by the connections that it
// borrows, and one whose schema somebody has dropped goes on.
func TestWithoutSchema(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		dial := packetSides(t, f)
		p, q := dial(t, 0), dial(t, 0)
		p.query("INSERT INTO people (id) VALUES (1), (2), (3), (4), (5), (6), (7), (8)", "CREATE FUNCTION one() RETURNS INT DETERMINISTIC NO SQL RETURN 1",
			"CREATE DATABASE SCHEMA_2", "CREATE TABLE SCHEMA_2.x (i INT PRIMARY KEY)", "SELECT COUNT(*) FROM people")
		none := &packetPair{
			t, dialPackets(t, p.shunt.nc.RemoteAddr().String(), "empty", "", 0), dialPackets(t, p.plain.nc.RemoteAddr().String(), p.plainSchema, "", 0),
			p.schema, p.plainSchema,
		}
		fails := func(p *packetPair, statements ...string) {
			t.Helper()
			for _, sql := range statements {
				if shunt, plain := p.shunt.query(sql), p.plain.query(sql); !strings.HasPrefix(plain, "ERR") || !strings.HasPrefix(shunt, "ERR") {
					t.Errorf("%s: %s, a server: %s", sql, shunt, plain)
				}
			}
		}
		fails(none, "SELECT one()", "DO one()", "SET @x = one() + 1", "SELECT * FROM (SELECT one()) x", "SHOW EVENTS", "SHOW CREATE FUNCTION one", "SHOW TABLES", "/* shunt: shard=s0 */ DELETE FROM people")
		none.both("COM_FIELD_LIST", func(c *packetClient) string {
			c.say(mysql.COM_FIELD_LIST, []byte("people\x00"))
			return describeError(c.packet())
		})
		none.query("SELECT DATABASE() IS NULL, 1", "SELECT COUNT(*) FROM SCHEMA.people")

		q.query("USE SCHEMA_2", "SELECT * FROM x")
		p.shunt.query("DROP DATABASE " + p.schema + "_2")
		p.plain.query("DROP DATABASE " + p.plainSchema + "_2")
		q.query("SELECT 1", "SELECT DATABASE() = 'SCHEMA_2'", "SELECT DATABASE() = 'SCHEMA_2', id FROM SCHEMA.people WHERE id = 3", "SET @x = 5", "SELECT @x + 1", "SET time_zone = '+01:00'",
			"SELECT COUNT(*) FROM SCHEMA.people", "BEGIN", "UPDATE SCHEMA.people SET age = 5 WHERE id = 3", "ROLLBACK")
		fails(q, "SELECT * FROM x", "SHOW TABLES", "CREATE TABLE y (i INT PRIMARY KEY)", "INSERT INTO x VALUES (1)")
		q.query("USE SCHEMA", "SELECT id FROM people WHERE id = 3")
	})
}

// TestEmptyQueries: of nothing at all a server says so; a comment is a statement.
func TestEmptyQueries(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		packetSides(t, f)(t, 0).query("", " ", ";", "\n ;", "/* nothing */", "-- nothing", "# nothing\n")
	})
}

// TestEndedByNUL: mysqlslap sends its statements with the byte 0 at their end.
func TestEndedByNUL(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		packetSides(t, f)(t, 0).query("SELECT 1\x00", "SELECT 1\x00 ;\n", "SELECT 1 -- one\x00", "SELECT 'a\x00'", "\x00")
	})
}
