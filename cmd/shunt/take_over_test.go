package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestBehind: that members have served since outlives the process, and a damaged note still says so.
func TestBehind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := behindIn(dir)
	is := func(want string) {
		t.Helper()
		if id, err := behindIn(dir).of(); err != nil || id != want {
			t.Errorf("%q, %v; want %q", id, err, want)
		}
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	is("")
	do(b.clear())
	do(b.set("one"))
	do(b.set("two"))
	is("two")
	do(os.WriteFile(filepath.Join(dir, behindFile), []byte("{"), 0o600))
	is(behindUnknown)
	do(b.clear())
	is("")
}
