package e2e

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestTemporarySessions: each session has its own table of the same name.
func TestTemporarySessions(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p, a := startPeople(t, f, 20, setup{})
		b := p.conn()
		for i, c := range []queryer{a, b} {
			mustExec(t, c, "CREATE TEMPORARY TABLE mine (n INT)")
			mustExec(t, c, fmt.Sprintf("INSERT INTO mine VALUES (%d)", i+1))
		}
		want(t, a, "SELECT n FROM mine", "n", "1")
		want(t, b, "SELECT n FROM mine", "n", "2")
		mustExec(t, a, "CREATE TEMPORARY TABLE people (id INT)")
		want(t, a, "SELECT COUNT(*) AS n FROM people", "n", "0")
		want(t, b, "SELECT COUNT(*) AS n FROM people", "n", "20")
		mustExec(t, a, "DROP TEMPORARY TABLE mine")
		failsWith(t, a, "SELECT n FROM mine", 1146, "")
		want(t, b, "SELECT n FROM mine", "n", "2")
		if got := pinned(p); got != 2 {
			t.Errorf("%d sessions are pinned, want 2", got)
		}
		mustExec(t, a, "DROP TABLE people")
		want(t, a, "SELECT COUNT(*) AS n FROM people", "n", "20")
		if got := pinned(p); got != 1 {
			t.Errorf("%d sessions are pinned, want 1", got)
		}
	})
}

// TestTemporaryListed: a session sees its temporary tables among the others where its
// server lists them, which MariaDB does from 11.2 on.
func TestTemporaryListed(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		for _, shards := range []int{2, 4} {
			p, c := startPeople(t, f, 20, setup{servers: f.servers(t)[:shards], tables: []string{"alone: {placement: single, shard: s1}"}})
			plain := plainServer(t, f.servers(t)[3], p.schema+"_plain")
			mustExec(t, plain, people)
			for _, q := range []queryer{c, plain} {
				mustExec(t, q, "CREATE TABLE alone (id INT PRIMARY KEY)")
				mustExec(t, q, "CREATE TEMPORARY TABLE mine (n INT)")
				mustExec(t, q, "CREATE TEMPORARY TABLE people (n INT)")
				mustExec(t, q, "CREATE TEMPORARY TABLE alone (n INT)")
			}
			for _, list := range []string{"SHOW TABLES", "SHOW FULL TABLES", "SHOW FULL TABLES LIKE 'm%'", "SHOW TABLE STATUS", "SHOW TABLE STATUS LIKE 'mine'"} {
				listed := func(q queryer) (out []string) {
					for _, r := range mustRows(t, q, list) {
						var cells []string
						for name, v := range r {
							if name == "Name" || name == "Temporary" || name == "Table_type" || strings.HasPrefix(name, "Tables_in_") {
								cells = append(cells, v)
							}
						}
						slices.Sort(cells)
						out = append(out, strings.Join(cells, " "))
					}
					slices.Sort(out)
					return out
				}
				if got, want := listed(c), listed(plain); !slices.Equal(got, want) {
					t.Errorf("%s over %d shards: %q, want %q", list, shards, got, want)
				}
			}
		}
	})
}

