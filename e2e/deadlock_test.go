package e2e

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestDeadlocks needs servers that tell who waits for whom.
func TestDeadlocks(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		args := []string{"--innodb-lock-wait-timeout=50"}
		if f.name == throwaway.MySQL {
			args = append(args, "--performance-schema=ON")
		}
		servers := f.own(t, 4, args...)
		begin := func(t *testing.T) *process {
			return start(t, f, setup{tables: []string{"n: {shard_key: id}", "m: {shard_key: id}", "counted: {shard_key: id}", "ref: {placement: reference}"}, servers: servers})
		}
		t.Run("over shards", func(t *testing.T) { deadlocksOverShards(t, begin(t)) })
		t.Run("none", func(t *testing.T) { noDeadlocks(t, begin(t)) })
		t.Run("writes meet", func(t *testing.T) { writesMeet(t, begin(t)) })
		t.Run("alone with a table", func(t *testing.T) { deadlocksBesideTables(t, begin(t)) })
		t.Run("done again", func(t *testing.T) { doneAgain(t, begin(t)) })
	})
}

// deadlocksOverShards: transactions that wait for each other on different shards, of
// which none sees a circle. One of them is the victim, at once, as on one server.
func deadlocksOverShards(t *testing.T, p *process) {
	for _, name := range []string{"n", "m"} {
		mustExec(t, p.db(), "CREATE TABLE "+name+" (id INT PRIMARY KEY, v INT NOT NULL)")
		fill(t, p, name, 60, func(id int) string { return fmt.Sprintf("(%d, 0)", id) })
	}
	on := idsOn(t, p)
	add := func(id int) string { return fmt.Sprintf("UPDATE n SET v = v + 1 WHERE id = %d", id) }
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second) // less than a lock timeout
	defer cancel()

	// Each locks its first row, then all ask for their second one.
	for name, c := range map[string][][2]string{
		"two":       {{add(on[0][0]), add(on[1][0])}, {add(on[1][0]), add(on[0][0])}},
		"three":     {{add(on[0][0]), add(on[1][0])}, {add(on[1][0]), add(on[2][0])}, {add(on[2][0]), add(on[0][0])}},
		"two pairs": {{add(on[0][0]), add(on[1][0])}, {add(on[1][0]), add(on[0][0])}, {add(on[2][0]), add(on[3][0])}, {add(on[3][0]), add(on[2][0])}},
		"all shards": {
			{add(on[3][0]), "UPDATE n SET v = v + 1"},
			{add(on[0][0]), add(on[3][0])},
		},
		// MySQL doesn't answer information_schema.INNODB_TRX beside bytes that are no text.
		"a value that is no text": {{add(on[0][0]), add(on[1][0]) + " AND _binary'\xFE\xFF' <> ''"}, {add(on[1][0]), add(on[0][0])}},
		"a write over copies": {
			{add(on[0][0]), fmt.Sprintf("UPDATE m SET v = v + 1 WHERE v IN (SELECT v FROM n WHERE id = %d)", on[1][0])},
			{add(on[1][0]), fmt.Sprintf("UPDATE m SET v = v + 1 WHERE v IN (SELECT v FROM n WHERE id = %d)", on[0][0])},
		},
		"a locking read of copies": {
			{add(on[0][0]), fmt.Sprintf("SELECT n.v FROM n JOIN m ON n.v = m.v WHERE n.id = %d LIMIT 1 FOR UPDATE", on[1][0])},
			{add(on[1][0]), fmt.Sprintf("SELECT n.v FROM n JOIN m ON n.v = m.v WHERE n.id = %d LIMIT 1 FOR UPDATE", on[0][0])},
		},
		"locking reads": {
			{"SELECT id FROM n WHERE id = " + fmt.Sprint(on[0][0]) + " FOR UPDATE", "SELECT SUM(v) FROM n FOR UPDATE"},
			{"SELECT id FROM n WHERE id = " + fmt.Sprint(on[1][0]) + " FOR UPDATE", "SELECT id, v FROM n FOR UPDATE"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			victims := len(c) / 4 // of two pairs there are two
			victims++
			before, _ := p.metric("shunt_deadlocks_total")
			conns := make([]*sql.Conn, len(c))
			for i := range c {
				conns[i] = p.conn()
				mustExec(t, conns[i], "BEGIN")
				mustRows(t, conns[i], c[i][0])
			}
			answers := make([]error, len(c))
			var all sync.WaitGroup
			for i := range c {
				all.Go(func() {
					_, answers[i] = rowsOf(ctx, conns[i], c[i][1])
					if answers[i] != nil {
						// It is not in a transaction any more.
						_, err := conns[i].ExecContext(ctx, "UPDATE n SET v = v + 100 WHERE id = ?", on[2][1+i])
						answers[i] = errors.Join(answers[i], err)
					}
					_, err := conns[i].ExecContext(ctx, "COMMIT")
					answers[i] = errors.Join(answers[i], err)
				})
			}
			all.Wait()
			var failed int
			for i, err := range answers {
				if err != nil {
					failed++
					wantError(t, err, 1213, "Deadlock found")
					want(t, p.db(), fmt.Sprintf("SELECT v >= 100 AS n FROM n WHERE id = %d", on[2][1+i]), "n", "1")
					mustExec(t, p.db(), fmt.Sprintf("UPDATE n SET v = v - 100 WHERE id = %d", on[2][1+i]))
				}
			}
			if failed != victims {
				t.Errorf("%d of them failed, want %d", failed, victims)
			}
			if after, _ := p.metric("shunt_deadlocks_total"); int(after-before) != victims {
				t.Errorf("shunt_deadlocks_total went from %v to %v, want %d more", before, after, victims)
			}
		})
	}
	// A way that leads over the lock of a client which Shunt doesn't know.
	other, err := p.shard(0).BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Rollback()
	mustExec(t, other, add(on[0][1]))
	a, b := p.conn(), p.conn()
	mustExec(t, a, "BEGIN")
	mustExec(t, a, add(on[1][0]))
	mustExec(t, b, "BEGIN")
	mustExec(t, b, add(on[0][0]))
	waits := func(q queryer, id int) chan error {
		done := make(chan error, 1)
		go func() {
			_, err := q.ExecContext(ctx, add(id))
			done <- err
		}()
		return done
	}
	byA, byB := waits(a, on[0][1]), waits(b, on[1][0])
	waits(other, on[0][0])
	for err == nil { // one goes on when the other has been rolled back
		select {
		case err = <-byA:
		case err = <-byB:
		}
	}
	wantError(t, err, 1213, "Deadlock found")
	cancel() // who still waits waits for nothing
}

