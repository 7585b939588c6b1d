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
		// Where it is another process's, tables come and go: Badger says so.
		if err := checkTables(options); err != nil && !errors.Is(err, fs.ErrPermission) && !inUse(o.Dir) {
			return nil, unreadable(o.Dir, err)
		}
	}
	db, err = badger.Open(options)
	switch {
	case err == nil:
		return db, nil
	case errors.Is(err, syscall.EWOULDBLOCK) || strings.Contains(err.Error(), "Cannot acquire directory lock"):
		return nil, fmt.Errorf("open %s: %w: stop the other one, or give this one a data_dir of its own", o.Dir, ErrLocked)
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || strings.Contains(err.Error(), syscall.EROFS.Error()):
		return nil, fmt.Errorf("open %s: %w: make the directory writable for this user", o.Dir, err)
	case errors.Is(err, syscall.ENOSPC):
		return nil, fmt.Errorf("open %s: %w: free some space on the disk", o.Dir, err)
	default:
		return nil, unreadable(o.Dir, err)
	}
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

func unreadable(dir string, cause error) error {
	return fmt.Errorf("open %s: %w (%w): move the directory aside and start again; "+
		"virtual indexes are then rebuilt from the shards, and statements are sent to all shards until they are ready",
		dir, ErrUnreadable, cause)
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
