package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// TestCursors: what a server answers packet by packet, Shunt answers over one
// shard and over several.
func TestCursors(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, db := startPeople(t, f, 0, setup{extra: "cursor_max_bytes: 3MiB"})
		plainSchema := p.schema + "_plain"
		server := f.servers(t)[3]
		admin := onShard(t, server, "")
		mustExec(t, admin, "CREATE DATABASE "+plainSchema)
		t.Cleanup(func() { _, _ = admin.Exec("DROP DATABASE " + plainSchema) }) //nolint:noctx // the test's is over
		shunt, plain := dialClassic(t, p.addr, "app", "secret", p.schema), dialClassic(t, server.Addr(), server.User, server.Password, plainSchema)
		both := func(what string, do func(c *wireConn) string) {
			t.Helper()
			want := do(plain)
			if got := do(shunt); got != want {
				t.Errorf("%s:\nshunt: %s\nplain: %s", what, got, want)
			}
		}
		query := func(sql string) {
			t.Helper()
			both(sql, func(c *wireConn) string {
				c.say(t, mysql.COM_QUERY, []byte(sql))
				return c.packets(t, false)
			})
		}
		mustExec(t, plainConn(t, f, plainSchema), people)
		var rows []string
		for i := range 25 {
			rows = append(rows, fmt.Sprintf("(%d, 'p%d@x', %d)", i, i, i))
		}
		query("INSERT INTO people (id, email, age) VALUES " + strings.Join(rows, ", "))
		const readOnly = 1
		for _, sql := range []string{
			"SELECT id, email FROM people WHERE id = 7",
			"SELECT id, email FROM people WHERE id = 700",
			"SELECT id, email FROM people ORDER BY id",
			"SELECT id, email FROM people WHERE id BETWEEN 5 AND 14 ORDER BY id",
			"SELECT a.id, b.email FROM people a JOIN people b ON a.age = b.age + 1 ORDER BY a.id",
			"SELECT COUNT(*) FROM people",
			"SELECT 'one'", // a number is an INT through a server's temporary table
			"INSERT INTO people (id, email, age) VALUES (100, 'x', 1)",
			"DELETE FROM people WHERE id = 100",
		} {
			ids := map[*wireConn]uint32{}
			for _, c := range []*wireConn{shunt, plain} {
				ids[c] = c.statement(t, sql)
			}
			execute := func(flags byte) {
				t.Helper()
				both("execute "+sql, func(c *wireConn) string {
					c.say(t, mysql.COM_STMT_EXECUTE, uint32s(ids[c]), []byte{flags}, uint32s(1))
					return c.packets(t, false)
				})
			}
			fetch := func(n uint32) {
				t.Helper()
				both(fmt.Sprintf("fetch %d of %s", n, sql), func(c *wireConn) string {
					c.say(t, mysql.COM_STMT_FETCH, uint32s(ids[c], n))
					return c.packets(t, true)
				})
			}
			reset := func() {
				t.Helper()
				both("reset "+sql, func(c *wireConn) string {
					c.say(t, mysql.COM_STMT_RESET, uint32s(ids[c]))
					return c.packets(t, false)
				})
			}
			fetch(1)
			if strings.HasPrefix(sql, "SELECT") {
				execute(0)
				fetch(1)
			}
			execute(readOnly)
			for _, n := range []uint32{0, 10, 10, 5, 1, 1} {
				fetch(n)
			}
			if !strings.HasPrefix(sql, "SELECT") {
				continue
			}
			execute(readOnly)
			fetch(3)
			execute(readOnly) // begins anew
			fetch(2)
			reset()
			fetch(2)
			execute(readOnly)
			fetch(1 << 31)
			// Other statements beside it; the end of its transaction.
			query("BEGIN")
			execute(readOnly)
			query("SELECT email FROM people WHERE id = 9")
			fetch(1)
			query("UPDATE people SET email = CONCAT(email, 'y') WHERE id = 5")
			query("COMMIT")
			fetch(4)
			query("ROLLBACK")
			fetch(100)
			execute(readOnly)
			for _, c := range []*wireConn{shunt, plain} {
				c.say(t, mysql.COM_STMT_CLOSE, uint32s(ids[c]))
			}
			fetch(1)
		}
		// A copy sets its query's rows aside within what is set aside for the cursor. (MySQL refuses this, MariaDB doesn't.)
		copied := shunt.statement(t, "INSERT INTO people (id, email, age) SELECT id + 1000, email, age FROM people WHERE age BETWEEN 1 AND 3")
		shunt.say(t, mysql.COM_STMT_EXECUTE, uint32s(copied), []byte{readOnly}, uint32s(1))
		if got := shunt.packets(t, false); !strings.HasPrefix(got, "OK 03") {
			t.Errorf("INSERT ... SELECT with a cursor: %s", got)
		}
		want(t, db, "SELECT COUNT(*) AS n FROM people WHERE id > 1000", "n", "3")
		mustExec(t, db, "DELETE FROM people WHERE id > 1000")

		// More than memory holds, in a file without a name; and more than may be.
		mustExec(t, db, "SET SESSION sql_mode = ''")
		big := shunt.statement(t, "SELECT id, REPEAT('x', 100000) AS pad FROM people ORDER BY id")
		open := func(id uint32) string {
			shunt.say(t, mysql.COM_STMT_EXECUTE, uint32s(id), []byte{readOnly}, uint32s(1))
			return shunt.packets(t, false)
		}
		if got := open(big); !strings.HasPrefix(got, "columns 2\nEOF 0042") {
			t.Fatal(got)
		}
		if left, err := os.ReadDir(filepath.Join(filepath.Dir(p.config), "data", "cursors")); err != nil || len(left) > 0 {
			t.Errorf("files: %v, %v", left, err)
		}
		for n := range 25 {
			shunt.say(t, mysql.COM_STMT_FETCH, uint32s(big, 1))
			row := shunt.packet(t)
			if len(row) != 2+8+4+100000 || row[2] != byte(n) {
				t.Errorf("row %d has %d bytes and begins %x", n, len(row), row[:10])
			}
			if end := shunt.packet(t); end[0] != mysql.EOF_HEADER {
				t.Fatalf("%x", end)
			}
		}
		more := shunt.statement(t, "SELECT id, REPEAT('x', 200000) AS pad FROM people ORDER BY id")
		if got := open(more); !strings.HasPrefix(got, "ERR 1114") {
			t.Errorf("5 MB more: %s", got)
		}
		gathered := shunt.statement(t, "SELECT a.id, REPEAT('x', 200000) AS pad FROM people a JOIN people b ON a.id = b.age ORDER BY 1")
		if got := open(gathered); !strings.HasPrefix(got, "ERR 1114") {
			t.Errorf("5 MB more, gathered: %s", got)
		}
		query("SELECT email FROM people WHERE id = 9")
		// What the first has taken is free again when it ends, also by the end
		// of the session's statements.
		shunt.say(t, mysql.COM_RESET_CONNECTION)
		if got := shunt.packets(t, false); !strings.HasPrefix(got, "OK") {
			t.Fatal(got)
		}
		big = shunt.statement(t, "SELECT id, REPEAT('x', 100000) AS pad FROM people ORDER BY id")
		if got := open(big); !strings.HasPrefix(got, "columns 2") {
			t.Errorf("after the others: %s", got)
		}
		shunt.Close()
		other := dialClassic(t, p.addr, "app", "secret", p.schema)
		eventually(t, "a closed connection's cursors are gone", func() bool {
			id := other.statement(t, "SELECT id, REPEAT('x', 100000) AS pad FROM people ORDER BY id")
			other.say(t, mysql.COM_STMT_EXECUTE, uint32s(id), []byte{readOnly}, uint32s(1))
			return strings.HasPrefix(other.packets(t, false), "columns 2")
		})
	})
}

