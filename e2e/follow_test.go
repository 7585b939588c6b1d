package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// binlogs have servers write logs that can be followed.
func (f *flavour) binlogs() []string {
	args := []string{"--log-bin=binlog", "--sync-binlog=0", "--binlog-row-metadata=FULL", "--binlog-format=ROW"}
	if f.name == throwaway.MySQL {
		args = append(args, "--gtid-mode=ON", "--enforce-gtid-consistency=ON")
	}
	return args
}

// logsOlder waits until servers' logs are older than a second: one that was begun in the second of a place in it could be another.
// It leaves no connection: Shunt would take that for a dead one's, and scan what has changed before it is gone.
func logsOlder(t *testing.T, servers []*throwaway.Server) {
	t.Helper()
	for _, s := range servers {
		db := open(t, s.Addr(), s.User, s.Password, "")
		defer db.Close()
		eventually(t, "the server's log is older than a second", func() bool {
			up := mustRows(t, db, "SHOW GLOBAL STATUS LIKE 'Uptime'")[0]["Value"]
			return up != "0" && up != "1"
		})
	}
}

// indexed reports that a statement goes to one shard and finds a row there, by an entry: no shard is unknown to
// an index.
func indexed(t *testing.T, q queryer, statement, shard string) bool {
	t.Helper()
	for _, r := range mustRows(t, q, "SHOW VIRTUAL INDEXES") {
		if r["Unknown_shards"] != "" {
			return false
		}
	}
	r := routeOf(t, q, statement)
	rows, err := rowsOf(t.Context(), q, statement)
	return err == nil && len(rows) == 1 && len(r.shards) == 1 && r.shards[0] == shard
}

// missesNone reports that an index has all keys.
func missesNone(t *testing.T, q queryer, index, table string) bool {
	t.Helper()
	checked, err := rowsOf(t.Context(), q, "CHECK VIRTUAL INDEX "+index+" ON "+table)
	return err == nil && !slices.ContainsFunc(checked, func(r row) bool { return r["Missing"] != "0" })
}

