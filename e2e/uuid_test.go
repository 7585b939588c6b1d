package e2e

import (
	"fmt"
	"testing"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestUUIDKeys: MariaDB's UUID and INET types are shard keys and in virtual indexes.
func TestUUIDKeys(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		if f.name == throwaway.MySQL {
			t.Skip("MySQL has no such types")
		}
		p := start(t, f, setup{})
		c := p.conn()
		mustExec(t, c, "CREATE TABLE hosts (id UUID PRIMARY KEY DEFAULT UUID(), four INET4, six INET6, n INT)")
		p.createIndex(c, "i_four", "hosts (four)")
		p.createIndex(c, "i_six", "hosts (six)")
		for i := range 20 {
			mustExec(t, c, fmt.Sprintf("INSERT INTO hosts (four, six, n) VALUES ('10.0.0.%d', '2001:DB8::%x', %d)", i, i, i))
			mustExec(t, c, "INSERT INTO hosts VALUES (?, ?, ?, ?)", fmt.Sprintf("6CCD780C-baba-1026-9564-5b8c656024%02x", i), fmt.Sprintf("10.0.1.%d", i), fmt.Sprintf("2001:db8:1::%d", i), 100+i)
		}
		mustExec(t, c, "INSERT INTO hosts SELECT UUID(), four, six, n + 1000 FROM hosts WHERE n < 3")
		p.settled(c)
		onOne := func(query string, shards int, n string) {
			t.Helper()
			want(t, c, query, "n", n)
			if got := len(mustRows(t, c, "EXPLAIN ROUTE "+query)); got != shards {
				t.Errorf("%s: %d shards, want %d", query, got, shards)
			}
		}
		onOne("SELECT n FROM hosts WHERE id = '6ccd780c-baba-1026-9564-5b8c65602407'", 1, "107")
		onOne("SELECT n FROM hosts WHERE id = '6ccd780cbaba102695645b8c65602407'", 4, "107")
		onOne("SELECT n FROM hosts WHERE four = '10.0.1.7'", 1, "107")
		onOne("SELECT n FROM hosts WHERE six = '2001:0db8::000a'", 1, "10")
		onOne("SELECT n FROM hosts WHERE four = '10.0.0.9'", 1, "9")
		onOne("SELECT COUNT(*) AS n FROM hosts WHERE four BETWEEN '10.0.0.255' AND '10.0.1.4'", 4, "5")
		for _, row := range mustRows(t, c, "SELECT id, n FROM hosts") {
			want(t, c, "SELECT n FROM hosts WHERE id = '"+row["id"]+"'", "n", row["n"])
		}
		mustExec(t, c, "UPDATE hosts SET four = '10.0.2.2' WHERE id = '6ccd780c-baba-1026-9564-5b8c65602407'")
		want(t, c, "SELECT n FROM hosts WHERE four = '10.0.2.2'", "n", "107")
		mustExec(t, c, "DELETE FROM hosts WHERE six = '2001:db8::a'")
		want(t, c, "SELECT COUNT(*) AS n FROM hosts", "n", "42")
	})
}
