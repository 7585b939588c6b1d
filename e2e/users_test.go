package e2e

import (
	"context"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

func (p *process) as(user, schema string, change ...func(*mysql.Config)) *sql.DB {
	p.t.Helper()
	return open(p.t, p.addr, user, "pw", schema, change...)
}

// TestUserSchemas: a user who may see some schemas gets a server's errors for the
// others, whatever way he names them, and sees nothing of them.
func TestUserSchemas(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 20, setup{users: []string{"{name: narrow, password: pw, schemas: [SCHEMA]}"}})
		other := p.schema + "_other"
		mustExec(t, c, "CREATE DATABASE "+other)
		t.Cleanup(func() { _, _ = p.open("").ExecContext(context.Background(), "DROP DATABASE "+other) })
		mustExec(t, c, "CREATE TABLE "+other+".secrets (id BIGINT PRIMARY KEY, secret VARCHAR(100))")
		mustExec(t, c, "INSERT INTO "+other+".secrets VALUES (1, 'hidden'), (2, 'hidden')")
		mustExec(t, c, "CREATE TABLE "+other+"_t (id BIGINT PRIMARY KEY)")
		narrow, err := p.as("narrow", p.schema).Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer narrow.Close()

		want(t, narrow, "SELECT id FROM people WHERE email = 'p7@x'", "id", "7")
		want(t, narrow, "SELECT COUNT(*) AS n FROM "+p.schema+".people AS secrets WHERE secrets.id >= 0", "n", "20")
		mustExec(t, narrow, "UPDATE people SET age = 30 WHERE id = 7")
		mustExec(t, narrow, "CREATE TABLE mine (id BIGINT PRIMARY KEY)")
		mustExec(t, narrow, "DROP TABLE mine")
		mustExec(t, narrow, "USE "+p.schema)

		for _, x := range refusals(t, "schemas", other, strings.ToUpper(p.schema)) {
			query := x.sql
			_, err := narrow.ExecContext(t.Context(), query)
			if err == nil {
				t.Errorf("%s: no error", query)
				continue
			}
			wantError(t, err, x.code, "")
			if strings.Contains(err.Error(), "hidden") {
				t.Errorf("%s: %v", query, err)
			}
			if st, err := narrow.PrepareContext(t.Context(), query); err == nil {
				_ = st.Close()
				t.Errorf("%s can be prepared", query)
			}
		}
		// A table that is named as a schema is none.
		mustExec(t, c, "CREATE TABLE "+other+" (id BIGINT PRIMARY KEY)")
		mustExec(t, narrow, "INSERT INTO "+other+" VALUES (5)")
		want(t, narrow, "SELECT "+other+".id FROM "+other, "id", "5")
		mustRows(t, narrow, "SHOW COLUMNS FROM "+other)

		// What is seen of the others.
		for _, query := range []string{
			"SHOW DATABASES", "SHOW SCHEMAS LIKE '%'", "SELECT * FROM information_schema.SCHEMATA", "SELECT * FROM information_schema.TABLES",
			"SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES", "SELECT * FROM information_schema.COLUMNS WHERE TABLE_NAME = 'secrets'",
			"SELECT * FROM information_schema.STATISTICS", "SELECT * FROM information_schema.KEY_COLUMN_USAGE", "SELECT * FROM information_schema.TABLE_CONSTRAINTS",
			"SHOW VIRTUAL INDEXES", "SHOW PROCESSLIST", "SELECT * FROM information_schema.PROCESSLIST",
		} {
			rows, err := rowsOf(t.Context(), narrow, query)
			if err != nil {
				t.Errorf("%s: %v", query, err)
			}
			for _, r := range rows {
				for column, v := range r {
					if strings.EqualFold(v, other) && !strings.EqualFold(column, "TABLE_NAME") || v == "secrets" || v == "mysql" || column == "User" && v == "app" {
						t.Errorf("%s shows %s = %s", query, column, v)
					}
				}
			}
			if len(rows) == 0 && !strings.Contains(query, "'secrets'") {
				t.Errorf("%s shows nothing", query)
			}
		}
		want(t, narrow, "SELECT TABLE_NAME AS t FROM information_schema.TABLES WHERE TABLE_NAME = 'people' AND TABLE_SCHEMA = DATABASE()", "t", "people")

		wantError(t, p.as("narrow", other).PingContext(t.Context()), 1044, other)
		wantError(t, p.as("narrow", "mysql").PingContext(t.Context()), 1044, "mysql")
		if err := p.as("narrow", "").PingContext(t.Context()); err != nil {
			t.Error(err)
		}
		// More with a reload, and back; the connection stays.
		p.reload("schemas: ["+p.schema+"]", "schemas: ["+p.schema+", "+other+"]")
		want(t, narrow, "SELECT secret FROM "+other+".secrets WHERE id = 1", "secret", "hidden")
		mustExec(t, narrow, "USE "+other)
		want(t, narrow, "SELECT COUNT(*) AS n FROM secrets", "n", "2")
		p.reload("schemas: ["+p.schema+", "+other+"]", "schemas: ["+p.schema+"]")
		_, err = narrow.ExecContext(t.Context(), "SELECT * FROM secrets")
		wantError(t, err, 1044, other)
		_, err = narrow.ExecContext(t.Context(), "SHOW TABLES")
		wantError(t, err, 1044, other)
		mustExec(t, narrow, "USE "+p.schema)
		want(t, narrow, "SELECT id FROM people WHERE id = 3", "id", "3")
	})
}

