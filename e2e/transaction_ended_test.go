package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestTransactionEndedByServer: errors with which a server, by its settings, rolls back
// the whole transaction. What it did on other shards is undone as well.
func TestTransactionEndedByServer(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"n: {shard_key: id}"}, servers: f.own(t, 2, "--innodb-rollback-on-timeout=ON")})
		mustExec(t, p.db(), "CREATE TABLE n (id INT PRIMARY KEY, v INT)")
		fill(t, p, "n", 20, func(id int) string { return fmt.Sprintf("(%d, 0)", id) })
		on := idsOn(t, p)
		update := func(id int) string { return fmt.Sprintf("UPDATE n SET v = v + 1 WHERE id = %d", id) }
		c := p.conn()
		begun := func() {
			mustExec(t, c, "BEGIN")
			mustExec(t, c, update(on[0][0]))
			mustExec(t, c, update(on[1][0]))
		}
		ended := func(what string, err error, code uint16) {
			t.Helper()
			wantError(t, err, code, "")
			mustExec(t, c, "COMMIT") // of nothing
			if n := mustRows(t, p.db(), "SELECT SUM(v) AS n FROM n WHERE id IN (?, ?)", on[0][0], on[1][0])[0]["n"]; n != "0" {
				t.Errorf("%s: %s rows of the transaction were changed", what, n)
			}
		}

		mustExec(t, c, "SET innodb_lock_wait_timeout = 1")
		release := lockRow(t, p, 1, on[1][1])
		begun()
		_, err := c.ExecContext(t.Context(), update(on[1][1]))
		ended("lock timeout", err, 1205)
		release()

		if f.name != throwaway.MariaDB {
			return
		}
		mustExec(t, c, "SET innodb_snapshot_isolation = 1")
		begun()
		mustRows(t, c, fmt.Sprintf("SELECT v FROM n WHERE id = %d", on[1][1])) // its snapshot
		mustExec(t, p.shard(1), update(on[1][1]))
		_, err = c.ExecContext(t.Context(), update(on[1][1]))
		ended("changed record", err, 1020)
	})
}

// TestCommitWithoutAShard: a transaction that has lost a shard's connection before COMMIT
// is committed on none.
func TestCommitWithoutAShard(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"n: {shard_key: id}"}})
		mustExec(t, p.db(), "CREATE TABLE n (id INT PRIMARY KEY, v INT)")
		fill(t, p, "n", 40, func(id int) string { return fmt.Sprintf("(%d, 0)", id) })
		on := idsOn(t, p)
		for lost := range p.servers {
			tx, err := p.db().BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			for i := range p.servers {
				mustExec(t, tx, fmt.Sprintf("UPDATE n SET v = 1 WHERE id = %d", on[i][0]))
			}
			p.cutTransactions(lost)
			wantError(t, tx.Commit(), 1180, fmt.Sprintf("s%d", lost))
			want(t, p.db(), "SELECT id FROM n WHERE v > 0", "id")
		}
	})
}

// TestFailedCommitEndsCharacteristics: what was said of a transaction whose COMMIT fails is
// not said of the next one, which may be another user's of the client's pool.
func TestFailedCommitEndsCharacteristics(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"n: {shard_key: id}"}})
		c := p.conn()
		mustExec(t, c, "CREATE TABLE n (id INT PRIMARY KEY, v INT)")
		fill(t, p, "n", 40, func(id int) string { return fmt.Sprintf("(%d, 0)", id) })
		on := idsOn(t, p)
		one, all := fmt.Sprintf("SELECT v FROM n WHERE id = %d", on[1][0]), "SELECT v FROM n"
		for _, read := range []string{one, all} {
			for _, end := range []string{"COMMIT", "COMMIT AND CHAIN", "BEGIN", "CREATE TABLE other (id INT PRIMARY KEY)"} {
				mustExec(t, c, "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
				mustExec(t, c, "START TRANSACTION READ ONLY")
				mustRows(t, c, read)
				p.cutTransactions(1)
				if _, err := c.ExecContext(t.Context(), end); err == nil {
					t.Fatalf("%s is no error", end)
				}
				if _, err := c.ExecContext(t.Context(), fmt.Sprintf("UPDATE n SET v = v + 1 WHERE id = %d", on[1][0])); err != nil {
					t.Errorf("behind a failed %s of %s: %v", end, read, err)
				}
				mustExec(t, c, "BEGIN")
				mustRows(t, c, one)
				mustExec(t, p.shard(1), fmt.Sprintf("UPDATE n SET v = v + 1 WHERE id = %d", on[1][0])) // SERIALIZABLE had locked it
				mustExec(t, c, "ROLLBACK")
			}
		}
	})
}

// cutTransactions ends the connections of the transactions that are open on a shard.
func (p *process) cutTransactions(on int) {
	p.t.Helper()
	shard := p.shard(on)
	busy := "SELECT t.trx_mysql_thread_id AS id FROM information_schema.innodb_trx t JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id WHERE p.db = '" + p.schema + "'"
	cut := false // servers remember the list for 100 ms
	eventuallyEach(p.t, 250*time.Millisecond, "the connection is gone", func() bool {
		rows := mustRows(p.t, shard, busy)
		for _, r := range rows {
			_, err := shard.ExecContext(p.t.Context(), "KILL "+r["id"]) // it may be gone already
			cut = cut || err == nil
		}
		return cut && len(rows) == 0
	})
}

// TestImplicitCommit: what commits, and what a server refuses before it does or doesn't
// count among them.
func TestImplicitCommit(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := packetSides(t, f)(t, 0)
		p.query("INSERT INTO people (id, age) VALUES (1, 0), (2, 0), (3, 0), (4, 0)", "CREATE TABLE other (id INT PRIMARY KEY)")
		for i, sql := range []string{
			"CHECKSUM TABLE people", "ANALYZE TABLE people", "CHECK TABLE people", "ANALYZE TABLE people nonsense", "FLUSH TABLES",
			"CREATE TABLE x (i INT", "CREATE TABLE x nonsense", "CREATE TABLE other (id INT PRIMARY KEY)", "ALTER TABLE other ADD COLUMN id INT", "ALTER TABLE other ADDD COLUMN x INT",
			"DROP TABLE other nonsense", "DROP TABLE no_such", "TRUNCATE TABLE other", "TRUNCATE other other", "CREATE VIEW v AS SELEC 1", "CREATE INDEX i ON other (nosuch)",
			"CREATE PROCEDURE p() BEGIN SELECT 1", "DROP PROCEDURE IF EXISTS p", "LOCK TABLES other WRIT", "UNLOCK TABLES", "CREATE TEMPORARY TABLE tt (i INT", "RENAME TABLE other people", "SHOW TABLES", "SET autocommit = 0",
		} {
			p.both(sql, func(c *packetClient) string {
				c.query("SET autocommit = 1")
				c.query("START TRANSACTION")
				c.query(fmt.Sprintf("UPDATE people SET age = %d", i+1))
				c.query(sql)
				return c.query("ROLLBACK") + c.query("SELECT age FROM people WHERE id = 3")
			})
		}
		// What was said of the transaction is not said of the next one.
		p.query("SET autocommit = 1", "START TRANSACTION READ ONLY", "SELECT id FROM people WHERE id = 1")
		p.both("ANALYZE", func(c *packetClient) string { c.query("ANALYZE TABLE people"); return "" })
		p.query("BEGIN", "UPDATE people SET age = 1000", "COMMIT")
	})
}
