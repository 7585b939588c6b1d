package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestNextTransactionOfOneStatement: SET TRANSACTION counts for the next statement
// without a transaction, as it does on a server, and for no other.
func TestNextTransactionOfOneStatement(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 20, setup{})
		writer := p.conn()
		mustExec(t, writer, "BEGIN")
		mustExec(t, writer, "UPDATE people SET age = 1000 WHERE id < 10")
		one, all := "SELECT age FROM people WHERE id = 3", "SELECT COUNT(*) AS age FROM people WHERE age = 1000"
		rows := "SELECT id AS age FROM people WHERE age = 1000 AND id IN (1, 2)"
		for _, q := range []struct {
			sql       string
			dirty     []string
			committed []string
		}{
			{one, []string{"1000"}, []string{"23"}},
			{all, []string{"10"}, []string{"0"}},
			{rows, []string{"1", "2"}, nil},
			{rows + " ORDER BY id DESC LIMIT 1", []string{"2"}, nil},
		} {
			want(t, c, q.sql, "age", q.committed...)
			mustExec(t, c, "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")
			want(t, c, "SELECT 1 AS age", "age", "1") // names no table
			want(t, c, q.sql, "age", q.dirty...)
			want(t, c, q.sql, "age", q.committed...)
			// For whoever has the connection next.
			for range 4 {
				want(t, p.conn(), q.sql, "age", q.committed...)
			}
			if strings.Contains(q.sql, "ORDER") {
				continue
			}
			mustExec(t, c, "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED, READ ONLY")
			if got := flat(mustRows(t, c, q.sql+" AND id > ?", -1), "age"); !slices.Equal(got, q.dirty) {
				t.Errorf("%s, prepared, finds %v, want %v", q.sql, got, q.dirty)
			}
			if got := flat(mustRows(t, c, q.sql+" AND id > ?", -1), "age"); !slices.Equal(got, q.committed) {
				t.Errorf("%s, prepared, finds %v afterwards, want %v", q.sql, got, q.committed)
			}
		}
		// It reads what is committed, and waits for no lock, as a statement that is
		// alone does.
		mustExec(t, c, "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
		want(t, c, one, "age", "23")
		// Of a statement that fails it is spent or not, but no other session's.
		mustExec(t, c, "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")
		if _, err := c.ExecContext(t.Context(), "SELECT id FROM people WHERE id = (SELECT 1 UNION SELECT 2) AND id = 3"); err == nil {
			t.Error("a subquery of two rows was no error")
		}
		for range 8 {
			want(t, p.conn(), one, "age", "23")
		}
		// Writes.
		mustExec(t, writer, "ROLLBACK")
		mustExec(t, c, "ROLLBACK")
		mustExec(t, c, "SET TRANSACTION READ ONLY")
		_, err := c.ExecContext(t.Context(), "UPDATE people SET age = 5 WHERE id = 15")
		wantError(t, err, 1792, "READ ONLY")
		mustExec(t, c, "SET TRANSACTION READ WRITE, ISOLATION LEVEL READ COMMITTED")
		mustExec(t, c, "UPDATE people SET age = 5 WHERE id = 15")
	})
}

// TestNextTransactionBehindFailures: whether a statement that fails was the transaction that
// SET TRANSACTION is for depends on how it fails.
func TestNextTransactionBehindFailures(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		dial := packetSides(t, f)
		p := dial(t, mysql.CLIENT_DEPRECATE_EOF)
		p.query("DELETE FROM people", "INSERT INTO people (id, email, age) VALUES (1, 'a', 1), (2, 'b', 2)")
		for _, sql := range []string{
			"SELECT nonsense FROM people WHERE id = 1", "SELECT a.id FROM people a JOIN people b ON a.id = b.id WHERE id = 1", "SELECT (SELECT 1, 2) FROM people WHERE id = 1",
			"SELECT id FROM people WHERE id = 1 AND SUM(age) > 1", "SELECT id, COUNT(*) FROM people WHERE id = 1", "SELECT age, COUNT(*) FROM people WHERE id = 1 GROUP BY email", "SELECT id FROM people WHERE id = 1 AND id IN (INTERVAL(5), (5))",
			"SELECT id FROM people WHERE id = 1 AND age = (SELECT 1 UNION SELECT 2)", "SELECT id FROM people WHERE id = 1", "SELECT ST_X(email) FROM people WHERE id = 1",
		} {
			p.query("SET TRANSACTION READ ONLY", sql, "UPDATE people SET age = 5 WHERE id = 2", "SET TRANSACTION READ WRITE", "UPDATE people SET age = 6 WHERE id = 2")
		}
	})
}

