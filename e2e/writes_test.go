package e2e

import (
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/ci/suite"
)

// sysbench runs one of its scripts as it is shipped.
func sysbench(t *testing.T, addr, user, password, schema, script, command string, more ...string) {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{
		script, "--db-driver=mysql", "--mysql-host=" + host, "--mysql-port=" + port, "--mysql-user=" + user, "--mysql-password=" + password,
		"--mysql-db=" + schema, "--mysql-ignore-errors=none", "--rand-seed=42", "--threads=1", "--time=0",
	}
	cmd := exec.CommandContext(t.Context(), "sysbench", append(append(args, more...), command)...)
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "FATAL") || strings.Contains(string(out), "error ") {
		t.Fatalf("sysbench %s %s on %s: %v\n%s", script, command, addr, err, out)
	}
}

// copyRows replaces a table of one server by what Shunt's shards have in theirs.
func copyRows(t *testing.T, p *process, one queryer, table string) {
	t.Helper()
	mustExec(t, one, "TRUNCATE TABLE "+table)
	n := 0
	for i := range p.servers {
		rows := mustRows(t, p.shard(i), "SELECT id, k, c, pad FROM "+table)
		n += len(rows)
		for part := range slices.Chunk(rows, 500) {
			var args []any
			for _, r := range part {
				args = append(args, r["id"], r["k"], r["c"], r["pad"])
			}
			mustExec(t, one, "INSERT INTO "+table+" (id, k, c, pad) VALUES (?, ?, ?, ?)"+strings.Repeat(", (?, ?, ?, ?)", len(part)-1), args...)
		}
	}
	if n != 2000 {
		t.Errorf("%s has %d rows", table, n)
	}
}

// TestSysbench: the scripts of sysbench, unmodified, over four shards
// and on one server, from the same seed. The tables must be the same.
func TestSysbench(t *testing.T) {
	if _, err := exec.LookPath("sysbench"); err != nil {
		t.Skip("sysbench is not installed")
	}
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{})
		plain := p.schema + "_plain"
		one := plainServer(t, p.servers[2], plain)
		events := suite.Size("--events=60", "--events=300")
		for _, table := range []struct {
			name, order string
			runs        [][]string
		}{
			{"sbtest1", "id, k, c, pad", [][]string{
				{"oltp_write_only", "prepare", "--table-size=2000", "--tables=2"},
				{"oltp_write_only", "run", "--table-size=2000", "--tables=2"},
				{"oltp_write_only", "run", "--table-size=2000", "--tables=2", "--db-ps-mode=disable", "--auto_inc=off"},
				{"oltp_insert", "run", "--table-size=2000", "--tables=2"},
				{"oltp_update_index", "run", "--table-size=2000", "--tables=2"},
				{"oltp_update_non_index", "run", "--table-size=2000", "--tables=2"},
				{"oltp_delete", "run", "--table-size=2000", "--tables=2"},
				{"oltp_point_select", "run", "--table-size=2000", "--tables=2"},
				{"select_random_points", "run", "--table-size=2000", "--tables=2"},
				{"select_random_ranges", "run", "--table-size=2000", "--tables=2"},
				{"select_random_ranges", "run", "--table-size=2000", "--tables=2", "--db-ps-mode=disable"},
				{"oltp_read_write", "run", "--table-size=2000", "--tables=2"},
				{"oltp_read_write", "run", "--table-size=2000", "--tables=2", "--db-ps-mode=disable"},
			}},
			{"sbtest2", "id, k, c, pad", nil}, // of the runs above
			{"sbtest1", "id, k", [][]string{
				{"oltp_write_only", "cleanup", "--tables=2"},
				{"bulk_insert", "prepare"},
				{"bulk_insert", "run", "--events=50000"},
			}},
		} {
			for _, run := range table.runs {
				more := run[2:]
				if run[1] == "run" && run[0] != "bulk_insert" {
					more = append(slices.Clone(more), events)
				}
				sysbench(t, p.addr, "app", "secret", p.schema, run[0], run[1], more...)
				sysbench(t, p.servers[2].Addr(), p.servers[2].User, p.servers[2].Password, plain, run[0], run[1], more...)
				if run[0] == "oltp_write_only" && run[1] == "prepare" {
					// The seed doesn't count for what prepare loads.
					for _, name := range []string{"sbtest1", "sbtest2"} {
						copyRows(t, p, one, name)
					}
				}
			}
			// A checksum that doesn't depend on the order of rows, so that those
			// of the shards add up to that of all.
			sum := fmt.Sprintf("SELECT COUNT(*) AS n, COALESCE(SUM(CRC32(CONCAT_WS('#', %s))), 0) AS s FROM %s", table.order, table.name)
			var n, s, wantN, wantS int
			for i := range p.servers {
				add := mustRows(t, p.shard(i), sum)[0]
				var an, as int
				fmt.Sscan(add["n"], &an)
				fmt.Sscan(add["s"], &as)
				n, s = n+an, s+as
			}
			all := mustRows(t, one, sum)[0]
			fmt.Sscan(all["n"], &wantN)
			fmt.Sscan(all["s"], &wantS)
			if n != wantN || s != wantS || n == 0 {
				t.Errorf("%s: %d rows, checksum %d; on one server %d rows, checksum %d", table.name, n, s, wantN, wantS)
			}
			t.Logf("%s: %d rows, checksum %d", table.name, n, s)
		}
	})
}

// TestReferenceTimes: what a reference table stores of the time of a write is the
// same in all its copies.
func TestReferenceTimes(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"kinds: {placement: reference}"}})
		c := p.conn()
		mustExec(t, c, "CREATE TABLE kinds (id INT AUTO_INCREMENT PRIMARY KEY, at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), changed TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), day DATE, v INT)")
		same := func(after string) {
			t.Helper()
			columns := []string{"id", "at", "changed", "day", "v"}
			first := flat(mustRows(t, p.shard(0), "SELECT id, at, changed, day, v FROM kinds"), columns...)
			for i := range p.servers {
				if got := flat(mustRows(t, p.shard(i), "SELECT id, at, changed, day, v FROM kinds"), columns...); !slices.Equal(got, first) || len(got) == 0 {
					t.Errorf("after %s: shard %d has %q, shard 0 %q", after, i, got, first)
				}
			}
		}
		for _, statement := range []string{
			"INSERT INTO kinds (v) VALUES (1), (2), (3)",
			"INSERT INTO kinds (at, day, v) VALUES (NOW(6), CURDATE(), UNIX_TIMESTAMP())",
			"UPDATE kinds SET v = v + 1",
			"UPDATE kinds SET at = NOW(6) WHERE id = 2",
			"INSERT INTO kinds (id, v) VALUES (1, 1) ON DUPLICATE KEY UPDATE v = 7",
			"INSERT INTO kinds (id, at, v) SELECT id + 100, NOW(6), v FROM kinds WHERE id = 1",
			"REPLACE INTO kinds (id, v) VALUES (3, 9)",
		} {
			if _, err := c.ExecContext(t.Context(), statement); err != nil {
				wantError(t, err, 1235, "AUTO_INCREMENT") // INSERT ... SELECT
				continue
			}
			same(statement)
		}
		// The time is the statement's own again.
		before := mustRows(t, c, "SELECT NOW(6) AS t")[0]["t"]
		eventually(t, "time goes on", func() bool { return mustRows(t, c, "SELECT NOW(6) AS t")[0]["t"] > before })
		_, err := c.ExecContext(t.Context(), "INSERT INTO kinds (at, v) VALUES (SYSDATE(), 1)")
		wantError(t, err, 1235, "SYSDATE()")
	})
}
