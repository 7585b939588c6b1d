package e2e

import (
	"fmt"
	"slices"
	"testing"
)

// TestShardConnections: a shard's list of processes has threads of Shunt's, and SHOW SHARD CONNECTIONS says whose they are.
func TestShardConnections(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 9, setup{users: []string{"{name: reader, password: secret, schemas: [nothing]}"}})
		id := mustRows(t, c, "SELECT CONNECTION_ID() AS id")[0]["id"]
		mustExec(t, c, "BEGIN")
		mustExec(t, c, "UPDATE people SET age = 1 WHERE id = 1")
		shard := routeOf(t, c, "SELECT id FROM people WHERE id = 1").shards[0]
		its := func(q queryer) []row {
			return slices.DeleteFunc(mustRows(t, q, "SHOW SHARD CONNECTIONS"), func(r row) bool { return r["Id"] != id })
		}
		mine := its(p.db())
		if len(mine) != 1 || mine[0]["Shard"] != shard || mine[0]["User"] != "app" || mine[0]["State"] != "transaction or locks open" {
			t.Fatalf("the transaction on %s has %v", shard, mine)
		}
		n := int(shard[1] - '0')
		there := mustRows(t, p.shard(n), fmt.Sprintf("SELECT db FROM information_schema.processlist WHERE id = %s", mine[0]["Thread"]))
		if len(there) != 1 || there[0]["db"] != p.schema {
			t.Errorf("thread %s on %s: %v", mine[0]["Thread"], shard, there)
		}
		if others := its(open(t, p.addr, "reader", "secret", "")); len(others) > 0 {
			t.Errorf("another user sees %v", others)
		}
		mustExec(t, c, "ROLLBACK")
		if rest := its(p.db()); len(rest) > 0 {
			t.Errorf("behind ROLLBACK: %v", rest)
		}
	})
}
