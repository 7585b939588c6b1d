package storage

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// TestSequenceStays: after a graceful stop a sequence goes on where it was.
func TestSequenceStays(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b := catalog.TableName{Schema: "shop", Name: "a"}, catalog.TableName{Schema: "shop", Name: "b"}
	s := openTest(t, testOpts(dir), testOptions{})
	for _, name := range []catalog.TableName{a, b} {
		check(t, s.StartSequence(name, from(10)))
		must(s.TakeNumbers(name, func(next uint64) uint64 { return next + 5 })).Release()
	}
	s.RestartSequence(b)
	check(t, s.Close())

	s = openTest(t, testOpts(dir), testOptions{})
	defer s.Close()
	for name, want := range map[catalog.TableName]uint64{a: 15, b: 1} {
		if _, err := s.TakeNumbers(name, nil); !errors.Is(err, ErrUnstarted) {
			t.Fatal(err)
		}
		check(t, s.StartSequence(name, from(1)))
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
	name := catalog.TableName{Schema: "shop", Name: "a"}
	var synced atomic.Bool // files are synced at once
	s := openTest(t, testOpts(dir), testOptions{manual: true, syncFile: func(f *os.File) error {
		synced.Store(true)
		return f.Sync()
	}})
	check(t, s.StartSequence(name, from(1)))
	next := uint64(1)
	for range 40 {
		synced.Store(false)
		x := must(s.TakeNumbers(name, func(n uint64) uint64 { return n + 777 }))
		x.Release()
		if x.First != next {
			t.Fatalf("took %d, want %d", x.First, next)
		}
		next += 777
		if synced.Load() {
			// The files as of this sync: what is written later may be lost.
			check(t, os.RemoveAll(copies))
			check(t, os.CopyFS(copies, os.DirFS(dir)))
			check(t, os.Remove(filepath.Join(copies, "LOCK")))
		}
	}
	check(t, s.Close())
	s = openTest(t, testOpts(copies), testOptions{})
	defer s.Close()
	check(t, s.StartSequence(name, from(1)))
	if got := must(s.TakeNumbers(name, func(n uint64) uint64 { return n })).First; got < next {
		t.Errorf("after a power loss %d comes again, up to %d was handed out", got, next-1)
	}
}

// from is a table's answer.
func from(n uint64) func() (uint64, error) { return func() (uint64, error) { return n, nil } }

// TestSequenceLateAnswer: what a table answered before its sequence was restarted, or
// doubted, is worth nothing, or one time.
func TestSequenceLateAnswer(t *testing.T) {
	t.Parallel()
	name := catalog.TableName{Schema: "shop", Name: "a"}
	take := func(s *Store) (first uint64, release func(), err error) {
		x, err := s.TakeNumbers(name, func(next uint64) uint64 { return next + 1 })
		return x.First, x.Release, err
	}
	taken := func(t *testing.T, s *Store, want uint64) func() {
		t.Helper()
		first, release, err := take(s)
		if err != nil || first != want {
			t.Fatalf("took %d, %v; want %d", first, err, want)
		}
		return release
	}
	unstarted := func(t *testing.T, s *Store) {
		t.Helper()
		if first, _, err := take(s); !errors.Is(err, ErrUnstarted) {
			t.Fatalf("took %d, %v; want that the table is asked", first, err)
		}
	}
	t.Run("restarted", func(t *testing.T) {
		t.Parallel()
		s := openTest(t, testOpts(t.TempDir()), testOptions{})
		defer s.Close()
		check(t, s.StartSequence(name, func() (uint64, error) {
			check(t, s.StartSequence(name, from(1)))
			taken(t, s, 1)()
			s.RestartSequence(name)
			return 1, nil
		}))
		unstarted(t, s)
		check(t, s.StartSequence(name, from(2)))
		taken(t, s, 2)()
	})
	t.Run("released", func(t *testing.T) {
		t.Parallel()
		s := openTest(t, testOpts(t.TempDir()), testOptions{})
		defer s.Close()
		check(t, s.StartSequence(name, from(1)))
		release := taken(t, s, 1)
		s.RestartSequence(name)
		check(t, s.StartSequence(name, func() (uint64, error) {
			release()
			return 1, nil
		}))
		unstarted(t, s)
	})
	t.Run("doubted", func(t *testing.T) {
		t.Parallel()
		s := openTest(t, testOpts(t.TempDir()), testOptions{})
		defer s.Close()
		late := func() (uint64, error) {
			s.DoubtSequence(name)
			return 5, nil
		}
		check(t, s.StartSequence(name, late))
		taken(t, s, 5)()
		unstarted(t, s)
		// Who asks behind the last doubt ends it.
		check(t, s.StartSequence(name, late))
		check(t, s.StartSequence(name, from(9)))
		taken(t, s, 9)()
		taken(t, s, 10)()
		// However often it is doubted, a restarted one begins.
		s.RestartSequence(name)
		check(t, s.StartSequence(name, late))
		taken(t, s, 5)()
		unstarted(t, s)
	})
}
