package e2e

import (
	"strconv"
	"testing"
)

// TestFanout: SHOW VIRTUAL INDEXES tells how many shards reads by an index have asked, and had to.
func TestFanout(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 20, setup{})
		p.settled(c)
		reads := func() int {
			t.Helper()
			r := mustRows(t, c, "SHOW VIRTUAL INDEXES")[0]
			n, err := strconv.Atoi(r["Reads"])
			if err != nil || n > 0 && (r["Mean_shards"] != "1.00" || r["Ideal_shards"] != "1.00" || r["In_vain"] != "0.00") {
				t.Errorf("%v", r)
			}
			return n
		}
		before := reads()
		for range 10 {
			want(t, c, "SELECT id FROM people WHERE email = 'p7@x'", "id", "7")
		}
		if n := reads() - before; n != 10 {
			t.Errorf("%d reads", n)
		}
	})
}
