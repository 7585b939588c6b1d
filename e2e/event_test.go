package e2e

import (
	"strings"
	"testing"
)

// TestEventsOfOneShard: an event that writes, or calls what does, is on the one shard of its tables. In a dump it stands before
// the procedures that it calls.
func TestEventsOfOneShard(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{servers: f.own(t, 2, "--event-scheduler=ON"), extra: "schemas: {apps: {default: {placement: single, shard: s1}, tables: {people: {shard_key: id}}}}"})
		db := p.open("")
		mustExec(t, db, "CREATE DATABASE apps")
		db = p.open("apps")
		mustExec(t, db, "CREATE TABLE log (id INT PRIMARY KEY AUTO_INCREMENT, what VARCHAR(20))")
		mustExec(t, db, "CREATE EVENT writes ON SCHEDULE EVERY 1 SECOND DO INSERT INTO log (what) VALUES ('written')")
		mustExec(t, db, "CREATE EVENT calls ON SCHEDULE EVERY 1 SECOND DO CALL nightly()")
		mustExec(t, db, "CREATE PROCEDURE nightly () CALL tidies()")
		mustExec(t, db, "CREATE PROCEDURE tidies () INSERT INTO log (what) VALUES ('called')")
		eventually(t, "both have run", func() bool {
			return mustRows(t, db, "SELECT COUNT(DISTINCT what) AS n FROM log")[0]["n"] == "2"
		})
		want(t, db, "SHOW EVENTS", "Name", "calls", "writes")
		want(t, db, "SELECT event_name AS name FROM information_schema.events WHERE event_schema = SCHEMA()", "name", "calls", "writes")
		if rows := mustRows(t, db, "SHOW CREATE EVENT calls"); len(rows) != 1 || !strings.Contains(rows[0]["Create Event"], "nightly") {
			t.Errorf("%v", rows)
		}
		// Nothing that is made later has it write to what is spread.
		mustExec(t, db, "CREATE TABLE people (id INT PRIMARY KEY)")
		mustExec(t, db, "CREATE DATABASE shop")
		wantError(t, execError(t, db, "CREATE EVENT shop.astray ON SCHEDULE EVERY 1 SECOND DO CALL unknown()"), 1235, "what astray calls is not known")
		wantError(t, execError(t, db, "CREATE EVENT astray ON SCHEDULE EVERY 1 SECOND DO INSERT INTO people VALUES (1)"), 1235, "the rows of people are on several shards")
		mustExec(t, db, "DROP PROCEDURE tidies")
		wantError(t, execError(t, db, "CREATE PROCEDURE tidies () INSERT INTO people VALUES (1)"), 1235, "while the event apps.calls may call it")
		mustExec(t, db, "DROP PROCEDURE nightly")
		wantError(t, execError(t, db, "CREATE PROCEDURE nightly () INSERT INTO people VALUES (1)"), 1235, "while the event apps.calls may call it")
		wantError(t, execError(t, db, "ALTER EVENT calls DO INSERT INTO people VALUES (1)"), 1235, "the rows of people are on several shards")
		mustExec(t, db, "ALTER EVENT calls DO DELETE FROM log")
		mustExec(t, db, "ALTER EVENT calls RENAME TO called")
		mustExec(t, db, "DROP EVENT called")
		mustExec(t, db, "CREATE PROCEDURE nightly () INSERT INTO people VALUES (1)")
		mustExec(t, db, "DROP EVENT writes")
		want(t, db, "SHOW EVENTS", "Name")
	})
}
