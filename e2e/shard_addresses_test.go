package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestAddressesExchanged: a configuration that leads to the wrong servers is
// told with the first statement; it would find rows missing, or twice.
func TestAddressesExchanged(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"users: {shard_key: a}"}})
		mustExec(t, p.db(), "CREATE TABLE users (a INT PRIMARY KEY)")
		for i := range 20 {
			mustExec(t, p.db(), fmt.Sprintf("INSERT INTO users VALUES (%d)", i))
		}
		right, err := os.ReadFile(p.config)
		if err != nil {
			t.Fatal(err)
		}
		s0, s1 := p.servers[0].Addr(), p.servers[1].Addr()
		for name, addresses := range map[string]*strings.Replacer{
			"exchanged":        strings.NewReplacer(s0, s1, s1, s0),
			"one server twice": strings.NewReplacer(s1, strings.Replace(s0, "127.0.0.1", "localhost", 1)),
		} {
			p.stop()
			if err := os.WriteFile(p.config, []byte(addresses.Replace(string(right))), 0o600); err != nil {
				t.Fatal(err)
			}
			p.run()
			_, err := p.db().ExecContext(t.Context(), "SELECT COUNT(*) FROM users")
			wantError(t, err, 1429, "this is the server")
			// check looks at what data_dir has kept, as serve does.
			out, code := shunt(t, "check", "--config", p.config)
			if twice := strings.Contains(out, "are the same server"); twice != (name == "one server twice") || code != 1 {
				t.Errorf("check: status %d\n%s", code, out)
			}
			if t.Failed() {
				t.Fatal(name)
			}
		}
		p.stop()
		if err := os.WriteFile(p.config, right, 0o600); err != nil {
			t.Fatal(err)
		}
		p.run()
		want(t, p.db(), "SELECT COUNT(*) AS n FROM users", "n", "20")
	})
}
