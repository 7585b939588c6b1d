package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// halfDone is DDL that s0 has done and s1 has not when Shunt is killed.
type halfDone struct {
	sql string
	// before makes what it is about.
	before []string
	// same is a query that each shard answers with as many rows when it is done: rows.
	same string
	rows int
	// broken is a statement that can't be answered meanwhile, told a part of what SHOW SHARDS says.
	broken, told string
}

const killedTable = " (id INT PRIMARY KEY, n INT, m INT, gone INT, old INT, KEY by_m (m))"

// columnRows asks a shard for its own columns.
func columnRows(table, column string) string {
	return "SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = '" + table + "' AND column_name = '" + column + "'"
}

func indexRows(table, column string) string {
	return "SELECT 1 FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = '" + table + "' AND column_name = '" + column + "'"
}

func tableRows(table string) string {
	return "SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = '" + table + "'"
}

var halfDones = []halfDone{
	{sql: "ALTER TABLE pool ADD COLUMN x INT NOT NULL DEFAULT 3", same: columnRows("pool", "x"), rows: 1, broken: "SELECT * FROM pool", told: "is not done on s1"},
	{sql: "ALTER TABLE pool ADD INDEX (n)", same: indexRows("pool", "n"), rows: 1},
	{sql: "ALTER TABLE pool DROP COLUMN gone", same: columnRows("pool", "gone"), rows: 0, broken: "SELECT * FROM pool"},
	{sql: "ALTER TABLE pool RENAME COLUMN old TO young", same: columnRows("pool", "young"), rows: 1},
	{sql: "CREATE INDEX by_x ON pool (x)", same: indexRows("pool", "x"), rows: 1},
	{sql: "DROP INDEX by_m ON pool", same: indexRows("pool", "m"), rows: 0},
	{sql: "CREATE TABLE fresh (id INT PRIMARY KEY)", same: tableRows("fresh"), rows: 1, broken: "SELECT id FROM fresh"},
	{sql: "DROP TABLE doomed", before: []string{"CREATE TABLE doomed (id INT PRIMARY KEY)"}, same: tableRows("doomed"), rows: 0},
	{sql: "RENAME TABLE was TO became", before: []string{"CREATE TABLE was (id INT PRIMARY KEY)"}, same: tableRows("became"), rows: 1},
	{sql: "TRUNCATE TABLE emptied", before: []string{"CREATE TABLE emptied (id INT PRIMARY KEY)", "INSERT INTO emptied VALUES (1), (2), (3), (4), (5), (6), (7), (8)"}, same: "SELECT 1 FROM emptied", rows: 0},
	{sql: "CREATE VIEW seen AS SELECT id FROM pool", same: tableRows("seen"), rows: 1},
	{sql: "DROP VIEW seen", same: tableRows("seen"), rows: 0},
	{sql: "CREATE TRIGGER fires BEFORE UPDATE ON pool FOR EACH ROW SET NEW.n = NEW.n + 1", same: "SHOW TRIGGERS LIKE 'pool'", rows: 1},
	{sql: "DROP TRIGGER fires", same: "SHOW TRIGGERS LIKE 'pool'", rows: 0},
	{sql: "CREATE PROCEDURE proc () SELECT 1", same: "SELECT 1 FROM information_schema.routines WHERE routine_schema = DATABASE()", rows: 1},
	{sql: "DROP PROCEDURE proc", same: "SELECT 1 FROM information_schema.routines WHERE routine_schema = DATABASE()", rows: 0},
	{sql: "CREATE DATABASE SCHEMA_more", same: "SHOW DATABASES LIKE 'SCHEMA%more'", rows: 1},
	{sql: "DROP DATABASE SCHEMA_more", same: "SHOW DATABASES LIKE 'SCHEMA%more'", rows: 0},
}

// TestDDLKilled kills Shunt while a shard holds DDL up that another has done. It starts
// again, tells what is half-done, answers for all other tables, and the same statement finishes it.
func TestDDLKilled(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{servers: f.own(t, 3), tables: []string{"pool: {shard_key: id}", "other: {shard_key: id}", "fresh: {shard_key: id}"}})
		mustExec(t, p.db(), "CREATE TABLE pool"+killedTable)
		mustExec(t, p.db(), "CREATE TABLE other (id INT PRIMARY KEY)")
		mustExec(t, p.db(), "INSERT INTO pool (id, n) VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6)")
		mustExec(t, p.db(), "INSERT INTO other VALUES (1), (2), (3), (4), (5), (6)")
		for _, x := range halfDones {
			p.halfDone(x)
		}
	})
}

