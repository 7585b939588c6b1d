package e2e

import (
	"bytes"
	"slices"
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// changeUser sends COM_CHANGE_USER and answers what the server asks for.
func (c *wireConn) changeUser(user, password, schema string) (byte, error) {
	c.ResetSequence()
	p := append([]byte{0, 0, 0, 0, mysql.COM_CHANGE_USER}, user...)
	p = append(append(append(p, 0, 0), schema...), 0, 45, 0)
	if err := c.WritePacket(append(append(p, mysql.AUTH_NATIVE_PASSWORD...), 0)); err != nil {
		return 0, err
	}
	for {
		p, err := c.ReadPacket()
		if err != nil || p[0] != mysql.EOF_HEADER {
			return slices.Concat(p, []byte{0})[0], err
		}
		plugin, salt, _ := bytes.Cut(p[1:], []byte{0})
		salt = bytes.TrimSuffix(salt, []byte{0})
		answer := mysql.CalcNativePassword(salt, []byte(password))
		if string(plugin) == mysql.AUTH_CACHING_SHA2_PASSWORD {
			answer = mysql.CalcCachingSha2Password(salt, []byte(password))
		}
		if err := c.WritePacket(append(make([]byte, 4), answer...)); err != nil {
			return 0, err
		}
	}
}

// TestChangeUser: the session begins anew, as a pool's next user expects it.
func TestChangeUser(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, db := startPeople(t, f, 20, setup{})
		c, err := dialWire(p.addr, "app", "secret", p.schema)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		must := func(sql string) *reply {
			t.Helper()
			r := c.do(sql, nil, false)
			if r.code != 0 || r.broken != nil {
				t.Fatalf("%s: %v %v", sql, r.message, r.broken)
			}
			return r
		}
		must("SET @x = 1, SESSION sql_mode = 'ANSI_QUOTES'")
		must("CREATE TEMPORARY TABLE mine (id INT)")
		must("BEGIN")
		must("UPDATE people SET email = 'gone@x' WHERE id = 3")
		if header, err := c.changeUser("app", "secret", p.schema); header != mysql.OK_HEADER || err != nil {
			t.Fatalf("change user: %#x %v", header, err)
		}
		want(t, db, "SELECT id FROM people WHERE email = 'gone@x'", "id")
		if r := must(`SELECT @x, "text", id FROM people WHERE id = 3`); !r.rows[0][0].null || r.rows[0][1].text != "text" {
			t.Errorf("state has stayed: %v", r.rows)
		}
		if r := c.do("SELECT * FROM mine", nil, false); r.code != 1146 {
			t.Errorf("the temporary table has stayed: %v", r)
		}
		if header, err := c.changeUser("app", "secret", ""); header != mysql.OK_HEADER || err != nil {
			t.Fatalf("change user: %#x %v", header, err)
		}
		if r := must("SELECT DATABASE()"); !r.rows[0][0].null {
			t.Errorf("the schema has stayed: %v", r.rows)
		}
		if header, err := c.changeUser("app", "wrong", ""); header != mysql.ERR_HEADER || err != nil {
			t.Fatalf("a wrong password: %#x %v", header, err)
		}
		if r := c.do("SELECT 1", nil, false); r.broken == nil {
			t.Errorf("served after a wrong password: %v", r)
		}
	})
}
