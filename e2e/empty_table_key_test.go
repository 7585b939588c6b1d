package e2e

import (
	"context"
	"fmt"
	"testing"
)

// TestDDLBesideTableLocks: ALTER TABLE that waits for a session with table locks gives its turn up to
// that session's own DDL.
func TestDDLBesideTableLocks(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{})
		c := p.conn()
		mustExec(t, c, "CREATE TABLE locked (id INT NOT NULL PRIMARY KEY)")
		for i, alter := range []string{"DROP PRIMARY KEY, ADD COLUMN n INT AUTO_INCREMENT PRIMARY KEY", "MODIFY id INT NOT NULL AUTO_INCREMENT"} {
			table := fmt.Sprint("keyed", i)
			mustExec(t, c, "CREATE TABLE "+table+" (id INT NOT NULL PRIMARY KEY)")
			mustExec(t, c, "LOCK TABLES locked WRITE")
			mustExec(t, c, "INSERT INTO locked VALUES (1), (2), (3), (4)")
			altered := make(chan error, 1)
			go func() {
				_, err := p.db().Exec("ALTER TABLE " + table + " " + alter)
				altered <- err
			}()
			eventually(t, "the ALTER TABLE is under way", func() bool {
				return len(mustRows(t, p.db(), "SELECT 1 FROM information_schema.processlist WHERE info LIKE 'ALTER TABLE "+table+"%'")) == 1
			})
			mustExec(t, c, "TRUNCATE TABLE locked") // 1205 after half a minute, if it had to wait
			mustExec(t, c, "UNLOCK TABLES")
			if err := <-altered; err != nil {
				t.Errorf("%s: %v", alter, err)
			}
		}

		// A read lock of all waits for the table locks, and other DDL for the read lock.
		waits := func(statement string) (ended chan error) {
			ended = make(chan error, 1)
			other := p.conn()
			go func() {
				_, err := other.ExecContext(context.Background(), statement)
				if err == nil {
					_, err = other.ExecContext(context.Background(), "UNLOCK TABLES")
				}
				ended <- err
			}()
			eventually(t, statement+" is under way", func() bool {
				return len(mustRows(t, p.db(), "SELECT 1 FROM information_schema.processlist WHERE info = '"+statement+"'")) == 1
			})
			return ended
		}
		tx, err := p.db().BeginTx(context.Background(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec("SELECT * FROM keyed1"); err != nil {
			t.Fatal(err)
		}
		mustExec(t, c, "LOCK TABLES locked WRITE")
		altered := waits("ALTER TABLE keyed1 ADD COLUMN w INT") // has its turn, and waits for the transaction
		created := waits("CREATE TABLE meanwhile (id INT PRIMARY KEY)")
		readLock := waits("FLUSH TABLES WITH READ LOCK")
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := <-altered; err != nil {
			t.Error(err)
		}
		mustExec(t, c, "TRUNCATE TABLE locked")
		mustExec(t, c, "UNLOCK TABLES")
		for _, ended := range []chan error{created, readLock} {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestEmptyTableKey: the shard key changes while a table has no rows, and not if it has one, be
// that in a transaction that isn't committed yet. Without a primary key the table is on one shard.
func TestEmptyTableKey(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{})
		mustExec(t, p.db(), "CREATE TABLE stepwise (a INT NOT NULL PRIMARY KEY, b INT)")
		mustExec(t, p.db(), "ALTER TABLE stepwise DROP PRIMARY KEY")
		for i := range p.servers {
			want(t, p.shard(i), "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = '"+p.schema+"' AND table_name = 'stepwise'", "COUNT(*)", map[bool]string{true: "1", false: "0"}[i == 0])
		}
		mustExec(t, p.db(), "ALTER TABLE stepwise ADD COLUMN id INT AUTO_INCREMENT PRIMARY KEY")
		mustExec(t, p.db(), "INSERT INTO stepwise (a) VALUES (1), (1), (2)")
		want(t, p.db(), "SELECT SUM(id) FROM stepwise", "SUM(id)", "6")

		const alter = "ALTER TABLE filled DROP PRIMARY KEY, ADD COLUMN id INT AUTO_INCREMENT PRIMARY KEY"
		mustExec(t, p.db(), "CREATE TABLE filled (a INT NOT NULL PRIMARY KEY, b INT)")
		tx, err := p.db().BeginTx(context.Background(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec("INSERT INTO filled VALUES (1, 1), (2, 2), (3, 3)"); err != nil {
			t.Fatal(err)
		}
		altered := make(chan error, 1)
		go func() {
			_, err := p.db().Exec(alter)
			altered <- err
		}()
		// Others' writes wait for a moment at most.
		for i := range 5 {
			mustExec(t, p.db(), fmt.Sprintf("INSERT INTO stepwise (a) VALUES (%d)", i))
		}
		eventually(t, "the ALTER TABLE waits for the transaction", func() bool {
			var n int
			return p.db().QueryRow("SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'ALTER TABLE filled%'").Scan(&n) == nil && n == 1
		})
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		wantError(t, <-altered, 1235, "may change the shard key filled.a")
		want(t, p.db(), "SELECT b FROM filled WHERE a = 2", "b", "2")
		mustExec(t, p.db(), "DELETE FROM filled")
		// The connections that it gets to the shards are those of a session that was READ ONLY.
		reader, c := p.conn(), p.conn()
		mustExec(t, reader, "SET SESSION TRANSACTION READ ONLY")
		mustExec(t, c, "SET SESSION sort_buffer_size = 300000") // none is as it wants it
		want(t, reader, "SELECT COUNT(*) FROM filled", "COUNT(*)", "0")
		mustExec(t, c, alter)
		mustExec(t, p.db(), "INSERT INTO filled (a) VALUES (5), (6)")
		wantRoute(t, p.db(), "SELECT a FROM filled WHERE id = 2", 1, "shard_key")
		want(t, p.db(), "SELECT SUM(a) FROM filled", "SUM(a)", "11")
	})
}
