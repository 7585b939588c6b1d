package e2e

import (
	"slices"
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// execute executes a statement with integers for its parameters.
func (c *packetClient) execute(id uint32, args ...int) string {
	c.t.Helper()
	var types, values []byte
	for _, n := range args {
		types = append(types, mysql.MYSQL_TYPE_LONG, 0)
		values = append(values, uint32s(uint32(n))...)
	}
	bound := []byte(nil)
	if len(args) > 0 {
		bound = slices.Concat([]byte{0, 1}, types, values) // no NULLs; with types
	}
	c.say(mysql.COM_STMT_EXECUTE, uint32s(id), []byte{0}, uint32s(1), bound)
	return c.answer()
}

// preparedPair is a statement that both sides have prepared.
type preparedPair struct {
	p   *packetPair
	sql string
	ids map[*packetClient]uint32
}

func (p *packetPair) prepare(sql string) *preparedPair {
	p.t.Helper()
	st := &preparedPair{p, sql, map[*packetClient]uint32{}}
	p.both("prepare "+sql, func(c *packetClient) (out string) { st.ids[c], out = c.prepare(sql); return out })
	return st
}

func (st *preparedPair) execute(args ...int) {
	st.p.t.Helper()
	st.p.both("execute "+st.sql, func(c *packetClient) string { return c.execute(st.ids[c], args...) })
}

// TestPreparedPassing: what the session alone knows, and each statement changes, is in a prepared statement
// as it is at each execution.
func TestPreparedPassing(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := packetSides(t, f)(t, 0)
		p.query("INSERT INTO people (id, age) VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5)")
		counts := p.prepare("SELECT ROW_COUNT() AS n, id FROM people WHERE id = ?")
		found := &preparedPair{p, "SELECT FOUND_ROWS() AS n, COUNT(*) FROM people WHERE id < ?", map[*packetClient]uint32{}}
		for _, c := range []*packetClient{p.shunt, p.plain} {
			found.ids[c], _ = c.prepare(found.sql) // MySQL warns of FOUND_ROWS(): see found_rows.go
		}
		commits := p.prepare("SELECT @@autocommit AS a, id FROM people WHERE id <= ? ORDER BY id")
		var warned []*preparedPair
		if f.name == throwaway.MariaDB { // MySQL prepares none of these
			warned = append(warned, p.prepare("SELECT @@warning_count + ? AS n, @@error_count AS e, MAX(id) FROM people"), p.prepare("SELECT @@warning_count + ? AS n, @@error_count AS e"))
		}
		waits := p.prepare("SELECT @@wait_timeout AS w, id FROM people WHERE id = ?")
		sets := p.prepare("UPDATE people SET age = 10 * @@autocommit + ROW_COUNT() WHERE id = ?")
		adds := p.prepare("INSERT INTO people (id, age) VALUES (?, @@autocommit + 40)")
		for i, between := range []string{"UPDATE people SET age = age + 1 WHERE id < 4", "SET autocommit = 0", "DELETE FROM people WHERE id = 5", "SET wait_timeout = 77", "SET autocommit = 1"} {
			p.query(between)
			counts.execute(2)
			p.query("SELECT id FROM people WHERE id < 4 ORDER BY id")
			found.execute(4)
			commits.execute(3)
			for _, st := range warned {
				p.query("SELECT 1 / 0, 2 / 0")
				st.execute(100)
			}
			waits.execute(i + 1)
			sets.execute(1)
			adds.execute(100 + i)
			p.query("COMMIT", "SELECT id, age FROM people WHERE id = 1 OR id >= 100 ORDER BY id")
		}
	})
}

// TestPreparedInto: SELECT ... INTO @a that is prepared.
func TestPreparedInto(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := packetSides(t, f)(t, 0)
		p.query("INSERT INTO people (id, email, age) VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3), (4, 'd', NULL)")
		show := "SELECT @a, @b, @a + 1, CHARSET(@a)"
		for sql, args := range map[string][]int{
			"SELECT age, email INTO @a, @b FROM people WHERE id = ?":                              {2, 4, 99, 3},
			"SELECT COUNT(*), MAX(email) INTO @a, @b FROM people WHERE id > ?":                    {0, 2},
			"SELECT id INTO @a FROM people WHERE id > ? ORDER BY id":                              {3, 1}, // two rows: an error
			"SELECT email INTO @b FROM people WHERE id > 1 ORDER BY id LIMIT ?":                   {1},
			"SELECT ? + 1, 'x' INTO @a, @b":                                                       {41},
			"SELECT p.id INTO @a FROM people p JOIN people q ON p.age = q.age + ? WHERE p.id = 3": {1},
		} {
			st := p.prepare(sql)
			for _, n := range args {
				st.execute(n)
				p.query("SHOW WARNINGS", show)
			}
		}
		for _, sql := range []string{"SELECT MAX(id), 'm' INTO @a, @b FROM people", "SELECT ROW_COUNT(), id INTO @a, @b FROM people WHERE id = 2"} {
			p.query("SELECT id FROM people ORDER BY id")
			st := p.prepare(sql)
			p.query("SELECT id FROM people WHERE id < 3 ORDER BY id")
			st.execute()
			p.query(show)
		}
		p.prepare("SELECT id INTO @a, @b FROM people WHERE id = ?")
		p.prepare("SELECT nothing INTO @a FROM people WHERE id = ?")
		p.query("PREPARE one FROM 'SELECT age, email INTO @a, @b FROM people WHERE id = ?'", "SET @k = 3", "EXECUTE one USING @k", show)
	})
}
