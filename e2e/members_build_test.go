package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/ci/suite"
)

// TestMembersBuildTakenOver: the build of an index goes on from where it was when the member that builds it is killed:
// another takes it over soon after that is fenced, and tells its progress.
func TestMembersBuildTakenOver(t *testing.T) {
	suite.Long(t)
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{
			servers: f.own(t, 3), tables: []string{"people: {shard_key: id}"}, extra: "store: {shards: true}",
			maintenance: "{delay: 100ms, scan_duty: 0.02, reconcile_every: 24h, workers: 2, audit: 0}",
		})
		q := p.beside()
		q.run()
		const n = 30000
		mustExec(t, p.db(), "CREATE TABLE people (id BIGINT PRIMARY KEY, email VARCHAR(50))")
		fill(t, p, "people", n, func(id int) string { return fmt.Sprintf("(%d, 'p%d@x')", id, id) })
		mustExec(t, p.db(), "CREATE VIRTUAL INDEX idx_email ON people (email)")
		built := func(by *process) (worker string, percent int) {
			for _, r := range mustRows(t, by.db(), "SHOW MAINTENANCE JOBS") {
				if r["Type"] == "build_index" {
					worker = r["Claimed_by"]
				}
			}
			for _, r := range mustRows(t, by.db(), "SHOW VIRTUAL INDEXES") {
				percent, _ = strconv.Atoi(strings.TrimSuffix(r["Progress"], "%")) // "" is 0
			}
			return worker, percent
		}
		members := func(by *process) map[string]string {
			at := map[string]string{}
			for _, r := range mustRows(t, by.db(), "SHOW MEMBERS") {
				at[r["Member"]] = portOf(r["Addr"])
			}
			return at
		}
		var builder string
		was := 0
		eventually(t, "a shard is done", func() bool {
			builder, was = built(p)
			return was >= 34
		})
		if was > 90 {
			t.Fatalf("it was faster than the test: %d %%", was)
		}
		dead, lives := p, q
		builder, _, _ = strings.Cut(builder, "/")
		if members(p)[builder] == portOf(q.addr) {
			dead, lives = q, p
		}
		dead.kill()
		eventually(t, "the dead one is fenced", func() bool { return members(lives)[builder] == "" })
		fenced := time.Now()
		var worker string
		percent := 0
		eventually(t, "another builds", func() bool {
			worker, percent = built(lives)
			return worker != "" && worker != "NULL" && !strings.HasPrefix(worker, builder+"/")
		})
		if percent < 33 {
			t.Errorf("it was at %d %%, and goes on at %d %%", was, percent)
		}
		t.Logf("at %d %%, taken over %v after the fence at %d %%", was, time.Since(fenced).Round(time.Millisecond), percent)
		lives.waitIndex(lives.db(), "idx_email")
		if _, percent := built(lives); percent != 100 {
			t.Errorf("ready at %d %%", percent)
		}
		for id := 1; id <= n; id += 997 {
			query := fmt.Sprintf("SELECT id FROM people WHERE email = 'p%d@x'", id)
			want(t, lives.db(), query, "id", strconv.Itoa(id))
		}
		if slices.ContainsFunc(mustRows(t, lives.db(), "CHECK VIRTUAL INDEX idx_email ON people"), func(r row) bool { return r["Missing"] != "0" }) {
			t.Error("entries are missing")
		}
	})
}