func (p *process) halfDone(x halfDone) {
	t := p.t
	t.Helper()
	x.sql, x.same = strings.ReplaceAll(x.sql, "SCHEMA", p.schema), strings.ReplaceAll(x.same, "SCHEMA", p.schema)
	t.Log(x.sql)
	for _, sql := range x.before {
		mustExec(t, p.db(), sql)
	}
	p.killIn(x.sql, true)
	p.run()
	c := p.conn()
	want(t, c, "SELECT COUNT(*) AS n FROM other", "n", "6")
	// Until what the dead process has sent is known to be gone it may yet be done.
	eventually(t, "SHOW SHARDS tells of s1", func() bool {
		text := p.shardError("s1")
		return strings.Contains(text, x.told) && strings.Contains(text, " done on s1")
	})
	if !strings.Contains(p.log.String(), "DDL is not known to be done on all shards") {
		t.Error("the log doesn't tell")
	}
	if x.broken != "" {
		err := execError(t, c, x.broken)
		if err == nil {
			t.Errorf("%s: no error", x.broken)
		} else if strings.Contains(x.broken, "*") && !strings.Contains(err.Error(), "send the same statement") {
			t.Errorf("%s: %v", x.broken, err)
		}
	}
	if _, err := c.ExecContext(t.Context(), x.sql); err != nil {
		t.Fatalf("%s, sent again: %v", x.sql, err)
	}
	if n := p.onShards(x.same); !slices.Equal(n, []int{x.rows, x.rows, x.rows}) {
		t.Errorf("%s: %v rows, want %d on each shard", x.sql, n, x.rows)
	}
	if text := p.shardError("s1"); text != "" {
		t.Errorf("behind %s SHOW SHARDS says %s", x.sql, text)
	}
}

// killIn kills Shunt while s1 holds a statement up. lacking: s1 never does it, else it does
// when Shunt has gone.
func (p *process) killIn(sql string, lacking bool) {
	t := p.t
	t.Helper()
	s1 := onShard(t, p.servers[1], "")
	hold := connOf(t, s1)
	mustExec(t, hold, "FLUSH TABLES WITH READ LOCK")
	waiting := func() []string {
		rows := mustRows(t, hold, "SELECT id AS id FROM information_schema.processlist WHERE info LIKE ? AND id <> CONNECTION_ID()", sql[:min(20, len(sql))]+"%")
		return flat(rows, "id")
	}
	sent := p.conn()
	done := make(chan error, 1)
	go func() {
		_, err := sent.ExecContext(context.Background(), sql)
		done <- err
	}()
	eventually(t, "it waits on s1", func() bool { return len(waiting()) > 0 })
	p.kill()
	if err := <-done; err == nil {
		t.Errorf("%s: no error", sql)
	}
	if lacking {
		eventually(t, "it has ended on s1", func() bool {
			ids := waiting()
			for _, id := range ids {
				_, _ = hold.ExecContext(t.Context(), "KILL "+id) // it may have gone
			}
			return len(ids) == 0
		})
	}
	mustExec(t, hold, "UNLOCK TABLES")
}

// shardError is what SHOW SHARDS says of a shard.
func (p *process) shardError(name string) string {
	for _, r := range mustRows(p.t, p.db(), "SHOW SHARDS") {
		if r["Name"] == name && r["Error"] != "NULL" {
			return r["Error"]
		}
	}
	return ""
}

// TestDDLKilledAndDone: what a dead Shunt has sent is done by the shard later, and then
// nothing is half-done any more.
func TestDDLKilledAndDone(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{servers: f.own(t, 2), tables: []string{"pool: {shard_key: id}"}})
		mustExec(t, p.db(), "CREATE TABLE pool"+killedTable)
		p.killIn("ALTER TABLE pool ADD INDEX (n)", false)
		p.run()
		eventuallyEach(t, time.Second, "it is done", func() bool {
			n := p.onShards(indexRows("pool", "n"))
			return n[0] == 1 && n[1] == 1 && p.shardError("s1") == ""
		})

		// An exchange of names can be done twice, which would undo it.
		const circle = "RENAME TABLE a TO tmp, b TO a, tmp TO b"
		mustExec(t, p.db(), "CREATE TABLE a (id INT PRIMARY KEY, a INT)")
		mustExec(t, p.db(), "CREATE TABLE b (id INT PRIMARY KEY, b INT)")
		p.killIn(circle, true)
		p.run()
		_, err := p.db().ExecContext(t.Context(), circle)
		wantError(t, err, 1235, "shard=s1")
		mustExec(t, p.db(), "/* shunt: shard=s1 */ "+circle)
		mustRows(t, p.db(), "SELECT b FROM a")
		if text := p.shardError("s1"); text != "" {
			t.Errorf("SHOW SHARDS says %s", text)
		}
	})
}