// TestUserReach: a user who may see some schemas reaches no others by what Shunt's
// account may do: not by SET and DO, by what he stores, by files, nor by SHOW.
func TestUserReach(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 5, setup{users: []string{"{name: narrow, password: pw, schemas: [SCHEMA]}", "{name: reader, password: pw, read_only: true}"}})
		other, upper := p.schema+"_other", strings.ToUpper(p.schema)
		for _, schema := range []string{other, upper} {
			mustExec(t, c, "CREATE DATABASE "+schema)
			t.Cleanup(func() { _, _ = p.open("").ExecContext(context.Background(), "DROP DATABASE "+schema) })
			// Without a primary key it is on one shard.
			mustExec(t, c, "CREATE TABLE "+schema+".secrets (id BIGINT, secret VARCHAR(100))")
			mustExec(t, c, "INSERT INTO "+schema+".secrets VALUES (1, 'hidden')")
		}
		mustExec(t, c, "CREATE FUNCTION "+other+".hidden_f() RETURNS INT DETERMINISTIC RETURN 1")
		mustExec(t, c, "CREATE VIEW shown AS SELECT secret FROM "+other+".secrets")
		narrow, err := p.as("narrow", p.schema).Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer narrow.Close()

		for _, x := range refusals(t, "reach", other, strings.ToUpper(p.schema)) {
			query := x.sql
			_, err := narrow.ExecContext(t.Context(), query)
			if wantError(t, err, x.code, ""); err == nil || strings.Contains(err.Error(), "hidden") {
				t.Errorf("%s: %v", query, err)
			}
		}
		for _, query := range []string{"SHOW PROCEDURE STATUS", "SHOW FUNCTION STATUS", "SHOW OPEN TABLES", "SHOW OPEN TABLES LIKE 'secrets'", "SHOW GRANTS", "SHOW EVENTS"} {
			for _, r := range mustRows(t, narrow, query) {
				for column, v := range r {
					if strings.Contains(v, other) || v == "mysql" || v == "sys" || strings.Contains(v, "ALL PRIVILEGES ON *.*") {
						t.Errorf("%s shows %s = %s", query, column, v)
					}
				}
			}
		}
		// SHOW is answered by one shard, what its WHERE asks for too.
		for _, show := range []string{"DATABASES", "VARIABLES", "STATUS", "COLLATION", "CHARACTER SET", "TABLES", "TABLE STATUS", "PROCEDURE STATUS", "ENGINES", "TRIGGERS", "COLUMNS FROM people"} {
			query := "SHOW " + show + " WHERE EXTRACTVALUE(1, CONCAT('~', ((SELECT MAX(SCHEMA_NAME) FROM information_schema.SCHEMATA))))"
			_, err := narrow.ExecContext(t.Context(), query)
			var e *mysql.MySQLError
			if !errors.As(err, &e) || e.Number == 1105 || strings.Contains(e.Message, "~") {
				t.Errorf("%s: %v", query, err)
			}
		}
		// Without a current schema, where a shard's connection has information_schema for none.
		none, err := p.as("narrow", "").Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer none.Close()
		for _, query := range []string{
			"SELECT * FROM processlist", "SET @a = (SELECT GROUP_CONCAT(TABLE_NAME) FROM TABLES)", "SELECT * FROM JSON_TABLE('[1]', '$[*]' COLUMNS (a INT PATH '$')) j, processlist",
			"SELECT COUNT(*) FROM tables WHERE table_name SOUNDS LIKE 'a'", "DO (SELECT COUNT(*) FROM tables)", "CREATE VIEW " + p.schema + ".peek AS SELECT * FROM tables",
			"CREATE VIEW " + p.schema + ".peek AS SELECT j.a, p.TABLE_NAME FROM JSON_TABLE('[1]', '$[*]' COLUMNS (a INT PATH '$')) j, tables p",
		} {
			_, err := none.ExecContext(t.Context(), query)
			if wantError(t, err, 1046, "No database selected"); err == nil {
				t.Errorf("%s: no error", query)
			}
		}
		want(t, none, "SELECT COUNT(*) AS n FROM "+p.schema+".people", "n", "5")
		mustExec(t, none, "SET @a = (SELECT COUNT(*) FROM information_schema.ENGINES), sql_mode = ''")
		// What is his own goes on.
		want(t, narrow, "SELECT secret FROM shown", "secret", "hidden") // as its maker meant it
		for _, query := range []string{
			"CREATE FUNCTION mine(a INT) RETURNS INT DETERMINISTIC RETURN a + 1", "DROP FUNCTION mine",
			"CREATE PROCEDURE mine(IN a INT) BEGIN DECLARE x INT DEFAULT 5; START TRANSACTION; UPDATE people SET age = x, city = 'x' WHERE people.id = -1; IF a > 3 THEN SELECT p.id FROM people p JOIN people q ON p.id = q.id LIMIT 1; END IF; COMMIT; END",
			"DROP PROCEDURE mine",
			"CREATE TRIGGER mine BEFORE INSERT ON people FOR EACH ROW SET NEW.city = UPPER(NEW.city)", "DROP TRIGGER mine",
			"CREATE EVENT mine ON SCHEDULE EVERY 1 DAY DO DELETE FROM people WHERE id < 0", "ALTER EVENT mine RENAME TO mine2", "DROP EVENT mine2",
			"CREATE TABLE mine (id BIGINT PRIMARY KEY, role INT, password INT, file_name INT)", "CREATE VIEW ours AS SELECT role, password FROM mine", "DROP VIEW ours",
			"UPDATE mine SET role = 1, password = 2, file_name = 3 WHERE id = 1", "DROP TABLE mine",
			"INSERT INTO people (id, city) VALUES (1, 'x') ON DUPLICATE KEY UPDATE people.city = 'y', people.age = 20",
			"SET @a = (SELECT COUNT(*) FROM information_schema.ENGINES)", "SET SESSION sql_mode = ''",
		} {
			mustExec(t, narrow, query)
		}
		for _, query := range []string{
			"SELECT EXTRACT(YEAR FROM p.city), TRIM(LEADING 'x' FROM p.city), SUBSTRING(p.city FROM 2), REPLACE(p.city, 'a', 'b') FROM people p WHERE p.id = 1",
			"SHOW FULL COLUMNS FROM people", "SHOW GLOBAL STATUS LIKE 'Uptime'", "SHOW STORAGE ENGINES", "SHOW CHARACTER SET", "DESCRIBE information_schema.TABLES",
		} {
			mustRows(t, narrow, query)
		}

		reader, err := p.as("reader", p.schema).Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		for _, query := range []string{
			"SHOW ENGINE INNODB STATUS", "/* shunt: shard=s0 */ SHOW ENGINE INNODB STATUS", "/* shunt: shard=s0 */ SHOW FULL PROCESSLIST", "/* shunt: shard=s0 */ SHOW GRANTS",
			"/* shunt: shard=s0 */ SELECT * FROM information_schema.PROCESSLIST", "SHOW CREATE USER root", "SELECT LOAD_FILE('/etc/passwd')", "/* shunt: shard=s0 */ SELECT LOAD_FILE('/etc/passwd')",
			"SET @a = LOAD_FILE('/etc/passwd')", "SET SESSION binlog_format = 'STATEMENT'", "SELECT asynchronous_connection_failover_reset()",
		} {
			_, err := reader.ExecContext(t.Context(), query)
			if wantError(t, err, 1227, ""); err == nil {
				t.Errorf("%s: no error", query)
			}
		}
		if f.name == throwaway.MariaDB {
			mustExec(t, c, "/* shunt: shard=s0 */ CREATE SEQUENCE counter")
			for _, query := range []string{"SELECT NEXT VALUE FOR counter", "/* shunt: shard=s0 */ SELECT NEXTVAL(counter)", "/* shunt: shard=s0 */ SELECT SETVAL(counter, 100)"} {
				_, err := reader.ExecContext(t.Context(), query)
				if wantError(t, err, 1290, "read"); err == nil {
					t.Errorf("%s: no error", query)
				}
			}
		}
		if f.name == throwaway.MariaDB {
			for i := range p.servers {
				mustExec(t, p.shard(i), "CREATE SEQUENCE "+other+".hidden_s")
			}
			mustExec(t, c, "CREATE SEQUENCE mine")
			for _, query := range []string{
				"SELECT NEXTVAL(OTHER.hidden_s)", "SELECT NEXT VALUE FOR OTHER.hidden_s", "SELECT PREVIOUS VALUE FOR OTHER.hidden_s", "SELECT LASTVAL(OTHER.hidden_s)",
				"SELECT SETVAL(OTHER.hidden_s, 100)", "DO SETVAL(OTHER.hidden_s, 100)", "SET @a = NEXTVAL(OTHER.hidden_s)", "SELECT 1 + (SELECT `nextval` ( `OTHER` . `hidden_s` ))",
				"SELECT /*M!100300 NEXTVAL(OTHER.hidden_s) */", "SELECT NEXT/**/VALUE/**/FOR OTHER.hidden_s", "SELECT NEXTVAL(OTHER.hidden_s) FROM people OTHER WHERE OTHER.id = 1",
				"INSERT INTO people (id, age) VALUES (200, NEXTVAL(OTHER.hidden_s))", "UPDATE people SET age = NEXTVAL(OTHER.hidden_s) WHERE id = 1", "DELETE FROM people WHERE id = NEXT VALUE FOR OTHER.hidden_s",
				"PREPARE s FROM 'SELECT NEXTVAL(OTHER.hidden_s)'", "EXECUTE IMMEDIATE 'SELECT NEXTVAL(OTHER.hidden_s)'", "SET STATEMENT max_statement_time = 5 FOR SELECT NEXTVAL(OTHER.hidden_s)",
				"CREATE TABLE mine_2 (id BIGINT PRIMARY KEY, n BIGINT DEFAULT NEXTVAL(OTHER.hidden_s))", "CREATE TABLE mine_2 (id BIGINT PRIMARY KEY, n BIGINT DEFAULT (NEXT VALUE FOR OTHER.hidden_s))",
				"ALTER TABLE people ALTER age SET DEFAULT (NEXTVAL(OTHER.hidden_s))", "CREATE VIEW peek AS SELECT NEXTVAL(OTHER.hidden_s)", "CREATE FUNCTION peek() RETURNS INT RETURN NEXTVAL(OTHER.hidden_s)",
				"CREATE TRIGGER peek BEFORE INSERT ON people FOR EACH ROW SET NEW.age = NEXTVAL(OTHER.hidden_s)", "SELECT * FROM OTHER.hidden_s", "SHOW CREATE SEQUENCE OTHER.hidden_s",
			} {
				query = strings.ReplaceAll(query, "OTHER", other)
				_, err := narrow.ExecContext(t.Context(), query)
				if wantError(t, err, 1142, "hidden_s"); err == nil {
					t.Errorf("%s: no error", query)
				}
				if st, err := narrow.PrepareContext(t.Context(), query); err == nil {
					_ = st.Close()
					t.Errorf("%s can be prepared", query)
				}
			}
			for i := range p.servers {
				want(t, p.shard(i), "SELECT NEXTVAL("+other+".hidden_s) AS n", "n", "1")
			}
			want(t, narrow, "SELECT NEXTVAL(mine) > 0 AS n", "n", "1")
			want(t, narrow, "SELECT NEXT VALUE FOR "+p.schema+".mine > 1 AS n", "n", "1")
		}
		// A foreign key of a table that he may not see tells no names.
		mustExec(t, c, "CREATE TABLE parents (id BIGINT, UNIQUE (id))") // on one shard
		mustExec(t, c, "CREATE TABLE "+other+".children (id BIGINT, UNIQUE (id), FOREIGN KEY (id) REFERENCES "+p.schema+".parents (id))")
		mustExec(t, c, "INSERT INTO parents VALUES (1)")
		mustExec(t, c, "INSERT INTO "+other+".children VALUES (1)")
		for _, x := range []struct {
			code uint16
			sql  string
		}{{1217, "DELETE FROM parents WHERE id = 1"}, {1217, "UPDATE parents SET id = 2"}, {1701, "TRUNCATE TABLE parents"}} {
			_, err := narrow.ExecContext(t.Context(), x.sql)
			if wantError(t, err, x.code, ""); err == nil || strings.Contains(err.Error(), "children") {
				t.Errorf("%s: %v", x.sql, err)
			}
			if told := fmt.Sprint(mustRows(t, narrow, "SHOW WARNINGS")); strings.Contains(told, "children") || strings.Contains(told, other) {
				t.Errorf("%s: SHOW WARNINGS tells %s", x.sql, told)
			}
			_, err = c.ExecContext(t.Context(), x.sql)
			if err == nil || x.code == 1217 && !strings.Contains(err.Error(), "children") {
				t.Errorf("%s by who may see it: %v", x.sql, err)
			}
		}
		mustExec(t, reader, "UNLOCK TABLES") // as mysqldump ends

		// Statements of others that ran over the same connection to a shard.
		mustExec(t, c, "SET profiling = 1")
		_, err = c.ExecContext(t.Context(), "SHOW PROFILES")
		wantError(t, err, 1235, "pooled connection")
		_, err = c.ExecContext(t.Context(), "SHOW CREATE USER")
		wantError(t, err, 1235, "SHOW CREATE USER")
	})
}

