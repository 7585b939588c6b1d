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
	eachFlavour(t, func(t *testing.T, f *flavour) {
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
			"CREATE TABLE behind (id INT PRIMARY KEY)",
		} {
			holder, err := p.db().BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			mustExec(t, holder, "UPDATE n SET v = 5 WHERE id = 1")
			mustExec(t, holder, "UPDATE old SET v = 5 WHERE id = 1")
			alter := p.conn()
			altered := make(chan error, 1)
			if strings.HasPrefix(statement, "CREATE") { // it waits for other DDL
				go func() {
					_, err := alter.ExecContext(t.Context(), "ALTER TABLE n ADD COLUMN x INT")
					altered <- err
				}()
				eventually(t, 10*time.Second, "DDL waits", p.waitingFor("ALTER TABLE n"))
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
			time.Sleep(300 * time.Millisecond) // it waits by then, or KILL ends it before
			began := time.Now()
			mustExec(t, p.db(), "KILL QUERY "+id)
			wantError(t, <-told, 1317, "interrupted")
			if took := time.Since(began); took > 3*time.Second {
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
		mustExec(t, p.db(), "UPDATE n SET v = 2 WHERE id = 2")
		if took := time.Since(began); took > 4*time.Second {
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
		eventually(t, 10*time.Second, "DDL waits", p.waitingFor("ALTER TABLE people"))
		c := dialPackets(t, p.addr, "empty", p.schema, 0)
		for _, sql := range []string{"SET @x = SLEEP(30)", "SET max_sort_length = 1000 + SLEEP(30)", "SELECT SLEEP(30) INTO @x", "prepare"} {
			began := time.Now()
			answer := c.answer
			if sql == "prepare" {
				c.say(mysql.COM_STMT_PREPARE, []byte("SELECT age FROM people WHERE id = ?"))
				answer = func() string { return describeError(c.packet()) }
			} else {
				c.say(mysql.COM_QUERY, []byte(sql))
			}
			time.Sleep(300 * time.Millisecond)
			mustExec(t, admin, fmt.Sprintf("KILL QUERY %d", c.connectionID()))
			got := answer()
			if took := time.Since(began); took > 8*time.Second {
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

// TestKillFrozen: while a statement on a shard that doesn't answer is killed, others log in
// and look around.
func TestKillFrozen(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 2)
		p, look := startPeople(t, f, 0, setup{servers: servers, unchecked: true})
		victim, killer := dialPackets(t, p.addr, "empty", p.schema, 0), dialPackets(t, p.addr, "empty", p.schema, 0)
		victim.query("SELECT COUNT(*) FROM people")
		servers[1].Pause()
		defer servers[1].Resume()
		victim.say(mysql.COM_QUERY, []byte("SELECT COUNT(*) FROM people"))
		time.Sleep(300 * time.Millisecond)
		killer.say(mysql.COM_QUERY, fmt.Appendf(nil, "KILL QUERY %d", victim.connectionID()))
		time.Sleep(100 * time.Millisecond)
		began := time.Now()
		mustRows(t, look, "SHOW PROCESSLIST")
		dialPackets(t, p.addr, "empty", p.schema, 0)
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("others were kept waiting for %v", took)
		}
		killer.answer()
		victim.answer()
	})
}

// TestKillBesideFrozen: a statement is ended on the shards that answer, though another one
// doesn't, for KILL and for a client that has gone.
func TestKillBesideFrozen(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 2)
		p, _ := startPeople(t, f, 20, setup{servers: servers, unchecked: true})
		killer := dialPackets(t, p.addr, "empty", p.schema, 0)
		for how, end := range map[string]func(victim *packetClient){
			"KILL": func(victim *packetClient) {
				killer.say(mysql.COM_QUERY, fmt.Appendf(nil, "KILL QUERY %d", victim.connectionID()))
			},
			"gone": func(victim *packetClient) { victim.nc.Close() },
		} {
			t.Run(how, func(t *testing.T) {
				victim := dialPackets(t, p.addr, "empty", p.schema, 0)
				waiting := func(shard int) int {
					return len(mustRows(t, p.shard(shard), "SELECT id FROM information_schema.processlist WHERE info LIKE 'UPDATE people%'"))
				}
				for i := range servers {
					tx, err := p.shard(i).BeginTx(t.Context(), nil)
					if err != nil {
						t.Fatal(err)
					}
					defer tx.Rollback()
					if _, err := tx.ExecContext(t.Context(), "SELECT * FROM people FOR UPDATE"); err != nil {
						t.Fatal(err)
					}
				}
				victim.say(mysql.COM_QUERY, []byte("UPDATE people SET age = 5"))
				eventually(t, 20*time.Second, "the statement waits on both", func() bool { return waiting(0) == 1 && waiting(1) == 1 })
				servers[0].Pause()
				end(victim)
				eventually(t, 4*time.Second, "it has ended on the shard that answers, before the other one is given up", func() bool { return waiting(1) == 0 })
				servers[0].Resume()
				if how == "KILL" {
					killer.answer()
				}
				eventually(t, 30*time.Second, "it has ended", func() bool { return waiting(0) == 0 })
			})
		}
	})
}
