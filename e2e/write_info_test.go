package e2e

import (
	le "encoding/binary"
	"fmt"
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// TestInfo: what a server says of a write beside its affected rows ("Records: 2
// Duplicates: 0  Warnings: 0") is the same over shards.
func TestInfo(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"people: {shard_key: id}", "lands: {placement: reference}"}})
		plain := f.own(t, 1)[0]
		shunt := dialClassic(t, p.addr, "app", "secret", p.schema)
		server := dialClassic(t, plain.Addr(), plain.User, plain.Password, "")
		for _, sql := range []string{"CREATE DATABASE info", "USE info"} {
			if got := server.said(t, sql); got[:2] != "OK" {
				t.Fatal(got)
			}
		}
		for _, sql := range []string{
			"CREATE TABLE people (id INT NOT NULL PRIMARY KEY, n INT, name VARCHAR(5))",
			"CREATE TABLE lands (code CHAR(2) NOT NULL PRIMARY KEY, n INT)",
			"INSERT INTO people VALUES (1, 1, 'a')",
			"INSERT INTO people VALUES (2, 1, 'a'), (3, 1, 'a'), (4, 1, 'a'), (5, 1, 'a')",
			"INSERT INTO people VALUES (2, 1, 'a'), (6, 1, 'a'), (7, 1, 'a') ON DUPLICATE KEY UPDATE n = 2",
			"INSERT IGNORE INTO people VALUES (2, 1, 'a'), (8, 1, 'too long'), (9, 1, 'a')",
			"REPLACE INTO people VALUES (2, 1, 'a'), (3, 1, 'a'), (10, 1, 'a')",
			"INSERT INTO people SELECT id + 100, n, name FROM people",
			"UPDATE people SET n = 5",
			"UPDATE people SET n = 5",
			"UPDATE people SET n = 6 WHERE id = 2",
			"UPDATE people SET n = 7 ORDER BY id LIMIT 3",
			"DELETE FROM people WHERE id > 100",
			"INSERT INTO lands VALUES ('AA', 1)",
			"INSERT INTO lands SET code = 'AB'",
			"INSERT INTO lands VALUES ('BB', 1), ('CC', 1)",
			"INSERT INTO lands VALUES ('AA', 1) ON DUPLICATE KEY UPDATE n = 3",
			"INSERT IGNORE INTO lands VALUES ('AA', 1)",
			"REPLACE INTO lands VALUES ('AA', 1)",
			"UPDATE lands SET n = 4",
			"DELETE FROM lands WHERE code = 'CC'",
			"BEGIN",
			"INSERT INTO lands VALUES ('DD', 1)",
			"COMMIT",
			"ALTER TABLE people ADD COLUMN more INT, ALGORITHM = COPY",
			"ALTER TABLE lands ADD COLUMN more INT, ALGORITHM = COPY",
			"ALTER TABLE people ADD COLUMN most INT",
			"CREATE INDEX by_n ON people (n)",
		} {
			if got, want := shunt.said(t, sql), server.said(t, sql); got != want {
				t.Errorf("%s\n got %s\nwant %s", sql, got, want)
			}
		}
	})
}

// said runs a statement without rows and tells of its OK packet.
func (c *wireConn) said(t *testing.T, sql string) string {
	t.Helper()
	c.say(t, mysql.COM_QUERY, []byte(sql))
	p := c.packet(t)
	if p[0] != mysql.OK_HEADER {
		return fmt.Sprintf("%q", p)
	}
	pos := 1
	affected, _, n := mysql.LengthEncodedInt(p[pos:])
	pos += n
	_, _, n = mysql.LengthEncodedInt(p[pos:])
	pos += n
	info := p[pos+4:]
	if len(info) > 0 && int(info[0]) == len(info)-1 {
		info = info[1:]
	}
	return fmt.Sprintf("OK %d affected, %d warnings %q", affected, le.LittleEndian.Uint16(p[pos+2:]), info)
}
