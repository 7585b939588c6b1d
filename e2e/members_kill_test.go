package e2e

import (
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/ci/suite"
)

// TestMembersKill: numbers of connections are one member's only, and KILL, SHOW PROCESSLIST and
// information_schema.PROCESSLIST reach the clients of all, by whichever member they are asked.
func TestMembersKill(t *testing.T) {
	suite.Long(t)
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 3)
		home := servers[2]
		p := start(t, f, setup{
			servers: servers[:2], tables: []string{"people: {shard_key: id}"},
			extra: fmt.Sprintf("store: {servers: [{addr: '%s', user: %s, password: '%s'}]}", home.Addr(), home.User, home.Password),
		})
		q, dead := p.beside(), p.beside()
		q.run()
		dead.run()
		mustExec(t, p.db(), "CREATE TABLE people (id INT PRIMARY KEY, v INT)")
		fill(t, p, "people", 20, func(id int) string { return fmt.Sprintf("(%d, 0)", id) })

		members := []*process{p, q, dead}
		numbers := map[string]int{}
		for i, m := range members {
			for range 20 {
				numbers[mustRows(t, m.conn(), "SELECT CONNECTION_ID() AS id")[0]["id"]] = i
			}
		}
		if len(numbers) != 60 {
			t.Fatalf("60 connections of three members have %d numbers", len(numbers))
		}
		locker := p.conn()
		want(t, locker, "SELECT GET_LOCK('one', 0) AS l", "l", "1")
		want(t, q.conn(), "SELECT IS_USED_LOCK('one') AS id", "id", mustRows(t, locker, "SELECT CONNECTION_ID() AS id")[0]["id"])
		for i, m := range members {
			for _, list := range []string{"SHOW PROCESSLIST", "SHOW FULL PROCESSLIST", "SELECT ID AS Id FROM information_schema.PROCESSLIST"} {
				shown := map[string]bool{}
				for _, r := range mustRows(t, m.db(), list) {
					shown[r["Id"]] = true
				}
				for id := range numbers {
					if !shown[id] {
						t.Fatalf("member %d: %s lacks %s, which is member %d's", i, list, id, numbers[id])
					}
				}
			}
		}

		holder, err := p.db().BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		mustExec(t, holder, "UPDATE people SET v = 5 WHERE id = 1")
		ways := map[string]func(id string) error{
			"KILL QUERY": func(id string) error {
				_, err := q.db().ExecContext(t.Context(), "KILL QUERY "+id)
				return err
			},
			"KILL": func(id string) error {
				_, err := q.db().ExecContext(t.Context(), "KILL "+id)
				return err
			},
		}
		if program, err := exec.LookPath("mariadb-admin"); err == nil {
			ways["mariadb-admin"] = func(id string) error {
				host, port, _ := net.SplitHostPort(q.addr)
				out, err := exec.CommandContext(t.Context(), program, "--no-defaults", "--skip-ssl", "--protocol=tcp", "-h"+host, "-P"+port, "-uapp", "-psecret", "kill", id).CombinedOutput()
				if err != nil {
					return fmt.Errorf("%w: %s", err, out)
				}
				return nil
			}
		}
		for way, kill := range ways {
			victim := p.conn()
			id := mustRows(t, victim, "SELECT CONNECTION_ID() AS id")[0]["id"]
			done := later(victim, "UPDATE people SET v = v + 1")
			eventually(t, "it waits", func() bool {
				return slices.ContainsFunc(mustRows(t, q.db(), "SHOW PROCESSLIST"), func(r row) bool { return r["Id"] == id && strings.HasPrefix(r["Info"], "UPDATE people") })
			})
			eventually(t, way+" ends it", func() bool { // the shards may not have it yet
				if err := kill(id); err != nil && way == "KILL QUERY" {
					t.Fatal(err)
				}
				select {
				case err := <-done:
					if way == "KILL QUERY" {
						wantError(t, err, 1317, "interrupted")
					} else if err == nil {
						t.Errorf("%s: the statement has ended well", way)
					}
					return true
				case <-time.After(100 * time.Millisecond):
					return false
				}
			})
			if way != "KILL QUERY" {
				eventually(t, "the connection is gone", func() bool {
					return !slices.ContainsFunc(mustRows(t, q.db(), "SHOW PROCESSLIST"), func(r row) bool { return r["Id"] == id })
				})
			}
		}
		if err := holder.Rollback(); err != nil {
			t.Error(err)
		}
		want(t, p.db(), "SELECT SUM(v) AS s FROM people", "s", "0")

		// One that died is named, until it is known to be gone; nothing of others is killed for its sake.
		id := mustRows(t, dead.conn(), "SELECT CONNECTION_ID() AS id")[0]["id"]
		dead.kill()
		if err := execError(t, q.db(), "KILL "+id); !slices.Contains([]uint16{1094, 1429}, errorCode(err)) {
			t.Errorf("KILL of a dead member's connection: %v", err)
		}
		eventually(t, "its connections are none", func() bool { return errorCode(execError(t, q.db(), "KILL "+id)) == 1094 })

		// Without the store own connections are killed and listed.
		c := q.conn()
		own := mustRows(t, q.conn(), "SELECT CONNECTION_ID() AS id")[0]["id"]
		other := mustRows(t, p.conn(), "SELECT CONNECTION_ID() AS id")[0]["id"]
		home.Pause()
		defer home.Resume()
		failsWith(t, c, "KILL "+other, 1429, "other members")
		rows := mustRows(t, c, "SHOW PROCESSLIST")
		if !slices.ContainsFunc(rows, func(r row) bool { return r["Id"] == own }) {
			t.Errorf("it lists %v", rows)
		}
		if w := mustRows(t, c, "SHOW WARNINGS"); len(w) != 1 || w[0]["Code"] != "1429" {
			t.Errorf("it warns of %v", w)
		}
		mustExec(t, c, "KILL "+own)
	})
}
