package e2e

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheckAsServe: what serve refuses check refuses, in the same words, be data_dir served from or
// at rest; and a first start that is refused leaves nothing behind.
func TestCheckAsServe(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, _ := startPeople(t, f, 20, setup{tables: []string{"found: {shard_key: id}", "uneven: {shard_key: id}"}})
		text, err := os.ReadFile(p.config)
		if err != nil {
			t.Fatal(err)
		}
		write := func(from, to string) {
			t.Helper()
			if !strings.Contains(string(text), from) {
				t.Fatalf("the configuration has no %q", from)
			}
			if err := os.WriteFile(p.config, []byte(strings.Replace(string(text), from, to, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		says := func(command string, status int, told string) {
			t.Helper()
			out, code := shunt(t, command, "--config", p.config)
			if code != status || !strings.Contains(out, told) {
				t.Errorf("%s: status %d, want %d with %q\n%s", command, code, status, told, out)
			}
		}
		refusals := []struct{ from, to, told string }{
			{"people: {shard_key: id}", "people: {shard_key: age}", "people: its rows were placed by hash of id, the configuration says hash of age"},
			{"name: s3", "name: renamed", "the configuration lacks shards that own rows: s3"},
		}
		for _, x := range refusals {
			write(x.from, x.to)
			says("check", 1, x.told)
		}
		write(refusals[0].from, refusals[0].to)
		checked := func() (x struct {
			Valid    bool
			Shards   []struct{ Name, Addr, Version string }
			Failures []string
		},
		) {
			t.Helper()
			out, _ := shunt(t, "check", "--json", "--config", p.config)
			if err := json.NewDecoder(strings.NewReader(out)).Decode(&x); err != nil || len(x.Shards) != 4 || x.Shards[1].Name != "s1" || x.Shards[1].Version == "" {
				t.Errorf("%v: %s", err, out)
			}
			return x
		}
		if x := checked(); x.Valid || len(x.Failures) != 1 || !strings.Contains(x.Failures[0], refusals[0].told) {
			t.Errorf("%+v", x)
		}
		write("people", "people")
		if x := checked(); !x.Valid || len(x.Failures) != 0 {
			t.Errorf("%+v", x)
		}
		says("check", 0, "all 4 shards answer")
		p.stop()
		for _, x := range refusals {
			write(x.from, x.to)
			says("check", 1, x.told)
			says("serve", 1, x.told)
		}
		write("people", "people")
		for _, addr := range []string{p.addr, p.http} {
			taken, err := net.Listen("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			says("check", 1, "bind: address already in use")
			says("serve", 1, "bind: address already in use")
			taken.Close()
		}
		mustExec(t, p.shard(1), "CREATE TABLE uneven (id INT PRIMARY KEY)")
		write("users:", "indexes: [{name: ix, table: "+p.schema+".uneven, columns: [id]}]\nusers:")
		says("check", 0, "uneven is not the same on all shards, so its virtual indexes are not used: the table is missing on shard s0")
		p.run()
		c := p.conn()
		want(t, c, "SELECT COUNT(*) AS n FROM people", "n", "20")
		p.stop()
		mustExec(t, p.shard(1), "DROP TABLE uneven")

		// Rows that something else has placed, at the first start.
		data := filepath.Join(filepath.Dir(p.config), "data")
		p.clean()
		if err := os.RemoveAll(data); err != nil {
			t.Fatal(err)
		}
		for i := range p.servers {
			mustExec(t, p.shard(i), "CREATE TABLE found (id INT PRIMARY KEY)")
		}
		mustExec(t, p.shard(1), "INSERT INTO found VALUES (1), (2), (3), (4), (5), (6), (7), (8)")
		write("people", "people")
		for _, command := range []string{"check", "serve"} {
			says(command, 1, "found: its rows are not where Shunt looks for them: shard s1 has ")
			if _, err := os.Stat(data); !os.IsNotExist(err) {
				t.Errorf("%s has left data_dir behind: %v", command, err)
			}
		}
		write("found: {shard_key: id}", "found: {placement: anywhere}")
		p.run()
		c = p.conn()
		want(t, c, "SELECT COUNT(*) AS n FROM found", "n", "8")
		if strings.Contains(p.log.String(), "another Shunt has served") {
			t.Error("the start that was refused counts as another Shunt's")
		}
	})
}
