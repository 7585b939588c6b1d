package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestFewFiles: clients take all the files that the process may open. The store must
// go on, and so must writes.
func TestFewFiles(t *testing.T) {
	t.Parallel()
	p := start(t, flavours[0], setup{tables: peoplePlacement})
	p.stop()
	// The limit is inherited.
	wrapper := filepath.Join(t.TempDir(), "shunt")
	if err := os.WriteFile(wrapper, fmt.Appendf(nil, "#!/bin/sh\nulimit -n 400\nexec %s \"$@\"\n", built), 0o700); err != nil {
		t.Fatal(err)
	}
	none := exec.Command("sh", "-c", `ulimit -n 64; exec "$0" serve --config "$1"`, built, p.config)
	if out, err := none.CombinedOutput(); err == nil || !strings.Contains(string(out), "expected at least 256 for the index store") {
		t.Errorf("64 files: %v\n%s", err, out)
	}
	p.program = wrapper
	p.run()
	c := p.conn()
	mustExec(t, c, people)
	p.createIndex(c, "idx_email", "people (email)")
	var conns []net.Conn
	defer func() {
		for _, nc := range conns {
			nc.Close()
		}
	}()
	for range 600 {
		nc, err := net.DialTimeout("tcp", p.addr, time.Second)
		if err != nil {
			break
		}
		conns = append(conns, nc)
	}
	for i := range 12 { // write-intents come and go
		mustExec(t, c, fmt.Sprintf("INSERT INTO people (id, email) VALUES (%d, 'f%d@x')", i, i))
		time.Sleep(time.Second)
	}
	for i := range 12 {
		want(t, c, fmt.Sprintf("SELECT id FROM people WHERE email = 'f%d@x'", i), "id", fmt.Sprint(i))
	}
}
