package e2e

import (
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestBegunAhead: what begins a transaction on a shard goes ahead of its first read there. It is
// begun there all the same, or the client is told, and the transaction goes on without.
func TestBegunAhead(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 1)
		admin := onShard(t, servers[0], "")
		mustExec(t, admin, "CREATE USER 'begins'@'%' IDENTIFIED BY 'secret'")
		mustExec(t, admin, "GRANT ALL ON *.* TO 'begins'@'%'")
		revoke := "REVOKE SUPER, CONNECTION_ADMIN ON *.* FROM 'begins'@'%'"
		if f.name == throwaway.MariaDB {
			revoke = "REVOKE SUPER, READ_ONLY ADMIN ON *.* FROM 'begins'@'%'"
		}
		mustExec(t, admin, revoke)
		v := valveTo(t, servers[0])
		p := start(t, f, setup{servers: servers, addrs: []string{v.Addr()}, user: "begins", password: "secret", tables: []string{"n: {shard_key: id}"}})
		c, direct := p.conn(), p.shard(0)
		mustExec(t, c, "CREATE TABLE n (id INT PRIMARY KEY, v INT)")
		mustExec(t, c, "INSERT INTO n VALUES (1, 0), (2, 0)")
		ctx := t.Context()
		reads := map[string]func() (int, error){
			"text": func() (n int, err error) {
				return n, c.QueryRowContext(ctx, "SELECT v FROM n WHERE id = 1").Scan(&n)
			},
			"prepared": func() (n int, err error) {
				return n, c.QueryRowContext(ctx, "SELECT v FROM n WHERE id = ?", 1).Scan(&n)
			},
			"locking": func() (n int, err error) { // which waits for BEGIN
				return n, c.QueryRowContext(ctx, "SELECT v FROM n WHERE id = 1 FOR UPDATE").Scan(&n)
			},
		}
		unchanged := func(what ...string) {
			t.Helper()
			if n := mustRows(t, direct, "SELECT SUM(v) AS n FROM n")[0]["n"]; n != "0" {
				t.Fatalf("%s: %s changes stay", what, n)
			}
		}
		for name, read := range reads {
			begun := func(what string) {
				t.Helper()
				eventually(t, name+", "+what+" answers", func() bool {
					mustExec(t, c, "BEGIN")
					mustExec(t, c, "SAVEPOINT s")
					n, err := read()
					if err != nil { // a refresh was about to connect, and the shard is down for a while
						wantError(t, err, 1429, "")
					}
					return err == nil && n == 0
				})
				mustExec(t, c, "UPDATE n SET v = v + 1 WHERE id = 1")
				mustExec(t, c, "ROLLBACK TO s")
				mustExec(t, c, "UPDATE n SET v = v + 1 WHERE id = 2")
				if n, err := read(); err != nil || n != 0 {
					t.Fatalf("%s, %s, behind ROLLBACK TO: %d, %v", name, what, n, err)
				}
				mustExec(t, c, "ROLLBACK")
				unchanged(name, what)
			}
			begun("a usual connection")
			v.Forget()
			begun("a connection that is dead")

			mustExec(t, admin, "SET GLOBAL read_only = 1")
			mustExec(t, c, "START TRANSACTION READ WRITE")
			for range 2 {
				_, err := read()
				wantError(t, err, 1290, "read")
			}
			mustExec(t, admin, "SET GLOBAL read_only = 0")
			if n, err := read(); err != nil || n != 0 {
				t.Fatalf("%s, behind a BEGIN that was refused: %d, %v", name, n, err)
			}
			mustExec(t, c, "UPDATE n SET v = v + 1 WHERE id = 2")
			mustExec(t, c, "ROLLBACK")
			unchanged(name, "a BEGIN that was refused")
		}
		// More savepoints than are sent in one round trip.
		mustExec(t, c, "BEGIN")
		for i := range 150 {
			mustExec(t, c, fmt.Sprintf("SAVEPOINT s%d", i))
		}
		mustExec(t, c, "UPDATE n SET v = v + 1 WHERE id = 2")
		mustExec(t, c, "ROLLBACK TO s7")
		mustExec(t, c, "COMMIT")
		unchanged("many savepoints")

		cutAtEachByte(t, p, c, direct, v, reads["text"])
	})
}

// told: an error, if there is one, tells of a shard that is lost.
func told(err error) bool {
	var e *mysql.MySQLError
	return err == nil || errors.As(err, &e) && (e.Number == 1429 || e.Number == 1430 || e.Number == 1180)
}

// cutAtEachByte cuts the connection at each byte of a transaction's first read. Where two cuts in a row meet a check of the
// shard's health instead, the shard is taken for dead, and all its connections are cut: then no COMMIT's outcome is known.
func cutAtEachByte(t *testing.T, p *process, c *sql.Conn, direct *sql.DB, v *throwaway.Valve, read func() (int, error)) {
	t.Helper()
	mustExec(t, c, "BEGIN")
	before := v.Passed()
	if _, err := read(); err != nil {
		t.Fatal(err)
	}
	traffic := v.Passed() - before
	mustExec(t, c, "ROLLBACK")
	answered := 0
	for at := int64(1); at < traffic; at++ {
		mustExec(t, c, "BEGIN")
		v.After(at, func(nc net.Conn) { nc.Close() })
		n, err := read()
		v.After(0, nil)
		_, updated := c.ExecContext(t.Context(), "UPDATE n SET v = v + 1 WHERE id = 2")
		_, committed := c.ExecContext(t.Context(), "COMMIT")
		changed := mustRows(t, direct, "SELECT v FROM n WHERE id = 2")[0]["v"]
		unknown := errorCode(committed) == 1180 && strings.Contains(p.log.String(), "shard is down")
		if !told(err) || !told(updated) || !told(committed) || n != 0 || !unknown && (changed == "1") != (updated == nil && committed == nil) {
			t.Fatalf("after %d of %d bytes: %d, %v; UPDATE: %v; COMMIT: %v; %s rows changed", at, traffic, n, err, updated, committed, changed)
		}
		if err == nil && updated == nil {
			answered++
		}
		mustExec(t, direct, "UPDATE n SET v = 0 WHERE id = 2")
	}
	t.Logf("answered by another connection in %d of %d cases", answered, traffic-1)
	if answered == 0 {
		t.Error("a connection that is lost before BEGIN is answered isn't replaced")
	}
}
