package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/shunt-sql/shunt/planner/catalog"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Progress is told now and then how much of all there is is done of something; nil: nobody wants to know.
type Progress func(what string, done, all int64)

func (tell Progress) tell(what string, done, all int64) {
	if tell != nil {
		tell(what, done, all)
	}
}

// Backup copies a store, which may be open in a process, into the directory to, which it makes: what was
// committed when it was called is in it. Survives a power loss. fs.ErrExist where there is something already.
//
// What it is put back over has served on, and its shards have rows that it knows nothing of: who opens it
// must take all of them for unknown.
func Backup(dir, to string, tell Progress) (err error) {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(to))
		}
	}()
	files, done, err := linked(dir)
	if err != nil {
		return err
	}
	defer done()
	return copyDir(files, to, tell)
}

// Restore puts a backup into a directory where nothing is. It is read as a whole before.
func Restore(ctx context.Context, backup, dir string, tell Progress) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	lock, err := lockDir(dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		if f.Name() != "lost+found" { // a disk of its own has it
			return fmt.Errorf("%s is not empty, it has %s: %w", dir, f.Name(), fs.ErrExist)
		}
	}
	if _, err := Verify(ctx, backup, tell); err != nil {
		return err
	}
	return copyDir(backup, dir, tell)
}

// copyDir copies a directory's files. The markers come last: without them there is no store.
func copyDir(from, to string, tell Progress) error {
	names, err := filepath.Glob(filepath.Join(from, "*"))
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !isDatabase(filepath.Base(name)) && !isRecentLog(name) })
	var done, all int64
	sizes := map[string]int64{}
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		sizes[name] = info.Size()
		all += info.Size()
	}
	slices.SortStableFunc(names, func(a, b string) int { return marker(a) - marker(b) })
	for _, name := range names {
		tell.tell("copying", done, all)
		copied := filepath.Join(to, filepath.Base(name))
		if err := copyFile(name, copied); err != nil {
			return err
		}
		if err := syncFiles((*os.File).Sync, copied); err != nil {
			return err
		}
		done += sizes[name]
	}
	return syncFiles((*os.File).Sync, to, filepath.Dir(to))
}

func marker(name string) int {
	if ok, _ := filepath.Match(manifestMarker, filepath.Base(name)); ok {
		return 1
	}
	return 0
}

func isRecentLog(name string) bool {
	ok, _ := filepath.Match("recent-*.log", filepath.Base(name))
	return ok
}

// linked makes a copy of a store's files in a directory of its own beside them, until done is called.
// Tables are linked, so that none goes while they are read.
func linked(dir string) (files string, done func(), err error) {
	if currentManifest(dir) == 0 && foreign(dir) == "" {
		return "", nil, fmt.Errorf("there is no index store in %s: %w", dir, fs.ErrNotExist)
	}
	// Tables come and go until they are linked.
	for range 5 {
		if files, err = os.MkdirTemp(dir, "copy-"); err != nil {
			return "", nil, err
		}
		if err = Copy(dir, files, false); err == nil {
			return files, func() { _ = os.RemoveAll(files) }, nil
		}
		err = errors.Join(err, os.RemoveAll(files))
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return "", nil, err
}

// Verified is what Verify has read.
type Verified struct {
	Tables int
	Bytes  uint64
	// Indexes by name, and the entries of those that can be read.
	Indexes []VerifiedIndex
}

// VerifiedIndex is one index of them.
type VerifiedIndex struct {
	catalog.IndexDef
	Entries int64
}

// Verify reads all that the store in a directory has, each block of each table, whether or not a process
// serves by it. ErrDamaged says what is wrong.
func Verify(ctx context.Context, dir string, tell Progress) (v Verified, err error) {
	if name := foreign(dir); name != "" {
		return v, foreignFormat(name)
	}
	files, done, err := linked(dir)
	if err != nil {
		return v, err
	}
	defer done()
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", ErrDamaged, r)
		}
	}()
	h := &health{log: slog.New(slog.DiscardHandler)}
	o := engineOptions(memTableSize, defaultBlockCache, vfs.Default, h, func(error) {})
	o.ReadOnly = true
	db, err := pebble.Open(files, o)
	if err != nil {
		return v, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := v.tables(ctx, db, files, tell); err != nil {
		return v, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err := v.indexes(ctx, db, tell); err != nil {
		return v, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return v, nil
}

// tables reads the blocks of all tables.
func (v *Verified) tables(ctx context.Context, db *pebble.DB, dir string, tell Progress) error {
	levels, err := db.SSTables()
	if err != nil {
		return err
	}
	all := uint64(0)
	for _, tables := range levels {
		for _, t := range tables {
			all += t.Size
		}
	}
	for _, tables := range levels {
		for _, t := range tables {
			if err := ctx.Err(); err != nil {
				return err
			}
			tell.tell("reading blocks", int64(v.Bytes), int64(all))
			name := fmt.Sprintf("%06d.sst", uint64(t.BackingSSTNum))
			if err := verifyTable(ctx, filepath.Join(dir, name)); err != nil {
				return fmt.Errorf("table %s: %w", name, err)
			}
			v.Tables++
			v.Bytes += t.Size
		}
	}
	return nil
}

func verifyTable(ctx context.Context, name string) error {
	f, err := vfs.Default.Open(name)
	if err != nil {
		return err
	}
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r, err := sstable.NewReader(ctx, readable, sstable.ReaderOptions{})
	if err != nil {
		return errors.Join(err, readable.Close())
	}
	return errors.Join(r.ValidateBlockChecksums(), r.Close())
}

// indexes reads the entries of all indexes.
func (v *Verified) indexes(ctx context.Context, db *pebble.DB, tell Progress) error {
	it, err := iterator(db, []byte{kindIndex})
	if err != nil {
		return err
	}
	var defs []definition
	it.First()
	err = each(it, func(_, val []byte) (bool, error) {
		var d definition
		err := json.Unmarshal(val, &d)
		defs = append(defs, d)
		return true, err
	})
	if err != nil {
		return err
	}
	for i, d := range defs {
		tell.tell("counting entries", int64(i), int64(len(defs)))
		is := VerifiedIndex{IndexDef: d.IndexDef}
		for _, g := range []*genRef{d.Read, d.Build, d.Move} {
			n, err := verifyGeneration(ctx, db, g)
			if err != nil {
				return fmt.Errorf("index %s on %s.%s: %w", d.Name, d.Schema, d.Table, err)
			}
			if g == d.Read {
				is.Entries = n
			}
		}
		v.Indexes = append(v.Indexes, is)
	}
	return nil
}

// verifyGeneration counts the entries.
func verifyGeneration(ctx context.Context, db *pebble.DB, g *genRef) (entries int64, err error) {
	if g == nil {
		return 0, nil
	}
	it, err := iterator(db, generationPrefix(g.ID))
	if err != nil {
		return 0, err
	}
	var pairs []ShardEpoch
	it.First()
	err = each(it, func(key, val []byte) (bool, error) {
		if len(key) < entryPrefixLen {
			return false, errCorrupt
		}
		var err error
		if pairs, err = decodePairs(pairs[:0], val); err != nil {
			return false, err
		}
		entries += int64(len(pairs))
		return true, ctx.Err()
	})
	return entries, err
}
