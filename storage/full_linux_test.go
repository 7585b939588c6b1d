package storage

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

// A disk without room for what opening writes would be the process's end.
func TestFullAtStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=12m"); err != nil {
		t.Skip("needs root to mount a small disk: ", err)
	}
	t.Cleanup(func() { check(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	if _, err := Open(testOpts(dir)); !errors.Is(err, ErrStoreFull) || errors.Is(err, ErrUnreadable) {
		t.Error(err)
	}
}

// TestFullWhileWriting: what is being written when the disk gets full waits for room, and reads go on.
func TestFullWhileWriting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64m"); err != nil {
		t.Skip("needs root to mount a small disk: ", err)
	}
	t.Cleanup(func() { check(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	log := &throwaway.Output{}
	o := testOpts(filepath.Join(dir, "store"))
	o.Logger = slog.New(slog.NewTextHandler(log, nil))
	o.FreeSpace = func(string) (uint64, error) { return 1 << 40, nil } // the guard comes too late
	s := openTest(t, o, testOptions{manual: true})
	id := readyIndex(t, s, "i", 1)
	check(t, s.Add([]Entry{{id, []byte("a"), 1, 1}}))
	fill, err := os.Create(filepath.Join(dir, "fill"))
	for err == nil {
		_, err = fill.Write(make([]byte, 4096))
	}
	check(t, fill.Close())
	written := make(chan error)
	go func() {
		var err error
		for i := 0; i < 100 && err == nil; i++ {
			err = s.KeepUnfinished("a", UnfinishedDDL{Text: strings.Repeat("x", 4000)}, true)
		}
		written <- err
	}()
	waitFor(t, func() bool { return strings.Contains(log.String(), "wait for room") })
	wantLookup(t, s, id, "a", 1)
	select {
	case err := <-written:
		t.Fatalf("written to a full disk: %v", err)
	default:
	}
	check(t, os.Remove(fill.Name()))
	check(t, <-written)
	check(t, s.Close())
	o.Logger = testOpts("").Logger
	s = openTest(t, o, testOptions{})
	wantLookup(t, s, id, "a", 1)
	if u := must(s.Unfinished()); len(u["a"].Text) != 4000 {
		t.Errorf("%d bytes", len(u["a"].Text))
	}
}
