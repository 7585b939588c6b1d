package e2e

import (
	"testing"
	"time"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestBeginsAtOnce: a transaction over several shards doesn't begin on one after the other,
// which takes as many round trips. Here one shard answers late.
func TestBeginsAtOnce(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 2)
		valve, err := throwaway.NewValve(servers[0].Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(valve.Close)
		_, c := startPeople(t, f, 10, setup{servers: servers, addrs: []string{valve.Addr(), servers[1].Addr()}})
		want(t, c, "SELECT COUNT(*) AS n FROM people", "n", "10") // each has a connection now
		behind := onShard(t, servers[1], "")
		valve.Shut()
		began := later(c, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
		eventually(t, 4*time.Second, "it has begun on the other shard", func() bool {
			return mustRows(t, behind, "SELECT COUNT(*) AS n FROM information_schema.innodb_trx")[0]["n"] != "0"
		})
		valve.Open()
		ends(t, began, "START TRANSACTION")
		mustExec(t, c, "UPDATE people SET age = 1")
		mustExec(t, c, "ROLLBACK")
		want(t, c, "SELECT COUNT(*) AS n FROM people WHERE age = 1", "n", "0")
	})
}
