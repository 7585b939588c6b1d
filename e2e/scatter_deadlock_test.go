package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/ci/suite"
)

// TestScatterHiddenDeadlock: a statement fails on one shard, which the client is told
// of, and on another it is a deadlock's victim, where the server rolls back all of
// the transaction. None of it may be committed, nor what the client sends next.
func TestScatterHiddenDeadlock(t *testing.T) {
	suite.Long(t)
	oneFlavour(t, func(t *testing.T, f *flavour) {
		for query, code := range map[string]uint16{
			"SELECT id, EXP(v) FROM n FOR UPDATE":                   1690,
			"SELECT id, EXP(v) FROM n ORDER BY id FOR UPDATE":       1690,
			"UPDATE n SET v = v + EXP(v)":                           1690,
			"INSERT INTO m SELECT id + 1, EXP(v) FROM n FOR UPDATE": 1690,
			// Not hidden.
			"SELECT id FROM n FOR UPDATE":                                        1213,
			"SELECT id FROM n ORDER BY id FOR UPDATE":                            1213,
			"SELECT COUNT(*) FROM n FOR UPDATE":                                  1213,
			"INSERT INTO m SELECT id + 1, v FROM n FOR UPDATE":                   1213,
			"UPDATE n SET v = v + 1 ORDER BY id LIMIT 50":                        1213,
			"CREATE TEMPORARY TABLE x SELECT id FROM n WHERE id IN (OWN, OTHER)": 1213,
		} {
			p := start(t, f, setup{tables: []string{"n: {shard_key: id}", "m: {shard_key: id}"}})
			mustExec(t, p.db(), "CREATE TABLE n (id INT PRIMARY KEY, v INT)")
			mustExec(t, p.db(), "CREATE TABLE m (id INT PRIMARY KEY, v DOUBLE)")
			fill(t, p, "n", 60, func(id int) string { return fmt.Sprintf("(%d, 0)", id) })
			on := idsOn(t, p)
			mustExec(t, p.db(), fmt.Sprintf("UPDATE n SET v = 2000 WHERE id = %d", on[0][0])) // EXP(2000) is no DOUBLE
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()

			tx, err := p.db().BeginTx(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			mustExec(t, tx, fmt.Sprintf("UPDATE n SET v = 1 WHERE id = %d", on[1][0]))
			mustExec(t, tx, fmt.Sprintf("UPDATE n SET v = 1 WHERE id = %d", on[2][0]))
			// The other one has changed more, so that it is not the victim.
			other, err := p.shard(1).BeginTx(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer other.Rollback()
			for range 30 {
				mustExec(t, other, fmt.Sprintf("UPDATE n SET v = v + 1 WHERE id = %d", on[1][1]))
			}
			query = strings.NewReplacer("OWN", fmt.Sprint(on[1][0]), "OTHER", fmt.Sprint(on[1][1])).Replace(query)
			told := make(chan error, 1)
			go func() {
				_, err := rowsOf(ctx, tx, query)
				told <- err
			}()
			eventually(t, "it waits", func() bool { return len(p.lockWaits(1)) > 0 })
			mustExec(t, other, fmt.Sprintf("UPDATE n SET v = 5 WHERE id = %d", on[1][0]))
			wantError(t, <-told, code, "")
			if code != 1213 {
				_, err = tx.ExecContext(ctx, fmt.Sprintf("UPDATE n SET v = 7 WHERE id = %d", on[3][0]))
				wantError(t, err, 1180, "Deadlock found")
			}
			if err := other.Rollback(); err != nil {
				t.Error(err)
			}
			if err := tx.Commit(); code != 1213 {
				wantError(t, err, 1180, "rolled back")
			} else if err != nil {
				t.Error(err) // there is none any more
			}
			values := fmt.Sprintf("SELECT SUM(v) AS s FROM n WHERE id IN (%d, %d, %d)", on[1][0], on[2][0], on[3][0])
			want(t, p.db(), values, "s", "0")
		}
	})
}

// TestTrialHiddenDeadlock: so it is where a row is tried on all shards.
func TestTrialHiddenDeadlock(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"n: {placement: anywhere}"}})
		mustExec(t, p.db(), "CREATE TABLE n (id INT PRIMARY KEY, v INT)")
		for i := range p.servers {
			mustExec(t, p.shard(i), "INSERT INTO n VALUES (?, 0)", 100+i)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		tx, err := p.db().BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		mustExec(t, tx, "UPDATE n SET v = 1 WHERE id = 101")
		mustExec(t, tx, "UPDATE n SET v = 1 WHERE id = 102")
		var others [2]*sql.Tx
		for i := range others {
			if others[i], err = p.shard(i).BeginTx(ctx, nil); err != nil {
				t.Fatal(err)
			}
			defer others[i].Rollback()
			mustExec(t, others[i], "INSERT INTO n VALUES (5, 0)")
			for range 30 { // so that the other one is a deadlock's victim
				mustExec(t, others[i], "UPDATE n SET v = v + 1 WHERE id = 5")
			}
		}
		told := make(chan error, 1)
		go func() {
			_, err := tx.ExecContext(ctx, "INSERT IGNORE INTO n VALUES (5, 5)")
			told <- err
		}()
		waits := func(on int) (thread uint32) {
			eventually(t, "it waits", func() bool {
				for id, sql := range p.lockWaits(on) {
					if strings.Contains(sql, "INSERT") {
						thread = id
					}
				}
				return thread != 0
			})
			return thread
		}
		first := waits(0)
		waits(1)
		mustExec(t, others[1], "UPDATE n SET v = 5 WHERE id = 101")
		mustExec(t, p.shard(0), fmt.Sprint("KILL QUERY ", first))
		wantError(t, <-told, 1317, "interrupted")
		_, err = tx.ExecContext(ctx, "UPDATE n SET v = 7 WHERE id = 103")
		wantError(t, err, 1180, "Deadlock found")
		for _, other := range others {
			if err := other.Rollback(); err != nil {
				t.Error(err)
			}
		}
		wantError(t, tx.Commit(), 1180, "rolled back")
		want(t, p.db(), "SELECT id, v FROM n WHERE id > 100 ORDER BY id", "id v", "101 0", "102 0", "103 0")
	})
}
