package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/ci/suite"
)

// TestMembersRollingRestart: three Shunts with one store are restarted one after the other. A pool of connections that
// a balancer spreads over those that accept them sees nothing of it. It runs beside no other test: see
// TestRollingRestart.
func TestMembersRollingRestart(t *testing.T) {
	suite.Long(t)
	oneFlavourAlone(t, func(t *testing.T, f *flavour) {
		members, l := loadedMembers(t, f, "")
		p := members[0]
		for range 2 {
			for n, m := range members {
				l.goesOn()
				began := time.Now()
				if code := m.stop(); code != 0 {
					t.Errorf("member %d: exit status %d", n, code)
				}
				drained := time.Now()
				m.run()
				t.Logf("member %d: drained in %v, served again %v later", n, drained.Sub(began).Round(time.Millisecond), time.Since(drained).Round(time.Millisecond))
			}
		}
		l.end()
		t.Logf("%d statements and transactions, %d failed, over 6 restarts", l.done.Load(), l.failed.Load())
		db := p.db()
		eventually(t, "who has left is gone", func() bool {
			rows := mustRows(t, db, "SHOW MEMBERS")
			for _, r := range rows {
				if !strings.HasPrefix(r["State"], "joined") && !strings.HasPrefix(r["State"], "behind") {
					return false
				}
			}
			return len(rows) == len(members)
		})
		p.settled(db)
	})
}

// loadedMembers are three Shunts with one store, and a load that a balancer spreads over them. program is theirs, "" for this
// version's.
func loadedMembers(t *testing.T, f *flavour, program string) (members []*process, l *rolling) {
	t.Helper()
	const rows = 40
	p := start(t, f, setup{program: program, servers: f.own(t, 3), tables: []string{"account: {shard_key: id}"}, extra: "store: {shards: true}\ndrain_timeout: 20s"})
	mustExec(t, p.db(), "CREATE TABLE account (id INT PRIMARY KEY, n INT NOT NULL)")
	mustExec(t, p.db(), "INSERT INTO account VALUES "+rowsFor(rows, func(i int) string { return fmt.Sprintf("(%d, 0)", i-1) }))
	p.createIndex(p.db(), "idx_n", "account (n)")
	members = []*process{p, p.beside(), p.beside()}
	for _, m := range members[1:] {
		m.program = program
		m.run()
	}
	return members, rollingLoad(t, p.schema, rows, members[0].addr, members[1].addr, members[2].addr)
}

// upgradedFrom is a commit whose Shunt members are upgraded from.
const upgradedFrom = "07bd16d"

// TestMembersRollingUpgrade is TestMembersRollingRestart of Shunts that run an older version's program before, and the new one
// behind.
func TestMembersRollingUpgrade(t *testing.T) {
	suite.Long(t)
	older := builtAt(t, upgradedFrom)
	oneFlavourAlone(t, func(t *testing.T, f *flavour) {
		members, l := loadedMembers(t, f, older)
		p := members[0]
		for n, m := range members {
			l.goesOn()
			if code := m.stop(); code != 0 {
				t.Errorf("member %d: exit status %d", n, code)
			}
			m.program = ""
			m.run()
			mustExec(t, m.db(), fmt.Sprintf("CREATE VIRTUAL INDEX idx_%d ON account (n)", n)) // beside older ones
			for _, other := range members {
				other.waitIndex(other.db(), fmt.Sprintf("idx_%d", n))
			}
		}
		l.goesOn()
		l.end()
		t.Logf("%d statements and transactions, %d failed, over an upgrade of all", l.done.Load(), l.failed.Load())
		p.settled(p.db())
		for _, name := range []string{"idx_n", "idx_0", "idx_1", "idx_2"} {
			want(t, p.db(), "CHECK VIRTUAL INDEX "+name+" ON account", "Missing", "0", "0", "0")
		}
	})
}

// builtAt is the program of an earlier commit. A clone that lacks that skips the test.
func builtAt(t *testing.T, commit string) string {
	t.Helper()
	dir := t.TempDir()
	run := func(in, name string, args ...string) ([]byte, error) {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = in
		return cmd.CombinedOutput()
	}
	if out, err := run("..", "git", "rev-parse", "--verify", commit+"^{commit}"); err != nil {
		t.Skipf("commit %s: %s", commit, out)
	}
	for _, step := range [][]string{
		{"..", "git", "archive", "-o", filepath.Join(dir, "source.tar"), commit},
		{dir, "tar", "xf", "source.tar"},
		{dir, "go", "build", "-o", filepath.Join(dir, "shunt"), "./cmd/shunt"},
	} {
		if out, err := run(step[0], step[1], step[2:]...); err != nil {
			t.Fatalf("%v: %v\n%s", step, err, out)
		}
	}
	return filepath.Join(dir, "shunt")
}
