package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
)

// asked is a statement that waits.
type asked struct {
	t    *testing.T
	p    *process
	sql  string
	told chan error
}

// begins has a connection send a statement, and returns when that is under way.
func (p *process) begins(c *sql.Conn, statement string) *asked {
	p.t.Helper()
	a := &asked{p.t, p, statement, make(chan error, 1)}
	go func() {
		_, err := c.ExecContext(context.Background(), statement)
		a.told <- err
	}()
	eventually(p.t, statement+" is under way", func() bool { return a.listed() != nil || len(a.told) > 0 })
	return a
}

func (a *asked) listed() row {
	for _, r := range mustRows(a.t, a.p.db(), "SHOW FULL PROCESSLIST") {
		if r["Info"] == a.sql {
			return r
		}
	}
	return nil
}

func (a *asked) waits() {
	a.t.Helper()
	if len(a.told) > 0 {
		a.t.Fatalf("%s didn't wait: %v", a.sql, <-a.told)
	}
}

func (a *asked) done() {
	a.t.Helper()
	if err := <-a.told; err != nil {
		a.t.Fatalf("%s: %v", a.sql, err)
	}
}

// waitEnds: DDL of held, which waits for other DDL, ends by lock_wait_timeout, and by a KILL.
func (p *process) waitEnds(killer queryer, why string) {
	p.t.Helper()
	c := p.conn()
	mustExec(p.t, c, "SET lock_wait_timeout = 1")
	wantError(p.t, execError(p.t, c, "DROP TABLE held"), 1205, why)
	dropped := p.begins(c, "ALTER TABLE held DROP COLUMN id")
	if r := dropped.listed(); r != nil {
		mustExec(p.t, killer, "KILL QUERY "+r["Id"])
	}
	if err := <-dropped.told; err == nil {
		p.t.Error("it was done though it was killed")
	}
}

// TestDDLTurns: DDL that waits for a transaction holds up that of its table, and no other; what waited for it is planned behind it.
func TestDDLTurns(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"lone: {placement: single, shard: s1}"}})
		reader, db := p.conn(), p.db()
		for _, sql := range []string{
			"CREATE TABLE held (id INT PRIMARY KEY, n INT)", "CREATE TABLE free (id INT PRIMARY KEY, n INT)", "CREATE TABLE lone (id INT PRIMARY KEY, n INT)",
			"INSERT INTO held VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, 7), (8, 8)",
			"INSERT INTO free VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, 7), (8, 8)",
		} {
			mustExec(t, db, sql)
		}
		p.createIndex(db, "by_n", "held (n)")
		p.createIndex(db, "free_n", "free (n)")
		for _, sql := range []string{"SELECT n FROM held WHERE id = 1", "SELECT SUM(n) FROM held"} { // on one shard, or on all
			mustExec(t, reader, "BEGIN")
			mustRows(t, reader, sql)
			altered := p.begins(p.conn(), "ALTER TABLE held MODIFY n BIGINT")
			behind := p.begins(p.conn(), "ALTER TABLE held RENAME COLUMN n TO m, ADD COLUMN w INT")
			eventually(t, "it is shown what that waits for", func() bool { return behind.listed()["State"] == "Waiting for table metadata lock" })
			for _, sql := range []string{
				"CREATE TABLE made (id INT PRIMARY KEY, n INT)", "INSERT INTO made VALUES (1, 1), (2, 2)", "CREATE VIRTUAL INDEX made_n ON made (n)", "ALTER TABLE made ADD COLUMN w INT, MODIFY n BIGINT",
				"CREATE INDEX w ON made (w)", "RENAME TABLE made TO other", "TRUNCATE TABLE other", "DROP TABLE other", "ALTER TABLE free MODIFY n BIGINT", "ALTER TABLE free MODIFY n INT",
				"CREATE DATABASE " + p.schema + "_2", "CREATE TABLE " + p.schema + "_2.held (id INT PRIMARY KEY)", "DROP DATABASE " + p.schema + "_2",
				"CREATE VIEW seen AS SELECT id FROM free", "DROP VIEW seen", "CREATE TRIGGER tr BEFORE INSERT ON lone FOR EACH ROW SET NEW.n = 1", "DROP TRIGGER tr", "CREATE PROCEDURE p () SELECT 1", "DROP PROCEDURE p",
			} {
				mustExec(t, db, sql)
			}
			want(t, db, "SELECT id FROM free WHERE n = 3", "id", "3")
			altered.waits()
			behind.waits()

			// A wait ends by itself, by KILL, and with what it waits for.
			p.waitEnds(db, "ALTER TABLE of the same tables is under way")
			mustExec(t, reader, "COMMIT")
			altered.done()
			behind.done()
			want(t, db, "SELECT SUM(m), COUNT(w) FROM held", "SUM(m) COUNT(w)", "36 0")
			mustExec(t, db, "ALTER TABLE held RENAME COLUMN m TO n, DROP COLUMN w")
			p.settled(db)
			if r := mustRows(t, db, "SHOW VIRTUAL INDEXES"); len(r) != 1 { // by_n's column had another name
				t.Errorf("indexes: %v", r)
			}
			p.createIndex(db, "by_n", "held (n)")
		}

		// So it is with what refers to another table.
		mustExec(t, reader, "BEGIN")
		mustRows(t, reader, "SELECT * FROM free")
		referring := p.begins(p.conn(), "ALTER TABLE free ADD CONSTRAINT free_held FOREIGN KEY (id) REFERENCES held (id)")
		created := p.begins(p.conn(), "CREATE TABLE refers (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES free (id))")
		mustExec(t, db, "CREATE TABLE beside (id INT PRIMARY KEY)")
		mustExec(t, db, "DROP TABLE beside")
		referring.waits()
		created.waits()
		mustExec(t, reader, "COMMIT")
		referring.done()
		created.done()
		mustExec(t, reader, "BEGIN")
		mustRows(t, reader, "SELECT * FROM held")
		created = p.begins(p.conn(), "CREATE TABLE refers_too (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES held (id))")
		mustExec(t, db, "CREATE TABLE beside (id INT PRIMARY KEY)")
		mustExec(t, reader, "COMMIT")
		created.done()
		mustExec(t, db, "DROP TABLE refers, refers_too, beside")
		mustExec(t, db, "ALTER TABLE free DROP FOREIGN KEY free_held")

		// Who holds up the DDL dies, or rolls back.
		holder := p.conn()
		mustExec(t, holder, "BEGIN")
		mustRows(t, holder, "SELECT * FROM held")
		altered := p.begins(p.conn(), "ALTER TABLE held ADD COLUMN x INT")
		behind := p.begins(p.conn(), "CREATE TABLE child (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES held (id))")
		mustExec(t, db, "CREATE TABLE made (id INT PRIMARY KEY)")
		altered.waits()
		behind.waits()
		for _, r := range mustRows(t, db, "SHOW PROCESSLIST") {
			if r["State"] == "transaction or locks open" {
				mustExec(t, db, "KILL "+r["Id"])
			}
		}
		altered.done()
		behind.done()
	})
}

