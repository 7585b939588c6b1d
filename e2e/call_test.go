package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// calledPrograms are procedures of both sides of packetSides. The table is on one shard.
var calledPrograms = []string{
	"CREATE TABLE settings (k INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(20))",
	"CREATE PROCEDURE p_two () BEGIN SELECT 1; SELECT * FROM settings; END",
	"CREATE PROCEDURE p_add (w VARCHAR(20)) BEGIN INSERT INTO settings (v) VALUES (w); SELECT COUNT(*) FROM settings; END",
	"CREATE PROCEDURE p_add_two (w VARCHAR(20)) INSERT INTO settings (v) VALUES (w), (w)",
	"CREATE PROCEDURE p_asks () SELECT LAST_INSERT_ID()",
	"CREATE PROCEDURE p_out (IN a INT, OUT b INT, OUT c VARCHAR(20)) BEGIN SET b = a + 1; SET c = 'out'; END",
	"CREATE PROCEDURE p_both (IN a INT, OUT b INT) BEGIN SELECT a; SET b = a + 1; SELECT COUNT(*) FROM settings; END",
	"CREATE PROCEDURE p_inout (INOUT a DECIMAL(5,2), w VARCHAR(20)) BEGIN SET a = a + 1; INSERT INTO settings (v) VALUES (w); SELECT a; END",
	"CREATE PROCEDURE p_types (OUT a DATETIME(3), OUT b DOUBLE, OUT c VARBINARY(5), OUT d TEXT CHARACTER SET latin1, OUT e BIGINT UNSIGNED, OUT f INT) " +
		`BEGIN SET a = '2026-01-02 03:04:05.678', b = 0.1, c = x'00ff27', d = 'é\\''', e = 18446744073709551615; END`,
	"CREATE PROCEDURE p_handles (x INT) BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION SELECT 'failed'; INSERT INTO settings VALUES (x, 'once'); SELECT 'done'; END",
	"CREATE PROCEDURE p_raises (x INT) BEGIN DECLARE EXIT HANDLER FOR 1062 BEGIN INSERT INTO settings (v) VALUES ('twice'); RESIGNAL SET MESSAGE_TEXT = 'again'; END; INSERT INTO settings VALUES (x, 'once'); END",
	"CREATE PROCEDURE p_walks (OUT n INT) BEGIN DECLARE done, k INT DEFAULT 0; DECLARE c CURSOR FOR SELECT s.k FROM settings s; DECLARE CONTINUE HANDLER FOR NOT FOUND SET done = 1; " +
		"SET n = 0; OPEN c; l: LOOP FETCH c INTO k; IF done THEN LEAVE l; END IF; SET n = n + 1; END LOOP; CLOSE c; END",
	"CREATE PROCEDURE p_fails () BEGIN SELECT 1; SELECT 2; SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'own'; END",
}

// TestCallPackets: what CALL answers, as text, prepared, with cursors, in transactions,
// with OUT parameters, and what it leaves for the next statement.
func TestCallPackets(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		dial := packetSides(t, f)
		dial(t, 0).query(calledPrograms...)
		for name, capabilities := range map[string]uint32{"EOF": 0, "no EOF": mysql.CLIENT_DEPRECATE_EOF} {
			t.Run(name, func(t *testing.T) {
				p := dial(t, capabilities)
				p.query("CALL p_two()", "CALL p_add('a')", "SELECT ROW_COUNT()", "SELECT LAST_INSERT_ID()", "CALL p_add_two('b')", "SELECT ROW_COUNT()", "SELECT LAST_INSERT_ID()",
					"CALL p_asks()", "CALL p_two(); SELECT 5; CALL p_add('c'); SELECT 6", "CALL p_fails(); SELECT 5", "BEGIN", "CALL p_add('d')", "SELECT LAST_INSERT_ID()", "CALL p_two()", "ROLLBACK", "SELECT COUNT(*) FROM settings",
					"CALL p_handles(1)", "CALL p_handles(500)", "CALL p_handles(500)", "CALL p_raises(500)", "CALL p_raises(501)")
				p.both("a cursor in a procedure", func(c *packetClient) string { // whose flags MySQL leaves in the answer
					return strings.ReplaceAll(c.query("CALL p_walks(@n)"), "00c2", "0002")
				})
				p.query("SELECT @n", "DELETE FROM settings WHERE k >= 500")
				// Clients that know no OUT parameters give them as variables: Connector/J, PDO.
				for _, begin := range []string{"SELECT 'none'", "BEGIN"} {
					p.query(begin, "SET @c = 1.50, @kept = 'kept'", "CALL p_out(4, @b, @`d`)", "CALL p_inout(@c, 'in')", "CALL p_inout(@c, @kept)", "SELECT @b, @c, @d, @kept",
						"PREPARE o FROM 'CALL p_out(?, ?, ?)'", "SET @in = 40", "EXECUTE o USING @in, @b, @`d`", "SELECT @b, @`d`", "PREPARE o FROM 'CALL p_inout(?, ?)'", "EXECUTE o USING @c, @kept", "SELECT @c, @kept",
						"CALL p_types(@t1, @t2, @t3, @t4, @t5, @t6)", "SELECT @t1, @t2, HEX(@t3), @t4, @t5, @t6", "SELECT CHARSET(@t1), CHARSET(@t3), CHARSET(@t4), COLLATION(@t4)",
						"CALL p_fails()", "SELECT @b, @c", "COMMIT", "SELECT @b, @c, @d, @t5", "SELECT v FROM settings ORDER BY k")
				}
				// What another client has inserted is none of this one's.
				other := dial(t, capabilities)
				other.query("SET LAST_INSERT_ID = 77", "CALL p_asks()", "SELECT LAST_INSERT_ID()")
				for _, begin := range []string{"SELECT 'none'", "BEGIN"} {
					p.query(begin)
					for _, sql := range []string{"CALL p_two()", "CALL p_out(?, ?, ?)", "CALL p_both(?, ?)", "CALL p_fails()", "CALL p_add(?)"} {
						for flags := range byte(2) {
							ids := map[*packetClient]uint32{}
							p.both("prepare "+sql, func(c *packetClient) (out string) { ids[c], out = c.prepare(sql); return out })
							for range 2 {
								p.both(fmt.Sprintf("execute %s with flags %d, %s", sql, flags, begin), func(c *packetClient) string {
									var params []byte
									if n := strings.Count(sql, "?"); n > 0 {
										params = []byte{0, 1}
										for range n {
											params = append(params, mysql.MYSQL_TYPE_LONGLONG, 0)
										}
										for range n {
											params = append(params, 7, 0, 0, 0, 0, 0, 0, 0)
										}
									}
									c.say(mysql.COM_STMT_EXECUTE, uint32s(ids[c]), []byte{flags}, uint32s(1), params)
									return c.answer()
								})
								p.query("SELECT 'in step'")
							}
						}
					}
					p.query("ROLLBACK")
				}
			})
		}
	})
}

