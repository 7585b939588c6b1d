package e2e

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/ci/suite"
)

// TestAllocations: once its plan is known, a SELECT that goes to one shard costs no
// allocation, over io_uring, which serves one processor, and without it. They are estimated from
// one in 512 bytes, by what made them: what runs beside doesn't count. Nothing is collected meanwhile:
// what other work allocates would have a collection take buffers from the statements, the more of them the
// longer the statements take.
func TestAllocations(t *testing.T) {
	suite.Long(t)
	if race {
		t.Skip("the race detector allocates")
	}
	t.Parallel()
	for _, processors := range []string{"1", "2"} {
		t.Run(processors+" processors", func(t *testing.T) {
			t.Parallel()
			testAllocations(t, processors)
		})
	}
}

func testAllocations(t *testing.T, processors string) {
	p, _ := startPeople(t, flavours[0], 300, setup{
		env:         []string{"GOMAXPROCS=" + processors, "GODEBUG=memprofilerate=512", "GOGC=off"},
		maintenance: "{delay: 100ms, scan_duty: 0.1, reconcile_every: 24h, workers: 1, audit: 0}",
	})
	c := p.conn()
	byKey, err := c.PrepareContext(t.Context(), "SELECT email FROM people WHERE id = ?")
	if err != nil {
		t.Fatal(err)
	}
	byIndex, err := c.PrepareContext(t.Context(), "SELECT id FROM people WHERE email = ?")
	if err != nil {
		t.Fatal(err)
	}
	read := func(rows *sql.Rows, err error) {
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() { // until the answer's end
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range []struct {
		what  string
		limit float64
		run   func(i int)
	}{
		{"text by key", 0.1, func(i int) {
			read(c.QueryContext(t.Context(), fmt.Sprintf("SELECT email FROM people WHERE id = %d", 1+i%300)))
		}},
		{"text by index", 0.1, func(i int) {
			read(c.QueryContext(t.Context(), fmt.Sprintf("SELECT id FROM people WHERE email = 'p%d@x'", 1+i%300)))
		}},
		{"prepared by key", 0.1, func(i int) { read(byKey.QueryContext(t.Context(), 1+i%300)) }},
		{"prepared by index", 0.1, func(i int) { read(byIndex.QueryContext(t.Context(), fmt.Sprintf("p%d@x", 1+i%300))) }},
		{"text over all shards", 10, func(i int) {
			read(c.QueryContext(t.Context(), fmt.Sprintf("SELECT email FROM people WHERE id BETWEEN %d AND %d", 1+i%300, 3+i%300)))
		}},
	} {
		const n = 3000
		for i := range n { // until all is known, and buffers have their sizes
			x.run(i)
		}
		before := p.allocations()
		for i := range n {
			x.run(i)
		}
		after := p.allocations()
		each := allocated(t, before, after) / n
		t.Logf("%s: %.2f allocations", x.what, each)
		if each > x.limit {
			t.Errorf("%s: %.2f allocations a statement, want %.1f at most:\n%s", x.what, each, x.limit, pprof(t, "-traces", before, after))
		}
	}
}

// allocations is a profile of them all so far, in a file.
func (p *process) allocations() (file string) {
	p.t.Helper()
	for range 2 { // it is a collection behind
		_, profile, err := p.get("/debug/pprof/heap?gc=1")
		if err != nil {
			p.t.Fatal(err)
		}
		file = filepath.Join(p.t.TempDir(), "heap")
		if err := os.WriteFile(file, []byte(profile), 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
	return file
}

// allocated is how many allocations statements made between two profiles.
func allocated(t *testing.T, before, after string) (n float64) {
	t.Helper()
	out := pprof(t, "-top", before, after)
	_, rest, _ := strings.Cut(out, "Showing nodes accounting for ")
	if _, err := fmt.Sscanf(rest, "%f", &n); err != nil {
		t.Fatalf("%v in:\n%s", err, out)
	}
	return n
}

func pprof(t *testing.T, how, before, after string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "tool", "pprof", how,
		"-sample_index=alloc_objects", "-base", before, "-focus", `proxy\.\(\*session\)\.command$|wire\.\(\*Ring\)\.poll$`, after).CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	return string(out)
}
