package e2e

import (
	"fmt"
	"math"
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// TestPipelinedExecute: MariaDB's connectors for Node.js, Java and C execute what they have
// just prepared without waiting for its number. MySQL's server has no such number.
func TestPipelinedExecute(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p, _ := startPeople(t, f, 0, setup{})
		server := p.servers[3]
		schema := p.schema + "_plain"
		mustExec(t, plainServer(t, server, schema), people)
		shunt, plain := dialClassic(t, p.addr, "app", "secret", p.schema), dialClassic(t, server.Addr(), server.User, server.Password, schema)
		last := uint32s(math.MaxUint32)
		execute := func(c *wireConn, values ...byte) {
			payload := [][]byte{last, {0}, uint32s(1)}
			if len(values) > 0 {
				payload = append(payload, []byte{0, 1})
				for range values {
					payload = append(payload, []byte{mysql.MYSQL_TYPE_TINY, 0})
				}
				payload = append(payload, values)
			}
			c.say(t, mysql.COM_STMT_EXECUTE, payload...)
		}
		answer := func(c *wireConn) string {
			c.Sequence = 1
			return c.packets(t, false)
		}
		var answers [2]string
		for i, c := range []*wireConn{shunt, plain} {
			at := func(what string) { answers[i] += fmt.Sprintf("-- %s\n", what) }
			execute(c)
			at("before any statement")
			answers[i] += answer(c)
			for _, x := range []struct {
				sql    string
				values []byte
			}{
				{"DELETE FROM people WHERE id = 7", nil},
				{"INSERT INTO people (id, age) VALUES (?, ?)", []byte{7, 40}},
				{"SELECT age FROM people WHERE id = ?", []byte{7}},
				{"SELECT age FROM nowhere WHERE id = ?", []byte{7}},
				{"SELECT id, age FROM people WHERE age > ? ORDER BY id", []byte{3}},
			} {
				c.say(t, mysql.COM_STMT_PREPARE, []byte(x.sql))
				execute(c, x.values...)
				c.Sequence = 1
				_, failed := c.prepared(t)
				at(fmt.Sprintf("%s: error %d", x.sql, failed))
				answers[i] += answer(c)
			}
			execute(c, 50)
			at("again")
			answers[i] += answer(c)
			c.say(t, mysql.COM_STMT_RESET, last)
			at("reset")
			answers[i] += answer(c)
			c.say(t, mysql.COM_STMT_CLOSE, last)
			execute(c, 5)
			at("closed")
			answers[i] += answer(c)
		}
		if answers[0] != answers[1] {
			t.Errorf("shunt:\n%s\nplain:\n%s", answers[0], answers[1])
		}
	})
}