// TestCallRowsBesideCursor: servers leave the flags of a procedure's cursor in the
// answers of its queries. They broke the client's connection.
func TestCallRowsBesideCursor(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		_, c := startPeople(t, f, 0, setup{})
		mustExec(t, c, "CREATE TABLE settings (k INT PRIMARY KEY, v VARCHAR(20))")
		mustExec(t, c, "INSERT INTO settings VALUES (1, 'one'), (2, 'two')")
		mustExec(t, c, "CREATE PROCEDURE shows (x INT) BEGIN DECLARE n INT; DECLARE c CURSOR FOR SELECT k FROM settings ORDER BY k; OPEN c; "+
			"FETCH c INTO n; SELECT n + x AS k; FETCH c INTO n; SELECT k + x AS k FROM settings WHERE k = n; CLOSE c; SELECT 7 AS k; END")
		for _, begin := range []string{"DO 0", "BEGIN"} {
			mustExec(t, c, begin)
			for _, call := range []struct {
				sql  string
				args []any
			}{{"CALL shows(10)", nil}, {"CALL shows(?)", []any{10}}} {
				rows, err := c.QueryContext(t.Context(), call.sql, call.args...)
				if err != nil {
					t.Fatalf("%s: %v", call.sql, err)
				}
				var got []int
				for more := true; more; more = rows.NextResultSet() {
					for rows.Next() {
						var k int
						if err := rows.Scan(&k); err != nil {
							t.Error(err)
						}
						got = append(got, k)
					}
				}
				if err := rows.Close(); err != nil || rows.Err() != nil || !slices.Equal(got, []int{11, 12, 7}) {
					t.Errorf("%s: got %v, %v, %v", call.sql, got, err, rows.Err())
				}
			}
		}
		mustExec(t, c, "ROLLBACK")
	})
}

