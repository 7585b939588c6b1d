package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"
)

// lockRow has a connection of its own to a shard hold a row of the table n until release.
func lockRow(t *testing.T, p *process, shard, id int) (release func()) {
	t.Helper()
	tx, err := p.shard(shard).BeginTx(context.WithoutCancel(t.Context()), nil)
	if err != nil {
		t.Fatal(err)
	}
	mustRows(t, tx, fmt.Sprintf("SELECT id FROM n WHERE id = %d FOR UPDATE", id))
	release = func() { _ = tx.Rollback() } // a second one does nothing
	t.Cleanup(release)
	return release
}

// idsOn are the ids of the table n that lie on each shard.
func idsOn(t *testing.T, p *process) [][]int {
	t.Helper()
	ids := make([][]int, len(p.servers))
	for i := range p.servers {
		for _, r := range mustRows(t, p.shard(i), "SELECT id FROM n ORDER BY id") {
			var id int
			if _, err := fmt.Sscan(r["id"], &id); err != nil {
				t.Fatal(err)
			}
			ids[i] = append(ids[i], id)
		}
		if len(ids[i]) < 2 {
			t.Fatalf("shard %d has rows %v", i, ids[i])
		}
	}
	return ids
}

// readIDs reads n rows, all for n < 0, whose first column is a number.
func readIDs(t *testing.T, rows *sql.Rows, n int) (ids []int) {
	t.Helper()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var id int
	into := []any{&id}
	for range columns[1:] {
		into = append(into, new(sql.RawBytes))
	}
	for len(ids) != n && rows.Next() {
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

// TestMergeSlowShard: rows that nothing can come before reach the client while a
// shard that has begun to answer is waited for.
func TestMergeSlowShard(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"n: {shard_key: id}"}})
		db := p.db()
		mustExec(t, db, "CREATE TABLE n (id INT PRIMARY KEY, v VARCHAR(500) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci, KEY (v))")
		const all = 400
		fill(t, p, "n", all, func(id int) string { return fmt.Sprintf("(%d, RPAD('%06d', 500, 'x'))", id, id) })
		// What a shard sends is much longer, by the weights of v, than what the client
		// gets: all that comes before the row that is locked would fit into a buffer.
		const query = "SELECT id FROM n FORCE INDEX (v) ORDER BY v FOR UPDATE"
		if r := routeOf(t, db, query); r.plan != "merge" {
			t.Fatalf("planned as %+v", r)
		}
		on := idsOn(t, p)
		prepared, err := db.PrepareContext(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		defer prepared.Close()
		for slow := range p.servers {
			for name, ask := range map[string]func(ctx context.Context) (*sql.Rows, error){
				"text":     func(ctx context.Context) (*sql.Rows, error) { return db.QueryContext(ctx, query) },
				"prepared": func(ctx context.Context) (*sql.Rows, error) { return prepared.QueryContext(ctx) },
			} {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				locked := on[slow][len(on[slow])*3/4]
				release := lockRow(t, p, slow, locked)
				rows, err := ask(ctx)
				if err != nil {
					t.Fatalf("%s, shard %d is slow: %v", name, slow, err)
				}
				got := readIDs(t, rows, all/4)
				if err := rows.Err(); err != nil || len(got) != all/4 || got[len(got)-1] >= locked {
					t.Fatalf("%s, shard %d is slow: %d rows before %d: %v", name, slow, len(got), locked, err)
				}
				release()
				got = append(got, readIDs(t, rows, -1)...)
				if err := rows.Err(); err != nil || len(got) != all || !slices.IsSorted(got) {
					t.Errorf("%s, shard %d is slow: %d rows, sorted %v: %v", name, slow, len(got), slices.IsSorted(got), err)
				}
				rows.Close()
				cancel()
			}
		}
	})
}

