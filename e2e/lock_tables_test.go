package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestLockTables: table locks hold on every shard against every other session,
// until they are given up, and no row is missed that was written under them.
func TestLockTables(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, a := startPeople(t, f, 40, setup{tables: []string{"other: {shard_key: id}"}})
		b := p.conn()
		mustExec(t, a, "CREATE TABLE other (id INT PRIMARY KEY, n INT)")
		pinned := func(n int) {
			t.Helper()
			if got, _ := p.metric("shunt_pinned_connections", `reason="lock tables"`); got != float64(n) {
				t.Errorf("%v connections are pinned by LOCK TABLES, want %d", got, n)
			}
			for _, r := range mustRows(t, b, "SHOW SHARDS") {
				if got := strings.Contains(r["Pinned"], "lock tables: 1"); got != (n > 0) {
					t.Errorf("SHOW SHARDS: %v", r)
				}
			}
		}
		pinned(0)
		mustExec(t, a, "LOCK TABLES people WRITE")
		pinned(len(p.servers))
		// Each of b's statements goes to one shard, or to all.
		for _, query := range []string{"SELECT * FROM people WHERE id = 7", "UPDATE people SET age = 1 WHERE email = 'p8@x'", "SELECT COUNT(*) FROM people", "INSERT INTO people (id, email) VALUES (100, 'new'), (101, 'new2')"} {
			done := later(b, query)
			waits(t, done, query)
			mustExec(t, a, "UPDATE people SET email = CONCAT('x', id, '@y') WHERE id = 9")
			mustExec(t, a, "UPDATE people SET email = 'literal@y' WHERE id = 10")
			mustExec(t, a, "UNLOCK TABLES")
			ends(t, done, query)
			want(t, b, "SELECT id FROM people WHERE email = 'x9@y'", "id", "9")
			want(t, b, "SELECT id FROM people WHERE email = 'literal@y'", "id", "10")
			mustExec(t, a, "LOCK TABLES people WRITE")
		}
		// An index is built when the locks are gone; what is read meanwhile is right.
		mustExec(t, a, "CREATE VIRTUAL INDEX idx_age ON people (age)")
		want(t, a, "SELECT id FROM people WHERE age = 1", "id", "8")
		mustExec(t, a, "UPDATE people SET age = 1000 WHERE id = 11")
		want(t, a, "SELECT id FROM people WHERE age = 1000", "id", "11")
		mustExec(t, a, "UNLOCK TABLES")
		pinned(0)
		p.waitIndex(b, "idx_age")
		want(t, b, "SELECT id FROM people WHERE age = 1000", "id", "11")

		// READ locks let others read, not write.
		mustExec(t, a, "LOCK TABLES people READ")
		want(t, b, "SELECT id FROM people WHERE email = 'p7@x'", "id", "7")
		done := later(b, "UPDATE people SET age = 2 WHERE id = 7")
		waits(t, done, "a write beside a READ lock")
		mustExec(t, a, "START TRANSACTION")
		ends(t, done, "a write after START TRANSACTION")
		mustExec(t, a, "COMMIT")

		// A timeout leaves nothing locked, on no shard.
		mustExec(t, a, "LOCK TABLES people WRITE")
		mustExec(t, b, "SET lock_wait_timeout = 1")
		_, err := b.ExecContext(t.Context(), "LOCK TABLES other WRITE, people WRITE")
		wantError(t, err, 1205, "")
		mustExec(t, a, "UNLOCK TABLES")
		mustExec(t, a, "INSERT INTO other VALUES (1, 1), (2, 2), (3, 3), (4, 4)")
		want(t, b, "SELECT COUNT(*) AS n FROM people", "n", "42")

		// The session's end gives them up.
		gone := p.db()
		gone.SetMaxOpenConns(1)
		if _, err := gone.ExecContext(t.Context(), "LOCK TABLES people WRITE"); err != nil {
			t.Fatal(err)
		}
		pinned(len(p.servers))
		gone.Close()
		eventually(t, "the locks to go with their session", func() bool {
			_, err := a.ExecContext(t.Context(), "UPDATE people SET age = 3 WHERE id >= 0")
			n, _ := p.metric("shunt_pinned_connections", `reason="lock tables"`)
			return err == nil && n == 0
		})
	})
}