// TestDDLOfLocked: who has LOCK TABLES on a table does DDL on it at once, though others' waits for that lock, as schema change
// tools' do.
func TestDDLOfLocked(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"lone: {placement: single, shard: s1}", "_lone_gho: {placement: single, shard: s1}", "_lone_del: {placement: single, shard: s1}"}})
		db := p.db()
		for _, table := range []string{"held", "lone"} {
			ghost, del := "_"+table+"_gho", "_"+table+"_del"
			mustExec(t, db, "CREATE TABLE "+table+" (id INT PRIMARY KEY, n INT)")
			mustExec(t, db, "INSERT INTO "+table+" VALUES (1, 1), (2, 2), (3, 3), (4, 4)")
			mustExec(t, db, "CREATE TABLE "+ghost+" LIKE "+table)
			mustExec(t, db, "ALTER TABLE "+ghost+" ADD COLUMN w INT DEFAULT 7")
			mustExec(t, db, "INSERT INTO "+ghost+" (id, n) SELECT id, n FROM "+table)
			// The cut-over, as gh-ost does it.
			a, b := p.conn(), p.conn()
			mustExec(t, a, "CREATE TABLE "+del+" (id INT AUTO_INCREMENT PRIMARY KEY) COMMENT='ghost-cut-over-sentry'")
			mustExec(t, a, "LOCK TABLES "+table+" WRITE, "+del+" WRITE")
			written := p.begins(p.conn(), "INSERT INTO "+table+" (id, n) VALUES (9, 9)")
			renamed := p.begins(b, fmt.Sprintf("RENAME TABLE %s TO %s, %s TO %[1]s", table, del, ghost))
			altered := p.begins(p.conn(), "ALTER TABLE "+table+" ADD COLUMN late INT")
			eventually(t, "it is seen what that waits for", func() bool {
				return len(mustRows(t, db, "SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND state LIKE '%metadata lock%' AND info LIKE 'RENAME TABLE "+table+"%'")) == 1
			})
			mustExec(t, a, "DROP TABLE IF EXISTS "+del)
			renamed.waits()
			altered.waits()
			mustExec(t, a, "UNLOCK TABLES")
			renamed.done()
			written.done()
			altered.done()
			want(t, db, "SELECT COUNT(*), SUM(w), COUNT(late) FROM "+table+" WHERE id < 9", "COUNT(*) SUM(w) COUNT(late)", "4 28 0")
			want(t, db, "SELECT (SELECT COUNT(*) FROM "+table+" WHERE id = 9) + (SELECT COUNT(*) FROM "+del+" WHERE id = 9) AS there", "there", "1")
			mustExec(t, db, "DROP TABLE "+del)
		}
	})
}