func plainConn(t *testing.T, f *flavour, schema string) queryer {
	t.Helper()
	return onShard(t, f.servers(t)[3], schema)
}

// TestCursorsOfPHP: a driver that fetches row by row, two cursors in turn.
func TestCursorsOfPHP(t *testing.T) {
	php, err := exec.LookPath("php")
	if err != nil {
		t.Skip("no php")
	}
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, _ := startPeople(t, f, 60, setup{})
		_, port, err := net.SplitHostPort(p.addr)
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), php, "-r", fmt.Sprintf(`
			mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
			$m = new mysqli("127.0.0.1", "app", "secret", "%s", %s);
			function cursor($m, $sql) {
				$s = $m->prepare($sql);
				$s->attr_set(MYSQLI_STMT_ATTR_CURSOR_TYPE, MYSQLI_CURSOR_TYPE_READ_ONLY);
				$s->execute();
				return $s;
			}
			$all = cursor($m, "SELECT id, email FROM people ORDER BY id");
			$all->bind_result($id, $email);
			while ($all->fetch()) {
				if ($id %% 20 == 0) {
					$one = cursor($m, "SELECT COUNT(*) FROM people WHERE id < $id");
					$one->bind_result($n);
					while ($one->fetch()) echo "below $id: $n\n";
					$one->close();
				}
				echo "$id $email\n";
			}
			$all->close();
			echo $m->query("SELECT email FROM people WHERE id = 5")->fetch_row()[0], "\n";`, p.schema, port)).CombinedOutput()
		var want strings.Builder
		for i := range 60 {
			if i%20 == 0 {
				fmt.Fprintf(&want, "below %d: %d\n", i, i)
			}
			fmt.Fprintf(&want, "%d p%d@x\n", i, i)
		}
		want.WriteString("p5@x\n")
		if err != nil || string(out) != want.String() {
			t.Errorf("%v\n%s", err, out)
		}
	})
}
