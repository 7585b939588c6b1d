package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// replication runs statements about a server's replication; its words are those of
// the flavour.
func replication(t *testing.T, f *flavour, s *throwaway.Server, statements ...string) {
	t.Helper()
	db := onShard(t, s, "")
	for _, sql := range statements {
		if f.name == throwaway.MariaDB {
			sql = strings.NewReplacer("REPLICATION SOURCE", "MASTER", "SOURCE_", "MASTER_", "REPLICA", "SLAVE").Replace(sql)
		}
		mustExec(t, db, sql)
	}
}

// delay has a replica apply everything so many seconds late.
func delay(t *testing.T, f *flavour, s *throwaway.Server, seconds int) {
	t.Helper()
	replication(t, f, s, "STOP REPLICA", fmt.Sprintf("CHANGE REPLICATION SOURCE TO SOURCE_DELAY = %d", seconds), "START REPLICA")
}

// A replica that is too far behind, or doesn't replicate, isn't read from, and one
// that has come near is again.
func TestReplicasBehind(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := replicatedServers(t, f, 2, 1)
		p, db := startReplicated(t, f, servers, "max_replica_lag: 2s")
		primaries, replicas := servers.primaries, []*throwaway.Server{servers.replicas[0][0], servers.replicas[1][0]}
		const all = "SELECT id, @@port FROM users"
		c := p.conn()
		mustExec(t, c, "SET shunt_read_from = 'replica'")
		answeredBy := func(what string, servers ...*throwaway.Server) {
			t.Helper()
			eventually(t, what, func() bool { return slices.Equal(ports(t, c, all), portsOf(servers...)) })
		}
		answeredBy("both replicas", replicas...)

		// Without a write a delayed replica is as near as before. SOURCE_DELAY alone
		// says nothing; Seconds_Behind_Source would still be 0.
		delay(t, f, replicas[0], 3600)
		mustExec(t, db, "UPDATE users SET n = n + 100")
		p.waitReplica(replicas[0], "lagging")
		answeredBy("s0's primary and s1's replica", primaries[0], replicas[1])
		for range 20 {
			wantPorts(t, ports(t, c, "SELECT id, @@port FROM users WHERE n < 100"))
			if n := len(mustRows(t, c, "SELECT id FROM users WHERE n >= 100")); n != 40 {
				t.Fatalf("%d of 40 rows are found: a replica that is an hour behind was read", n)
			}
		}
		if r := p.replica(replicas[0]); !strings.Contains(r["Error"], "more than max_replica_lag (2s)") {
			t.Errorf("%v", r)
		} else if lag, err := strconv.ParseFloat(r["Lag"], 64); err != nil || lag < 2 {
			t.Errorf("%v", r)
		}
		if lag, ok := p.metric("shunt_replica_lag_seconds", `shard="s0"`); !ok || lag < 2 {
			t.Errorf("lag %v, %v", lag, ok)
		}
		if up, ok := p.metric("shunt_replica_up", `shard="s0"`); !ok || up != 0 {
			t.Errorf("up %v, %v", up, ok)
		}
		// A larger limit takes over at once, by a reload.
		p.reload("max_replica_lag: 2s", "max_replica_lag: 24h")
		answeredBy("both replicas, with a larger limit", replicas...)
		p.reload("max_replica_lag: 24h", "max_replica_lag: 2s")
		answeredBy("s0's primary, with the smaller limit", primaries[0], replicas[1])
		delay(t, f, replicas[0], 0)
		answeredBy("both replicas, when the one has come near", replicas...)

		// Replication that is stopped, in either half.
		for _, half := range []string{"SQL_THREAD", "IO_THREAD"} {
			replication(t, f, replicas[1], "STOP REPLICA "+half)
			p.waitReplica(replicas[1], "stopped")
			answeredBy("s1's primary: "+half, replicas[0], primaries[1])
			if r := p.replica(replicas[1]); !strings.Contains(r["Error"], "is not running (No)") {
				t.Errorf("%v", r)
			}
			replication(t, f, replicas[1], "START REPLICA "+half)
			answeredBy("both replicas: "+half, replicas...)
		}

		// An error of the replica's own.
		mustExec(t, onShard(t, replicas[1], p.schema), "INSERT INTO settings VALUES ('b', 1)")
		mustExec(t, db, "INSERT INTO settings VALUES ('b', 2)")
		p.waitReplica(replicas[1], "stopped")
		answeredBy("s1's primary, since its replica has other rows", replicas[0], primaries[1])
		want(t, c, "SELECT v FROM settings WHERE k = 'b'", "v", "2")

		// Another sql_mode gives statements another meaning.
		mustExec(t, onShard(t, replicas[0], ""), "SET GLOBAL sql_mode = 'ANSI_QUOTES'")
		p.waitReplica(replicas[0], "refused")
		answeredBy("the primaries", primaries...)
		if r := p.replica(replicas[0]); !strings.Contains(r["Error"], "its sql_mode is 'ANSI_QUOTES' and its primary's") {
			t.Errorf("%v", r)
		}
	})
}

