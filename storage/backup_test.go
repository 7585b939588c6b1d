package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// TestBackup: a backup that is made while the store is written to has what was added before.
func TestBackup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := open(testOpts(dir), testOptions{memTable: 256 << 10})
	check(t, err)
	defer func() { check(t, s.Close()) }()
	id := readyIndex(t, s, "i", 2)
	key := func(i int) []byte { return fmt.Appendf(nil, "k%06d", i) }
	add := func(from, to int) {
		t.Helper()
		var entries []Entry
		for i := from; i < to; i++ {
			entries = append(entries, Entry{id, key(i), catalog.ShardID(i % 3), 1})
		}
		check(t, s.Add(entries))
	}
	const before = 20_000
	add(0, before)
	add(before, before+3) // few: they are recent
	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := before + 3; ; i += 500 {
			select {
			case <-stop:
				return
			default:
				add(i, i+500)
			}
		}
	})
	backup := filepath.Join(t.TempDir(), "backup")
	told := map[string]int64{}
	tell := func(what string, done, all int64) {
		if done < told[what] || done > all {
			t.Errorf("%s: %d of %d behind %d", what, done, all, told[what])
		}
		told[what] = done
	}
	err = Backup(dir, backup, tell)
	close(stop)
	writer.Wait()
	check(t, err)
	if v := must(Verify(t.Context(), dir, nil)); len(v.Indexes) != 1 || v.Tables == 0 || v.Indexes[0].Entries < before {
		t.Errorf("%+v", v)
	}
	if err := Backup(dir, backup, nil); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	if err := Restore(t.Context(), backup, dir, nil); !errors.Is(err, ErrLocked) {
		t.Error(err)
	}
	if err := Restore(t.Context(), backup, backup, nil); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	if left := must(filepath.Glob(filepath.Join(dir, "copy-*"))); len(left) > 0 {
		t.Error(left)
	}
	restored := t.TempDir()
	if len(told) != 1 || told["copying"] == 0 {
		t.Errorf("of a backup is told %v", told)
	}
	clear(told)
	check(t, Restore(t.Context(), backup, restored, tell))
	if len(told) != 3 || told["copying"] == 0 {
		t.Errorf("of a restore is told %v", told)
	}
	r, err := Open(testOpts(restored))
	check(t, err)
	defer func() { check(t, r.Close()) }()
	for i := range before + 3 {
		wantLookup(t, r, id, string(key(i)), catalog.ShardID(i%3))
	}
	// The intents of what the other one was writing to.
	if lost := r.Lost(); len(lost) == 0 {
		t.Error("nothing is lost")
	}
}

// TestVerifyFinds: a byte that has changed anywhere in a table is found, and the backup is not restored.
func TestVerifyFinds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openTest(t, testOpts(dir), testOptions{})
	id := readyIndex(t, s, "i", 1)
	for i := range 300 {
		check(t, s.Add([]Entry{{id, fmt.Appendf(nil, "k%03d%s", i, strings.Repeat("x", 50)), catalog.ShardID(i % 3), 1}}))
	}
	check(t, s.recent.flush())
	check(t, s.db.Flush())
	check(t, s.Close())
	if v := must(Verify(t.Context(), dir, nil)); len(v.Indexes) != 1 || v.Indexes[0].Entries != 300 {
		t.Fatalf("%+v", v)
	}
	for _, name := range must(filepath.Glob(filepath.Join(dir, "*.sst"))) {
		whole := must(os.ReadFile(name))
		for at := 0; at < len(whole); at += max(len(whole)/40, 1) {
			cut := append([]byte{}, whole...)
			cut[at] ^= 0x10
			check(t, os.WriteFile(name, cut, 0o600))
			if _, err := Verify(t.Context(), dir, nil); !errors.Is(err, ErrDamaged) {
				t.Errorf("%s, byte %d of %d: %v", filepath.Base(name), at, len(whole), err)
			}
			if err := Restore(t.Context(), dir, filepath.Join(t.TempDir(), "to"), nil); !errors.Is(err, ErrDamaged) {
				t.Errorf("%s, byte %d of %d is restored: %v", filepath.Base(name), at, len(whole), err)
			}
		}
		check(t, os.WriteFile(name, whole, 0o600))
		check(t, os.Rename(name, name+".gone"))
		if _, err := Verify(t.Context(), dir, nil); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s is gone: %v", filepath.Base(name), err)
		}
		check(t, os.Rename(name+".gone", name))
	}
}