// TestFollowed: what can't be computed, and what is changed on the shards, comes into an index by the shards'
// binary logs. No table is scanned for it.
func TestFollowed(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		const n = 200
		p := start(t, f, setup{
			servers: f.own(t, 3, f.binlogs()...), tables: []string{"people: {shard_key: id}", "tokens: {shard_key: id}"},
			maintenance: "{follow: binlog, delay: 100ms, reconcile_every: 0s, audit: 1}",
		})
		mustExec(t, p.db(), "CREATE TABLE people (id BIGINT PRIMARY KEY, email VARCHAR(50), KEY (email))")
		for i := range n {
			mustExec(t, p.db(), fmt.Sprintf("INSERT INTO people VALUES (%d, 'p%d@x')", i, i))
		}
		p.createIndex(p.db(), "idx_email", "people(email)")
		// A type that the log has otherwise than a SELECT.
		kind, token := "BINARY(4)", "0x61620000"
		if f.name == throwaway.MariaDB {
			kind, token = "UUID", "'6ccd780c-baba-1026-9564-5b8c656024db'"
		}
		mustExec(t, p.db(), "CREATE TABLE tokens (id BIGINT PRIMARY KEY, token "+kind+")")
		p.createIndex(p.db(), "idx_token", "tokens(token)")
		p.settled(p.db())
		allKnown(t, p.db())
		for i := range n {
			mustExec(t, p.db(), fmt.Sprintf("UPDATE people SET email = CONCAT(email, '.org') WHERE id = %d", i))
			want(t, p.db(), fmt.Sprintf("SELECT id FROM people WHERE email = 'p%d@x.org'", i), "id", fmt.Sprint(i))
		}
		eventually(t, "marks are cleared", func() bool {
			return len(routeOf(t, p.db(), "SELECT id FROM people WHERE email = 'p7@x.org'").shards) == 1
		})
		for i := range n {
			want(t, p.db(), fmt.Sprintf("SELECT id FROM people WHERE email = 'p%d@x.org'", i), "id", fmt.Sprint(i))
		}

		// Behind Shunt's back.
		mustExec(t, p.shard(1), "INSERT INTO people VALUES (9001, 'direct@x')")
		eventually(t, "what was written to the shard is found", func() bool {
			return indexed(t, p.db(), "SELECT id FROM people WHERE email = 'direct@x'", "s1")
		})
		want(t, p.db(), "SELECT id FROM people WHERE email = 'direct@x'", "id", "9001")
		mustExec(t, p.shard(1), "DELETE FROM people WHERE id = 9001")
		eventually(t, "stale entries are gone", func() bool {
			checked, stale := 0, ""
			for _, r := range mustRows(t, p.db(), "CHECK VIRTUAL INDEX idx_email ON people") {
				if checked++; r["Missing"] != "0" {
					t.Fatal(r)
				}
				if r["Stale"] != "0" {
					stale = r["Stale"]
				}
			}
			return checked > 0 && stale == ""
		})
		mustExec(t, p.shard(1), fmt.Sprintf("INSERT INTO tokens VALUES (1, %s)", token))
		eventually(t, "a token of the shard is found", func() bool {
			return indexed(t, p.db(), "SELECT id FROM tokens WHERE token = "+token, "s1")
		})
		if scanned, _ := p.metric("shunt_scan_rows_total"); scanned != n {
			t.Errorf("%v rows were read, and the build reads %d", scanned, n)
		}
		for _, r := range mustRows(t, p.db(), "SHOW SHARDS") {
			if r["Binary_log"] != "followed" {
				t.Errorf("SHOW SHARDS: %v", r)
			}
		}
		if followed, _ := p.metric("shunt_follow_seconds_count"); followed < n {
			t.Errorf("%v transactions were followed", followed)
		}
		late := func() (byRows, byMetric float64) {
			t.Helper()
			byRows, err := strconv.ParseFloat(mustRows(t, p.db(), "SHOW VIRTUAL INDEXES FROM people")[0]["Lag"], 64)
			byMetric, found := p.metric("shunt_follow_lag_seconds", `shard="s2"`)
			if err != nil || !found {
				t.Errorf("Lag: %v; the metric is there: %v", err, found)
			}
			return byRows, byMetric
		}
		abreast := func() bool { a, b := late(); return a < 1 && b < 1 }
		eventually(t, "the logs are read up to now", abreast)
		p.servers[2].Pause()
		eventually(t, "a server that stands still has the index fall behind", func() bool { a, b := late(); return a > 2 && b > 2 })
		p.servers[2].Resume()
		eventually(t, "it catches up", abreast)
	})
}

