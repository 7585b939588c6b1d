package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/ci/suite"
)

// TestMergeInTransaction: answers that LIMIT cuts off leave the transaction's
// connections usable, its own rows are seen, and other connections aren't
// used up.
func TestMergeInTransaction(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"n: {shard_key: id}"}})
		db := p.db()
		mustExec(t, db, "CREATE TABLE n (id INT PRIMARY KEY, v VARCHAR(200), KEY (v))")
		fill(t, p, "n", 4000, func(id int) string { return fmt.Sprintf("(%d, REPEAT('%c', 200))", id, 'a'+id%26) })
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		mustExec(t, tx, "INSERT INTO n VALUES (-1, 'first')")
		for range 3 {
			want(t, tx, "SELECT id FROM n ORDER BY id LIMIT 2", "id", "-1", "1")
			if rows := mustRows(t, tx, "SELECT id, v FROM n LIMIT 5"); len(rows) != 5 {
				t.Errorf("LIMIT 5: %d rows", len(rows))
			}
			want(t, tx, "SELECT COUNT(*) AS n, MIN(id) AS m FROM n", "n m", "4001 -1")
			want(t, tx, "SELECT id FROM n ORDER BY v DESC, id LIMIT 1 OFFSET 3", "id", "103")
		}
		want(t, tx, "SELECT id FROM n ORDER BY id LIMIT 1 FOR UPDATE", "id", "-1")
		mustExec(t, tx, "UPDATE n SET v = 'x' WHERE id = 7")
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		want(t, db, "SELECT COUNT(*) AS n FROM n", "n", "4000")
		// Outside of one, what is cut off doesn't cost a connection for each.
		for range 20 {
			want(t, db, "SELECT id FROM n ORDER BY id LIMIT 1", "id", "1")
		}
		_, body, err := p.get("/metrics")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(body, `shunt_statements_total{access="scatter",plan="merge"}`) {
			t.Error("merged statements aren't counted")
		}
	})
}

// TestMergeErrors: a shard's error comes to the client, and the connection
// goes on; a shard that dies in the middle of its rows is an error too, never a
// shorter answer.
func TestMergeErrors(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"n: {shard_key: id}"}, servers: f.own(t, 3), unchecked: true})
		c := p.conn()
		mustExec(t, c, "CREATE TABLE n (id INT PRIMARY KEY, v VARCHAR(2000))")
		fill(t, p, "n", 6000, func(id int) string { return fmt.Sprintf("(%d, REPEAT('v', 2000))", id) })
		_, err := rowsOf(t.Context(), c, "SELECT id FROM n ORDER BY nothing")
		wantError(t, err, 1054, "nothing")
		_, err = rowsOf(t.Context(), c, "SELECT id, (SELECT 1 UNION SELECT 2) AS x FROM n ORDER BY id LIMIT 3")
		wantError(t, err, 1242, "")
		// An error after rows.
		_, err = rowsOf(t.Context(), c, "SELECT id, IF(id > 5000, (SELECT 1 UNION SELECT id), 1) AS x, v FROM n ORDER BY id")
		wantError(t, err, 1242, "")
		want(t, c, "SELECT COUNT(*) AS n FROM n", "n", "6000")
		_, err = rowsOf(t.Context(), c, "SELECT SUM(EXP(id)) AS x FROM n")
		if err != nil && errorCode(err) != 1690 && errorCode(err) != 1235 {
			t.Errorf("SUM(EXP()): %v", err)
		}
		long := strings.Repeat("w", 1100)
		mustExec(t, c, "INSERT INTO n VALUES (10001, ?), (10002, ?), (10003, ?), (10004, ?), (10005, ?), (10006, ?)", long+"f", long+"e", long+"d", long+"c", long+"b", long+"a")
		rows, err := rowsOf(t.Context(), c, "SELECT id FROM n WHERE id > 10000 ORDER BY v, id")
		if err == nil && len(rows) != 6 || err != nil && !strings.Contains(err.Error(), "max_sort_length") {
			t.Errorf("texts that agree in their first bytes: %v %v", rows, err)
		}

		stream, err := c.QueryContext(t.Context(), "SELECT id, REPEAT(v, 10) FROM n WHERE id < 10000 ORDER BY id") // more than sockets hold
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		for stream.Next() {
			if got++; got == 10 {
				p.servers[1].Kill()
			}
		}
		if err := stream.Err(); err == nil || got >= 6000 {
			t.Errorf("a shard died and %d rows came, error %v", got, err)
		} else {
			var server *mysql.MySQLError
			if errors.As(err, &server) && server.Number != 1430 {
				t.Errorf("got %v", err)
			}
		}
		_, err = rowsOf(t.Context(), p.db(), "SELECT COUNT(*) FROM n")
		if code := errorCode(err); code != 1429 && code != 1430 {
			t.Errorf("with a shard down: %v", err)
		}
	})
}

// TestMergeMemory: a sorted scatter takes no more memory for more rows.
// SHUNT_E2E_SORT_ROWS sets the number of rows (10 million take minutes).
func TestMergeMemory(t *testing.T) {
	rows := suite.Size(40_000, 200_000)
	rows = envInt(t, "SHUNT_E2E_SORT_ROWS", rows)
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"big: {shard_key: id}"}, unchecked: true})
		mustExec(t, p.db(), "CREATE TABLE big (id BIGINT PRIMARY KEY, name VARCHAR(60), KEY (name))")
		multiply(t, p, rows)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var most atomic.Int64
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
					most.Store(max(most.Load(), p.stats().memory))
				}
			}
		}()
		begin := time.Now()
		stream, err := p.db().QueryContext(t.Context(), "SELECT id, name FROM big ORDER BY name, id")
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		n, last, lastID := 0, "", int64(0)
		for stream.Next() {
			var id int64
			var name string
			if err := stream.Scan(&id, &name); err != nil {
				t.Fatal(err)
			}
			if name < last || name == last && id <= lastID {
				t.Fatalf("row %d: %s %d after %s %d", n, name, id, last, lastID)
			}
			last, lastID = name, id
			n++
		}
		if err := stream.Err(); err != nil {
			t.Fatal(err)
		}
		took := time.Since(begin)
		cancel()
		<-watched
		t.Logf("%d rows in %s, at most %d MiB", n, took.Round(time.Millisecond), most.Load()>>20)
		if n != rows {
			t.Errorf("%d rows, want %d", n, rows)
		}
		if limit := int64(200 << 20); !race && most.Load() > limit {
			t.Errorf("%d MiB, want at most %d", most.Load()>>20, limit>>20)
		}
	})
}

// multiply fills the table big, the rows made on the shards themselves from
// those that came through Shunt: each shard gets ids that it owns, since a row's
// id only says where it is to the planner, and this test reads all of them.
func multiply(t *testing.T, p *process, rows int) {
	t.Helper()
	each := rows / len(p.servers)
	for i := range p.servers {
		db := p.shard(i)
		mustExec(t, db, fmt.Sprintf("INSERT INTO big VALUES (%d, CONCAT(HEX(CRC32(%d)), REPEAT('x', 24)))", i+1, i+1))
		for have := 1; have < each; have *= 2 {
			// The shards' ids interleave.
			mustExec(t, db, fmt.Sprintf("INSERT INTO big SELECT id + %d, CONCAT(HEX(CRC32(id + %d)), REPEAT('x', 24)) FROM big ORDER BY id LIMIT %d", have*len(p.servers), have*len(p.servers), each-have))
		}
	}
}
