package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

const (
	memTableSize = 16 << 20
	numMemTables = 3
)

// badgerOptions keep Badger's memory modest: about 21 MB for each of up to
// four memtables, and at most indexCache for bloom filters and block indexes.
//
// Tables are not compressed and have no block cache: they are mapped, so the
// page cache serves them without a second copy on the heap.
//
// All values stay in the tables (maxValue is under ValueThreshold), so the
// value log stays empty and needs no garbage collection; its file size is cut
// from 1 GiB because Badger maps a sparse file of twice that size.
func badgerOptions(o Options, memTable int64) badger.Options {
	const indexCache = 128 << 20
	dir := o.Dir
	if o.InMemory {
		dir = ""
	}
	return badger.DefaultOptions(dir).
		WithInMemory(o.InMemory).
		WithLogger(badgerLog{o.Logger}).
		WithMetricsEnabled(false).
		WithSyncWrites(false).
		WithDetectConflicts(false).
		WithNumVersionsToKeep(1).
		WithMemTableSize(memTable).
		WithNumMemtables(numMemTables).
		WithNumCompactors(2).
		WithCompression(options.None).
		WithBlockCacheSize(0).
		WithIndexCacheSize(indexCache).
		WithValueThreshold(min(maxValue+1, memTable*15/100)).
		WithValueLogFileSize(16 << 20)
}

// openBadger opens the database and turns what goes wrong into errors that
// say what to do. Badger calls log.Fatal where an internal assertion fails;
// that can't be caught here.
func openBadger(o Options, memTable int64) (db *badger.DB, err error) {
	defer func() {
		if r := recover(); r != nil {
			db, err = nil, unreadable(o.Dir, fmt.Errorf("panic: %v", r))
		}
	}()
	options := badgerOptions(o, memTable)
	if !o.InMemory {
		if err := prepareDir(o.Dir); err != nil {
			return nil, fmt.Errorf("open %s: %w", o.Dir, err)
		}
		// Where it is another process's, tables come and go: Badger says so.
		if err := checkTables(options); err != nil && !errors.Is(err, fs.ErrPermission) && !inUse(o.Dir) {
			return nil, unreadable(o.Dir, err)
		}
		if err := checkMemLogs(o); err != nil && !errors.Is(err, fs.ErrPermission) && !inUse(o.Dir) {
			return nil, unreadable(o.Dir, err)
		}
	}
	db, err = badger.Open(options)
	switch {
	case err == nil:
		return db, nil
	case errors.Is(err, syscall.EWOULDBLOCK) || strings.Contains(err.Error(), "Cannot acquire directory lock"):
		return nil, fmt.Errorf("open %s: %w: stop the other one, or give this one a data_dir of its own", o.Dir, ErrLocked)
	case says(err, syscall.EACCES, syscall.EPERM, syscall.EROFS):
		return nil, fmt.Errorf("open %s: %w: make the directory and all that is in it writable for this user", o.Dir, err)
	case says(err, syscall.ENOSPC, syscall.EDQUOT):
		return nil, fmt.Errorf("open %s: %w: free some space on the disk", o.Dir, err)
	default:
		return nil, unreadable(o.Dir, err)
	}
}

// roomBesides is what opening and closing write beside the memtables that there are.
const roomBesides = 16 << 20

// hasRoom sees that there is room for what opening or closing writes: on a full disk Badger
// would be killed by SIGBUS.
func hasRoom(dir string) error {
	need := uint64(roomBesides)
	files, _ := os.ReadDir(dir) // who opens it says what is wrong with it
	for _, f := range files {
		var st syscall.Stat_t
		if strings.HasSuffix(f.Name(), ".mem") && syscall.Stat(filepath.Join(dir, f.Name()), &st) == nil {
			need += uint64(st.Blocks) * 512 // it becomes a table
		}
	}
	if free, err := FreeSpace(dir); err == nil && free < need {
		return fmt.Errorf("%w: %d MiB free, %d MiB needed", ErrStoreFull, free>>20, need>>20)
	}
	return nil
}

// prepareDir makes the directory, and sees that it can be written to and has room.
func prepareDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("%w: choose a data_dir that this user can make", err)
	}
	if err := hasRoom(dir); err != nil {
		return fmt.Errorf("%w to start: free space on this disk", err)
	}
	f, err := os.CreateTemp(dir, ".writable-*")
	if err != nil {
		return fmt.Errorf("%w: make the directory writable for this user", err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// says: Badger tells of some of the system's errors by their text alone.
func says(err error, causes ...syscall.Errno) bool {
	for _, c := range causes {
		if errors.Is(err, c) || strings.Contains(err.Error(), c.Error()) {
			return true
		}
	}
	return false
}

// inUse reports whether a process holds the lock that Badger takes.
func inUse(dir string) bool {
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer f.Close() // and so gives the lock up
	return errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

// beginAnew is what to do without the store. Another order of shards, or one
// that was added later among them, would make another slot map.
const beginAnew = "move the directory aside and start again with the shards of the first start, in the same order, and the same placements; " +
	"the configuration's virtual indexes are then rebuilt from the shards, others are made anew by CREATE VIRTUAL INDEX, and statements are sent to all shards until they are ready"

func unreadable(dir string, cause error) error {
	return fmt.Errorf("open %s: %w (%w): %s", dir, ErrUnreadable, cause, beginAnew)
}

// syncDir makes every commit so far survive a power loss.
//
// Badger's DB.Sync covers the log of the active memtable only. Commits in a
// memtable that is full but not yet flushed to a table are in another log,
// which nothing has synced: hence all *.mem files are. (For the same reason a
// power loss may take commits from the end of that log and spare later ones in
// the active one.) A log that vanishes
// under way belongs to a memtable whose table and manifest record are on disk
// already. On Linux fsync of a file covers what was written through a map of
// it; elsewhere DB.Sync's msync at least covers the active one.
func syncDir(db *badger.DB, dir string, sync func(*os.File) error) error {
	if err := db.Sync(); err != nil {
		return err
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.mem"))
	if err != nil {
		return err
	}
	// The directory comes last: it holds the names of the files.
	for _, name := range append(names, dir) {
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		err = sync(f)
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// badgerLog sends Badger's messages to slog. Its Info is our Debug: it tells
// of every flush and compaction.
type badgerLog struct{ log *slog.Logger }

func (l badgerLog) Errorf(format string, v ...any) {
	l.log.Error("badger: " + strings.TrimSpace(fmt.Sprintf(format, v...)))
}

func (l badgerLog) Warningf(format string, v ...any) {
	l.log.Warn("badger: " + strings.TrimSpace(fmt.Sprintf(format, v...)))
}
func (l badgerLog) Infof(format string, v ...any)  { l.debug(format, v) }
func (l badgerLog) Debugf(format string, v ...any) { l.debug(format, v) }

func (l badgerLog) debug(format string, v []any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug("badger: " + strings.TrimSpace(fmt.Sprintf(format, v...)))
	}
}