// noDeadlocks: transactions that take their locks in one order wait, and none fails;
// in random order some do, and what the others did stays.
func noDeadlocks(t *testing.T, p *process) {
	mustExec(t, p.db(), "CREATE TABLE n (id INT PRIMARY KEY, v INT NOT NULL)")
	const rows = 16
	fill(t, p, "n", rows, func(id int) string { return fmt.Sprintf("(%d, 0)", id) })
	var order []int // the shards', which Shunt takes them in
	for _, ids := range idsOn(t, p) {
		order = append(order, ids...)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, sorted := range []bool{true, false} {
		before, _ := p.metric("shunt_deadlocks_total")
		var mu sync.Mutex
		failed := 0
		var all sync.WaitGroup
		for client := range 8 {
			conn := p.conn()
			r := rand.New(rand.NewPCG(seed, uint64(client)))
			all.Go(func() {
				for range 6 {
					ids := r.Perm(rows)[:4]
					if sorted {
						slices.Sort(ids)
					}
					err := transfer(t.Context(), conn, order, ids)
					if e, ok := errors.AsType[*mysql.MySQLError](err); ok && e.Number == 1213 && !sorted {
						mu.Lock()
						failed++
						mu.Unlock()
					} else if err != nil {
						t.Errorf("sorted %t: %v", sorted, err)
					}
				}
			})
		}
		all.Wait()
		after, _ := p.metric("shunt_deadlocks_total")
		if sorted && after != before {
			t.Errorf("%v deadlocks where there is none", after-before)
		}
		t.Logf("sorted %t: %d of 48 failed, %v deadlocks over shards", sorted, failed, after-before)
		want(t, p.db(), "SELECT SUM(v) AS n FROM n", "n", "0")
	}
}

// writesMeet: statements that are transactions of their own and change the
// same rows, each on several shards, wait for each other as on one server; none fails.
func writesMeet(t *testing.T, p *process) {
	mustExec(t, p.db(), "CREATE TABLE n (id INT PRIMARY KEY, v INT NOT NULL)")
	mustExec(t, p.db(), "CREATE TABLE ref (id INT PRIMARY KEY, v INT NOT NULL)")
	fill(t, p, "n", 40, func(id int) string { return fmt.Sprintf("(%d, 0)", id) })
	mustExec(t, p.db(), "INSERT INTO ref VALUES (1, 0), (2, 0), (3, 0)")
	const clients, times = 8, 15
	meet := func(query string) (deadlocks float64) {
		before, _ := p.metric("shunt_deadlocks_total")
		var all sync.WaitGroup
		for range clients {
			c := p.conn()
			all.Go(func() {
				for range times {
					if _, err := c.ExecContext(t.Context(), query); err != nil {
						t.Errorf("%s: %v", query, err)
					}
				}
			})
		}
		all.Wait()
		after, _ := p.metric("shunt_deadlocks_total")
		return after - before
	}
	for _, query := range []string{"UPDATE ref SET v = v + 1 WHERE id = 1", "INSERT INTO ref VALUES (1, 1) ON DUPLICATE KEY UPDATE v = v + 1"} {
		if n := meet(query); n > 0 {
			t.Errorf("%s: %v deadlocks", query, n)
		}
	}
	meet("UPDATE n SET v = v + 1")
	want(t, p.db(), "SELECT MIN(v) AS least, MAX(v) AS most FROM n", "least most", fmt.Sprintf("%d %[1]d", clients*times))
	for i := range p.servers {
		want(t, p.shard(i), "SELECT v FROM ref WHERE id = 1", "v", fmt.Sprint(2*clients*times))
	}
}

// deadlocksBesideTables: one waits until it is alone with a table, which another is that waits
// for its rows. Whichever is the younger one is the victim.
func deadlocksBesideTables(t *testing.T, p *process) {
	mustExec(t, p.db(), "CREATE TABLE n (id INT PRIMARY KEY, v INT NOT NULL)")
	mustExec(t, p.db(), "CREATE TABLE counted (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20) NOT NULL UNIQUE, v INT NOT NULL)")
	fill(t, p, "n", 40, func(id int) string { return fmt.Sprintf("(%d, 0)", id) })
	on := idsOn(t, p)
	add := func(id int) string { return fmt.Sprintf("UPDATE n SET v = v + 1 WHERE id = %d", id) }
	upsert := func(name string) string {
		return "INSERT INTO counted (name, v) VALUES ('" + name + "', 1) ON DUPLICATE KEY UPDATE v = v + 1"
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for round, victim := range []string{"who waits in Shunt", "who is alone"} {
		alone, waits := p.conn(), p.conn()
		if round == 1 { // it is on two shards first
			mustExec(t, waits, "BEGIN")
			mustExec(t, waits, add(on[0][0]))
			mustExec(t, waits, add(on[1][0]))
		}
		mustExec(t, alone, "BEGIN")
		mustExec(t, alone, upsert("a"))
		if round == 0 {
			mustExec(t, waits, "BEGIN")
			mustExec(t, waits, add(on[0][0]))
		}
		failed := map[string]error{}
		var mu sync.Mutex
		var all sync.WaitGroup
		run := func(who string, c *sql.Conn, query string) {
			all.Go(func() {
				_, err := c.ExecContext(ctx, query)
				if err == nil {
					_, err = c.ExecContext(ctx, "COMMIT")
				}
				mu.Lock()
				defer mu.Unlock()
				failed[who] = err
			})
		}
		began := time.Now()
		run("who waits in Shunt", waits, upsert("b"))
		run("who is alone", alone, add(on[0][0]))
		all.Wait()
		if took := time.Since(began); took > soon {
			t.Errorf("it took %v", took)
		}
		for who, err := range failed {
			if who == victim {
				wantError(t, err, 1213, "Deadlock found")
			} else if err != nil {
				t.Errorf("%s: %v", who, err)
			}
		}
	}
	want(t, p.db(), "SELECT name, v FROM counted", "name v", "a 1", "b 1")
	// None of a victim's rows is there, and none of its locks.
	want(t, p.db(), fmt.Sprintf("SELECT id, v FROM n WHERE id IN (%d, %d)", on[0][0], on[1][0]), "id v", fmt.Sprintf("%d 2", on[0][0]), fmt.Sprintf("%d 1", on[1][0]))
	mustExec(t, p.db(), "UPDATE n SET v = 0")
	mustExec(t, p.db(), upsert("a"))
}

// doneAgain: a write that is a transaction of its own, and the victim, is done again; what
// comes behind it in a list of statements too.
func doneAgain(t *testing.T, p *process) {
	mustExec(t, p.db(), "CREATE TABLE n (id INT PRIMARY KEY, v INT NOT NULL)")
	fill(t, p, "n", 40, func(id int) string { return fmt.Sprintf("(%d, 0)", id) })
	on := idsOn(t, p)
	add := func(id int) string { return fmt.Sprintf("UPDATE n SET v = v + 1 WHERE id = %d", id) }
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	older, list := p.conn(), p.conn(func(c *mysql.Config) { c.MultiStatements = true })
	mustExec(t, older, "BEGIN")
	mustExec(t, older, add(on[1][0]))
	mustExec(t, older, add(on[2][0]))
	done := make(chan error, 1)
	go func() {
		rows, err := list.QueryContext(ctx, "UPDATE n SET v = v + 1; SELECT ROW_COUNT(), SUM(v) FROM n")
		if err != nil {
			done <- err
			return
		}
		defer rows.Close()
		var changed, sum int
		for rows.Next() {
			err = errors.Join(err, rows.Scan(&changed, &sum))
		}
		if changed != 40 || sum != 43 {
			t.Errorf("ROW_COUNT() is %d, want 40; the sum %d, want 43", changed, sum)
		}
		done <- errors.Join(err, rows.Err())
	}()
	eventually(t, "it waits", func() bool { return len(p.lockWaits(1)) > 0 })
	mustExec(t, older, add(on[0][0]))
	mustExec(t, older, "COMMIT")
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// transfer takes from some rows what it gives to others, one after the other.
func transfer(ctx context.Context, conn *sql.Conn, order, places []int) error {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	for i, at := range places {
		if _, err := tx.ExecContext(ctx, "UPDATE n SET v = v + ? WHERE id = ?", 1-2*(i%2), order[at]); err != nil {
			_ = tx.Rollback() // the server has done it
			return err
		}
	}
	return tx.Commit()
}
