package e2e

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
)

// TestAnswerTypes: answers that Shunt puts together have the columns of one server's, by name and
// type, in both protocols, and in both the same values.
func TestAnswerTypes(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"users: {shard_key: id}", "ref: {placement: reference}"}})
		shunt, plain := p.conn(), plainServer(t, p.servers[1], p.schema+"_plain")
		for _, c := range []*sql.Conn{shunt, plain} {
			mustExec(t, c, "CREATE TABLE users (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, name VARCHAR(30) COMMENT 'who', at DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3), KEY k (name))")
			mustExec(t, c, "CREATE TABLE ref (id INT NOT NULL PRIMARY KEY, v DECIMAL(5,2))")
			mustExec(t, c, "CREATE VIEW seen AS SELECT id, name FROM users")
			mustExec(t, c, "CREATE TRIGGER named BEFORE INSERT ON users FOR EACH ROW SET NEW.name = LOWER(NEW.name)")
			mustExec(t, c, "CREATE PROCEDURE one() SELECT 1")
			mustExec(t, c, "CREATE FUNCTION two() RETURNS INT DETERMINISTIC RETURN 2")
			mustExec(t, c, "CREATE EVENT later ON SCHEDULE EVERY 1 DAY DISABLE DO SELECT 1")
			mustExec(t, c, "INSERT INTO users (id, name) VALUES (1, 'a'), (2, 'b'), (3, 'c')")
			mustExec(t, c, "INSERT INTO ref VALUES (1, 1.5)")
			mustExec(t, c, "ANALYZE TABLE users, ref")
		}
		for _, statement := range []string{
			"SHOW TABLES", "SHOW FULL TABLES", "SHOW TABLE STATUS", "SHOW DATABASES", "SHOW DATABASES LIKE '%schema'", "SHOW COLUMNS FROM users", "SHOW FULL COLUMNS FROM users", "DESCRIBE users", "SHOW INDEX FROM users",
			"SHOW CREATE TABLE users", "SHOW CREATE TABLE ref", "SHOW CREATE VIEW seen", "SHOW CREATE TRIGGER named", "SHOW CREATE PROCEDURE one", "SHOW CREATE FUNCTION two", "SHOW CREATE EVENT later",
			"SHOW TRIGGERS", "SHOW EVENTS", "SHOW PROCEDURE STATUS LIKE 'one'", "SHOW FUNCTION STATUS LIKE 'two'", "SHOW PROCESSLIST", "SHOW FULL PROCESSLIST", "SHOW VARIABLES LIKE 'sql_mode'", "SHOW STATUS LIKE 'Threads_%'",
			"SHOW WARNINGS", "SHOW ERRORS", "SHOW CHARACTER SET", "SHOW COLLATION LIKE 'utf8mb4%'", "SHOW ENGINES", "SHOW PRIVILEGES", "SHOW OPEN TABLES", "SHOW PLUGINS",
			"CHECK TABLE users", "ANALYZE TABLE users", "OPTIMIZE TABLE ref", "CHECKSUM TABLE users",
			"SELECT id, User, TIME FROM information_schema.processlist", "SELECT * FROM information_schema.tables WHERE table_schema = DATABASE()",
			"SELECT * FROM information_schema.columns WHERE table_schema = DATABASE()", "SELECT * FROM information_schema.statistics WHERE table_schema = DATABASE()",
			"SELECT * FROM information_schema.triggers WHERE trigger_schema = DATABASE()", "SELECT * FROM information_schema.routines WHERE routine_schema = DATABASE()",
			"SELECT * FROM information_schema.events WHERE event_schema = DATABASE()", "SELECT * FROM information_schema.views WHERE table_schema = DATABASE()",
			"SELECT * FROM information_schema.key_column_usage WHERE table_schema = DATABASE()", "SELECT * FROM information_schema.schemata",
			"SELECT CONNECTION_ID(), USER(), DATABASE()", "SELECT @@warning_count, @@autocommit, @@wait_timeout", "SELECT LAST_INSERT_ID()",
		} {
			textOwn, rowsText := answerTypes(t, shunt, statement, false)
			textPlain, _ := answerTypes(t, plain, statement, false)
			if textOwn = strings.Replace(textOwn, p.schema+" ", p.schema+"_plain ", 1); textOwn != textPlain {
				t.Errorf("%s as text:\n got %s\nwant %s", statement, textOwn, textPlain)
			}
			binaryPlain, _ := answerTypes(t, plain, statement, true)
			if strings.Contains(binaryPlain, "Error 1295") {
				if binaryOwn, _ := answerTypes(t, shunt, statement, true); strings.HasPrefix(statement, "SHOW") && !strings.Contains(binaryOwn, "Error 1295") { // @@warning_count is answered
					t.Errorf("%s is prepared, which a server doesn't", statement)
				}
				continue
			}
			binaryOwn, rowsBinary := answerTypes(t, shunt, statement, true)
			if binaryOwn = strings.Replace(binaryOwn, p.schema+" ", p.schema+"_plain ", 1); binaryOwn != binaryPlain {
				t.Errorf("%s prepared:\n got %s\nwant %s", statement, binaryOwn, binaryPlain)
			}
			if still := !strings.Contains(statement, "information_schema") && statement != "SHOW DATABASES" && !strings.HasPrefix(statement, "SHOW TABLE STATUS") && !strings.Contains(strings.ToLower(statement), "processlist") && !strings.Contains(statement, "OPEN") && !strings.Contains(statement, "STATUS LIKE") && statement != "SHOW CREATE TRIGGER named"; still && rowsText != rowsBinary {
				t.Errorf("%s:\nprepared %s\n as text %s", statement, rowsBinary, rowsText)
			}
		}
	})
}