// TestReadOnlyUser: reads and nothing else.
func TestReadOnlyUser(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 20, setup{users: []string{"{name: reader, password: pw, read_only: true}"}})
		mustExec(t, c, "CREATE TABLE seen (id BIGINT PRIMARY KEY)")
		mustExec(t, c, "CREATE TABLE cities (id BIGINT PRIMARY KEY)")
		if f.name == throwaway.MariaDB {
			mustExec(t, c, "CREATE FUNCTION writes_seen() RETURNS INT MODIFIES SQL DATA BEGIN INSERT INTO seen VALUES (1); RETURN 1; END")
		}
		r, err := p.as("reader", p.schema).Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for _, query := range []string{
			"SELECT id FROM people WHERE id = 3", "SELECT COUNT(*) FROM people", "SHOW TABLES", "DESCRIBE people", "EXPLAIN SELECT * FROM people", "EXPLAIN ROUTE SELECT * FROM people",
			"SELECT COUNT(*) FROM people a JOIN people b ON a.age = b.age", "SHOW VIRTUAL INDEXES", "SELECT TABLE_NAME FROM information_schema.TABLES",
		} {
			if _, err := rowsOf(t.Context(), r, query); err != nil {
				t.Errorf("%s: %v", query, err)
			}
		}
		for _, query := range []string{"BEGIN", "SET @a = 1", "SET SESSION sql_mode = ''", "COMMIT"} {
			mustExec(t, r, query)
		}
		for _, query := range []string{
			"INSERT INTO people (id) VALUES (100)", "UPDATE people SET age = 1", "UPDATE people SET age = 1 WHERE id = 3", "DELETE FROM people WHERE id = 3",
			"REPLACE INTO people (id) VALUES (3)", "TRUNCATE TABLE people", "DROP TABLE people", "CREATE TABLE x (id INT)", "ALTER TABLE people ADD x INT", "CREATE DATABASE xyz",
			"SELECT * FROM people WHERE id = 3 FOR UPDATE", "SELECT * FROM people LOCK IN SHARE MODE", "CREATE TEMPORARY TABLE x (id INT)", "INSERT INTO seen SELECT id FROM people",
			"CREATE VIRTUAL INDEX x ON people (age)", "DROP VIRTUAL INDEX idx_email ON people", "REBUILD VIRTUAL INDEX idx_email ON people",
			"/* shunt: shard=s0 */ CALL nothing()", "/* shunt: shard=s0 */ INSERT INTO people (id) VALUES (100)", "LOAD DATA LOCAL INFILE 'x' INTO TABLE people",
			"ANALYZE TABLE people", "/*!50000 DELETE */ FROM people", "LOCK TABLES people READ", "FLUSH TABLES people WITH READ LOCK", "DO (SELECT id FROM cities WHERE id = 1 FOR UPDATE)",
		} {
			_, err := r.ExecContext(t.Context(), query)
			if wantError(t, err, 1290, "read"); err == nil {
				t.Errorf("%s: no error", query)
			}
		}
		if st, err := r.PrepareContext(t.Context(), "UPDATE people SET age = ?"); err == nil {
			_ = st.Close()
			t.Error("a write can be prepared")
		}
		if f.name == throwaway.MariaDB {
			for _, query := range []string{"SELECT writes_seen()", "/* shunt: shard=s0 */ SELECT writes_seen()"} {
				if _, err := r.ExecContext(t.Context(), query); err == nil {
					t.Errorf("%s: no error", query)
				}
			}
		}
		if _, err := r.ExecContext(t.Context(), "SET GLOBAL max_connections = 5"); err == nil {
			t.Error("SET GLOBAL: no error")
		}
		want(t, c, "SELECT COUNT(*) AS n, SUM(age) AS s FROM people", "n s", "20 590")
		want(t, c, "SELECT COUNT(*) AS n FROM seen", "n", "0")
		// The same connection after a reload.
		p.reload("read_only: true", "read_only: false")
		mustExec(t, r, "UPDATE people SET age = 5 WHERE id = 3")
	})
}

