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

// TestScatterSlowShard: the rows of the other shards reach the client while one is
// waited for, whichever that is, and those of that one when it has them.
func TestScatterSlowShard(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"n: {shard_key: id}"}})
		db := p.db()
		mustExec(t, db, "CREATE TABLE n (id INT PRIMARY KEY, v INT)")
		fill(t, p, "n", 60, func(id int) string { return fmt.Sprintf("(%d, %d)", id, id%7) })
		const query = "SELECT id, v FROM n WHERE v >= 0 FOR UPDATE"
		wantRoute(t, db, query, len(p.servers), "scatter")
		on := idsOn(t, p)
		prepared, err := db.PrepareContext(t.Context(), strings.Replace(query, "0", "?", 1))
		if err != nil {
			t.Fatal(err)
		}
		defer prepared.Close()
		ask := map[string]func(ctx context.Context, tx *sql.Tx) (*sql.Rows, error){
			"text": func(ctx context.Context, _ *sql.Tx) (*sql.Rows, error) { return db.QueryContext(ctx, query) },
			"prepared": func(ctx context.Context, _ *sql.Tx) (*sql.Rows, error) {
				return prepared.QueryContext(ctx, 0)
			},
			"in a transaction": func(ctx context.Context, tx *sql.Tx) (*sql.Rows, error) { return tx.QueryContext(ctx, query) },
		}
		for slow := range p.servers {
			for name, ask := range ask {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				tx, err := db.BeginTx(ctx, nil)
				if err != nil {
					t.Fatal(err)
				}
				release := lockRow(t, p, slow, on[slow][0])
				rows, err := ask(ctx, tx)
				if err != nil {
					t.Fatalf("%s, shard %d is slow: %v", name, slow, err)
				}
				got := readIDs(t, rows, 60-len(on[slow]))
				if err := rows.Err(); err != nil {
					t.Fatalf("%s, shard %d is slow: after %d rows: %v", name, slow, len(got), err)
				}
				if slices.Contains(got, on[slow][0]) {
					t.Fatalf("%s: the row that is locked on shard %d was answered", name, slow)
				}
				release()
				got = append(got, readIDs(t, rows, -1)...)
				if err := rows.Err(); err != nil {
					t.Errorf("%s, shard %d is slow: %v", name, slow, err)
				}
				rows.Close()
				slices.Sort(got)
				if all := slices.Compact(slices.Clone(got)); len(got) != 60 || len(all) != 60 {
					t.Errorf("%s, shard %d is slow: %d rows, %d different", name, slow, len(got), len(all))
				}
				// The session goes on, in its transaction too.
				want(t, tx, "SELECT id FROM n WHERE id IN (3, 30) ORDER BY id", "id", "3", "30")
				if err := tx.Rollback(); err != nil {
					t.Error(err)
				}
				cancel()
			}
		}
	})
}

// TestScatterSlowShards: with only one shard that answers its rows come first; the
// statement can be killed then, and the session goes on.
func TestScatterSlowShards(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"n: {shard_key: id}"}})
		mustExec(t, p.db(), "CREATE TABLE n (id INT PRIMARY KEY, v INT)")
		fill(t, p, "n", 60, func(id int) string { return fmt.Sprintf("(%d, %d)", id, id%7) })
		on := idsOn(t, p)
		c, other := p.conn(), p.conn()
		id := mustRows(t, c, "SELECT CONNECTION_ID() AS id")[0]["id"]
		for fast := range p.servers {
			var releases []func()
			for i := range p.servers {
				if i != fast {
					releases = append(releases, lockRow(t, p, i, on[i][0]))
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			rows, err := c.QueryContext(ctx, "SELECT id, v FROM n FOR UPDATE")
			if err != nil {
				t.Fatal(err)
			}
			got := readIDs(t, rows, len(on[fast]))
			slices.Sort(got)
			if !slices.Equal(got, on[fast]) {
				t.Errorf("shard %d answers %v: %v, %v", fast, on[fast], got, rows.Err())
			}
			if fast%2 == 0 {
				mustExec(t, other, "KILL QUERY "+id)
				if more := readIDs(t, rows, -1); len(more) > 0 {
					t.Errorf("rows %v of shards whose first row is locked", more)
				}
				wantError(t, rows.Err(), 1317, "interrupted")
			} else {
				for _, release := range slices.Backward(releases) {
					release()
				}
				if more := readIDs(t, rows, -1); len(more) != 60-len(got) || rows.Err() != nil {
					t.Errorf("%d more rows, %v", len(more), rows.Err())
				}
			}
			rows.Close()
			cancel()
			for _, release := range releases {
				release()
			}
			want(t, c, "SELECT COUNT(*) AS n FROM n", "n", "60")
		}
	})
}