// TestReadsWaitForTheLog: beside writes of unknown keys reads go by the index alone, and find
// what they are to see: what was committed, a transaction's own, and more where the level says so.
func TestReadsWaitForTheLog(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{
			servers: f.own(t, 3, f.binlogs()...), tables: []string{"people: {shard_key: id}", "early: {shard_key: id}"},
			maintenance: "{follow: binlog, delay: 100ms, reconcile_every: 0s, audit: 1}",
		})
		create := func(table, engine string) {
			t.Helper()
			mustExec(t, p.db(), "CREATE TABLE "+table+" (id BIGINT PRIMARY KEY, email VARCHAR(50), KEY (email)) ENGINE "+engine)
			p.createIndex(p.db(), "idx_email", table+"(email)")
			mustExec(t, p.db(), "INSERT INTO "+table+" VALUES "+rowsFor(50, func(i int) string { return fmt.Sprintf("(%d, 'p%d@x')", i, i) }))
		}
		create("people", "InnoDB")
		p.settled(p.db())
		allKnown(t, p.db())
		by := func(email string) string { return "SELECT id FROM people WHERE email = '" + email + "'" }
		routed := func(email string) int { return len(routeOf(t, p.db(), by(email)).shards) }
		// An index's marks of before its log was followed are a scan's.
		eventually(t, "the log is followed", func() bool {
			mustExec(t, p.db(), "UPDATE people SET email = CONCAT(email, '')")
			return routed("p7@x") == 1
		})

		writer := p.conn()
		mustExec(t, writer, "BEGIN")
		mustExec(t, writer, "UPDATE people SET email = CONCAT(email, '.own') WHERE id < 25")
		for i := 1; i < 25; i++ {
			want(t, writer, by(fmt.Sprintf("p%d@x.own", i)), "id", fmt.Sprint(i))
			want(t, p.db(), by(fmt.Sprintf("p%d@x", i)), "id", fmt.Sprint(i))
		}
		// The mark is there while the transaction is.
		eventually(t, "a read doesn't go where only the mark says so", func() bool { return routed("p30@x") == 1 })
		dirty := p.conn()
		mustExec(t, dirty, "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")
		want(t, dirty, by("p3@x.own"), "id", "3")
		mustExec(t, writer, "COMMIT")
		want(t, p.db(), by("p3@x.own"), "id", "3")

		// Each is read at once, over another connection.
		for i := range 300 {
			id := 1 + i%24
			email := fmt.Sprintf("p%d@x.own.%d", id, i)
			mustExec(t, writer, fmt.Sprintf("UPDATE people SET email = CONCAT('p', id, '@x.own.', %d) WHERE id = %d", i, id))
			want(t, p.db(), by(email), "id", fmt.Sprint(id))
		}

		// Rows of this engine are to be seen before they are in the log, so its marks are no followers'.
		create("early", "MyISAM")
		mustExec(t, writer, "UPDATE early SET email = CONCAT(email, '.org') WHERE id < 25")
		want(t, p.db(), "SELECT id FROM early WHERE email = 'p3@x.org'", "id", "3")
		if r := routeOf(t, p.db(), "SELECT id FROM early WHERE email = 'none@x'"); len(r.shards) != len(p.servers) {
			t.Errorf("marks of a table without transactions are ignored: %v", r.shards)
		}
	})
}

// TestFollowedOn: a server that is killed is followed on when it is back;
// where its log was purged meanwhile, tables are scanned, which the log says.
func TestFollowedOn(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 2, f.binlogs()...)
		p := start(t, f, setup{
			servers: servers, tables: []string{"people: {shard_key: id}"}, extra: "shard_timeout: 1s",
			maintenance: "{follow: binlog, delay: 100ms, reconcile_every: 0s, audit: 1}",
		})
		mustExec(t, p.db(), "CREATE TABLE people (id BIGINT PRIMARY KEY, email VARCHAR(50), KEY (email))")
		p.createIndex(p.db(), "idx_email", "people(email)")
		mustExec(t, p.db(), "INSERT INTO people VALUES "+rowsFor(50, func(i int) string { return fmt.Sprintf("(%d, 'p%d@x')", i, i) }))
		p.settled(p.db())
		follows := func(email, write string) {
			t.Helper()
			mustExec(t, p.shard(1), write)
			eventually(t, email+" is found", func() bool {
				return indexed(t, p.db(), "SELECT id FROM people WHERE email = '"+email+"'", "s1") && missesNone(t, p.db(), "idx_email", "people")
			})
		}
		follows("a@x", "INSERT INTO people VALUES (1001, 'a@x')")
		servers[1].Kill()
		if err := servers[1].Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the shard is back", func() bool {
			_, err := rowsOf(t.Context(), p.db(), "SELECT COUNT(*) FROM people")
			return err == nil
		})
		mustExec(t, p.db(), "UPDATE people SET email = CONCAT(email, '.org')")
		follows("b@x", "INSERT INTO people VALUES (1002, 'b@x')")
		// Its place in the log is gone.
		servers[1].Kill()
		if err := servers[1].Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustExec(t, p.shard(1), "INSERT INTO people VALUES (1003, 'c@x')")
		mustExec(t, p.shard(1), resetLogs(f.name))
		eventually(t, "c@x is found", func() bool {
			return indexed(t, p.db(), "SELECT id FROM people WHERE email = 'c@x'", "s1") && missesNone(t, p.db(), "idx_email", "people")
		})
		follows("d@x", "INSERT INTO people VALUES (1004, 'd@x')")
	})
}

