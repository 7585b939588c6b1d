package e2e

import (
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// TestSessionBytes: what a session keeps between statements is bounded by bytes, for each
// and for all, and given back.
func TestSessionBytes(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 5, setup{extra: "session_max_bytes: 16MiB\nsessions_max_bytes: 30MiB"})
		large := func(c *mysql.Config) { c.MaxAllowedPacket = 64 << 20 }
		megabyte := strings.Repeat("x", 1<<20)
		text := func(i int) string {
			return fmt.Sprintf("SELECT %d, id FROM people WHERE id = ? AND city <> '%s'", i, megabyte)
		}
		held := func() int {
			n, _ := p.metric("shunt_session_bytes")
			return int(n)
		}
		prepare := func(c *sql.Conn) (kept []*sql.Stmt, err error) {
			for i := 0; ; i++ {
				st, err := c.PrepareContext(t.Context(), text(i))
				if err != nil || i > 100 {
					return kept, err
				}
				kept = append(kept, st)
			}
		}
		for range 2 {
			one := p.conn(large)
			kept, err := prepare(one)
			if wantError(t, err, 3170, "session_max_bytes"); len(kept) != 3 {
				t.Errorf("%d statements of 1 MiB are prepared, want 3 in 16 MiB", len(kept))
			}
			if err := kept[0].Close(); err != nil {
				t.Error(err)
			}
			if _, err := one.PrepareContext(t.Context(), text(7)); err != nil {
				t.Errorf("there is room again: %v", err)
			}
			mustExec(t, one, "SET @text = CONCAT('SELECT /* ', REPEAT('x', 900000), ' */ 1')")
			failsWith(t, one, "PREPARE s FROM @text", 3170, "session_max_bytes")
			mustExec(t, one, "SET @text = NULL")
			rows, err := kept[1].QueryContext(t.Context(), 3)
			if err != nil {
				t.Error(err)
			} else {
				rows.Close()
			}
		}
		_, err := prepare(p.conn(large))
		wantError(t, err, 3170, "sessions_max_bytes")
		want(t, c, "SELECT id FROM people WHERE id = 3", "id", "3")
		if n := held(); n < 24<<20 || n > 30<<20 {
			t.Errorf("shunt_session_bytes is %d", n)
		}
		p.reload("sessions_max_bytes: 30MiB", "sessions_max_bytes: 80MiB")

		// User variables: the value that has no room leaves the one before.
		mine := p.conn(large)
		mustExec(t, mine, "SET @last = 'before'")
		set := 0
		for ; set < 100; set++ {
			if _, err = mine.ExecContext(t.Context(), fmt.Sprintf("SET @v%d = '%s'", set, megabyte)); err != nil {
				break
			}
		}
		if wantError(t, err, 3170, "session_max_bytes"); set != 7 {
			t.Errorf("%d user variables of 1 MiB are set, want 7 in 16 MiB", set)
		}
		failsWith(t, mine, "SET @last = '"+megabyte+"'", 3170, "")
		failsWith(t, mine, "SELECT REPEAT('y', 2000000) INTO @last", 3170, "")
		want(t, mine, "SELECT @last AS l, LENGTH(@v6) AS n, @v7 AS v, COUNT(*) AS c FROM people", "l n v c", "before 1048576 NULL 5")
		mustExec(t, mine, "SET @v6 = NULL")
		mustExec(t, mine, "SET @last = '"+megabyte+"'")
		want(t, mine, "SELECT LENGTH(@last) AS l, @v6 AS v FROM people WHERE id = 2", "l v", "1048576 NULL")

		if err := mine.Raw(func(d any) error { return d.(interface{ Close() error }).Close() }); err != nil {
			t.Error(err)
		}
		eventually(t, "the session's are given back", func() bool { return held() < 30<<20 })
	})
}

// TestVariablesSentOnce: a connection to a shard is sent a session's user variables once,
// not all of them again with each that is SET.
func TestVariablesSentOnce(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 2)
		p, c := startPeople(t, f, 5, setup{servers: servers})
		received := func() (sum int) {
			for _, srv := range servers {
				n, err := strconv.Atoi(mustRows(t, onShard(t, srv, ""), "SHOW GLOBAL STATUS LIKE 'Bytes_received'")[0]["Value"])
				if err != nil {
					t.Fatal(err)
				}
				sum += n
			}
			return sum
		}
		long := strings.Repeat("x", 100_000)
		const n = 20
		before := received()
		for i := range n {
			mustExec(t, c, fmt.Sprintf("SET @v%d = '%s'", i, long))
		}
		for i := range 50 {
			mustExec(t, c, fmt.Sprintf("SET @i = %d", i))
			mustExec(t, c, "SET @j = @i + 1")
			want(t, c, "SELECT @i AS i, @j AS j, LENGTH(@v7) AS n FROM people WHERE id = 3", "i j n", fmt.Sprint(i, " ", i+1, " 100000"))
		}
		mustExec(t, c, "SET @v3 = 'other'")
		want(t, c, "SELECT @v3 AS v, LENGTH(@v4) AS n FROM people WHERE id = 3", "v n", "other 100000")
		// A text is sent as two digits a byte, over as many connections as took part.
		if sent := received() - before; sent > 4*2*n*len(long) {
			t.Errorf("the shard received %d bytes for %d user variables of %d", sent, n, len(long))
		} else {
			t.Logf("the shard received %d bytes for %d user variables of %d", sent, n, len(long))
		}
		// Another session has none of them, and the first has them after it.
		other := p.conn()
		for range 3 {
			want(t, other, "SELECT @v3 AS v, @i AS i FROM people WHERE id = 3", "v i", "NULL NULL")
			mustExec(t, other, "SET @i = 'theirs'")
			want(t, c, "SELECT @v3 AS v, @i AS i FROM people WHERE id = 3", "v i", "other 49")
			mustExec(t, other, "SET @i = NULL")
		}
		// A user variable may have a system variable's name.
		mustExec(t, c, "SET sql_mode = 'ANSI_QUOTES'")
		mustExec(t, c, "SET @`@sql_mode` = 5")
		want(t, c, `SELECT "id" AS "x", @`+"`@sql_mode`"+` AS y FROM people WHERE id = 3`, "x y", "3 5")
	})
}
