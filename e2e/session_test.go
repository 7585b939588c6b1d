package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// twoShards finds two people that live on different shards.
func twoShards(t *testing.T, p *process) (a, b int) {
	t.Helper()
	at := map[string]int{}
	for i := range p.servers {
		for _, r := range mustRows(t, p.shard(i), "SELECT id FROM people") {
			at[r["id"]] = i
		}
	}
	for id := range 100 {
		if s, found := at[fmt.Sprint(id)]; found && s != at["0"] {
			return 0, id
		}
	}
	t.Fatal("all people are on one shard")
	return 0, 0
}

func TestTransactions(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 50, setup{})
		other := p.conn()
		a, b := twoShards(t, p)
		update := func(q queryer, id int, email string) {
			t.Helper()
			mustExec(t, q, fmt.Sprintf("UPDATE people SET email = '%s' WHERE id = %d", email, id))
		}
		for _, ids := range [][]int{{a}, {a, b}} {
			name := fmt.Sprintf("%d shards", len(ids))
			mustExec(t, c, "BEGIN")
			for _, id := range ids {
				update(c, id, fmt.Sprintf("tx%d@x", id))
				// Its own change by the new key; nobody else's yet.
				want(t, c, fmt.Sprintf("SELECT id FROM people WHERE email = 'tx%d@x'", id), "id", fmt.Sprint(id))
				want(t, other, fmt.Sprintf("SELECT id FROM people WHERE email = 'tx%d@x'", id), "id")
				want(t, other, fmt.Sprintf("SELECT id FROM people WHERE email = 'p%d@x'", id), "id", fmt.Sprint(id))
			}
			mustExec(t, c, "ROLLBACK")
			for _, id := range ids {
				want(t, c, fmt.Sprintf("SELECT id FROM people WHERE email = 'tx%d@x'", id), "id")
				want(t, c, fmt.Sprintf("SELECT id FROM people WHERE email = 'p%d@x'", id), "id", fmt.Sprint(id))
			}
			mustExec(t, c, "START TRANSACTION")
			for _, id := range ids {
				update(c, id, fmt.Sprintf("tx%d@x", id))
			}
			mustExec(t, c, "COMMIT")
			for _, id := range ids {
				want(t, other, fmt.Sprintf("SELECT id FROM people WHERE email = 'tx%d@x'", id), "id", fmt.Sprint(id))
				update(c, id, fmt.Sprintf("p%d@x", id))
			}
			if t.Failed() {
				t.Fatal(name)
			}
		}

		// Savepoints.
		mustExec(t, c, "BEGIN")
		update(c, a, "kept@x")
		mustExec(t, c, "SAVEPOINT s")
		update(c, b, "undone@x")
		update(c, a, "undone too@x")
		mustExec(t, c, "ROLLBACK TO SAVEPOINT s")
		mustExec(t, c, "RELEASE SAVEPOINT s")
		mustExec(t, c, "COMMIT")
		want(t, other, "SELECT id FROM people WHERE email = 'kept@x'", "id", fmt.Sprint(a))
		want(t, other, "SELECT id FROM people WHERE email = 'undone@x'", "id")
		want(t, other, fmt.Sprintf("SELECT id FROM people WHERE email = 'p%d@x'", b), "id", fmt.Sprint(b))

		// autocommit off.
		mustExec(t, c, "SET autocommit = 0")
		update(c, b, "auto@x")
		want(t, other, "SELECT id FROM people WHERE email = 'auto@x'", "id")
		mustExec(t, c, "COMMIT")
		mustExec(t, c, "SET autocommit = 1")
		want(t, other, "SELECT id FROM people WHERE email = 'auto@x'", "id", fmt.Sprint(b))

		// A dropped connection rolls back.
		dropped := p.conn()
		mustExec(t, dropped, "BEGIN")
		update(dropped, a, "dropped@x")
		if err := dropped.Raw(func(d any) error { return d.(interface{ Close() error }).Close() }); err != nil {
			t.Error(err)
		}
		want(t, other, "SELECT id FROM people WHERE email = 'dropped@x'", "id")
		update(c, a, "free@x") // would wait for the lock otherwise
	})
}