// TestFollowedFromWhereItStopped: rows that are changed on a shard while Shunt is stopped come by the shard's log when it
// starts again, and no table is scanned; where that part of the log is gone, the tables are.
func TestFollowedFromWhereItStopped(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{
			servers: f.own(t, 2, f.binlogs()...), tables: []string{"people: {shard_key: id}"},
			maintenance: "{follow: binlog, delay: 100ms, reconcile_every: 0s, audit: 0}",
		})
		mustExec(t, p.db(), "CREATE TABLE people (id BIGINT PRIMARY KEY, email VARCHAR(50), KEY (email))")
		p.createIndex(p.db(), "idx_email", "people(email)")
		mustExec(t, p.db(), "INSERT INTO people VALUES "+rowsFor(50, func(i int) string { return fmt.Sprintf("(%d, 'p%d@x')", i, i) }))
		p.settled(p.db())
		scanned := func() float64 {
			n, _ := p.metric("shunt_scan_rows_total")
			return n
		}
		meanwhile := func(email string, do func()) {
			t.Helper()
			if code := p.stop(); code != 0 {
				t.Fatalf("exit status %d", code)
			}
			do()
			p.run()
			eventually(t, email+" is found", func() bool {
				return indexed(t, p.db(), "SELECT id FROM people WHERE email = '"+email+"'", "s1") && missesNone(t, p.db(), "idx_email", "people")
			})
		}
		// A start that finds no place has nothing to go on from, and scans.
		eventually(t, "a place in each log is kept", func() bool {
			before := len(p.log.String())
			p.restart()
			told := func(from string) int {
				return strings.Count(p.log.String()[before:], "following a shard's binary log from "+from)
			}
			eventually(t, "both are followed", func() bool { return told("") == 2 })
			p.settled(p.db()) // or the scans of a start without a place go on in the next life
			return told("where it was read last") == 2
		})
		insert := func(id int, email string) func() {
			return func() { mustExec(t, p.shard(1), "INSERT INTO people VALUES (?, ?)", id, email) }
		}
		meanwhile("a@x", insert(1001, "a@x"))
		if n := scanned(); n != 0 {
			t.Errorf("scans have read %v rows", n)
		}
		logs := func() (files []string) {
			for _, r := range mustRows(t, p.shard(1), "SHOW BINARY LOGS") {
				files = append(files, r["Log_name"])
			}
			return files
		}
		meanwhile("b@x", func() {
			insert(1002, "b@x")()
			mustExec(t, p.shard(1), "FLUSH BINARY LOGS")
			files := logs()
			eventually(t, "the logs are purged", func() bool { // who has read them may not have ended yet
				mustExec(t, p.shard(1), "PURGE BINARY LOGS TO '"+files[len(files)-1]+"'")
				return len(logs()) == 1
			})
		})
		if n := scanned(); n == 0 {
			t.Error("nothing was scanned")
		}
		meanwhile("c@x", insert(1003, "c@x"))
		// The same numbers are others' then, as many as there were, and more.
		meanwhile("d@x", func() {
			mustExec(t, p.shard(1), resetLogs(f.name))
			insert(1004, "d@x")()
			for i := range 300 {
				insert(2000+i, fmt.Sprintf("n%d@x", i))()
			}
		})
	})
}

// resetLogs is the statement that begins the binary logs, and the numbers of transactions, anew.
func resetLogs(of throwaway.Flavour) string {
	if of == throwaway.MariaDB {
		return "RESET MASTER"
	}
	return "RESET BINARY LOGS AND GTIDS"
}