// TestTemporaryLeaks has many sessions make temporary tables that hide a real
// one, and end in all the ways there are. Whatever connections others then get,
// none of them may see such a table.
func TestTemporaryLeaks(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, admin := startPeople(t, f, 20, setup{})
		mustExec(t, admin, "CREATE PROCEDURE leaves () BEGIN DROP TEMPORARY TABLE IF EXISTS people; CREATE TEMPORARY TABLE people (id INT); END")
		ends := map[string]func(c *wireConn){
			"quit":       func(c *wireConn) { c.Close() },
			"disconnect": func(c *wireConn) { c.cut() },
			"reset":      func(c *wireConn) { c.reset(t) },
			"drop":       func(c *wireConn) { c.must(t, "DROP TEMPORARY TABLE people, only_mine") },
			"drop in a transaction": func(c *wireConn) {
				c.must(t, "BEGIN")
				c.must(t, "UPDATE only_mine SET n = 2")
				c.must(t, "DROP TEMPORARY TABLE people, only_mine")
				c.must(t, "COMMIT")
			},
			"in a transaction": func(c *wireConn) {
				c.must(t, "BEGIN")
				c.must(t, "UPDATE only_mine SET n = 2")
				c.cut()
			},
			"made in a transaction": func(c *wireConn) {
				c.must(t, "DROP TEMPORARY TABLE people, only_mine")
				c.must(t, "BEGIN")
				c.must(t, "SELECT COUNT(*) FROM people")
				c.must(t, "CREATE TEMPORARY TABLE people (id INT)")
				c.must(t, "ROLLBACK")
				c.reset(t)
			},
			"left by a procedure": func(c *wireConn) {
				c.must(t, "/* shunt: shard=s1 */ CALL leaves()")
				c.must(t, "BEGIN")
				c.must(t, "/* shunt: shard=s2 */ CALL leaves()")
				c.must(t, "COMMIT")
				c.Close()
			},
			"an error": func(c *wireConn) {
				c.do("CREATE TEMPORARY TABLE people (id INT)", nil, false)
				c.do("CREATE TEMPORARY TABLE third (id INT, id INT)", nil, false)
				c.Close()
			},
		}
		for name, end := range ends {
			t.Run(name, func(t *testing.T) {
				var wg sync.WaitGroup
				for range 6 {
					wg.Go(func() {
						c := p.wire(t)
						c.must(t, "CREATE TEMPORARY TABLE people (id INT)")
						c.must(t, "CREATE TEMPORARY TABLE only_mine (n INT)")
						c.must(t, "INSERT INTO only_mine VALUES (1)")
						end(c)
						if strings.HasPrefix(name, "reset") || strings.HasPrefix(name, "drop") {
							seesNoTemporary(t, c)
						}
					})
				}
				wg.Wait()
				// More at a time than the pools have idle connections.
				var others []*wireConn
				for range 24 {
					others = append(others, p.wire(t))
				}
				for _, c := range others {
					wg.Go(func() { seesNoTemporary(t, c) })
				}
				wg.Wait()
				for _, c := range others {
					c.Close()
				}
			})
		}
		eventually(t, "no session is pinned", func() bool { return pinned(p) == 0 })
	})
}

// seesNoTemporary asks every shard, in a transaction, which holds on to the
// connections it gets.
func seesNoTemporary(t *testing.T, c *wireConn) {
	c.must(t, "BEGIN")
	if o := c.do("SELECT COUNT(*) FROM people", nil, false); len(o.rows) != 1 || fmt.Sprint(o.rows[0]) != fmt.Sprint(c.do("SELECT 20", nil, false).rows[0]) {
		t.Errorf("people: %s", o)
	}
	for i := range 4 {
		if o := c.do(fmt.Sprintf("/* shunt: shard=s%d */ SELECT * FROM only_mine", i), nil, false); o.code != 1146 {
			t.Errorf("s%d: only_mine: %s", i, o)
		}
	}
	c.must(t, "ROLLBACK")
}

