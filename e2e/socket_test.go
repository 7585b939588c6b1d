package e2e

import (
	"testing"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// TestShardsBySocket has shards on Unix sockets.
func TestShardsBySocket(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 2)
		addrs := socketsOf(t, servers)
		p, c := startPeople(t, f, 60, setup{servers: servers, addrs: addrs})
		out, code := shunt(t, "check", "--config", p.config)
		if code != 0 {
			t.Errorf("check: %s", out)
		}
		p.createIndex(c, "by_age", "people (age)")
		want(t, c, "SELECT COUNT(*) AS n FROM people", "n", "60")
		mustExec(t, c, "BEGIN")
		mustExec(t, c, "UPDATE people SET age = 7")
		want(t, c, "SELECT COUNT(*) AS n FROM people WHERE age = 7", "n", "60")
		mustExec(t, c, "COMMIT")
		servers[1].Kill()
		eventually(t, "the dead shard is told by its socket", func() bool {
			_, err := p.db().ExecContext(t.Context(), "UPDATE people SET age = 8")
			return errorCode(err) == 1429
		})
		if err := servers[1].Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it is back", func() bool {
			_, err := p.db().ExecContext(t.Context(), "UPDATE people SET age = 8")
			return err == nil
		})
	})
}

func socketsOf(t *testing.T, servers []*throwaway.Server) (paths []string) {
	for _, s := range servers {
		path := s.Socket()
		if path == "" || len(path) > 107 {
			t.Skipf("the socket %q can't be reached from here", path)
		}
		paths = append(paths, path)
	}
	return paths
}