// TestLockTablesDeadlock: sessions that lock the same tables in another order, and
// transactions that hold a table on one shard and want it on another, all come to
// their ends.
func TestLockTablesDeadlock(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 40, setup{tables: []string{"other: {shard_key: id}"}})
		mustExec(t, c, "CREATE TABLE other (id INT PRIMARY KEY, n INT)")
		mustExec(t, c, "INSERT INTO other VALUES (1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0)")
		const rounds = 10
		var all []chan error
		for i, tables := range []string{"people WRITE, other WRITE", "other WRITE, people WRITE", "other WRITE", "people READ"} {
			s, done := p.conn(), make(chan error, 1)
			go func() {
				done <- func() error {
					for range rounds {
						for _, query := range []string{"LOCK TABLES " + tables, "UPDATE other SET n = n + 1", "UNLOCK TABLES"} {
							if i == 3 && strings.HasPrefix(query, "UPDATE") {
								query = "SELECT COUNT(*) FROM people"
							}
							if _, err := s.ExecContext(context.Background(), query); err != nil {
								return fmt.Errorf("%s: %w", query, err)
							}
						}
					}
					return nil
				}()
			}()
			all = append(all, done)
		}
		for _, done := range all {
			ends(t, done, "LOCK TABLES")
		}
		want(t, c, "SELECT MIN(n) AS a, MAX(n) AS b FROM other", "a b", fmt.Sprintf("%d %d", 3*rounds, 3*rounds))

		// onFirst is on the first shard, onLast on the last.
		x, y := p.conn(), p.conn()
		on := func(shard int) int {
			for id := range 40 {
				var n int
				if err := p.shard(shard).QueryRow("SELECT COUNT(*) FROM people WHERE id = ?", id).Scan(&n); err == nil && n == 1 {
					return id
				}
			}
			t.Fatalf("no row on shard %d", shard)
			return 0
		}
		onFirst, onLast := on(0), on(len(p.servers)-1)
		mustExec(t, x, "BEGIN")
		mustExec(t, x, fmt.Sprintf("UPDATE people SET age = 1 WHERE id = %d", onLast))
		lock := later(y, "LOCK TABLES people WRITE")
		waits(t, lock, "LOCK TABLES beside a transaction")
		update := later(x, fmt.Sprintf("UPDATE people SET age = 1 WHERE id = %d", onFirst))
		ends(t, update, "the transaction")
		mustExec(t, x, "COMMIT")
		ends(t, lock, "LOCK TABLES after the transaction")
		want(t, y, fmt.Sprintf("SELECT COUNT(*) AS n FROM people WHERE id IN (%d, %d) AND age = 1", onFirst, onLast), "n", "2")
		mustExec(t, y, "UNLOCK TABLES")
	})
}