// TestMergeSlowShardAgain: so it is when it is waited for again after a long time.
func TestMergeSlowShardAgain(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"n: {shard_key: id}"}})
		db := p.db()
		mustExec(t, db, "CREATE TABLE n (id INT PRIMARY KEY, v VARCHAR(500) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci, KEY (v))")
		const all = 800
		fill(t, p, "n", all, func(id int) string { return fmt.Sprintf("(%d, RPAD('%06d', 500, 'x'))", id, id) })
		on := idsOn(t, p)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		first := lockRow(t, p, 1, on[1][len(on[1])*3/8])
		second := lockRow(t, p, 1, on[1][len(on[1])*7/8])
		rows, err := db.QueryContext(ctx, "SELECT id FROM n FORCE INDEX (v) ORDER BY v FOR UPDATE")
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		got := readIDs(t, rows, all/8)
		time.Sleep(1500 * time.Millisecond) // longer than the session is looked at for nothing
		first()
		if got = append(got, readIDs(t, rows, all/2)...); len(got) != all/8+all/2 || rows.Err() != nil {
			t.Errorf("%d rows while the second one is waited for: %v", len(got), rows.Err())
		}
		second()
		if got = append(got, readIDs(t, rows, -1)...); len(got) != all || !slices.IsSorted(got) || rows.Err() != nil {
			t.Errorf("%d rows, sorted %v: %v", len(got), slices.IsSorted(got), rows.Err())
		}
	})
}

// TestScatterWarnings: an answer of several shards tells as many warnings as one
// server's, and SHOW WARNINGS has them.
func TestScatterWarnings(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		w := newTwins(t, f, setup{tables: []string{"n: {shard_key: id}"}})
		w.exec("CREATE TABLE n (id INT PRIMARY KEY, v VARCHAR(10))")
		w.exec("INSERT INTO n VALUES (1, '1x'), (2, '2'), (3, '3x'), (4, '4x'), (5, '5'), (6, '6x'), (7, '7x'), (8, '8'), (9, '9')")
		// This client takes the number of warnings from EOF packets only.
		withEOF := func(c *client.Conn) error {
			c.UnsetCapability(mysql.CLIENT_DEPRECATE_EOF)
			return nil
		}
		clients := []*client.Conn{
			rawClient(t, w.p.addr, "app", "secret", w.p.schema, withEOF),
			plainClient(t, w.p.servers[len(w.p.servers)-1], w.plain.GetDB(), withEOF),
		}
		for _, query := range []string{
			"SELECT id, CAST(v AS SIGNED) FROM n WHERE id > 0",
			"SELECT id FROM n WHERE v > 0 && id > 0", // MySQL: && is deprecated
			"SELECT id, CAST(v AS SIGNED) FROM n WHERE v > 0 && id > 0",
			"SELECT id FROM n WHERE id > 0",
			"SELECT id, CAST(v AS SIGNED) FROM n WHERE id > 0 ORDER BY id",
			"SELECT id FROM n WHERE v > 0 && id > 0 ORDER BY id",
			"SELECT id, CAST(v AS SIGNED) FROM n WHERE v > 0 && id > 0 LIMIT 20",
			"SELECT COUNT(*) FROM n WHERE v > 0 && id > 0",
			"SELECT SUM(CAST(v AS SIGNED)) FROM n WHERE v > 0 && id > 0",
			"SELECT SQL_CALC_FOUND_ROWS id FROM n WHERE v > 0 && id > 0 ORDER BY id LIMIT 20",
			"SELECT id FROM n WHERE v != 'a\xff' ORDER BY id",
			"SELECT id FROM n WHERE v != 'a\xff'",
		} {
			if f := routeOf(t, w.p.db(), query); f.access != "scatter" {
				t.Errorf("%s is planned as %+v", query, f)
			}
			for _, prepared := range []bool{false, true} {
				var told [2]int
				var lists [2][]string
				for i, c := range clients {
					var args []any
					text := query
					if prepared {
						text, args = strings.Replace(query, "WHERE", "WHERE ? = 1 AND", 1), []any{1}
					}
					r, err := c.Execute(text, args...)
					if err != nil {
						t.Fatal(err)
					}
					told[i] = int(r.Warnings)
					r.Close()
					_, lists[i], err = answerOf(c, "SHOW WARNINGS", nil)
					if err != nil {
						t.Fatal(err)
					}
					slices.Sort(lists[i])
				}
				if told[0] != told[1] || !slices.Equal(lists[0], lists[1]) {
					t.Errorf("%s, prepared %v: %d warnings %q, want %d %q", query, prepared, told[0], lists[0], told[1], lists[1])
				}
			}
		}
	})
}