// TestNotFollowed: without a word of the configuration, a log is followed that can be. What another server lacks is said,
// and its tables are scanned.
func TestNotFollowed(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := append(f.own(t, 2, f.binlogs()...), f.servers(t)[2])
		mustExec(t, onShard(t, servers[1], ""), "SET GLOBAL binlog_format = 'MIXED'")
		p := start(t, f, setup{servers: servers, tables: []string{"people: {shard_key: id}"}, maintenance: "{delay: 100ms}"})
		for _, r := range mustRows(t, p.db(), "SHOW SHARDS") {
			if r["Binary_log"] != "not followed: no virtual index needs it" {
				t.Errorf("SHOW SHARDS without a virtual index: %v", r)
			}
		}
		mustExec(t, p.db(), "CREATE TABLE people (id BIGINT PRIMARY KEY, email VARCHAR(50), KEY (email))")
		p.createIndex(p.db(), "idx_email", "people(email)")
		eventually(t, "SHOW SHARDS says what is lacking", func() bool {
			var state []string
			for _, r := range mustRows(t, p.db(), "SHOW SHARDS") {
				state = append(state, r["Binary_log"])
			}
			return state[0] == "followed" && strings.HasPrefix(state[1], "not followed: ") && strings.Contains(state[1], "binlog_format = ROW") &&
				strings.HasPrefix(state[2], "not followed: ") && strings.Contains(state[2], "--log-bin")
		})
		mustExec(t, p.db(), "INSERT INTO people VALUES (1, 'a@x')")
		mustExec(t, p.db(), "UPDATE people SET email = CONCAT(email, '.org')")
		want(t, p.db(), "SELECT id FROM people WHERE email = 'a@x.org'", "id", "1")
		allKnown(t, p.db())
		want(t, p.db(), "SELECT id FROM people WHERE email = 'a@x.org'", "id", "1")
	})
}

// TestFollowedGenerated: an index of a generated column has what becomes of it, whatever the log says. MariaDB 11.8 doesn't
// write it for rows that are changed.
func TestFollowedGenerated(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 3, f.binlogs()...)
		mustExec(t, onShard(t, servers[2], ""), "SET GLOBAL binlog_row_image = 'MINIMAL'")
		p := start(t, f, setup{
			servers: servers, tables: []string{"people: {shard_key: id}"},
			maintenance: "{follow: binlog, delay: 100ms, reconcile_every: 0s, audit: 0}",
		})
		db := p.db()
		mustExec(t, db, "CREATE TABLE people (id BIGINT PRIMARY KEY, a VARCHAR(50), n INT, v VARCHAR(60) AS (CONCAT(a, 'v')) STORED, w VARCHAR(60) AS (CONCAT(a, 'w')) VIRTUAL, KEY (v))")
		p.createIndex(db, "idx_v", "people(v)")
		p.createIndex(db, "idx_w", "people(w)")
		for i := range 30 {
			mustExec(t, db, fmt.Sprintf("INSERT INTO people (id, a) VALUES (%d, 'p%d')", i, i))
		}
		p.settled(db)
		mustExec(t, db, "UPDATE people SET a = CONCAT('x', id) WHERE id < 10")
		for i := range servers {
			mustExec(t, p.shard(i), "UPDATE people SET a = CONCAT('d', id) WHERE id BETWEEN 10 AND 19")
		}
		for _, index := range []string{"idx_v", "idx_w"} {
			eventually(t, index+" has all", func() bool {
				allKnown(t, db)
				return missesNone(t, db, index, "people")
			})
		}
		for i := range servers {
			for _, r := range mustRows(t, p.shard(i), "SELECT id, v, w FROM people") {
				want(t, db, "SELECT id FROM people WHERE v = '"+r["v"]+"'", "id", r["id"])
				want(t, db, "SELECT id FROM people WHERE w = '"+r["w"]+"'", "id", r["id"])
			}
		}
	})
}