// TestTemporaryLost: a shard that dies takes temporary tables along. The session
// is told, and never gets the table that they hid instead.
func TestTemporaryLost(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 20, setup{servers: f.own(t, 2)})
		mustExec(t, c, "CREATE TEMPORARY TABLE people (id INT, note VARCHAR(10))")
		mustExec(t, c, "INSERT INTO people VALUES (1, 'mine')")
		mustExec(t, c, "CREATE TEMPORARY TABLE other (id INT)")
		killConnections(t, p)
		failsWith(t, c, "SELECT * FROM people", 0, "lost")
		failsWith(t, c, "SELECT * FROM people", 0, "lost")
		failsWith(t, c, "DELETE FROM people", 0, "lost")
		failsWith(t, c, "INSERT INTO people VALUES (2, 'x')", 0, "lost")
		failsWith(t, c, "ALTER TABLE people ADD COLUMN x INT", 0, "lost")
		failsWith(t, c, "DESCRIBE people", 0, "lost")
		want(t, c, "SELECT 1 AS one", "one", "1")
		if got := pinned(p); got != 0 {
			t.Errorf("%d sessions are pinned, want none", got)
		}
		mustExec(t, c, "CREATE TEMPORARY TABLE other (id INT)")
		mustExec(t, c, "INSERT INTO other VALUES (5)")
		want(t, c, "SELECT id FROM other", "id", "5")
		failsWith(t, c, "SELECT * FROM people", 0, "lost")
		mustExec(t, c, "DROP TEMPORARY TABLE people")
		want(t, c, "SELECT COUNT(*) AS n FROM people", "n", "20")
		mustExec(t, c, "DROP TABLE other")
		failsWith(t, c, "SELECT id FROM other", 1146, "")

		mustExec(t, c, "CREATE TEMPORARY TABLE people (id INT)")
		mustExec(t, c, "BEGIN")
		mustExec(t, c, "INSERT INTO people VALUES (1)")
		killConnections(t, p)
		failsWith(t, c, "INSERT INTO people VALUES (2)", 0, "lost")
		mustExec(t, c, "ROLLBACK")
		failsWith(t, c, "SELECT * FROM people", 0, "lost")
		mustExec(t, c, "DROP TABLE IF EXISTS people")
		want(t, c, "SELECT COUNT(*) AS n FROM people", "n", "20")
	})
}

// TestTemporaryPrepared: statements that are prepared before, while and after a
// temporary table hides another.
func TestTemporaryPrepared(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		_, c := startPeople(t, f, 20, setup{})
		ctx := t.Context()
		st, err := c.PrepareContext(ctx, "SELECT COUNT(*), MAX(id) FROM people WHERE id >= ?")
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		check := func(n, most int) {
			t.Helper()
			var gotN int
			var gotMost sql.NullInt64
			if err := st.QueryRowContext(ctx, 0).Scan(&gotN, &gotMost); err != nil || gotN != n || int(gotMost.Int64) != most {
				t.Errorf("%d rows up to %v, %v; want %d up to %d", gotN, gotMost, err, n, most)
			}
		}
		check(20, 19)
		mustExec(t, c, "CREATE TEMPORARY TABLE people (id INT)")
		check(0, 0)
		insert, err := c.PrepareContext(ctx, "INSERT INTO people (id) VALUES (?)")
		if err != nil {
			t.Fatal(err)
		}
		defer insert.Close()
		for _, id := range []int{500, 600} {
			if _, err := insert.ExecContext(ctx, id); err != nil {
				t.Fatal(err)
			}
		}
		check(2, 600)
		all, err := c.PrepareContext(ctx, "SELECT * FROM people")
		if err != nil {
			t.Fatal(err)
		}
		defer all.Close()
		columns := func(n int) {
			t.Helper()
			rows, err := all.QueryContext(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			got, err := rows.Columns()
			if err != nil || len(got) != n {
				t.Errorf("columns %v, %v; want %d", got, err, n)
			}
			for rows.Next() {
			}
			if err := rows.Err(); err != nil {
				t.Error(err)
			}
		}
		columns(1)
		mustExec(t, c, "ALTER TABLE people ADD COLUMN more INT")
		columns(2)
		mustExec(t, c, "DROP TEMPORARY TABLE people")
		check(20, 19)
	})
}

