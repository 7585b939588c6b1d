package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestBackup: the store of a Shunt that serves is backed up; put back it finds the rows that came later, too,
// also where the Shunt before was killed at once.
func TestBackup(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 20, setup{})
		p.settled(c)
		dir := filepath.Dir(p.config)
		data := filepath.Join(dir, "data")
		says := func(code int, text string, args ...string) {
			t.Helper()
			args = append(args[:2:2], append([]string{"--config", p.config}, args[2:]...)...)
			if out, got := shunt(t, args...); got != code || !strings.Contains(out, text) {
				t.Errorf("shunt %s: exit status %d, want %d and %q:\n%s", strings.Join(args, " "), got, code, text, out)
			}
		}
		backup := filepath.Join(dir, "backup")
		says(0, "backup is whole: ", "store", "backup", backup)
		says(1, "file exists", "store", "backup", backup)
		says(0, "data is whole: ", "store", "verify")
		says(1, "in use", "store", "restore", backup)
		for id := 501; id < 521; id++ {
			mustExec(t, c, "INSERT INTO people (id, email) VALUES (?, ?)", id, fmt.Sprintf("p%d@x", id))
		}
		p.kill()
		says(1, "move it aside first", "store", "restore", backup)
		if err := os.Rename(data, data+".before"); err != nil {
			t.Fatal(err)
		}
		says(0, "", "store", "restore", backup)
		p.run()
		for id := 501; id < 521; id++ {
			want(t, p.db(), fmt.Sprintf("SELECT id FROM people WHERE email = 'p%d@x'", id), "id", strconv.Itoa(id))
		}
		want(t, p.db(), "SELECT id FROM people WHERE email = 'p7@x'", "id", "7")
	})
}
