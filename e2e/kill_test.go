package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestKillBetween: KILL QUERY that comes between two of the statements that a client's is
// made of ends it all the same.
func TestKillBetween(t *testing.T) {
	const localFiles = 128 // CLIENT_LOCAL_FILES
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 0, setup{})
		for _, begin := range []string{"SELECT 1", "BEGIN"} {
			client := dialPackets(t, p.addr, "empty", p.schema, localFiles)
			client.query(begin)
			client.say(mysql.COM_QUERY, []byte("LOAD DATA LOCAL INFILE 'x' INTO TABLE people (id)"))
			if asked := client.packet(); string(asked) != "\xfbx" {
				t.Fatalf("asked for %q", asked)
			}
			var rows strings.Builder
			for id := range 5000 {
				fmt.Fprintf(&rows, "%d\n", id)
			}
			client.write([]byte(rows.String()[:rows.Len()/2]))
			mustExec(t, c, fmt.Sprintf("KILL QUERY %d", client.connectionID()))
			client.write([]byte(rows.String()[rows.Len()/2:]))
			client.write(nil)
			if got := client.answer(); !strings.HasPrefix(got, "ERR 1317") {
				t.Errorf("behind %s: %s", begin, got)
			}
			if got := client.query("SELECT COUNT(*) FROM people"); !strings.Contains(got, "row 0130") {
				t.Errorf("behind %s there are rows: %s", begin, got)
			}
			client.query("COMMIT")
			want(t, c, "SELECT COUNT(*) AS n FROM people", "n", "0")
		}
	})
}

// TestKillWaiting: KILL QUERY, and the client's going, end what waits for a lock, whatever a
// statement is made of.
func TestKillWaiting(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"n: {shard_key: id}", "m: {shard_key: id}", "old: {placement: anywhere}"}})
		for _, name := range []string{"n", "m", "old"} {
			mustExec(t, p.db(), "CREATE TABLE "+name+" (id INT PRIMARY KEY, v INT NOT NULL)")
		}
		fill(t, p, "n", 30, func(id int) string { return fmt.Sprintf("(%d, 0)", id) })
		fill(t, p, "m", 30, func(id int) string { return fmt.Sprintf("(%d, 0)", id) })
		fill(t, p, "old", 30, func(id int) string { return fmt.Sprintf("(%d, 0)", id) })
		for _, statement := range []string{
			"UPDATE n SET v = 1",
			"REPLACE INTO old VALUES (1, 2)",
			"INSERT INTO old VALUES (1, 2) ON DUPLICATE KEY UPDATE v = 2",
			"UPDATE m SET v = 2 WHERE v IN (SELECT v FROM n)",
			"SELECT n.v FROM n JOIN m ON n.v = m.v LIMIT 1 FOR UPDATE",
			"ALTER TABLE n ADD COLUMN w INT",
			"CREATE INDEX behind ON n (v)",
		} {
			holder, err := p.db().BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			mustExec(t, holder, "UPDATE n SET v = 5 WHERE id = 1")
			mustExec(t, holder, "UPDATE old SET v = 5 WHERE id = 1")
			alter := p.conn()
			altered := make(chan error, 1)
			if strings.HasPrefix(statement, "CREATE") { // it waits for other DDL of its table
				go func() {
					_, err := alter.ExecContext(t.Context(), "ALTER TABLE n ADD COLUMN x INT")
					altered <- err
				}()
				eventually(t, "DDL waits", p.waitingFor("ALTER TABLE n"))
			} else {
				close(altered)
			}
			c := p.conn()
			id := mustRows(t, c, "SELECT CONNECTION_ID() AS id")[0]["id"]
			told := make(chan error, 1)
			go func() {
				_, err := rowsOf(t.Context(), c, statement)
				told <- err
			}()
			p.executing(id, statement)
			began := time.Now()
			wantError(t, killed(t, p.db(), id, told), 1317, "interrupted")
			if took := time.Since(began); took > soon {
				t.Errorf("%s: KILL took %v", statement, took)
			}
			if err := holder.Rollback(); err != nil {
				t.Error(err)
			}
			if err := <-altered; err != nil {
				t.Error(err)
			}
		}
		want(t, p.db(), "SELECT COUNT(*) AS n, SUM(v) AS s FROM old", "n s", "30 0")

		// Who has gone gives up what his transaction has locked.
		holder, err := p.db().BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		mustExec(t, holder, "UPDATE old SET v = 5 WHERE id = 1")
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		c := p.conn()
		mustExec(t, c, "BEGIN")
		mustExec(t, c, "UPDATE n SET v = 1 WHERE id = 2")
		_, _ = c.ExecContext(ctx, "REPLACE INTO old VALUES (1, 2)")
		began := time.Now()
		by := p.conn()
		mustExec(t, by, "SET innodb_lock_wait_timeout = 60")
		mustExec(t, by, "UPDATE n SET v = 2 WHERE id = 2")
		if took := time.Since(began); took > soon {
			t.Errorf("its locks were held for %v", took)
		}
		if err := holder.Rollback(); err != nil {
			t.Error(err)
		}
	})
}

// TestKillUnrouted: KILL QUERY ends what goes to whatever shard will do, and what is only prepared.
func TestKillUnrouted(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p, admin := startPeople(t, f, 3, setup{})
		holder, err := p.db().BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		mustRows(t, holder, "SELECT id FROM people")
		altered := make(chan error, 1)
		alter := p.conn()
		go func() {
			_, err := alter.ExecContext(t.Context(), "ALTER TABLE people ADD COLUMN x INT")
			altered <- err
		}()
		eventually(t, "DDL waits", p.waitingFor("ALTER TABLE people"))
		c := dialPackets(t, p.addr, "empty", p.schema, 0)
		for _, sql := range []string{"SET @x = SLEEP(30)", "SET max_sort_length = 1000 + SLEEP(30)", "SELECT SLEEP(30) INTO @x", "prepare"} {
			began := time.Now()
			answer, begins := c.answer, sql[:len("SELECT")] // INTO is Shunt's own to do
			if sql == "prepare" {
				c.say(mysql.COM_STMT_PREPARE, []byte("SELECT age FROM people WHERE id = ?"))
				answer, begins = func() string { return describeError(c.packet()) }, "SELECT"
			} else {
				c.say(mysql.COM_QUERY, []byte(sql))
			}
			id := fmt.Sprint(c.connectionID())
			p.executing(id, begins)
			told := make(chan string, 1)
			go func() { told <- answer() }()
			got := killed(t, admin, id, told)
			if took := time.Since(began); took > soon {
				t.Errorf("%s: %s after %v", sql, got, took)
			}
			// MySQL's SLEEP() answers 1 then.
			if !strings.HasPrefix(got, "ERR 1317") && (f.name != throwaway.MySQL || !strings.HasPrefix(got, "OK") || sql == "prepare") {
				t.Errorf("%s: %s", sql, got)
			}
		}
		if err := holder.Rollback(); err != nil {
			t.Error(err)
		}
		if err := <-altered; err != nil {
			t.Error(err)
		}
	})
}

// killed kills a statement until it has ended, and returns what its client was told: KILL ends nothing
// on a server that has yet to get it.
func killed[T any](t *testing.T, by queryer, id string, told chan T) (what T) {
	t.Helper()
	eventually(t, "KILL QUERY ends it", func() bool {
		mustExec(t, by, "KILL QUERY "+id)
		select {
		case what = <-told:
			return true
		case <-time.After(300 * time.Millisecond):
			return false
		}
	})
	return what
}
