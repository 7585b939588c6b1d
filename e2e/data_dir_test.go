package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestDataDirLost: without its directory the store takes no more writes, and reads go on.
func TestDataDirLost(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 20, setup{})
		p.settled(c)
		data := filepath.Join(filepath.Dir(p.config), "data")
		if err := os.Rename(data, data+".away"); err != nil {
			t.Fatal(err)
		}
		id := 100
		var err error
		eventually(t, "writes are refused", func() bool {
			id++
			_, err = c.ExecContext(t.Context(), "INSERT INTO people (id, email) VALUES (?, 'new@x')", id)
			return err != nil
		})
		wantError(t, err, 1290, "can't be written")
		want(t, c, "SELECT id FROM people WHERE email = 'p7@x'", "id", "7")
		if err := os.Rename(data+".away", data); err != nil {
			t.Fatal(err)
		}
		eventually(t, "writes are taken again", func() bool {
			_, err = c.ExecContext(t.Context(), "INSERT INTO people (id, email) VALUES (99, 'back@x')")
			return err == nil
		})
		want(t, c, "SELECT id FROM people WHERE email = 'back@x'", "id", "99")
	})
}

// TestStopWithoutDataDir: what can't be written any more doesn't keep the process.
func TestStopWithoutDataDir(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
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

// smallData has a Shunt that runs go on with its data on a small disk of its own, and returns where that is.
func smallData(p *process, size string) (data string) {
	t := p.t
	t.Helper()
	p.stop()
	data = filepath.Join(filepath.Dir(p.config), "data")
	if err := os.Rename(data, data+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", data, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("needs a small disk: %v", err)
	}
	t.Cleanup(func() {
		p.kill()
		if err := syscall.Unmount(data, 0); err != nil {
			t.Error(err)
		}
	})
	if err := os.CopyFS(data, os.DirFS(data+".away")); err != nil {
		t.Fatal(err)
	}
	p.run()
	return data
}

// TestStopOnFullDisk: the process ends in order, and by what it leaves every row is found.
func TestStopOnFullDisk(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, _ := startPeople(t, f, 20, setup{})
		data := smallData(p, "600m")
		for id := 501; id < 601; id++ {
			mustExec(t, p.db(), "INSERT INTO people (id, email) VALUES (?, ?)", id, fmt.Sprintf("p%d@x", id))
		}
		fill, err := os.Create(filepath.Join(data, "fill"))
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = fill.Write(make([]byte, 64<<10))
		}
		fill.Close()
		eventually(t, "writes are refused", func() bool {
			_, err = p.db().ExecContext(t.Context(), "INSERT INTO people (id, email) VALUES (700, 'full@x')")
			return err != nil
		})
		wantError(t, err, 1021, "")
		said := p.log.String()
		if code := p.stop(); code != 1 {
			t.Errorf("exit status %d", code)
		}
		if said = p.log.String()[len(said):]; !strings.Contains(said, "left as by a crash") || strings.Contains(said, "goroutine ") {
			t.Errorf("it says\n%s", said)
		}
		if err := os.Remove(fill.Name()); err != nil {
			t.Fatal(err)
		}
		p.run()
		for id := 501; id < 601; id++ {
			want(t, p.db(), fmt.Sprintf("SELECT id FROM people WHERE email = 'p%d@x'", id), "id", strconv.Itoa(id))
		}
	})
}
