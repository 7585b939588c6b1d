package e2e

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestDataDirLost: without its directory the store takes no more writes, and reads go on.
func TestDataDirLost(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 20, setup{})
		p.settled(c)
		data := filepath.Join(filepath.Dir(p.config), "data")
		if err := os.Rename(data, data+".away"); err != nil {
			t.Fatal(err)
		}
		id := 100
		var err error
		eventually(t, 10*time.Second, "writes are refused", func() bool {
			id++
			_, err = c.ExecContext(t.Context(), "INSERT INTO people (id, email) VALUES (?, 'new@x')", id)
			return err != nil
		})
		wantError(t, err, 1290, "can't be written")
		want(t, c, "SELECT id FROM people WHERE email = 'p7@x'", "id", "7")
		if err := os.Rename(data+".away", data); err != nil {
			t.Fatal(err)
		}
		eventually(t, 10*time.Second, "writes are taken again", func() bool {
			_, err = c.ExecContext(t.Context(), "INSERT INTO people (id, email) VALUES (99, 'back@x')")
			return err == nil
		})
		want(t, c, "SELECT id FROM people WHERE email = 'back@x'", "id", "99")
	})
}

// TestStopWithoutDataDir: what can't be written any more doesn't keep the process.
func TestStopWithoutDataDir(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 20, setup{extra: "drain_timeout: 1s"})
		p.settled(c)
		data := filepath.Join(filepath.Dir(p.config), "data")
		if err := os.Rename(data, data+".away"); err != nil {
			t.Fatal(err)
		}
		p.signal(syscall.SIGTERM)
		if !p.wait(time.Minute) {
			p.kill()
			t.Error("it hangs")
		}
	})
}