// TestDDLCutAndStarted: an ALTER that a shard lacks, whoever has left it so, doesn't keep Shunt
// from starting, though an index of the configuration can't be made meanwhile.
func TestDDLCutAndStarted(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{servers: f.own(t, 2), tables: []string{"pool: {shard_key: id}"}})
		mustExec(t, p.db(), "CREATE TABLE pool"+killedTable)
		const alter = "ALTER TABLE pool ADD COLUMN x INT"
		p.killIn(alter, true)
		p.edit("maintenance: {delay", "indexes:\n- {name: idx_n, table: "+p.schema+".pool, columns: [n]}\nmaintenance: {delay")
		if out, code := shunt(t, "check", "--config", p.config); code != 0 || !strings.Contains(out, "note: ALTER TABLE is done on s0, may be done on s1: ") {
			t.Errorf("check: status %d\n%s", code, out)
		}
		p.run()
		eventually(t, "the log tells of the index", func() bool {
			return strings.Contains(p.log.String(), "virtual index of the configuration not made; trying again")
		})
		mustExec(t, p.db(), alter)
		p.waitIndex(p.db(), "idx_n")
	})
}

// TestCreateAsUnfilled kills Shunt between making a table and filling it.
func TestCreateAsUnfilled(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"src: {shard_key: id}", "dest: {shard_key: k}"}})
		mustExec(t, p.db(), "CREATE TABLE src (id INT PRIMARY KEY, k INT)")
		fill(t, p, "src", 20000, func(id int) string { return fmt.Sprintf("(%d, %d)", id, id+7) })
		const sql = "CREATE TABLE dest (PRIMARY KEY (k)) SELECT k, id FROM src"
		for {
			sent := p.conn()
			go func() { _, _ = sent.ExecContext(context.Background(), sql) }() // it is killed
			eventuallyEach(t, time.Millisecond, "the table is made", func() bool { return slices.Min(p.onShards(tableRows("dest"))) == 1 })
			p.kill()
			filled := slices.Max(p.onShards("SELECT 1 FROM dest LIMIT 1")) > 0
			p.run()
			text := p.shardError("s1")
			if !filled && strings.Contains(text, "not filled it") {
				break
			}
			if !filled { // it hadn't noted yet that all have made it
				if !strings.Contains(text, "may be done on") {
					t.Fatalf("SHOW SHARDS says %q", text)
				}
				mustExec(t, p.db(), sql)
			}
			mustExec(t, p.db(), "DROP TABLE dest")
		}
		mustExec(t, p.db(), sql)
		want(t, p.db(), "SELECT COUNT(*) AS n FROM dest", "n", "20000")
		if text := p.shardError("s1"); text != "" {
			t.Errorf("SHOW SHARDS says %q", text)
		}
		_, err := p.db().ExecContext(t.Context(), sql)
		wantError(t, err, 1050, "dest")
	})
}

// TestDDLKilledBehind kills Shunt behind DDL that all shards do: virtual indexes go with their tables.
func TestDDLKilledBehind(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{servers: f.own(t, 2), unchecked: true})
		mustExec(t, p.db(), "CREATE TABLE other (id INT PRIMARY KEY)")
		for _, table := range []string{"was", "doomed"} {
			mustExec(t, p.db(), "CREATE TABLE "+table+" (id INT PRIMARY KEY, email VARCHAR(20))")
			mustExec(t, p.db(), "INSERT INTO "+table+" VALUES (1, 'a'), (2, 'b'), (3, 'c')")
			p.createIndex(p.db(), "by_email", table+" (email)")
		}
		p.killIn("RENAME TABLE was TO became", false)
		p.run()
		eventually(t, "the index is the renamed table's", func() bool {
			return len(mustRows(t, p.db(), "SELECT id FROM became WHERE email = 'b'")) == 1 && strings.Contains(routeOf(t, p.db(), "SELECT id FROM became WHERE email = 'b'").access, "index")
		})
		p.killIn("DROP TABLE doomed", false)
		p.run()
		eventually(t, "the index is gone with its table", func() bool {
			return !slices.ContainsFunc(mustRows(t, p.db(), "SHOW VIRTUAL INDEXES"), func(r row) bool { return r["Table"] == "doomed" || r["Table"] == "was" })
		})
		p.check()
	})
}
