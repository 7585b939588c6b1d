package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestBeginsAtOnce: a transaction over several shards doesn't begin on one after the other,
// which takes as many round trips. Here one shard answers late.
func TestBeginsAtOnce(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 2)
		valve := valveTo(t, servers[0])
		_, c := startPeople(t, f, 10, setup{servers: servers, addrs: []string{valve.Addr(), servers[1].Addr()}})
		behind := onShard(t, servers[1], "")
		// Connections that were in somebody else's hands meanwhile are prepared first, one
		// after the other: then it is another try.
		for tries, atOnce := 1, false; !atOnce; tries++ {
			if tries > 5 {
				t.Fatal("it begins on one shard after the other")
			}
			// Nobody else has one: who waits for this shard with it would give it back in our place.
			eventually(t, 20*time.Second, "the shards are left alone", func() bool {
				return !slices.ContainsFunc(mustRows(t, c, "SHOW SHARDS"), func(s row) bool { return s["Connections_in_use"] != "0" })
			})
			want(t, c, "SELECT COUNT(*) AS n FROM people", "n", "10") // each has a connection now
			valve.Shut()
			began := later(c, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
			for until := time.Now().Add(3 * time.Second); !atOnce && time.Now().Before(until); {
				atOnce = mustRows(t, behind, "SELECT COUNT(*) AS n FROM information_schema.innodb_trx")[0]["n"] != "0"
				time.Sleep(150 * time.Millisecond) // InnoDB shows what was true when it was last asked, if that was within 100 ms
			}
			valve.Open()
			ends(t, began, "START TRANSACTION")
			if !atOnce {
				mustExec(t, c, "ROLLBACK")
			}
		}
		mustExec(t, c, "UPDATE people SET age = 1")
		mustExec(t, c, "ROLLBACK")
		want(t, c, "SELECT COUNT(*) AS n FROM people WHERE age = 1", "n", "0")
	})
}

// TestCommitsAtOnce: a transaction is committed on its first shard, and then on the others at
// once: one that answers late holds up none of them, and one that answers nothing is told
// of with what has become of the others.
func TestCommitsAtOnce(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 3)
		valve := valveTo(t, servers[1])
		p := start(t, f, setup{
			servers: servers, addrs: []string{servers[0].Addr(), valve.Addr(), servers[2].Addr()},
			tables: []string{"n: {shard_key: id}"}, extra: "shard_timeout: 6s",
		})
		c := p.conn()
		mustExec(t, c, "CREATE TABLE n (id INT PRIMARY KEY, v INT)")
		fill(t, p, "n", 40, func(id int) string { return fmt.Sprintf("(%d, 0)", id) })
		on := idsOn(t, p)
		for v, lost := range []bool{false, true} {
			mustExec(t, c, "BEGIN")
			for i := range servers {
				mustExec(t, c, fmt.Sprintf("UPDATE n SET v = %d WHERE id = %d", v+1, on[i][0]))
			}
			valve.Shut()
			committed := later(c, "COMMIT")
			eventually(t, 4*time.Second, "the others have committed", func() bool {
				return len(mustRows(t, p.shard(2), fmt.Sprintf("SELECT id FROM n WHERE v = %d", v+1))) == 1
			})
			if !lost {
				valve.Open()
				ends(t, committed, "COMMIT")
				continue
			}
			err := <-committed
			valve.Open()
			wantError(t, err, 1180, "COMMIT on shard s1: ")
			wantError(t, err, 1180, "(outcome there: unknown, its connection was lost); committed: s0, s2; rolled back: none")
		}
	})
}
