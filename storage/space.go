package storage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// spaceGuard knows whether the store may be written to.
//
// A full disk makes Pebble wait (files.go), and who called it: so writes are
// refused while free space is under minFree. Writes that only take away (removals, cleared marks, finished
// jobs, deleted garbage) are refused under half of it, so that a store that
// filled the disk itself can shrink again.
//
// So are writes while the directory is gone or can't be written, which Pebble would notice with
// its next file only.
type spaceGuard struct {
	dir string
	// opened is what dir was when the store was opened.
	opened os.FileInfo

	minFree uint64
	measure func(dir string) (uint64, error)
	free    atomic.Uint64
	// refuse and refuseReclaim are nil while writing is allowed.
	refuse, refuseReclaim atomic.Pointer[error]
	// failed is set for good by the first write that fails.
	failed atomic.Pointer[error]
}

// FreeSpace is the room that is left on a directory's disk, in bytes.
func FreeSpace(dir string) (uint64, error) {
	free, _, err := diskSize(dir)
	return free, err
}

func diskSize(dir string) (free, total uint64, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, 0, err
	}
	return st.Bavail * uint64(st.Bsize), st.Blocks * uint64(st.Bsize), nil
}

// newSpaceGuard measures once, so that a store on a full disk is refused from
// the first write on.
func newSpaceGuard(o Options) *spaceGuard {
	g := &spaceGuard{dir: o.Dir, minFree: o.MinFree, measure: o.FreeSpace}
	if o.InMemory {
		return g
	}
	if g.minFree == 0 {
		g.minFree = 256 << 20
		// A small disk (a container's volume) would never be writable.
		if _, total, err := diskSize(o.Dir); err == nil {
			g.minFree = min(g.minFree, total/10)
		}
	}
	if g.measure == nil {
		g.measure = FreeSpace
	}
	g.opened, _ = os.Stat(o.Dir) // nil: another one in its place isn't noticed
	g.refresh()
	return g
}

// reachable returns why files can't be made in the directory, or nil. What may pass by
// itself (an interrupted call, a network's failure) is none.
func (g *spaceGuard) reachable() error {
	now, err := os.Stat(g.dir)
	if err == nil && g.opened != nil && !os.SameFile(g.opened, now) {
		return fmt.Errorf("%s is another directory than the one that was opened", g.dir)
	}
	if err == nil {
		err = syscall.Access(g.dir, 2) // W_OK
	}
	for _, lasting := range []error{syscall.ENOENT, syscall.ENOTDIR, syscall.EACCES, syscall.EROFS} {
		if errors.Is(err, lasting) {
			return fmt.Errorf("%s can't be written: %w", g.dir, err)
		}
	}
	return nil
}

func (g *spaceGuard) refresh() {
	if g.measure == nil {
		return
	}
	if err := g.reachable(); err != nil {
		err = fmt.Errorf("%w: %w", ErrReadOnly, err)
		g.refuse.Store(&err)
		g.refuseReclaim.Store(&err)
		return
	}
	free, err := g.measure(g.dir)
	if err != nil {
		// Not knowing is no reason to refuse; the last answer stands.
		return
	}
	g.free.Store(free)
	var refuse, reclaim *error
	if free < g.minFree {
		err := fmt.Errorf("%w: %d MiB free in %s, %d MiB needed", ErrStoreFull, free>>20, g.dir, g.minFree>>20)
		refuse = &err
		if free < g.minFree/2 {
			reclaim = refuse
		}
	}
	g.refuse.Store(refuse)
	g.refuseReclaim.Store(reclaim)
}

// spacePeriod: in a second somebody else can fill a disk from above minFree on.
const spacePeriod = 100 * time.Millisecond

// run refreshes until ctx ends, and tells when writes are refused, and taken again.
func (g *spaceGuard) run(ctx context.Context, log *slog.Logger) {
	t := time.NewTicker(spacePeriod)
	defer t.Stop()
	for refused := false; ; {
		switch err := g.writable(); {
		case err != nil && !refused:
			log.Error("writes to tables with virtual indexes are refused", "error", err)
			refused = true
		case err == nil && refused:
			log.Info("writes to tables with virtual indexes are taken again")
			refused = false
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			g.refresh()
		}
	}
}

// writable returns why a write that adds is refused, or nil.
func (g *spaceGuard) writable() error {
	if e := g.failed.Load(); e != nil {
		return *e
	}
	if e := g.refuse.Load(); e != nil {
		return *e
	}
	return nil
}

// reclaimable returns why a write that takes away is refused, or nil.
func (g *spaceGuard) reclaimable() error {
	if e := g.failed.Load(); e != nil {
		return *e
	}
	if e := g.refuseReclaim.Load(); e != nil {
		return *e
	}
	return nil
}

// fail makes the store read-only: after a failed write it is unknown what a
// restart will find, and only a restart (with its recovery) can tell.
func (g *spaceGuard) fail(cause error) error {
	if errors.Is(cause, ErrDamaged) {
		return cause // it is made anew
	}
	err := fmt.Errorf("%w: %w", ErrReadOnly, cause)
	g.failed.CompareAndSwap(nil, &err)
	return err
}