// TestSnapshotStillFinds: a REPEATABLE READ transaction finds by an old key
// what its older snapshot shows, although the row has changed and the index
// has been maintained since.
func TestSnapshotStillFinds(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 50, setup{})
		reader := p.conn()
		mustExec(t, reader, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
		mustExec(t, reader, "BEGIN")
		want(t, reader, "SELECT email FROM people WHERE id = 7", "email", "p7@x")
		mustExec(t, c, "UPDATE people SET email = 'moved@x' WHERE id = 7")
		want(t, c, "SELECT id FROM people WHERE email = 'p7@x'", "id")
		// Maintenance runs to its end beside the open snapshot.
		mustExec(t, c, "REBUILD VIRTUAL INDEX idx_email ON people")
		p.waitIndex(c, "idx_email")
		want(t, reader, "SELECT id FROM people WHERE email = 'p7@x'", "id", "7")
		mustExec(t, reader, "COMMIT")
		want(t, reader, "SELECT id FROM people WHERE email = 'p7@x'", "id")
		want(t, reader, "SELECT id FROM people WHERE email = 'moved@x'", "id", "7")
	})
}

func TestMultiStatements(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, _ := startPeople(t, f, 20, setup{})
		c := p.conn(func(c *mysql.Config) { c.MultiStatements = true })
		rows, err := c.QueryContext(t.Context(), "SELECT id FROM people WHERE id = 1; UPDATE people SET email = 'multi;@x' WHERE id = 1; SELECT id FROM people WHERE email = 'multi;@x'; SELECT id FROM people WHERE id IN (2, 3)")
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		var sets [][]int
		for {
			var ids []int
			for rows.Next() {
				var id int
				if err := rows.Scan(&id); err != nil {
					t.Fatal(err)
				}
				ids = append(ids, id)
			}
			sets = append(sets, ids)
			if !rows.NextResultSet() {
				break
			}
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		total := 0
		for _, s := range sets {
			total += len(s)
		}
		if total != 4 {
			t.Errorf("result sets %v, want 1, 1 and 2 rows", sets)
		}
		rows.Close()
		// The first error ends the rest.
		_, err = c.ExecContext(t.Context(), "UPDATE people SET age = 1 WHERE id = 1; SELECT nonsense FROM people WHERE id = 1; UPDATE people SET age = 2 WHERE id = 1")
		if err == nil {
			t.Error("no error from the second statement")
		}
		want(t, p.db(), "SELECT age FROM people WHERE id = 1", "age", "1")
	})
}

func TestFoundRows(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, _ := startPeople(t, f, 20, setup{})
		for _, found := range []bool{false, true} {
			c := p.conn(func(c *mysql.Config) { c.ClientFoundRows = found })
			wanted := int64(0)
			if found {
				wanted = 1
			}
			if n := affected(t, mustExec(t, c, "UPDATE people SET email = 'p3@x' WHERE id = 3")); n != wanted {
				t.Errorf("FOUND_ROWS %v: an update that changes nothing affects %d, want %d", found, n, wanted)
			}
		}
	})
}

