package e2e

import (
	"database/sql"
	"fmt"
	"testing"
)

// TestSkipLocked: workers that take one job each, of a queue over several shards, get
// as many as there are. A shard whose job was not the one is free of it again.
func TestSkipLocked(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"jobs: {shard_key: id}"}})
		db := p.db()
		mustExec(t, db, "CREATE TABLE jobs (id BIGINT NOT NULL PRIMARY KEY, state VARCHAR(10) NOT NULL, done INT NOT NULL DEFAULT 0, KEY (state))")
		const jobs = 12
		for i := range jobs {
			mustExec(t, db, fmt.Sprintf("INSERT INTO jobs (id, state) VALUES (%d, 'new')", i))
		}
		mustExec(t, db, "INSERT INTO jobs (id, state) VALUES (100, 'other'), (101, 'other'), (102, 'other'), (103, 'other')")
		p.createIndex(db, "idx_state", "jobs (state)")
		for _, take := range []string{
			"SELECT id FROM jobs WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED",
			"SELECT id FROM jobs WHERE state = 'new' LIMIT 1 FOR UPDATE SKIP LOCKED",
		} {
			var workers []*sql.Conn
			taken := map[string]bool{}
			for i := range jobs {
				worker := p.conn()
				workers = append(workers, worker)
				if i%2 == 0 {
					mustExec(t, worker, "BEGIN")
					mustExec(t, worker, "SAVEPOINT a")
				} else {
					mustExec(t, worker, "SET autocommit = 0")
				}
				rows := mustRows(t, worker, take)
				if len(rows) != 1 || taken[rows[0]["id"]] {
					t.Fatalf("%s: worker %d of %d gets %v, taken are %v", take, i, jobs, rows, taken)
				}
				taken[rows[0]["id"]] = true
				// What it left it can join again.
				mustExec(t, worker, "UPDATE jobs SET done = done + 1 WHERE id = "+rows[0]["id"])
				want(t, worker, "SELECT COUNT(*) AS n FROM jobs WHERE done > 0", "n", fmt.Sprint(1))
			}
			want(t, p.conn(), take, "id")
			for i, worker := range workers {
				if i%2 == 0 {
					mustExec(t, worker, "ROLLBACK TO a")
				}
				mustExec(t, worker, "COMMIT")
				worker.Close()
			}
			want(t, db, "SELECT COUNT(*) AS n FROM jobs WHERE done > 0", "n", fmt.Sprint(jobs/2))
			mustExec(t, db, "UPDATE jobs SET done = 0")
		}
		// A shard that has a part in the transaction keeps it.
		worker := p.conn()
		mustExec(t, worker, "BEGIN")
		mustExec(t, worker, "UPDATE jobs SET done = 5 WHERE state = 'other'")
		want(t, worker, "SELECT id FROM jobs WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED", "id", "0")
		mustExec(t, worker, "COMMIT")
		want(t, db, "SELECT COUNT(*) AS n FROM jobs WHERE done = 5", "n", "4")
	})
}
