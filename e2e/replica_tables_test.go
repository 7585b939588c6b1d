package e2e

import (
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// A replica one of whose tables has other columns than its primary's isn't read from:
// its rows would be merged in another order than they come.
func TestReplicaOfOtherTables(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := replicatedServers(t, f, 2, 1)
		p, db := startReplicated(t, f, servers, "max_replica_lag: 1h")
		replicas := []*throwaway.Server{servers.replicas[0][0], servers.replicas[1][0]}
		alone := connOf(t, onShard(t, replicas[0], p.schema))
		c := p.conn()
		mustExec(t, c, "SET shunt_read_from = 'replica'")
		mustExec(t, alone, "SET sql_log_bin = 0")
		mustExec(t, alone, "ALTER TABLE users MODIFY email VARCHAR(50) COLLATE utf8mb4_bin")
		p.waitReplica(replicas[0], "refused")
		if r := p.replica(replicas[0]); !strings.Contains(r["Error"], "other columns") {
			t.Errorf("%v", r)
		}
		want(t, c, "SELECT MAX(email) AS m FROM users", "m", "u9@x")
		wantPorts(t, ports(t, c, "SELECT id, @@port FROM users"), servers.primaries[0], replicas[1])
		// It may have been made ready for what is to come.
		mustExec(t, alone, "SET sql_log_bin = 1")
		mustExec(t, db, "ALTER TABLE users MODIFY email VARCHAR(50) COLLATE utf8mb4_bin")
		for _, r := range replicas {
			p.waitReplica(r, "up")
		}
		want(t, c, "SELECT MAX(email) AS m FROM users", "m", "u9@x")
	})
}
