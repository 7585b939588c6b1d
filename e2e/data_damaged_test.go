package e2e

import (
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

		// `shunt check` says it before a start heals it.
		p.stop()
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
