package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// TestKillBetween: KILL QUERY that comes between two of the statements that a client's is
// made of ends it all the same.
func TestKillBetween(t *testing.T) {
	const localFiles = 128 // CLIENT_LOCAL_FILES
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 0, setup{})
		for _, begin := range []string{"SELECT 1", "BEGIN"} {
			client := dialPackets(t, p.addr, "empty", p.schema, localFiles)
			client.query(begin)
			client.say(mysql.COM_QUERY, []byte("LOAD DATA LOCAL INFILE 'x' INTO TABLE people (id)"))
			if asked := client.packet(); string(asked) != "\xfbx" {
				t.Fatalf("asked for %q", asked)
			}
			var rows strings.Builder
			for id := range 5000 {
				fmt.Fprintf(&rows, "%d\n", id)
			}
			client.write([]byte(rows.String()[:rows.Len()/2]))
			mustExec(t, c, fmt.Sprintf("KILL QUERY %d", client.connectionID()))
			client.write([]byte(rows.String()[rows.Len()/2:]))
			client.write(nil)
			if got := client.answer(); !strings.HasPrefix(got, "ERR 1317") {
				t.Errorf("behind %s: %s", begin, got)
			}
			if got := client.query("SELECT COUNT(*) FROM people"); !strings.Contains(got, "row 0130") {
				t.Errorf("behind %s there are rows: %s", begin, got)
			}
			client.query("COMMIT")
			want(t, c, "SELECT COUNT(*) AS n FROM people", "n", "0")
		}
	})
}
