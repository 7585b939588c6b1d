package e2e

import (
	"database/sql"
	"testing"
)

// TestInsertSelectInstants: rows that INSERT ... SELECT takes to other shards keep their
// TIMESTAMPs in a time zone that sets its clocks, but for the days when it sets them back.
func TestInsertSelectInstants(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"src: {shard_key: id}", "dst: {shard_key: id}"}})
		zone := p.schema + "/zone"
		for _, srv := range f.servers(t) {
			c := connOf(t, onShard(t, srv, "mysql"))
			for _, sql := range []string{
				"INSERT INTO time_zone (Use_leap_seconds) VALUES ('N')",
				"SET @id = LAST_INSERT_ID()",
				"INSERT INTO time_zone_name VALUES ('" + zone + "', @id)",
				"INSERT INTO time_zone_transition_type VALUES (@id, 0, 3600, 0, 'CET'), (@id, 1, 7200, 1, 'CEST')",
				"INSERT INTO time_zone_transition VALUES (@id, 1711846800, 1), (@id, 1729990800, 0)",
			} {
				mustExec(t, c, sql)
			}
			c.Close()
		}
		shunt, plain := p.conn(), plainServer(t, p.servers[1], p.schema+"_plain")
		const insert, all = "INSERT INTO dst SELECT id + 1, ts, ts FROM src", "SELECT id, UNIX_TIMESTAMP(ts) AS ts, dt FROM dst ORDER BY id"
		for _, c := range []*sql.Conn{shunt, plain} {
			mustExec(t, c, "CREATE TABLE src (id INT PRIMARY KEY, ts TIMESTAMP NULL)")
			mustExec(t, c, "CREATE TABLE dst (id INT PRIMARY KEY, ts TIMESTAMP NULL, dt DATETIME)")
			mustExec(t, c, "SET time_zone = '+00:00'")
			mustExec(t, c, "INSERT INTO src VALUES (1, '2024-03-31 00:30:00'), (2, '2024-03-31 01:30:00'), (3, '2024-10-25 12:00:00'), (4, NULL), (5, '2024-07-01 00:00:00')")
			mustExec(t, c, "SET time_zone = '"+zone+"'")
			mustExec(t, c, insert)
		}
		want(t, shunt, all, "id ts dt", flat(mustRows(t, plain, all), "id", "ts", "dt")...)
		mustExec(t, shunt, "SET time_zone = '+00:00'")
		mustExec(t, shunt, "DELETE FROM dst")
		mustExec(t, shunt, "INSERT INTO src VALUES (6, '2024-10-27 00:30:00'), (7, '2024-10-27 01:30:00')")
		mustExec(t, shunt, "SET time_zone = '"+zone+"'")
		_, err := shunt.ExecContext(t.Context(), insert)
		wantError(t, err, 1235, "2024-10-27")
		want(t, shunt, "SELECT COUNT(*) AS n FROM dst", "n", "0")
		mustExec(t, shunt, "SET time_zone = '+00:00'")
		mustExec(t, shunt, insert)
		want(t, shunt, "SELECT id, ts FROM dst WHERE id > 6 ORDER BY id", "id ts", "7 2024-10-27 00:30:00", "8 2024-10-27 01:30:00")
	})
}