func TestSessionState(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 20, setup{})
		// Settings hold over pooled shard connections, and stay with the session.
		mustExec(t, c, "SET SESSION sql_mode = 'ANSI_QUOTES'")
		want(t, c, `SELECT "id" FROM people WHERE "email" = 'p5@x'`, "id", "5")
		want(t, p.conn(), `SELECT id FROM people WHERE email = "p5@x"`, "id", "5")
		mustExec(t, c, "SET @v = 5")
		want(t, c, "SELECT @v AS v", "v", "5")
		mustExec(t, c, "SET NAMES latin1")
		want(t, c, "SELECT id FROM people WHERE email = 'p5@x'", "id", "5")
		rows := mustRows(t, c, "SELECT DATABASE() AS d, @@version_comment AS c, CONNECTION_ID() AS i")
		if rows[0]["d"] != p.schema {
			t.Errorf("%v", rows)
		}
		mustExec(t, c, "USE information_schema")
		mustExec(t, c, "USE "+p.schema)
		want(t, c, "SELECT id FROM people WHERE id = 5", "id", "5")
		mustRows(t, c, "SHOW TABLES")
		mustRows(t, c, "SHOW VARIABLES LIKE 'sql_mode'")
		mustRows(t, c, "SHOW WARNINGS")
		mustRows(t, c, "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()")
		mustRows(t, c, "DESCRIBE people")
		_, err := c.ExecContext(t.Context(), "USE no_such_schema")
		wantError(t, err, 1049, "no_such_schema")
		_, err = c.ExecContext(t.Context(), "SELECT * FROM no_such_table")
		wantError(t, err, 1146, "")
		for _, wrong := range []string{"SELEKT 1", "SELECT ?", "SELECT id FROM people WHERE id = ?", "INSERT INTO people (id) VALUES (?)", "DELETE FROM people WHERE age = ?"} {
			_, err = c.ExecContext(t.Context(), wrong)
			wantError(t, err, 1064, "")
		}
		// LAST_INSERT_ID and warnings come from where the statement went.
		mustExec(t, c, "SET SESSION sql_mode = ''")
		mustExec(t, c, "INSERT INTO people (id, age) VALUES (500, 'abc')")
		if rows := mustRows(t, c, "SHOW WARNINGS"); len(rows) == 0 {
			t.Error("a truncated value leaves no warning")
		}
	})
}

// TestCommandLineClients: MySQL 9's client authenticates by caching_sha2 only;
// MariaDB's knows mysql_native_password.
func TestCommandLineClients(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, _ := startPeople(t, f, 20, setup{})
		host, port, _ := strings.Cut(p.addr, ":")
		clients := map[string]*exec.Cmd{}
		for _, name := range []string{"mysql", "mariadb"} {
			if path, err := exec.LookPath(name); err == nil {
				clients[path] = exec.CommandContext(t.Context(), path)
			}
		}
		if src, err := throwaway.Find(t.Context(), throwaway.MySQL); err == nil && src.Root != "" {
			cmd := exec.CommandContext(t.Context(), "/usr/bin/mysql")
			cmd.Dir = "/"
			cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: src.Root}
			clients[filepath.Join(src.Root, "usr/bin/mysql")] = cmd
		}
		if len(clients) == 0 {
			t.Skip("no command line client on this machine")
		}
		for name, cmd := range clients {
			cmd.Args = append(cmd.Args, "--no-defaults", "--protocol=tcp", "--host="+host, "--port="+port,
				"--user=app", "--password=secret", "--batch", p.schema)
			cmd.Stdin = strings.NewReader(`SELECT id FROM people WHERE email = 'p7@x';
EXPLAIN ROUTE SELECT id FROM people WHERE email = 'p7@x';
BEGIN; UPDATE people SET age = 99 WHERE id = 7; COMMIT;
SELECT age FROM people WHERE email = 'p7@x';
SHOW VIRTUAL INDEXES;
SELECT VERSION();
`)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%s: %v\n%s", name, err, out)
			}
			for _, s := range []string{"id\n7\n", "index:idx_email", "age\n99\n", "ready"} {
				if !strings.Contains(string(out), s) {
					t.Errorf("%s: %q is not in\n%s", name, s, out)
				}
			}
		}
	})
}

// TestVanishedClient: what a shard does for a client that has gone is ended, and
// with it the locks that it holds.
func TestVanishedClient(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 20, setup{})
		for _, sql := range []string{
			"SELECT SLEEP(50) FROM people WHERE id = 3",
			"SELECT id, SLEEP(50) FROM people",
			"UPDATE people SET age = age + SLEEP(50) WHERE id = 3",
		} {
			client := dialClassic(t, p.addr, "app", "secret", p.schema)
			client.say(t, gomysql.COM_QUERY, []byte(sql))
			running := func() (n int) {
				for i := range p.servers {
					n += len(mustRows(t, p.shard(i), "SELECT id FROM information_schema.processlist WHERE info LIKE '%SLEEP(50)%' AND info NOT LIKE '%processlist%' AND db = '"+p.schema+"'"))
				}
				return n
			}
			eventually(t, "the statement runs", func() bool { return running() > 0 })
			client.Close()
			eventually(t, "the statement has ended", func() bool { return running() == 0 })
		}
		mustExec(t, c, "UPDATE people SET age = 5 WHERE id = 3")
	})
}
