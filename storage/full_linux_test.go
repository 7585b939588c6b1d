package storage

import (
	"errors"
	"syscall"
	"testing"
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
