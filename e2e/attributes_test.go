package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestQueryAttributes: they change nothing of a statement, and what asks for
// them is refused rather than answered NULL.
func TestQueryAttributes(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p, _ := startPeople(t, f, 20, setup{})
		c, err := dialWire(p.addr, "app", "secret", p.schema)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		with := func() {
			t.Helper()
			if err := c.SetQueryAttributes(mysql.QueryAttribute{Name: "trace", Value: "a'b"}, mysql.QueryAttribute{Name: "n", Value: int64(5)}); err != nil {
				t.Fatal(err)
			}
		}
		for _, prepared := range []bool{false, true} {
			for _, attributes := range []bool{true, false} {
				if attributes {
					with()
				}
				sql, params := "SELECT email FROM people WHERE id = 7", []any(nil)
				if prepared {
					sql, params = "SELECT email FROM people WHERE id = ? AND age = ?", []any{7, 27}
				}
				r := c.do(sql, params, prepared)
				if r.code != 0 || r.broken != nil || len(r.rows) != 1 || r.rows[0][0].text != "p7@x" {
					t.Errorf("prepared %v, attributes %v: %+v", prepared, attributes, r)
				}
			}
		}
		with()
		for _, sql := range []string{"SELECT mysql_query_attribute_string('trace')", "SET @t = mysql_query_attribute_string('trace')", "DO mysql_query_attribute_string('trace')"} {
			if r := c.do(sql, nil, false); r.code != refusedCode && (f.name != throwaway.MariaDB || r.code != 1305) {
				t.Errorf("%s: %d %s", sql, r.code, r.message)
			}
		}
		if f.name != throwaway.MySQL {
			return
		}
		cmd := commandLine(t, p, f, "--commands", "-N")
		if cmd == nil {
			t.Skip("no client")
		}
		cmd.Stdin = strings.NewReader("query_attributes trace abc n 5\nSELECT email FROM people WHERE id = 3;\nSELECT COUNT(*) FROM people;\n")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "p3@x\n20\n") {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// TestAttributesUncounted: Oracle's Connector/Python has the number of parameters in its
// packets, for attributes, without the flag that says so.
func TestAttributesUncounted(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		if f.name != throwaway.MySQL {
			t.Skip("MariaDB has no attributes to compare with")
		}
		p := packetSides(t, f)(t, mysql.CLIENT_QUERY_ATTRIBUTES)
		execute := func(sql string, params ...[]byte) {
			t.Helper()
			p.both(sql, func(c *packetClient) string {
				id, _ := c.prepare(sql)
				c.say(mysql.COM_STMT_EXECUTE, uint32s(id), []byte{0}, uint32s(1), slices.Concat(params...))
				return c.answer()
			})
		}
		long := []byte{mysql.MYSQL_TYPE_LONGLONG, 0, 0}
		one, two := []byte{7, 0, 0, 0, 0, 0, 0, 0}, []byte{27, 0, 0, 0, 0, 0, 0, 0}
		execute("INSERT INTO people (id, age) VALUES (?, ?)", []byte{2, 0, 1}, long, long, one, two)
		execute("SELECT id, age FROM people WHERE id = ?", []byte{1, 0, 1}, long, one)
		execute("SELECT id, age FROM people WHERE id = ? AND age = ?", []byte{2, 0, 1}, long, long, one, two)
		execute("SELECT id, age FROM people WHERE age > 5")
		execute("SELECT id FROM people WHERE id = ?", []byte{0, 1}, long, one) // without the number
	})
}