// What a replica has, a session that reads it finds: by values, too, of which the
// primary has no row any more, and whose index entries are gone. What Shunt reads
// for a statement that writes comes from the primaries.
func TestReplicaFindsWhatItHas(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := replicatedServers(t, f, 2, 1)
		p, db := startReplicated(t, f, servers, "max_replica_lag: 24h")
		replicas := []*throwaway.Server{servers.replicas[0][0], servers.replicas[1][0]}
		for _, r := range replicas {
			delay(t, f, r, 3600)
			p.waitReplica(r, "up")
		}
		mustExec(t, db, "UPDATE users SET email = CONCAT('new', id, '@x'), n = n + 100 WHERE id < 30")
		mustExec(t, db, "DELETE FROM users WHERE id >= 30")
		mustExec(t, db, "INSERT INTO users VALUES (1000, 'u3@x', 3)")
		mustExec(t, db, "DELETE FROM users WHERE id = 1000")
		// No shard is named for the old values once the logs have told that they are gone.
		for i := range 40 {
			eventually(t, fmt.Sprintf("the entry of u%d@x is gone", i), func() bool {
				r := routeOf(t, db, fmt.Sprintf("SELECT * FROM users WHERE email = 'u%d@x'", i))
				return strings.Contains(r.reason, ": 0 shards of 2")
			})
		}
		c := p.conn()
		mustExec(t, c, "SET shunt_read_from = 'replica'")
		for i := range 40 {
			id, email := strconv.Itoa(i), fmt.Sprintf("u%d@x", i)
			for _, rows := range [][]row{
				mustRows(t, c, fmt.Sprintf("SELECT id, @@port FROM users WHERE email = '%s'", email)),
				mustRows(t, c, "SELECT id, @@port FROM users WHERE email = ?", email),
				mustRows(t, c, fmt.Sprintf("SELECT id, @@port FROM users WHERE email IN ('%s', 'nobody') ORDER BY email", email)),
				mustRows(t, c, fmt.Sprintf("SELECT MAX(id) AS id FROM users WHERE email = '%s'", email)),
			} {
				if len(rows) != 1 || rows[0]["id"] != id || rows[0]["@@port"] != "" && !slices.Contains(portsOf(replicas...), rows[0]["@@port"]) {
					t.Fatalf("u%d@x, which the replicas have: %v", i, rows)
				}
			}
			if rows := mustRows(t, db, "SELECT id FROM users WHERE email = ?", email); len(rows) != 0 {
				t.Fatalf("u%d@x, which the primaries have no more: %v", i, rows)
			}
		}
		want(t, c, "SELECT COUNT(*) AS n FROM users WHERE email LIKE 'u%'", "n", "40")
		want(t, c, "SELECT COUNT(*) AS n FROM users WHERE email = 'new3@x'", "n", "0")

		// Writes read the primaries, in whatever way their rows come.
		mustExec(t, c, "INSERT INTO copies SELECT id, email, n FROM users WHERE email LIKE 'u%'")
		want(t, db, "SELECT COUNT(*) AS n FROM copies", "n", "0")
		mustExec(t, c, "INSERT INTO copies SELECT id + 500, email, n FROM users WHERE email LIKE 'new%'")
		want(t, db, "SELECT COUNT(*) AS n FROM copies", "n", "30")
		mustExec(t, c, "UPDATE copies SET n = 0 WHERE email IN (SELECT email FROM users)")
		want(t, db, "SELECT COUNT(*) AS n FROM copies WHERE n = 0", "n", "30")
		// So does a statement that no shard can answer alone.
		want(t, c, "SELECT COUNT(*) AS n FROM users u WHERE u.n >= (SELECT MIN(n) FROM users)", "n", "30")
		// In a transaction the session sees what it writes.
		mustExec(t, c, "BEGIN")
		want(t, c, "SELECT COUNT(*) AS n FROM users", "n", "30")
		mustExec(t, c, "COMMIT")
		want(t, c, "SELECT COUNT(*) AS n FROM users", "n", "40")
	})
}
