package main

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/storage"
)

// TestBehindCause: of a shard whose record is of nobody that the store knows, the one cause is
// told that it has.
func TestBehindCause(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, err := storage.Open(storage.Options{Dir: dir, LookupCache: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	r, err := newRecords(dir, layout{}, []string{"shunt-serves-shop"}, store, func(string) error { return nil }, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var key string
	for key = range *r.locks.Load() {
	}
	const lock = "shunt-serves-shop"
	none, late := uint64(0), uint64(1000)
	ours := map[string][]string{lock: {"a_s"}}
	for _, x := range []struct {
		name string
		// known are the store's lives, found is the record's.
		known map[string][]string
		found string
		// instance and serial are the record's.
		instance string
		serial   *uint64
		want     string
		setBack  bool
	}{
		{name: "a first start", want: ""},
		{name: "its own record", known: ours, found: "a_s", serial: &none, want: ""},
		{name: "an empty data_dir", found: "b_s", serial: &none, want: "data_dir is new to the shard"},
		{name: "another Shunt's", known: ours, found: "b_s", serial: &none, want: "another Shunt has served the shard since"},
		{name: "a copy's", known: ours, found: "b_s", instance: r.instance, serial: &none, want: "a copy of data_dir has served the shard since", setBack: true},
		{name: "an older store", known: ours, found: "a_s", serial: &late, want: "data_dir is older than the shard's record", setBack: true},
		{name: "no record", known: ours, want: "the shard has no record of who served it"},
	} {
		t.Run(x.name, func(t *testing.T) {
			r.lives = map[string]map[string][]string{"s0": x.known}
			found := &record{
				lives: map[string][]string{}, serials: map[string]*uint64{x.found: x.serial},
				instances: map[string]string{x.found: x.instance},
			}
			if x.found != "" {
				found.lives[key] = []string{x.found}
			}
			why, setBack := r.behind("s0", found)
			if (why == "") != (x.want == "") || !strings.HasPrefix(why, x.want) || setBack != x.setBack {
				t.Errorf("%q, set back: %t; want %q, %t", why, setBack, x.want, x.setBack)
			}
		})
	}
}