// TestTemporaryElsewhere: statements of other kinds over temporary tables.
func TestTemporaryElsewhere(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		_, c := startPeople(t, f, 20, setup{})
		mustExec(t, c, "CREATE TEMPORARY TABLE people (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, word VARCHAR(20))")
		mustExec(t, c, "CREATE TEMPORARY TABLE words (word VARCHAR(20))")
		if got := affected(t, mustExec(t, c, "LOAD DATA LOCAL INFILE "+localFile(t, "a\nb\nc\n")+" INTO TABLE people (word)")); got != 3 {
			t.Errorf("%d rows were loaded, want 3", got)
		}
		want(t, c, "SELECT id, word FROM people ORDER BY id", "id word", "1 a", "2 b", "3 c")
		if rows := mustRows(t, c, "EXPLAIN SELECT * FROM people p JOIN words w ON w.word = p.word"); len(rows) == 0 {
			t.Errorf("EXPLAIN: %v", rows)
		}
		mustExec(t, c, "SET @n = (SELECT COUNT(*) FROM people)")
		want(t, c, "SELECT @n AS n", "n", "3")
		want(t, c, "WITH p AS (SELECT * FROM people WHERE id > 1) SELECT COUNT(*) AS n FROM p", "n", "2")
		want(t, c, "(SELECT id FROM people WHERE id = 1) UNION ALL (SELECT 5 AS id) ORDER BY id", "id", "1", "5")
		mustExec(t, c, "SET NAMES latin1")
		mustExec(t, c, "CREATE TEMPORARY TABLE inlatin (x VARCHAR(5) CHARACTER SET utf8mb4)")
		mustExec(t, c, "INSERT INTO inlatin (x) VALUES ('\xfc')")
		mustExec(t, c, "SET NAMES utf8mb4")
		want(t, c, "SELECT x FROM inlatin WHERE x = 'ü'", "x", "ü")
	})
}

// TestTemporaryKeepsRoom: sessions with temporary tables leave the others half
// of a shard's connections.
func TestTemporaryKeepsRoom(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 20, setup{servers: f.servers(t)[:2], extra: "shard_connections: 8"})
		var made []*wireConn
		for {
			w := p.wire(t)
			o := w.do("CREATE TEMPORARY TABLE mine (n INT)", nil, false)
			if o.code != 0 {
				if o.code != 1040 {
					t.Errorf("%s, want error 1040", o)
				}
				w.Close()
				break
			}
			if made = append(made, w); len(made) > 20 {
				t.Fatal("no end of pinned sessions")
			}
		}
		if len(made) != 6 || pinned(p) != 6 {
			t.Errorf("%d sessions have made one, %d are pinned; want 3 of each shard", len(made), pinned(p))
		}
		another := open(t, p.addr, "empty", "", p.schema)
		mustExec(t, another, "CREATE TEMPORARY TABLE mine (n INT)")
		want(t, c, "SELECT COUNT(*) AS n FROM people", "n", "20")
		made[0].must(t, "DROP TABLE mine")
		mustExec(t, c, "CREATE TEMPORARY TABLE mine (n INT)")
		for _, w := range made {
			w.Close()
		}
	})
}

// TestTemporaryGatherFails: a gather that fails leaves the temporary tables.
func TestTemporaryGatherFails(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		_, c := startPeople(t, f, 50, setup{extra: "gather_max_rows: 40"})
		mustExec(t, c, "CREATE TEMPORARY TABLE mine (id INT)")
		mustExec(t, c, "INSERT INTO mine VALUES (1)")
		for range 3 {
			failsWith(t, c, "SELECT COUNT(*) FROM mine m JOIN people p ON p.id <> m.id", 1104, "")
		}
		want(t, c, "SELECT id FROM mine", "id", "1")
	})
}

// pinned is what the metric says. (Its label has a space.)
func pinned(p *process) int {
	p.t.Helper()
	_, body, err := p.get("/metrics")
	if err != nil {
		p.t.Fatal(err)
	}
	_, rest, found := strings.Cut(body, `shunt_sessions_pinned{reason="temporary table"} `)
	n := 0
	if _, err := fmt.Sscan(rest, &n); !found || err != nil {
		p.t.Fatalf("no metric shunt_sessions_pinned: %v", err)
	}
	return n
}

// killConnections ends all of Shunt's connections to the shards.
func killConnections(t *testing.T, p *process) {
	t.Helper()
	for i := range p.servers {
		admin := p.shard(i)
		var ids []string
		for _, r := range mustRows(t, admin, "SELECT ID AS id FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND COMMAND IN ('Sleep', 'Query')") {
			_, _ = admin.ExecContext(t.Context(), "KILL "+r["id"]) // it may have gone
			ids = append(ids, r["id"])
		}
		left := "SELECT ID FROM information_schema.PROCESSLIST WHERE ID IN (" + strings.Join(append(ids, "0"), ",") + ")"
		eventually(t, "the connections have ended", func() bool { return len(mustRows(t, admin, left)) == 0 })
	}
}
