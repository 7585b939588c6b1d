package e2e

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// TestDamagedStore: under load no row is missed while the index store's files are damaged, be it under a Shunt
// that serves or one that was killed; it serves on, and the index is built again.
func TestDamagedStore(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, _ := startPeople(t, f, 400, setup{})
		p.stop()
		p.run() // what was in logs is in tables
		files := func(pattern string) []string {
			t.Helper()
			names, err := filepath.Glob(filepath.Join(p.dataDir(), pattern))
			if err != nil {
				t.Fatal(err)
			}
			return names
		}
		var last atomic.Int64
		last.Store(399)
		find := func(ctx context.Context, db *sql.DB, id int64) error {
			var got int64
			err := db.QueryRowContext(ctx, "SELECT id FROM people WHERE email = ?", fmt.Sprintf("p%d@x", id)).Scan(&got)
			if err == nil && got != id {
				err = fmt.Errorf("found %d", got)
			}
			if err != nil && ctx.Err() == nil {
				return fmt.Errorf("row %d: %w", id, err)
			}
			return nil
		}
		// underLoad calls fn while rows are added and looked up.
		underLoad := func(fn func()) {
			t.Helper()
			db := p.db()
			ctx, stop := context.WithCancel(t.Context())
			var load sync.WaitGroup
			run := func(do func(i int64) error) {
				load.Go(func() {
					for i := int64(0); ctx.Err() == nil; i++ {
						if err := do(i); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			for n := range int64(3) {
				run(func(i int64) error { return find(ctx, db, (i*7+n*131)%(last.Load()+1)) })
			}
			run(func(int64) error {
				id := last.Load() + 1
				_, err := db.ExecContext(t.Context(), "INSERT INTO people (id, email, age) VALUES (?, ?, 1)", id, fmt.Sprintf("p%d@x", id))
				if err == nil {
					last.Store(id)
				}
				return err
			})
			fn()
			stop()
			load.Wait()
		}
		heals := func(from int) {
			t.Helper()
			// It is said before the index is known to be without entries, so ready may be what it was before.
			var checked []row
			db := p.db()
			eventually(t, "the index is built again", func() bool {
				if !strings.Contains(p.log.String()[from:], "it is made anew, and its virtual indexes") {
					return false
				}
				var err error
				checked, err = rowsOf(t.Context(), db, "CHECK VIRTUAL INDEX idx_email ON people")
				return err == nil
			})
			if len(files("damaged-*")) != 1 {
				t.Errorf("files of data_dir: %v", files("*"))
			}
			for _, r := range checked {
				if r["Missing"] != "0" {
					t.Errorf("%v", r)
				}
			}
		}
		tables := files("*.sst")
		if len(tables) == 0 {
			t.Fatal("there is no table")
		}
		said := len(p.log.String())
		for _, name := range tables { // before the load has all of them in memory
			spoil(t, name)
		}
		underLoad(func() { heals(said) })

		// Killed, and its log is gone.
		p.kill()
		for _, name := range files("[0-9]*.log") {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
		said = len(p.log.String())
		p.run()
		underLoad(func() { heals(said) })
		db := p.db()
		for id := range last.Load() {
			want(t, db, "SELECT id FROM people WHERE email = 'p"+strconv.FormatInt(id, 10)+"@x'", "id", strconv.FormatInt(id, 10))
		}

		// `shunt check` says it before a start heals it: also of what only the account tells.
		p.stop()
		for _, name := range files("marker.manifest.*") {
			if err := os.Rename(name, filepath.Join(p.dataDir(), "aside")); err != nil {
				t.Fatal(err)
			}
			if out, code := shunt(t, "check", "--config", p.config); code != 0 || !strings.Contains(out, "is damaged") || !strings.Contains(out, "is valid") {
				t.Errorf("check without a marker: status %d\n%s", code, out)
			}
			if err := os.Rename(filepath.Join(p.dataDir(), "aside"), name); err != nil {
				t.Fatal(err)
			}
		}
		if out, code := shunt(t, "check", "--config", p.config); code != 0 || strings.Contains(out, "is damaged") {
			t.Errorf("check of a store that is whole: status %d\n%s", code, out)
		}
		for _, name := range files("MANIFEST-*") {
			spoil(t, name)
		}
		if out, code := shunt(t, "check", "--config", p.config); code != 0 || !strings.Contains(out, "is damaged") || !strings.Contains(out, "is valid") {
			t.Errorf("check: status %d\n%s", code, out)
		}
	})
}

// spoil changes a byte of each few of a file, in its place.
func spoil(t *testing.T, name string) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 1)
	for at := int64(0); ; at += 300 {
		if _, err := f.ReadAt(b, at); err != nil {
			return
		}
		b[0] ^= 0x10
		if _, err := f.WriteAt(b, at); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDamagedFiles: Shunt starts whatever becomes of a file of data_dir beside the store, by which it would have known
// that a shard's rows are others now, and finds those rows. `shunt check` says what a start does.
func TestDamagedFiles(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 20, setup{})
		kinds := []struct {
			name string
			of   func(text []byte) []byte
		}{
			{"bit flipped", func(text []byte) []byte {
				at := bytes.LastIndexByte(text, '"') - 1 // JSON all the same
				text[at] ^= 1
				return text
			}},
			{"cut", func(text []byte) []byte { return text[:len(text)/2] }},
			{"zeros", func(text []byte) []byte { return make([]byte, len(text)) }},
			{"empty", func([]byte) []byte { return nil }},
			{"removed", nil},
		}
		id := 1000
		for _, file := range []string{"owner.json", "servers.json", "scratch-instance"} {
			for _, kind := range kinds {
				if file == "scratch-instance" && kind.name == "bit flipped" {
					continue // another name is as good
				}
				what := file + ", " + kind.name
				eventually(t, "lookups are narrow before "+what, func() bool {
					return strings.Contains(routeOf(t, c, "SELECT id FROM people WHERE email = 'nobody@x'").reason, ": 0 shards of")
				})
				p.stop()
				// Another server, another Shunt, a store of before: it has rows that the index lacks.
				id++
				mustExec(t, p.shard(0), fmt.Sprintf("INSERT INTO people (id, email) VALUES (%d, 'behind%d@x')", id, id))
				if file == "owner.json" {
					p.clean() // without the shards' records there is but the file
				}
				name := filepath.Join(p.dataDir(), file)
				text, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				if kind.of == nil {
					err = os.Remove(name)
				} else {
					err = os.WriteFile(name, kind.of(bytes.Clone(text)), 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
				told := kind.of != nil || file == "owner.json"
				says := func(text string) bool {
					return strings.Contains(text, file) && (strings.Contains(text, "damaged") || kind.of == nil && strings.Contains(text, "missing"))
				}
				if out, code := shunt(t, "check", "--config", p.config); code != 0 || says(out) != told {
					t.Errorf("%s: check: status %d\n%s", what, code, out)
				}
				if now, err := os.ReadFile(name); kind.of != nil && (err != nil || bytes.Equal(now, text)) {
					t.Errorf("%s: check has changed it: %q, %v", what, now, err)
				}
				said := len(p.log.String())
				p.run()
				c = p.conn()
				want(t, c, fmt.Sprintf("SELECT id FROM people WHERE email = 'behind%d@x'", id), "id", strconv.Itoa(id))
				if said := p.log.String()[said:]; says(said) != told || strings.Contains(said, "<nil>") {
					t.Errorf("%s: the log says\n%s", what, said)
				}
			}
		}
	})
}
