package storage

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestDamagedMemLog: what follows a damaged record must not be lost without a word.
func TestDamagedMemLog(t *testing.T) {
	t.Parallel()
	o := testOpts(t.TempDir())
	s := openTest(t, o, testOptions{})
	id := readyIndex(t, s, "i", 1)
	for i := range 300 {
		check(t, s.Add([]Entry{{id, fmt.Appendf(nil, "key %d", i), 1, 1}}))
		if i%50 == 0 {
			check(t, s.Sync())
		}
	}
	check(t, s.Sync())
	left := func(dir string) (name string, used int) {
		for _, name := range must(filepath.Glob(filepath.Join(dir, "*.mem"))) {
			if b := bytes.TrimRight(must(os.ReadFile(name)), "\x00"); len(b) > 20 {
				return name, len(b)
			}
		}
		t.Fatal("there is no log")
		return "", 0
	}
	for name, c := range map[string]struct {
		damage     func(log []byte, used int) []byte
		unreadable bool
	}{
		"none":                       {func(log []byte, _ int) []byte { return log }, false},
		"a byte":                     {func(log []byte, used int) []byte { log[used/2] ^= 0x40; return log }, true},
		"the first":                  {func(log []byte, _ int) []byte { log[21] ^= 1; return log }, true},
		"cut off":                    {func(log []byte, used int) []byte { return log[:used/2] }, true},
		"a page":                     {func(log []byte, used int) []byte { clear(log[used/4 : used/4+500]); return log }, true},
		"the last one was not whole": {func(log []byte, used int) []byte { clear(log[used-3 : used]); return log }, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := o
			o.Dir = copyStore(t, o.Dir)
			log, used := left(o.Dir)
			check(t, os.WriteFile(log, c.damage(must(os.ReadFile(log)), used), 0o600))
			other := o
			other.Dir = copyStore(t, o.Dir)
			s, err := Open(o)
			if c.unreadable != errors.Is(err, ErrUnreadable) || !c.unreadable && err != nil {
				t.Fatal(err)
			}
			if err == nil {
				check(t, s.Close())
			}
			// After a power loss it may be so.
			other.BootID = "another"
			s, err = Open(other)
			check(t, err)
			check(t, s.Close())
		})
	}
}

// TestDamagedRecent: entries that were in a damaged log are made up for.
func TestDamagedRecent(t *testing.T) {
	t.Parallel()
	o := testOpts(t.TempDir())
	s := openTest(t, o, testOptions{noFlusher: true})
	id := readyIndex(t, s, "i", 1)
	intend(t, s, 1, 2)
	for i := range 20 {
		check(t, s.Add([]Entry{{id, fmt.Appendf(nil, "key %d", i), ShardID(1 + i%2), 1}}))
	}
	for name, c := range map[string]struct {
		damage func(name string)
		lost   bool
	}{
		"none": {func(string) {}, false},
		"a byte": {func(name string) {
			b := must(os.ReadFile(name))
			b[len(bytes.TrimRight(b, "\x00"))/2] ^= 1
			check(t, os.WriteFile(name, b, 0o600))
		}, true},
		"a page": {func(name string) {
			b := must(os.ReadFile(name))
			clear(b[100:200])
			check(t, os.WriteFile(name, b, 0o600))
		}, true},
		"cut off": {func(name string) { check(t, os.Truncate(name, must(os.Stat(name)).Size()-3)) }, true},
		"gone":    {func(name string) { check(t, os.Remove(name)) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			o := o
			o.Dir = copyStore(t, o.Dir)
			logs := must(filepath.Glob(filepath.Join(o.Dir, "recent-*.log")))
			logs = slices.DeleteFunc(logs, func(name string) bool { return len(writtenTo(t, name)) == 0 })
			if len(logs) != 1 {
				t.Fatal(logs)
			}
			c.damage(logs[0])
			s := openTest(t, o, testOptions{})
			if lost, unclean := len(s.Lost()), len(s.Unclean()); lost+unclean != 2 || c.lost != (lost == 2) {
				t.Errorf("%d pairs are lost and %d unclean", lost, unclean)
			}
		})
	}
}