// TestScatterDeadShard: a shard that dies is told of while another is waited for,
// whether rows have been answered or not.
func TestScatterDeadShard(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		for _, query := range []string{"SELECT id, v FROM n FOR UPDATE", "SELECT id, v FROM n ORDER BY id FOR UPDATE"} {
			p := start(t, f, setup{tables: []string{"n: {shard_key: id}"}, servers: f.own(t, 3), unchecked: true})
			mustExec(t, p.db(), "CREATE TABLE n (id INT PRIMARY KEY, v INT)")
			fill(t, p, "n", 60, func(id int) string { return fmt.Sprintf("(%d, %d)", id, id%7) })
			on := idsOn(t, p)
			c := p.conn()
			release := lockRow(t, p, 0, on[0][0])
			lockRow(t, p, 2, on[2][0])
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			shards := []*sql.DB{p.shard(0), p.shard(1), p.shard(2)}
			ended := make(chan error, 1)
			go func() {
				rows, err := rowsOf(ctx, c, query)
				if err == nil {
					err = fmt.Errorf("%d rows", len(rows))
				}
				ended <- err
			}()
			// InnoDB shows what was true when it was last asked, if that was within 100 ms.
			eventuallyEach(t, 20*time.Second, 250*time.Millisecond, "it waits on two shards", func() bool {
				for _, i := range []int{0, 2} {
					if len(mustRows(t, shards[i], "SELECT trx_id FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'")) == 0 {
						return false
					}
				}
				return true
			})
			p.servers[2].Kill()
			select {
			case err := <-ended:
				// A read of which nothing was answered is tried once more.
				if code := errorCode(err); code != 1430 && code != 1429 || !strings.Contains(err.Error(), "shard s2") {
					t.Errorf("%s: %v", query, err)
				}
			case <-time.After(20 * time.Second):
				t.Errorf("%s: no answer while another shard is waited for", query)
			}
			release()
			// What it held on the first shard is given up.
			eventually(t, 20*time.Second, "the rows are free", func() bool {
				_, err := shards[0].ExecContext(t.Context(), "SELECT id FROM n FOR UPDATE NOWAIT")
				return err == nil
			})
			want(t, p.conn(), fmt.Sprintf("SELECT id FROM n WHERE id = %d", on[0][0]), "id", fmt.Sprint(on[0][0]))
		}
	})
}

// TestMergeSlowShard: rows that nothing can come before reach the client while a
// shard that has begun to answer is waited for.
func TestMergeSlowShard(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
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
	eachFlavour(t, func(t *testing.T, f *flavour) {
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
	eachFlavour(t, func(t *testing.T, f *flavour) {
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

// TestLimitSlowShard: where any rows will do, those of the shards that answer do.
func TestLimitSlowShard(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"n: {shard_key: id}"}})
		c := p.conn()
		mustExec(t, c, "CREATE TABLE n (id INT PRIMARY KEY, v INT)")
		fill(t, p, "n", 60, func(id int) string { return fmt.Sprintf("(%d, %d)", id, id%7) })
		if r := routeOf(t, c, "SELECT id, v FROM n LIMIT 2, 5 FOR UPDATE"); r.plan != "merge" {
			t.Fatalf("planned as %+v", r)
		}
		on := idsOn(t, p)
		for slow := range p.servers {
			for _, limited := range []struct {
				offset, count int
				enough        bool // without the slow shard
			}{{0, 5, true}, {2, 7, true}, {0, 59, false}, {3, 100, false}} {
				for _, prepared := range []bool{false, true} {
					ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
					release := lockRow(t, p, slow, on[slow][0])
					query, args := fmt.Sprintf("SELECT id, v FROM n LIMIT %d, %d FOR UPDATE", limited.offset, limited.count), []any(nil)
					if prepared {
						query, args = "SELECT id, v FROM n LIMIT ?, ? FOR UPDATE", []any{limited.offset, limited.count}
					}
					name := fmt.Sprintf("%s %v, shard %d is slow", query, args, slow)
					rows, err := c.QueryContext(ctx, query, args...)
					if err != nil {
						t.Fatalf("%s: %v", name, err)
					}
					all, now := min(60-limited.offset, limited.count), -1
					if !limited.enough {
						now = 60 - len(on[slow]) - limited.offset
					}
					got := readIDs(t, rows, now)
					if err := rows.Err(); err != nil || limited.enough && len(got) != all {
						t.Fatalf("%s: %d rows, %v", name, len(got), err)
					}
					release()
					if !limited.enough {
						got = append(got, readIDs(t, rows, -1)...)
					}
					if err := rows.Err(); err != nil {
						t.Errorf("%s: %v", name, err)
					}
					rows.Close()
					slices.Sort(got)
					if len(got) != all || len(slices.Compact(got)) != all {
						t.Errorf("%s: %d rows, want %d", name, len(got), all)
					}
					want(t, c, "SELECT FOUND_ROWS() AS n", "n", fmt.Sprint(limited.offset+all))
					want(t, c, "SELECT COUNT(*) AS n FROM n WHERE id > 0", "n", "60")
					cancel()
				}
			}
		}
	})
}

// TestSlowShardDiffers: a shard whose columns turn out to be others than those that
// the client has been told is an error, never rows that mean something else.
func TestSlowShardDiffers(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		for _, query := range []string{"SELECT id, v FROM n FOR UPDATE", "SELECT id, v FROM n LIMIT 100 FOR UPDATE"} {
			p := start(t, f, setup{tables: []string{"n: {shard_key: id}"}, unchecked: true})
			c := p.conn()
			mustExec(t, c, "CREATE TABLE n (id INT PRIMARY KEY, v INT)")
			fill(t, p, "n", 60, func(id int) string { return fmt.Sprintf("(%d, %d)", id, id%7) })
			on := idsOn(t, p)
			mustExec(t, p.shard(1), "ALTER TABLE n MODIFY v BIGINT UNSIGNED")
			release := lockRow(t, p, 1, on[1][0])
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			rows, err := c.QueryContext(ctx, query)
			if err != nil {
				t.Fatalf("%s: %v", query, err)
			}
			if got := readIDs(t, rows, 60-len(on[1])); len(got) != 60-len(on[1]) {
				t.Fatalf("%s: %d rows, %v", query, len(got), rows.Err())
			}
			release()
			if more := readIDs(t, rows, -1); len(more) > 0 {
				t.Errorf("%s: rows %v of other columns", query, more)
			}
			wantError(t, rows.Err(), 1412, "definition")
			rows.Close()
			want(t, c, "SELECT id FROM n WHERE id = 5", "id", "5")
		}
	})
}
