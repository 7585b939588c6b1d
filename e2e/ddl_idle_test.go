package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestIdleDDL: DDL that changes nothing says what one server says, while other DDL waits for a transaction, and only one
// shard gets it.
func TestIdleDDL(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 2)
		p := start(t, f, setup{servers: servers})
		c, other, altering := p.conn(), p.conn(), p.conn()
		plain := plainServer(t, servers[1], p.schema+"_plain")
		for _, q := range []queryer{c, plain} {
			mustExec(t, q, "CREATE TABLE there (id INT PRIMARY KEY, v INT)")
			mustExec(t, q, "CREATE TABLE held (id INT PRIMARY KEY)")
			mustExec(t, q, "CREATE VIEW seen AS SELECT id FROM there")
		}
		mustExec(t, other, "BEGIN")
		mustExec(t, other, "INSERT INTO held VALUES (1)")
		altered := make(chan error, 1)
		go func() {
			_, err := altering.ExecContext(context.WithoutCancel(t.Context()), "ALTER TABLE held ADD COLUMN v INT")
			altered <- err
		}()
		eventually(t, "the ALTER TABLE waits", func() bool {
			for _, srv := range p.servers {
				if len(mustRows(t, onShard(t, srv, ""), "SELECT 1 AS n FROM information_schema.PROCESSLIST WHERE DB = '"+p.schema+"' AND STATE LIKE 'Waiting for table metadata lock%'")) > 0 {
					return true
				}
			}
			return false
		})
		for _, sql := range []string{
			"SET sql_notes = 0", "DROP TABLE IF EXISTS gone, away", "DROP VIEW IF EXISTS gone", "CREATE TABLE IF NOT EXISTS there (id INT PRIMARY KEY)", "SET sql_notes = 1",
			"DROP TABLE IF EXISTS gone", "DROP TABLE IF EXISTS gone, away, missing", "DROP VIEW IF EXISTS gone",
			"CREATE TABLE IF NOT EXISTS there (id INT PRIMARY KEY, v INT)", "CREATE TABLE IF NOT EXISTS there (other INT)",
		} {
			before := ofKind(t, servers, sql)
			for _, q := range []queryer{c, plain} {
				mustExec(t, q, sql)
			}
			if now := ofKind(t, servers, sql); now[0] > before[0]+1 || now[1] > before[1]+1 {
				t.Errorf("%s: the servers had done %v of its kind, and now %v", sql, before, now)
			}
			got, wanted := mustRows(t, c, "SHOW WARNINGS"), mustRows(t, plain, "SHOW WARNINGS")
			for _, r := range wanted {
				r["Message"] = strings.ReplaceAll(r["Message"], p.schema+"_plain", p.schema)
			}
			if fmt.Sprint(got) != fmt.Sprint(wanted) {
				t.Errorf("%s: %v, want %v", sql, got, wanted)
			}
		}
		select {
		case err := <-altered:
			t.Fatalf("the ALTER TABLE didn't wait: %v", err)
		default:
		}
		mustExec(t, other, "COMMIT")
		if err := <-altered; err != nil {
			t.Fatal(err)
		}
		// A table that the catalog doesn't know yet goes from all shards.
		for _, srv := range p.servers {
			mustExec(t, onShard(t, srv, p.schema), "CREATE TABLE behind (id INT PRIMARY KEY)")
		}
		mustExec(t, c, "DROP TABLE IF EXISTS behind")
		for _, srv := range p.servers {
			want(t, onShard(t, srv, p.schema), "SHOW TABLES LIKE 'behind'", "")
		}
		mustExec(t, c, "DROP TABLE IF EXISTS `a,b`") // its note doesn't tell names apart
	})
}

// ofKind is how many statements of one's kind servers have executed, by their first two words.
func ofKind(t *testing.T, servers []*throwaway.Server, sql string) (n []int) {
	t.Helper()
	words := strings.Fields(strings.ToLower(sql))
	for _, srv := range servers {
		row := mustRows(t, onShard(t, srv, ""), "SHOW GLOBAL STATUS LIKE 'Com_"+words[0]+"_"+words[1]+"'")
		if len(row) == 0 { // SET has another name
			return make([]int, len(servers))
		}
		count, err := strconv.Atoi(row[0]["Value"])
		if err != nil {
			t.Fatal(err)
		}
		n = append(n, count)
	}
	return n
}
