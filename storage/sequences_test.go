package storage

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestSequenceStays: after a graceful stop a sequence goes on where it was.
func TestSequenceStays(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b := TableName{"shop", "a"}, TableName{"shop", "b"}
	s := openTest(t, testOpts(dir), testOptions{})
	for _, name := range []TableName{a, b} {
		check(t, s.StartSequence(name, 10))
		must(s.TakeNumbers(name, func(next uint64) uint64 { return next + 5 })).Release()
	}
	s.RestartSequence(b)
	check(t, s.Close())

	s = openTest(t, testOpts(dir), testOptions{})
	defer s.Close()
	for name, want := range map[TableName]uint64{a: 15, b: 1} {
		if _, err := s.TakeNumbers(name, nil); !errors.Is(err, ErrUnstarted) {
			t.Fatal(err)
		}
		check(t, s.StartSequence(name, 1))
		if got := must(s.TakeNumbers(name, func(next uint64) uint64 { return next })).First; got != want {
			t.Errorf("%s goes on with %d, want %d", name.Name, got, want)
		}
	}
}

// TestSequenceAfterPowerLoss: a copy of the files as they were synced last is
// what a power loss leaves, at worst. No number may come again.
func TestSequenceAfterPowerLoss(t *testing.T) {
	t.Parallel()
	dir, copies := t.TempDir(), t.TempDir()
	name := TableName{"shop", "a"}
	var synced bool
	s := openTest(t, testOpts(dir), testOptions{manual: true, syncFile: func(f *os.File) error {
		synced = true
		return f.Sync()
	}})
	check(t, s.StartSequence(name, 1))
	next := uint64(1)
	for range 40 {
		synced = false
		x := must(s.TakeNumbers(name, func(n uint64) uint64 { return n + 777 }))
		x.Release()
		if x.First != next {
			t.Fatalf("took %d, want %d", x.First, next)
		}
		next += 777
		if synced {
			// The files as of this sync: what is written later may be lost.
			check(t, os.RemoveAll(copies))
			check(t, os.CopyFS(copies, os.DirFS(dir)))
			check(t, os.Remove(filepath.Join(copies, "LOCK")))
		}
	}
	check(t, s.Close())
	s = openTest(t, testOpts(copies), testOptions{})
	defer s.Close()
	check(t, s.StartSequence(name, 1))
	if got := must(s.TakeNumbers(name, func(n uint64) uint64 { return n })).First; got < next {
		t.Errorf("after a power loss %d comes again, up to %d was handed out", got, next-1)
	}
}
