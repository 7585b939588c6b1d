package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/ci/suite"
)

// TestMembersMetrics: what a member tells of itself. A server of the store that is away takes no
// member out of service; that it is on no shard does, until it has joined them anew.
func TestMembersMetrics(t *testing.T) {
	suite.Long(t)
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 3)
		home := servers[2]
		p := start(t, f, setup{
			servers: servers[:2], tables: []string{"people: {shard_key: id}"},
			extra: fmt.Sprintf("store: {servers: [{name: h1, addr: '%s', user: %s, password: '%s'}]}", home.Addr(), home.User, home.Password),
		})
		mustExec(t, p.db(), "CREATE TABLE people (id BIGINT PRIMARY KEY, email VARCHAR(50))")
		p.createIndex(p.db(), "idx_email", "people(email)")
		mustExec(t, p.db(), "INSERT INTO people VALUES (1, 'a@x')")
		byIndex := func() { want(t, p.db(), "SELECT id FROM people WHERE email = 'a@x'", "id", "1") }
		built := func() {
			t.Helper()
			eventually(t, "reads go by the index", func() bool {
				return len(routeOf(t, p.db(), "SELECT id FROM people WHERE email = 'a@x'").shards) == 1
			})
		}
		built()
		byIndex()
		is := func(value float64, name string, labels ...string) {
			t.Helper()
			if got, found := p.metric(name, labels...); !found || got != value {
				t.Errorf("%s %v is %v (%v), want %v", name, labels, got, found, value)
			}
		}
		more := func(name string, labels ...string) {
			t.Helper()
			if got, found := p.metric(name, labels...); !found || got < 1 {
				t.Errorf("%s %v is %v (%v)", name, labels, got, found)
			}
		}
		ready := func(status int, text string) bool {
			got, body, err := p.get("/readyz")
			return err == nil && got == status && strings.Contains(body, text)
		}
		is(2, "shunt_member_joined")
		is(0, "shunt_member_lost_total")
		is(0, "shunt_member_fenced_total")
		is(1, "shunt_store_up", `server="h1"`)
		more("shunt_member_version")
		more("shunt_member_waits_total", `for="ddl"`)
		more("shunt_member_waits_total", `for="version"`)
		more("shunt_store_call_seconds_count", `server="h1"`, `call="lookup"`)
		more("shunt_store_call_seconds_count", `server="h1"`, `call="write"`)

		// Open for some epochs.
		tx, err := p.db().BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		mustExec(t, tx, "UPDATE people SET email = 'b@x' WHERE id = 1")
		mustExec(t, p.db(), "REBUILD VIRTUAL INDEX idx_email ON people")
		eventually(t, "it lags", func() bool {
			lag, _ := p.metric("shunt_member_told_lag")
			return lag > 0
		})
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it lags no more", func() bool {
			lag, _ := p.metric("shunt_member_told_lag")
			return lag == 0
		})

		built()
		home.Pause()
		byIndex()
		eventually(t, "the store's absence is told", func() bool { return ready(http.StatusOK, "a server of the store is away") })
		is(0, "shunt_store_up", `server="h1"`)
		more("shunt_store_call_errors_total", `server="h1"`)
		for _, s := range servers[:2] {
			mustExec(t, onShard(t, s, "shunt_store"), "UPDATE members SET fenced = 1")
		}
		eventually(t, "it is on no shard", func() bool { return ready(http.StatusServiceUnavailable, "on no shard") })
		is(0, "shunt_member_joined")
		is(2, "shunt_member_lost_total")
		home.Resume()
		eventually(t, "it is back", func() bool {
			up, _ := p.metric("shunt_store_up", `server="h1"`)
			return up == 1 && ready(http.StatusOK, "ok\n")
		})
		is(2, "shunt_member_joined")
		byIndex()
	})
}
