package e2e

import (
	"fmt"
	"slices"
	"testing"
)

// TestMembersDDLTurns: DDL that waits for a transaction holds up that of its table at all members, and no other's; what
// waited for it is planned behind it, whoever has sent it.
func TestMembersDDLTurns(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{servers: f.own(t, 2), extra: "store: {shards: true}"})
		q := p.beside()
		q.run()
		one, two := p.db(), q.db()
		for _, sql := range []string{
			"CREATE TABLE held (id INT PRIMARY KEY, n INT)", "CREATE TABLE free (id INT PRIMARY KEY, n INT)",
			"INSERT INTO held VALUES (1, 1), (2, 2), (3, 3), (4, 4)", "INSERT INTO free VALUES (1, 1), (2, 2), (3, 3), (4, 4)",
		} {
			mustExec(t, one, sql)
		}
		p.createIndex(one, "by_n", "held (n)")
		p.createIndex(two, "free_n", "free (n)")
		reader := p.conn()
		mustExec(t, reader, "BEGIN")
		mustRows(t, reader, "SELECT SUM(n) FROM held")
		altered := p.begins(p.conn(), "ALTER TABLE held MODIFY n BIGINT")
		behind := q.begins(q.conn(), "ALTER TABLE held RENAME COLUMN n TO m, ADD COLUMN w INT")
		eventually(t, "it is shown what that waits for", func() bool { return behind.listed()["State"] == "Waiting for table metadata lock" })
		for i, sql := range []string{
			"CREATE TABLE made (id INT PRIMARY KEY, n INT)", "CREATE VIRTUAL INDEX made_n ON made (n)", "ALTER TABLE made ADD COLUMN w INT, MODIFY n BIGINT", "CREATE INDEX w ON made (w)", "RENAME TABLE made TO other",
			"DROP TABLE other", "ALTER TABLE free MODIFY n BIGINT", "CREATE DATABASE " + p.schema + "_2", "CREATE TABLE " + p.schema + "_2.held (id INT PRIMARY KEY)", "DROP DATABASE " + p.schema + "_2",
			"CREATE VIEW seen AS SELECT id FROM free", "CREATE PROCEDURE p () SELECT 1",
		} {
			mustExec(t, []queryer{two, one}[i%2], sql)
		}
		want(t, two, "SELECT id FROM free WHERE n = 3", "id", "3")
		altered.waits()
		behind.waits()

		// A wait ends by itself, and by KILL, at another member too.
		q.waitEnds(one, "DDL by member")
		mustExec(t, reader, "COMMIT")
		altered.done()
		behind.done()
		for _, db := range []queryer{one, two} {
			want(t, db, "SELECT SUM(m), COUNT(w) FROM held", "SUM(m) COUNT(w)", "10 0")
		}

		// A member dies while shards do its DDL.
		mustExec(t, reader, "BEGIN")
		mustRows(t, reader, "SELECT SUM(m) FROM held")
		lost := q.begins(q.conn(), "ALTER TABLE held ADD COLUMN x INT")
		eventually(t, "shards are at it", func() bool {
			lost.waits()
			// Of Shunt's list the state is the same where it waits for its turn.
			return slices.Max(p.onShards("SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE 'ALTER TABLE%ADD COLUMN x INT' AND STATE = 'Waiting for table metadata lock'")) > 0
		})
		q.kill()
		<-lost.told
		waiting := p.begins(p.conn(), "ALTER TABLE held ADD COLUMN y INT")
		mustExec(t, one, "CREATE TABLE made (id INT PRIMARY KEY)")
		waiting.waits()
		mustExec(t, reader, "COMMIT")
		waiting.done()
		want(t, one, "SELECT COUNT(y) FROM held", "COUNT(y)", "0")
	})
}

// TestMembersDDLOfLocked: who has LOCK TABLES on a table does DDL on it at once, though another member's waits for that lock.
func TestMembersDDLOfLocked(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{servers: f.own(t, 2), extra: "store: {shards: true}"})
		q := p.beside()
		q.run()
		const table, ghost, del = "held", "_held_gho", "_held_del"
		db := p.db()
		mustExec(t, db, "CREATE TABLE "+table+" (id INT PRIMARY KEY, n INT)")
		mustExec(t, db, "INSERT INTO "+table+" VALUES (1, 1), (2, 2), (3, 3), (4, 4)")
		mustExec(t, db, "CREATE TABLE "+ghost+" LIKE "+table)
		mustExec(t, db, "ALTER TABLE "+ghost+" ADD COLUMN w INT DEFAULT 7")
		mustExec(t, db, "INSERT INTO "+ghost+" (id, n) SELECT id, n FROM "+table)
		a := p.conn()
		mustExec(t, a, "CREATE TABLE "+del+" (id INT AUTO_INCREMENT PRIMARY KEY) COMMENT='ghost-cut-over-sentry'")
		mustExec(t, a, "LOCK TABLES "+table+" WRITE, "+del+" WRITE")
		written := q.begins(q.conn(), "INSERT INTO "+table+" (id, n) VALUES (9, 9)")
		renamed := q.begins(q.conn(), fmt.Sprintf("RENAME TABLE %s TO %s, %s TO %[1]s", table, del, ghost))
		eventually(t, "shards are at it", func() bool { return renamed.listed()["State"] == "Waiting for table metadata lock" })
		altered := p.begins(p.conn(), "ALTER TABLE "+table+" ADD COLUMN late INT")
		mustExec(t, a, "DROP TABLE IF EXISTS "+del)
		renamed.waits()
		altered.waits()
		mustExec(t, a, "UNLOCK TABLES")
		renamed.done()
		written.done()
		altered.done()
		for _, m := range []*process{p, q} {
			want(t, m.db(), "SELECT COUNT(*), SUM(w), COUNT(late) FROM "+table+" WHERE id < 9", "COUNT(*) SUM(w) COUNT(late)", "4 28 0")
		}
	})
}