// TestLockTablesDump: mysqldump with its defaults (LOCK TABLES ... READ LOCAL), and
// what it writes, with LOCK TABLES ... WRITE and DISABLE KEYS, read back.
func TestLockTablesDump(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 40, setup{tables: []string{"counted: {shard_key: id}"}})
		mustExec(t, c, "CREATE TABLE counted (id INT AUTO_INCREMENT PRIMARY KEY, n INT)")
		mustExec(t, c, "INSERT INTO counted (n) VALUES (1), (2), (3), (4), (5)")
		host, port, _ := strings.Cut(p.addr, ":")
		client := func(name string, args ...string) *exec.Cmd {
			cmd := exec.CommandContext(t.Context(), "/usr/bin/"+name)
			if src, err := throwaway.Find(t.Context(), throwaway.MySQL); f.name == throwaway.MySQL && err == nil && src.Root != "" {
				cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Chroot: src.Root}
			} else if _, err := exec.LookPath(name); err != nil {
				t.Skipf("no %s on this machine", name)
			}
			cmd.Args = append(append(cmd.Args, "--no-defaults", "--protocol=tcp", "--host="+host, "--port="+port, "--user=app", "--password=secret"), args...)
			return cmd
		}
		var errors strings.Builder
		args := []string{p.schema}
		if f.name == throwaway.MySQL { // the servers' GTIDs are not Shunt's to restore
			args = append(args, "--set-gtid-purged=OFF")
		}
		dump := client("mysqldump", args...)
		dump.Stderr = &errors
		text, err := dump.Output()
		if err != nil {
			t.Fatalf("mysqldump: %v\n%s", err, errors.String())
		}
		for _, s := range []string{"LOCK TABLES `people` WRITE", "'p7@x'", "LOCK TABLES `counted` WRITE"} {
			if !strings.Contains(string(text), s) {
				t.Errorf("%q is not in the dump:\n%s", s, text)
			}
		}
		back := client("mysql", p.schema)
		back.Stdin = strings.NewReader(string(text))
		if out, err := back.CombinedOutput(); err != nil {
			t.Fatalf("mysql: %v\n%s", err, out)
		}
		want(t, c, "SELECT COUNT(*) AS n FROM people", "n", "40")
		want(t, c, "SELECT id FROM people WHERE email = 'p7@x'", "id", "7")
		mustExec(t, c, "INSERT INTO counted (n) VALUES (6)")
		want(t, c, "SELECT COUNT(*) AS n, COUNT(DISTINCT id) AS d FROM counted", "n d", "6 6")
	})
}

// TestLockTablesChained: AND CHAIN unlocks as BEGIN does, and FLUSH TABLES ... WITH
// READ LOCK takes no other locks' place.
func TestLockTablesChained(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := packetSides(t, f)(t, 0)
		const insert = "INSERT INTO people (id, age) VALUES (1, 1), (2, 2), (3, 3)"
		p.query("LOCK TABLES people READ", insert, "COMMIT AND CHAIN", insert, "UNLOCK TABLES", "ROLLBACK", "SELECT COUNT(*) FROM people",
			"LOCK TABLES people READ", "ROLLBACK AND CHAIN", insert, "COMMIT", "SELECT COUNT(*) FROM people",
			"LOCK TABLES people READ", "SET completion_type = 1", "COMMIT", "DELETE FROM people WHERE id = 1", "SET completion_type = 0", "ROLLBACK", "SELECT COUNT(*) FROM people",
			"LOCK TABLES people WRITE", "FLUSH TABLES people WITH READ LOCK", "DELETE FROM people WHERE id = 1", "UNLOCK TABLES")
		// The table that a temporary one hides.
		p.query("CREATE TEMPORARY TABLE people (id INT)")
		if got := p.shunt.query("FLUSH TABLES people WITH READ LOCK"); !strings.HasPrefix(got, "ERR 1235") {
			t.Errorf("FLUSH TABLES of a hidden table: %s", got)
		}
	})
}

// TestHintedLocks: a lock that a hint would take stays with a pooled connection, and holds up
// whoever writes to the shard.
func TestHintedLocks(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		_, c := startPeople(t, f, 5, setup{})
		for _, sql := range []string{"FLUSH TABLES WITH READ LOCK", "FLUSH TABLES people WITH READ LOCK", "FLUSH TABLES people FOR EXPORT", "BACKUP STAGE START", "LOCK INSTANCE FOR BACKUP"} {
			failsWith(t, c, "/* shunt: shard=s1 */ "+sql, 1235, "a hint before")
		}
		mustExec(t, c, "/* shunt: shard=s1 */ FLUSH TABLES people")
		mustExec(t, c, "UPDATE people SET age = 5")
	})
}
