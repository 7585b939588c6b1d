package main

import (
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage"
)

// TestKept: what was written is read, and what isn't it is damaged.
func TestKept(t *testing.T) {
	t.Parallel()
	file := func() keptFile[string] {
		return keptFile[string]{filepath.Join(t.TempDir(), "kept.json"), func(sum string) string { return sum }}
	}
	for text, ok := range map[string]bool{
		"": false, "null": false, "[]": false, `"s0"`: false, `{"s0":`: false, `{"s0": "a"} {}`: false, `{"s0": 1}`: false, "\x00": false, `{"s0": "a", "": "b"}`: false,
		"{}": true, `{"s0": "a"}`: true, // of an older version
	} {
		k := file()
		if err := os.WriteFile(k.path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := k.read(); (err == nil) != ok || err != nil && !errors.Is(err, errDamaged) || got == nil {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	k := file()
	if got, err := k.read(); got == nil || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v, %v", got, err)
	}
	want := map[string]string{"s0": "a 12", "s1": ""}
	if err := k.write(want); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(k.path)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := k.read(); err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for at := range text {
		for bit := range 8 {
			damaged := append([]byte{}, text...)
			damaged[at] ^= 1 << bit
			if err := os.WriteFile(k.path, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			if got, err := k.read(); !errors.Is(err, errDamaged) && !maps.Equal(got, want) {
				t.Errorf("%q: %v, %v", damaged, got, err)
			}
		}
	}
}

// TestRecordsLost: without what it remembers of who has served the shards, a store knows none of their rows;
// a new store knows none anyway, and one whose file is whole knows all.
func TestRecordsLost(t *testing.T) {
	t.Parallel()
	spoil := func(name, text string) func(string) error {
		return func(dir string) error { return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600) }
	}
	remove := func(name string) func(string) error {
		return func(dir string) error { return os.Remove(filepath.Join(dir, name)) }
	}
	for _, x := range []struct {
		name string
		do   func(dir string) error
		// foreign is how many shards are unknown, aside whether a file is set aside.
		foreign int
		aside   bool
	}{
		{name: "whole", do: func(string) error { return nil }},
		{name: "cut", do: spoil(recordsFile, `{"s0"`), foreign: 2, aside: true},
		{name: "zeros", do: spoil(recordsFile, "\x00\x00"), foreign: 2, aside: true},
		{name: "empty", do: spoil(recordsFile, ""), foreign: 2, aside: true},
		{name: "another serial", do: spoil(recordsFile, `{"": {"": ["crc32c 00000000"]}, "s0": {"l": ["a_s 92"]}}`), foreign: 2, aside: true},
		{name: "removed", do: remove(recordsFile), foreign: 2},
		// What tells copies of data_dir apart is in it.
		{name: "another instance", do: spoil(scratchInstanceFile, "\x00"), foreign: 2},
		{name: "no instance", do: remove(scratchInstanceFile), foreign: 2},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			l := layout{shards: []catalog.Shard{{ID: 1, Name: "s0"}, {ID: 2, Name: "s1"}}}
			foreign := map[string]bool{}
			life := func() *records {
				t.Helper()
				store, err := storage.Open(storage.Options{Dir: dir, LookupCache: -1, Logger: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				defer store.Close()
				r, err := newRecords(dir, l, []string{"shunt-serves-shop"}, store, func(name string) error {
					if _, err := os.Stat(filepath.Join(dir, recordsFile)); x.aside && err != nil {
						t.Error("the file is gone before the store knows: the next start would take the other shards for known")
					}
					foreign[name] = true
					return nil
				}, slog.New(slog.DiscardHandler))
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			if err := life().remember("s0", map[string][]string{"shunt-serves-shop": {"a_s"}}); err != nil {
				t.Fatal(err)
			}
			if len(foreign) > 0 {
				t.Errorf("a new store: %v", foreign)
			}
			if err := x.do(dir); err != nil {
				t.Fatal(err)
			}
			life()
			aside, _ := filepath.Glob(filepath.Join(dir, "damaged-*", recordsFile))
			if len(foreign) != x.foreign || (len(aside) == 1) != x.aside {
				t.Errorf("unknown: %v, set aside: %v", foreign, aside)
			}
		})
	}
}

// TestServersLost: of which server a shard was nothing being known, its entries are unknown, too, and two shards on one
// server are refused all the same. A member that begins takes what others know.
func TestServersLost(t *testing.T) {
	t.Parallel()
	life := func(t *testing.T, cfg *config.Config) (s *servers, replaced *[]string) {
		t.Helper()
		s, err := knownServers(cfg, slog.New(slog.DiscardHandler))
		if err == nil {
			err = s.heal()
		}
		if err != nil {
			t.Fatal(err)
		}
		replaced = &[]string{}
		s.replaced = func(name string, _ bool) error {
			*replaced = append(*replaced, name)
			return nil
		}
		return s, replaced
	}
	judge := func(t *testing.T, s *servers, name, id string, ok bool) {
		t.Helper()
		if err := s.judge(name, server{id: id, version: "9.7"}, func() {}, func() {}); (err == nil) != ok {
			t.Errorf("%s is %s: %v", name, id, err)
		}
	}
	for _, x := range []struct {
		name, text string
		removed    bool
		unknown    int
		aside      bool
		// member: as many it is for one.
		member int
	}{
		{name: "cut", text: `{"s0"`, unknown: 2, member: 2, aside: true},
		{name: "zeros", text: "\x00\x00", unknown: 2, member: 2, aside: true},
		{name: "empty", unknown: 2, member: 2, aside: true},
		{name: "a name changed", text: `{"": "crc32c 00000000", "s2": "A", "s1": "B"}`, unknown: 2, member: 2, aside: true},
		{name: "removed", removed: true, unknown: 2},
		{name: "of an older version", text: `{"s0": "A", "s1": "B"}`},
		{name: "a shard is new", text: `{"s0": "A"}`, unknown: 1},
	} {
		for _, member := range []bool{false, true} {
			want := x.unknown
			if member {
				want = x.member
			}
			t.Run(x.name, func(t *testing.T) {
				t.Parallel()
				cfg := &config.Config{DataDir: t.TempDir(), Shards: []config.Shard{{Name: "s0"}, {Name: "s1"}}}
				if member {
					cfg.Store.Shards = true
				}
				path := filepath.Join(cfg.DataDir, serversFile)
				if !x.removed {
					if err := os.WriteFile(path, []byte(x.text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				s, replaced := life(t, cfg)
				judge(t, s, "s0", "A", true)
				judge(t, s, "s1", "A", false)
				judge(t, s, "s1", "B", true)
				judge(t, s, "s0", "A", true)
				aside, _ := filepath.Glob(filepath.Join(cfg.DataDir, "damaged-*", serversFile))
				if len(*replaced) != want || (len(aside) == 1) != x.aside {
					t.Errorf("taken for replaced: %v, set aside: %v", *replaced, aside)
				}
				s, replaced = life(t, cfg)
				judge(t, s, "s1", "A", false)
				judge(t, s, "s0", "A", true)
				judge(t, s, "s1", "B", true)
				if len(*replaced) > 0 {
					t.Errorf("the next life takes %v for replaced", *replaced)
				}
			})
		}
	}
}