// TestCallLeavesNothing: what a procedure would leave in a pooled connection is refused,
// and so is one that may end a transaction in the midst of one.
func TestCallLeavesNothing(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 5, setup{})
		mustExec(t, c, "CREATE TABLE settings (k INT PRIMARY KEY, v VARCHAR(20))")
		for _, body := range []string{
			"SET sql_mode = 'ANSI_QUOTES'",
			"BEGIN DECLARE x INT; SET x = 1, SESSION sql_mode = 'ANSI_QUOTES'; END",
			"BEGIN /* don't */ SET sql_mode = 'ANSI_QUOTES'; SELECT 'x'; END",
			"SET NAMES latin1",
			"SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
			"SET TRANSACTION READ ONLY",
			"SET autocommit = 0",
			"DO GET_LOCK('called', 0)",
			"XA START 'x'",
		} {
			mustExec(t, c, "DROP PROCEDURE IF EXISTS leaves")
			mustExec(t, c, "CREATE PROCEDURE leaves () "+body)
			wantError(t, execError(t, c, "CALL leaves()"), 1235, "leaves")
		}
		wantError(t, execError(t, c, "CALL missing(1)"), 1305, "PROCEDURE "+p.schema+".missing does not exist")
		for name, body := range map[string]string{
			"opens":      "BEGIN START TRANSACTION; INSERT INTO settings VALUES (1, 'x'); END",
			"commits":    "BEGIN START TRANSACTION; INSERT INTO settings VALUES (2, 'x'); COMMIT; END",
			"only_reads": "BEGIN DECLARE n INT; START TRANSACTION; SET n = (SELECT COUNT(*) FROM settings); SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'broken'; END",
			"undoes":     "BEGIN SAVEPOINT a; INSERT INTO settings VALUES (3, 'x'); ROLLBACK TO a; END",
			"breaks":     "BEGIN START TRANSACTION; INSERT INTO settings VALUES (4, 'x'); SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'broken'; END",
			"gives_up":   "BEGIN START TRANSACTION; INSERT INTO settings VALUES (4, 'x'); ROLLBACK; SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'given up'; END",
		} {
			mustExec(t, c, "CREATE PROCEDURE "+name+" () "+body)
		}
		// A server's session would be in a transaction now: what this one goes on with
		// would be none of it.
		wantError(t, execError(t, c, "CALL opens()"), 1235, "rolled back")
		mustExec(t, c, "COMMIT")
		want(t, c, "SELECT k FROM settings", "k")
		mustExec(t, c, "CALL commits()")
		want(t, c, "SELECT k FROM settings", "k", "2")
		// An error says nothing of the transaction that is left, whose locks others would wait for.
		for _, call := range []string{"CALL breaks()", "/* shunt: shard=s1 */ CALL breaks()"} {
			wantError(t, execError(t, c, call), 1644, "broken (what the procedure had not committed was rolled back)")
			mustExec(t, p.shard(1), "INSERT INTO settings VALUES (4, 'y')")
			mustExec(t, p.shard(1), "DELETE FROM settings WHERE k = 4")
		}
		wantError(t, execError(t, c, "CALL only_reads()"), 1644, "broken (what the procedure had not committed was rolled back)")
		if err := execError(t, c, "CALL gives_up()"); errorCode(err) != 1644 || !strings.HasSuffix(err.Error(), "given up") {
			t.Errorf("CALL gives_up(): %v", err)
		}
		mustExec(t, c, "BEGIN")
		mustExec(t, c, "INSERT INTO people (id) VALUES (100)")
		mustExec(t, c, "CALL undoes()")
		for _, call := range []string{"CALL commits()", "CALL opens()", "/* shunt: shard=s1 */ CALL commits()"} {
			wantError(t, execError(t, c, call), 1235, "COMMIT before")
		}
		mustExec(t, c, "ROLLBACK")
		want(t, p.conn(), "SELECT id FROM people WHERE id = 100", "id")
		want(t, p.conn(), "SELECT @@autocommit AS a, IS_FREE_LOCK('called') AS f", "a f", "1 1")
	})
}

// TestCallSwallowsDeadlock: a procedure's handler says nothing of the deadlock by which the
// shard has rolled back the transaction. Its other shards must not commit theirs.
func TestCallSwallowsDeadlock(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 0, setup{})
		mustExec(t, c, "CREATE TABLE settings (k INT PRIMARY KEY, v INT)")
		mustExec(t, c, "INSERT INTO settings VALUES (1, 0), (2, 0)")
		mustExec(t, c, "CREATE PROCEDURE swallows () BEGIN DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END; UPDATE settings SET v = 5 WHERE k = 2; INSERT INTO settings VALUES (3, 3); END")
		mustExec(t, c, "BEGIN")
		mustExec(t, c, "INSERT INTO people (id) VALUES (1), (2), (3), (4), (5), (6), (7), (8)")
		mustExec(t, c, "UPDATE settings SET v = 1 WHERE k = 1")

		// The other transaction has changed more, so that it isn't the victim.
		other, err := p.shard(1).BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Rollback()
		if _, err := other.ExecContext(t.Context(), "UPDATE settings SET v = 2 WHERE k = 2"); err != nil {
			t.Fatal(err)
		}
		for i := range 200 {
			if _, err := other.ExecContext(t.Context(), "INSERT INTO settings VALUES (?, 0)", 100+i); err != nil {
				t.Fatal(err)
			}
		}
		waited := make(chan error, 1)
		go func() {
			_, err := other.ExecContext(t.Context(), "UPDATE settings SET v = 2 WHERE k = 1")
			waited <- err
		}()
		eventually(t, "the other transaction waits", func() bool {
			return len(mustRows(t, p.shard(1), "SELECT id FROM information_schema.processlist WHERE info LIKE 'UPDATE settings SET v = 2 WHERE k = 1%'")) == 1
		})
		_, callErr := c.ExecContext(t.Context(), "CALL swallows()")
		if err := <-waited; err != nil {
			t.Fatal(err)
		}
		if err := other.Commit(); err != nil {
			t.Fatal(err)
		}
		_, err = c.ExecContext(t.Context(), "COMMIT")
		t.Logf("CALL: %v, COMMIT: %v", callErr, err)
		if callErr == nil && err == nil {
			t.Error("nobody said that the transaction was rolled back")
		}
		mustExec(t, c, "ROLLBACK")
		want(t, c, "SELECT COUNT(*) AS n FROM people", "n", "0")
		want(t, c, "SELECT v FROM settings WHERE k < 3 ORDER BY k", "v", "2", "2")
	})
}
