package e2e

import (
	"context"
	"crypto/x509"
	"database/sql"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

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
	eachFlavour(t, func(t *testing.T, f *flavour) {
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

		for _, x := range []struct {
			code uint16
			sql  string
		}{
			{1044, "USE OTHER"},
			{1044, "USE mysql"},
			{1044, "USE no_such"},
			{1142, "SELECT * FROM OTHER.secrets"},
			{1142, "SELECT * FROM OTHER.secrets WHERE id = 1"},
			{1142, "SELECT id FROM people WHERE id IN (SELECT id FROM `OTHER`.`secrets`)"},
			{1142, "SELECT p.id FROM people p JOIN OTHER.secrets s ON s.id = p.id"},
			{1142, "SELECT id FROM people UNION ALL SELECT id FROM OTHER.secrets"},
			{1142, "WITH x AS (SELECT id FROM OTHER.secrets) SELECT * FROM x"},
			{1044, "SELECT * FROM mysql.user"},
			{1044, "SELECT * FROM performance_schema.threads"},
			{1044, "SELECT OTHER.f(1)"},
			{1142, "SELECT * FROM information_schema.innodb_tables"},
			{1142, "INSERT INTO OTHER.secrets VALUES (3, 'x')"},
			{1142, "INSERT INTO people (id) SELECT id + 1000 FROM OTHER.secrets"},
			{1142, "INSERT INTO people (id, age) VALUES (1000, (SELECT MAX(id) FROM OTHER.secrets))"},
			{1142, "UPDATE OTHER.secrets SET secret = 'x' WHERE id = 1"},
			{1142, "UPDATE people p, OTHER.secrets s SET p.age = 1 WHERE p.id = s.id"},
			{1142, "DELETE FROM OTHER.secrets WHERE id = 1"},
			{1142, "REPLACE INTO OTHER.secrets VALUES (1, 'x')"},
			{1142, "DROP TABLE OTHER.secrets"},
			{1142, "ALTER TABLE OTHER.secrets ADD x INT"},
			{1142, "TRUNCATE TABLE OTHER.secrets"},
			{1142, "RENAME TABLE people TO OTHER.people"},
			{1142, "CREATE TABLE OTHER.mine (id INT)"},
			{1142, "CREATE TABLE mine LIKE OTHER.secrets"},
			{1142, "CREATE TEMPORARY TABLE mine LIKE OTHER.secrets"},
			{1142, "CREATE VIEW peek AS SELECT * FROM OTHER.secrets"},
			{1142, "CREATE VIRTUAL INDEX peek ON OTHER.secrets (secret)"},
			{1142, "EXPLAIN ROUTE SELECT * FROM OTHER.secrets"},
			{1142, "EXPLAIN SELECT * FROM OTHER.secrets"},
			{1142, "DESCRIBE OTHER.secrets"},
			{1142, "SHOW CREATE TABLE OTHER.secrets"},
			{1142, "SHOW INDEX FROM OTHER.secrets"},
			{1044, "SHOW COLUMNS FROM secrets FROM OTHER"},
			{1044, "SHOW TABLES FROM OTHER"},
			{1044, "SHOW TABLE STATUS FROM OTHER"},
			{1044, "SHOW TRIGGERS FROM OTHER"},
			{1044, "SHOW CREATE DATABASE OTHER"},
			{1044, "CREATE DATABASE OTHER_2"},
			{1044, "DROP DATABASE OTHER"},
			{1227, "/* shunt: shard=s0 */ SELECT * FROM people"},
		} {
			query := strings.ReplaceAll(x.sql, "OTHER", other)
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
	eachFlavour(t, func(t *testing.T, f *flavour) {
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

		for _, x := range []struct {
			code uint16
			sql  string
		}{
			// Values of SET, and DO, whose errors tell of what they read.
			{1142, "SET @a = (SELECT secret FROM OTHER.secrets LIMIT 1)"},
			{1142, "SET @b = 1, @a = (SELECT 1 + (SELECT secret FROM `OTHER`.`secrets`))"},
			{1142, "DO (SELECT EXTRACTVALUE(1, CONCAT('~', (SELECT secret FROM OTHER.secrets))))"},
			{1142, "EXPLAIN ROUTE SET @a = (SELECT secret FROM OTHER.secrets LIMIT 1)"},
			{1235, "SET @a = (SELECT GROUP_CONCAT(SCHEMA_NAME) FROM information_schema.SCHEMATA)"},
			{1235, "DO (SELECT EXTRACTVALUE(1, CONCAT('~', (SELECT GROUP_CONCAT(SCHEMA_NAME) FROM information_schema.SCHEMATA))))"},
			{1235, "UPDATE people SET city = (SELECT MAX(TABLE_NAME) FROM information_schema.TABLES) WHERE id = 1"},
			{1235, "INSERT INTO people (id, city) SELECT 100, MAX(TABLE_NAME) FROM information_schema.TABLES"},
			{1235, "CREATE VIEW peek AS SELECT * FROM information_schema.TABLES"},
			{1235, "CREATE FUNCTION peek() RETURNS TEXT READS SQL DATA RETURN (SELECT GROUP_CONCAT(TABLE_NAME) FROM information_schema.TABLES)"},
			{1235, "CREATE PROCEDURE peek() SELECT * FROM information_schema.PROCESSLIST"},
			// Another schema, where names have case.
			{1142, "SELECT * FROM UPPER.secrets"},
			{1044, "USE UPPER"},
			// The same whether there is such a table or not.
			{1142, "SELECT * FROM OTHER.no_such"},
			{1142, "SELECT no_such FROM OTHER.secrets"},
			{1142, "SELECT * FROM no_such_schema.t"},
			{1142, "SELECT * FROM people, OTHER.no_such"},
			{1142, "SELECT * FROM people a JOIN people b ON a.id = b.id, (OTHER.no_such)"},
			{1142, "DROP VIEW OTHER.no_such"},
			{1142, "DROP INDEX x ON OTHER.no_such"},
			{1142, "UPDATE OTHER.no_such SET a = 1"},
			{1142, "CREATE TABLE mine LIKE OTHER.no_such"},
			{1142, "ALTER TABLE people RENAME TO no_such_schema.people"},
			// What is stored runs with the rights of the account, later too.
			{1227, "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO DROP DATABASE OTHER"},
			{1227, "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO SET GLOBAL max_connections = 5"},
			{1227, "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO BEGIN SET @s = CONCAT('DR', 'OP DATABASE x'); PREPARE s FROM @s; EXECUTE s; END"},
			{1227, "CREATE PROCEDURE peek() SHOW DATABASES"},
			{1227, "CREATE PROCEDURE peek() BEGIN DECLARE EXIT HANDLER FOR NOT FOUND KILL 1; END"},
			{1227, "CREATE PROCEDURE peek() /*!50000 FLUSH */ TABLES"},
			{1227, "CREATE PROCEDURE peek() SET @@GLOBAL.max_connections = 5"},
			{1227, "CREATE PROCEDURE peek() SET @a = 1, GLOBAL max_connections = 5"},
			{1227, "CREATE PROCEDURE peek() SET PASSWORD = 'x'"},
			{1227, "CREATE PROCEDURE peek() SET `sql_log_bin` = 0"},
			{1227, "CREATE DEFINER=view PROCEDURE peek() SHOW DATABASES"},
			{1227, "CREATE PROCEDURE peek() SELECT 1 INTO OUTFILE '/tmp/x'"},
			{1142, "CREATE PROCEDURE peek() SELECT * FROM people a JOIN people b ON a.id = b.id, schema_to_come.t"},
			{1044, "CREATE PROCEDURE peek() CALL schema_to_come.p()"},
			// Files of the servers'.
			{1227, "SELECT LOAD_FILE('/etc/passwd')"},
			{1227, "SELECT id FROM people WHERE city = `load_file`('/etc/passwd')"},
			{1227, "INSERT INTO people (id, city) VALUES (100, LOAD_FILE('/etc/passwd'))"},
			{1227, "CREATE VIEW peek AS SELECT /*!50000 LOAD_FILE('/etc/passwd') */"},
			{1227, "CREATE TABLE mine (id BIGINT PRIMARY KEY) DATA DIRECTORY = '/tmp'"},
			// Servers, accounts and other sessions.
			{1227, "SHOW ENGINE INNODB STATUS"},
			{1227, "SHOW CREATE USER root"},
			{1227, "SHOW CREATE USER"},
			{1227, "SHOW BINLOG EVENTS"},
			{1227, "SHOW PROFILES"},
			{1227, "FLUSH PRIVILEGES"},
			{1227, "FLUSH TABLES"},
			{1227, "SET SESSION binlog_format = 'STATEMENT'"},
			{1227, "SET @@pseudo_thread_id = 5"},
		} {
			query := strings.NewReplacer("OTHER", other, "UPPER", upper).Replace(x.sql)
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
			"SET @a = LOAD_FILE('/etc/passwd')", "SET SESSION binlog_format = 'STATEMENT'",
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
	eachFlavour(t, func(t *testing.T, f *flavour) {
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

// TestUserLimits: connections and statements a second of one user, and TLS.
func TestUserLimits(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
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
				"{name: slow, password: pw, max_queries_per_second: 10}",
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
		eventually(t, 10*time.Second, "there is room again", func() bool {
			conn, err := p.as("two", p.schema).Conn(t.Context())
			return err == nil && conn.PingContext(t.Context()) == nil
		})
		p.reload("max_connections: 2", "max_connections: 5")
		for range 2 {
			if _, err := db.Conn(t.Context()); err != nil {
				t.Error(err)
			}
		}

		slow, err := p.as("slow", p.schema).Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		began, done, refused := time.Now(), 0, 0
		for time.Since(began) < 3*time.Second {
			_, err := rowsOf(t.Context(), slow, "SELECT id FROM people WHERE id = 3")
			if err == nil {
				done++
				continue
			}
			refused++
			if wantError(t, err, 1226, "max_queries_per_second"); t.Failed() {
				t.FailNow()
			}
			time.Sleep(10 * time.Millisecond) // as a client that tries again
		}
		// A second's worth at once, then ten each second.
		if most := 10 + int(time.Since(began).Seconds()*10) + 2; done < 25 || done > most || refused == 0 {
			t.Errorf("%d statements in %v, %d refused; want about %d", done, time.Since(began), refused, most)
		}
		if n, _ := p.metric("shunt_user_limits_total", "statements"); int(n) != refused {
			t.Errorf("shunt_user_limits_total is %v, want %d", n, refused)
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