// TestUserLimits: connections of one user, and TLS, and what a reload changes of them.
func TestUserLimits(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		authority, err := throwaway.NewAuthority(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := authority.Issue("server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}); err != nil {
			t.Fatal(err)
		}
		p, c := startPeople(t, f, 20, setup{
			users: []string{
				"{name: two, password: pw, max_connections: 2}",
				"{name: encrypted, password: pw, require_tls: true}",
			},
			extra: fmt.Sprintf("tls: {cert: '%s', key: '%s'}", authority.File("server.pem"), authority.File("server.key")),
		})
		db := p.as("two", p.schema)
		var held []*sql.Conn
		for range 2 {
			conn, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, conn)
		}
		_, err = db.Conn(t.Context())
		wantError(t, err, 1226, "max_user_connections")
		mustRows(t, c, "SELECT id FROM people WHERE id = 3") // others go on
		if err := held[0].Raw(func(d any) error { return d.(interface{ Close() error }).Close() }); err != nil {
			t.Error(err)
		}
		eventually(t, "there is room again", func() bool {
			conn, err := p.as("two", p.schema).Conn(t.Context())
			return err == nil && conn.PingContext(t.Context()) == nil
		})
		p.reload("max_connections: 2", "max_connections: 5")
		for range 2 {
			if _, err := db.Conn(t.Context()); err != nil {
				t.Error(err)
			}
		}

		wantError(t, p.as("encrypted", p.schema).PingContext(t.Context()), 3159, "TLS")
		tls := func(c *mysql.Config) { c.TLSConfig = "skip-verify" }
		if err := p.as("encrypted", p.schema, tls).PingContext(t.Context()); err != nil {
			t.Error(err)
		}
		// What takes effect, and what doesn't, is said by name.
		p.reload("users:", "max_connections: 77\nshard_connections: 7\nusers:")
		if !strings.Contains(p.log.String(), "need a restart\" keys=shard_connections\n") {
			t.Errorf("the log doesn't name what needs a restart:\n%s", p.log.Tail(5))
		}
	})
}

// refusal is a statement that is refused with an error's code.
type refusal struct {
	code uint16
	sql  string
}

// refusals are those of a file, whose schemas OTHER and UPPER are these.
func refusals(t *testing.T, name, other, upper string) (all []refusal) {
	t.Helper()
	text, err := os.ReadFile("testdata/refused_" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(strings.NewReplacer("OTHER", other, "UPPER", upper).Replace(string(text))) {
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