// TestOwnAnswerTypes: what Shunt alone answers has the same columns and values prepared as in a text.
func TestOwnAnswerTypes(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 20, setup{})
		p.settled(c)
		for _, x := range []struct {
			statement string
			// moves: its values are others each time.
			moves bool
		}{
			{"SHOW SHARDS", true},
			{"SHOW MEMBERS", true},
			{"SHOW VIRTUAL INDEXES", false},
			{"SHOW VIRTUAL INDEXES FROM people", false},
			{"SHOW MAINTENANCE JOBS", false},
			{"SHOW STATEMENT STATISTICS", true},
			{"SHOW STATEMENT STATISTICS LIMIT 2", true},
			{"EXPLAIN ROUTE SELECT id FROM people WHERE email = 'p7@x'", false},
			{"EXPLAIN ROUTE UPDATE people SET age = 1 WHERE id = 3", false},
			{"CHECK VIRTUAL INDEX idx_email ON people", false},
		} {
			text, rowsText := answerTypes(t, c, x.statement, false)
			binary, rowsBinary := answerTypes(t, c, x.statement, true)
			if text != binary || strings.Contains(text, "Error 1") {
				t.Errorf("%s:\nprepared %s\n as text %s", x.statement, binary, text)
			}
			if rowsText != rowsBinary && !x.moves || (rowsText == "") != (rowsBinary == "") {
				t.Errorf("%s:\nprepared %s\n as text %s", x.statement, rowsBinary, rowsText)
			}
		}
	})
}

// sameKind are types whose values are sent alike, and that drivers make the same of. The copies of
// information_schema's tables have one in place of the other.
var sameKind = strings.NewReplacer("TIMESTAMP", "DATETIME", "LONGTEXT", "VARCHAR", "MEDIUMTEXT", "VARCHAR", "VARBINARY", "NULL", "TEXT", "VARCHAR")

// answerTypes are the columns that a driver sees in an answer, and its values.
func answerTypes(t *testing.T, c *sql.Conn, statement string, prepared bool) (columns, values string) {
	t.Helper()
	var rows *sql.Rows
	var err error
	if prepared {
		st, failed := c.PrepareContext(t.Context(), statement)
		if failed != nil {
			return "prepare: " + failed.Error(), ""
		}
		defer st.Close()
		rows, err = st.QueryContext(t.Context())
	} else {
		rows, err = c.QueryContext(t.Context(), statement)
	}
	if err != nil {
		return err.Error(), ""
	}
	defer rows.Close()
	types, err := rows.ColumnTypes()
	if err != nil {
		t.Fatal(err)
	}
	for _, typ := range types {
		columns += fmt.Sprintf("%s %s, ", typ.Name(), sameKind.Replace(typ.DatabaseTypeName()))
	}
	row, into := make([]any, len(types)), make([]any, len(types))
	for i := range row {
		into[i] = &row[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return columns + err.Error(), ""
		}
		for _, v := range row {
			if b, ok := v.([]byte); ok {
				v = string(b)
			}
			values += fmt.Sprintf("%v|", v)
		}
		values += "\n"
	}
	if err := rows.Err(); err != nil {
		columns += err.Error()
	}
	return columns, values
}