// TestPrepareInReadOnly: what a transaction may not write can't be prepared in it either, which
// goes by the transaction, not by the session.
func TestPrepareInReadOnly(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		dial := packetSides(t, f)
		p := dial(t, mysql.CLIENT_DEPRECATE_EOF)
		p.query("DELETE FROM people", "INSERT INTO people (id, email, age) VALUES (1, 'a', 1), (2, 'b', 2)", "CREATE TEMPORARY TABLE mine (id INT PRIMARY KEY)")
		prepares := func() {
			for _, sql := range []string{"UPDATE people SET email = 'x' WHERE id = ?", "SELECT email FROM people WHERE id = ?", "INSERT INTO mine VALUES (?)", "DELETE FROM people WHERE id = ?", "SELECT email FROM people WHERE id = ? FOR UPDATE", "SELECT email FROM people WHERE id = ? LOCK IN SHARE MODE"} {
				p.both("prepare "+sql, func(c *packetClient) string {
					_, out := c.prepare(sql)
					return out
				})
				p.query("PREPARE p FROM '" + strings.ReplaceAll(sql, "'", "\"") + "'")
			}
		}
		for _, begin := range []string{
			"START TRANSACTION READ ONLY", "SET TRANSACTION READ ONLY", "SET SESSION TRANSACTION READ ONLY", "START TRANSACTION READ WRITE", "START TRANSACTION", "SET TRANSACTION READ WRITE",
		} {
			p.query(begin)
			prepares()
			p.query("UPDATE people SET age = 7 WHERE id = 2", "COMMIT")
		}
		// What is the next transaction by itself is answered behind its COMMIT.
		writes := []string{"UPDATE people SET age = age + 1 WHERE id = 2", "UPDATE people SET age = age + 1", "UPDATE people SET nonsense = 1 WHERE id = 2", "INSERT INTO people (id) VALUES (2)"}
		if f.name == throwaway.MariaDB {
			writes = append(writes, "DELETE FROM people WHERE id = 1 RETURNING id", "DELETE FROM people WHERE id = 1 RETURNING id")
		}
		for _, sql := range writes {
			p.query("SET TRANSACTION READ WRITE", sql, "SELECT ROW_COUNT()")
		}
		p.query("SET SESSION TRANSACTION READ WRITE", "UPDATE people SET age = 8 WHERE id = 2")
		prepares()
		// Nor is a table prepared for that isn't locked.
		for _, lock := range []string{"LOCK TABLES people READ", "LOCK TABLES people WRITE", "LOCK TABLES orders WRITE"} {
			p.query(lock)
			prepares()
			p.query("UNLOCK TABLES")
		}
		// To prepare in another access mode than the session's leaves the locks.
		for _, modes := range [][2]string{{"READ WRITE", "READ ONLY"}, {"READ ONLY", "READ WRITE"}} {
			p.query("SET SESSION TRANSACTION "+modes[0], "LOCK TABLES people READ", "SET TRANSACTION "+modes[1])
			prepares()
			p.query("SET SESSION TRANSACTION READ WRITE", "SET TRANSACTION READ WRITE")
			for _, id := range []string{"1", "2", "3", "4", "5", "6", "7", "8"} { // on each shard
				p.query("UPDATE people SET age = 9 WHERE id = " + id)
			}
			p.query("UNLOCK TABLES")
		}
	})
}
