package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// TestPreparedPlaces: a parameter in ORDER BY and GROUP BY is the place of a column to MariaDB and
// nothing to MySQL, executed by the protocol and as SQL; LIMIT takes texts of numbers.
func TestPreparedPlaces(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := packetSides(t, f)(t, mysql.CLIENT_DEPRECATE_EOF)
		p.query("INSERT INTO people (id, email, age, city) VALUES (1, 'f', 10, 'x'), (2, 'e', 20, 'y'), (3, 'd', 30, 'x'), (4, 'c', 10, 'z'), (5, 'b', 20, 'x'), (6, 'a', 70, 'w')",
			"SET sql_mode = ''")
		for _, sql := range []string{
			"SELECT id, email FROM people ORDER BY ?, id LIMIT 3", "SELECT id, email FROM people ORDER BY (?) DESC, id LIMIT 3", "SELECT age, COUNT(*) FROM people GROUP BY age ORDER BY ? DESC, age LIMIT 2",
			"SELECT DISTINCT age, city FROM people ORDER BY ?, age, city LIMIT 3", "SELECT MIN(email), COUNT(*) FROM (SELECT email, id FROM people ORDER BY ?, id DESC LIMIT 3) x",
			"SELECT id FROM people WHERE id IN (2, 3, 5) ORDER BY age = ?, id", "SELECT age, COUNT(*) FROM people GROUP BY age, ? ORDER BY age",
			"INSERT INTO people (id, email) SELECT id + 100, email FROM people ORDER BY ?, id LIMIT 2",
		} {
			for _, n := range []int64{1, 2} {
				write := strings.HasPrefix(sql, "INSERT")
				look := func() {
					if write {
						p.query("SELECT id, email FROM people WHERE id > 100 ORDER BY id", "DELETE FROM people WHERE id > 100")
					}
				}
				p.both(fmt.Sprint(sql, " with ", n), func(c *packetClient) string {
					id, out := c.prepare(sql)
					if id == 0 {
						return out
					}
					c.say(mysql.COM_STMT_EXECUTE, uint32s(id), []byte{0}, uint32s(1), []byte{0, 1, mysql.MYSQL_TYPE_LONGLONG, 0, byte(n), 0, 0, 0, 0, 0, 0, 0})
					return c.answer()
				})
				look()
				p.query("PREPARE s FROM '"+sql+"'", fmt.Sprint("SET @n = ", n, ", @t = '", n, "'"), "EXECUTE s USING @n")
				look()
				p.query("PREPARE s FROM '"+sql+"'", "EXECUTE s USING @t") // anew, since MariaDB keeps the place
				look()
			}
		}
		limit := []byte{0, 1, mysql.MYSQL_TYPE_VAR_STRING, 0, 1, '2'}
		for _, sql := range []string{"SELECT id FROM people ORDER BY id LIMIT ?", "UPDATE people SET age = age + 1 ORDER BY id LIMIT ?", "DELETE FROM people ORDER BY id LIMIT ?"} {
			p.both(sql, func(c *packetClient) string {
				id, _ := c.prepare(sql)
				c.say(mysql.COM_STMT_EXECUTE, uint32s(id), []byte{0}, uint32s(1), limit)
				return c.answer()
			})
			if f.name == "mariadb" { // MySQL wants a number here
				p.query("PREPARE s FROM '"+sql+"'", "SET @t = '2'", "EXECUTE s USING @t")
			}
			p.query("SELECT id, age FROM people ORDER BY id")
		}
	})
}

// TestWrittenDecimals: where a prepared statement's DECIMAL becomes part of a text, it
// keeps its digits.
func TestWrittenDecimals(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := packetSides(t, f)(t, mysql.CLIENT_DEPRECATE_EOF)
		p.query("INSERT INTO people (id, email) VALUES (1, 'a'), (2, 'b'), (3, 'c')")
		for _, sql := range []string{
			"INSERT INTO people (id, email) SELECT id + 100, ? FROM people", "INSERT INTO people (id, email) VALUES (200 + 1, ?)", "UPDATE people SET email = ? ORDER BY id LIMIT 2",
		} {
			for _, value := range []string{"1.50", "5.00", "-0.10", "20"} {
				p.both(sql+" with "+value, func(c *packetClient) string {
					id, _ := c.prepare(sql)
					c.say(mysql.COM_STMT_EXECUTE, uint32s(id), []byte{0}, uint32s(1), []byte{0, 1, mysql.MYSQL_TYPE_NEWDECIMAL, 0, byte(len(value))}, []byte(value))
					return c.answer()
				})
				p.query("SELECT id, email FROM people ORDER BY id", "DELETE FROM people WHERE id > 3")
			}
		}
	})
}
