package storage

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// engine is the ordered map of records that everything is kept in: a Pebble database. All that
// is read from its tables is checked, and an error of reading is never "there is no record".
type engine struct {
	// use is held for reading by who uses the database, and for writing by who puts another in its place.
	use sync.RWMutex
	*pebble.DB
	// kept has the records but entries once more; nil in memory.
	kept    *kept
	account *account
	// damaged is why nothing is read any more; wounded wakes who makes it anew.
	damaged atomic.Pointer[error]
	wounded chan struct{}
	// condemned: damagedFile is there, and synced. It is set under condemning, and taken back under use.
	condemned  bool
	condemning sync.Mutex
	// renewals is how often the database has been made anew.
	renewals  atomic.Uint64
	reachable func() error
	// write is how changes are committed.
	write *pebble.WriteOptions
	// commits counts them.
	commits atomic.Uint64
	health  *health
}

// health is what Pebble tells of itself.
type health struct {
	log *slog.Logger
	// broken is the first write that failed: nothing is to be written any more.
	broken atomic.Pointer[error]
	// serving: a full disk is waited for, until ended.
	serving atomic.Bool
	ended   <-chan struct{}
}

const (
	memTableSize      = 16 << 20
	defaultBlockCache = 64 << 20
	// maxCommit is the size from which on changes are committed in pieces.
	maxCommit = 1 << 20
)

// engineOptions keep Pebble's memory modest: up to four memtables, and a cache for what point
// lookups read again and again, the indexes and bloom filters of tables first of all.
//
// Tables are not compressed: keys are short, and share their beginnings in a block as it is.
func engineOptions(memTable, blockCache int64, files vfs.FS, h *health, hurt func(error)) *pebble.Options {
	options := &pebble.Options{
		FS:                          files,
		Logger:                      h,
		FormatMajorVersion:          pebble.FormatTableFormatV6,
		MemTableSize:                uint64(memTable),
		MemTableStopWritesThreshold: 4,
		CacheSize:                   blockCache,
		EventListener: &pebble.EventListener{
			BackgroundError: func(err error) {
				h.log.Error("index store", "error", err)
				if isDamage(err) {
					hurt(err)
				}
			},
			DataCorruption: func(i pebble.DataCorruptionInfo) { hurt(fmt.Errorf("%s: %w", i.Path, i.Details)) },
		},
	}
	options.Levels[0].FilterPolicy = bloom.FilterPolicy(10)
	options.Levels[0].Compression = func() *sstable.CompressionProfile { return sstable.NoCompression }
	return options
}

// openEngine opens the database and turns what goes wrong into errors that say what to do.
func openEngine(o Options, memTable int64, ended <-chan struct{}) (e *engine, err error) {
	defer func() {
		if r := recover(); r != nil {
			e, err = nil, unreadable(o.Dir, fmt.Errorf("panic: %v", r))
		}
	}()
	h := &health{log: o.Logger, ended: ended}
	e = &engine{write: pebble.Sync, health: h, wounded: make(chan struct{}, 1)}
	dir := o.Dir
	if o.InMemory {
		dir, e.write = "", pebble.NoSync
		e.DB, err = pebble.Open("", engineOptions(memTable, defaultBlockCache, vfs.NewMem(), h, e.hurt))
	} else {
		err = e.openFiles(o, memTable)
	}
	switch {
	case err == nil:
		h.serving.Store(true)
		return e, nil
	case o.InMemory:
		return nil, err
	case errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EROFS):
		return nil, fmt.Errorf("open %s: %w: make the directory and all that is in it writable for this user", dir, err)
	case isFull(err):
		return nil, fmt.Errorf("open %s: %w: free some space on the disk", dir, err)
	default:
		return nil, unreadable(dir, err)
	}
}

// lockDir keeps other processes from a store's directory, until the file is closed.
func lockDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return f, nil
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("%w: stop the other one, or give this one a data_dir of its own", ErrLocked)
	}
	return nil, errors.Join(err, f.Close())
}

// inUse reports whether a process holds the lock.
func inUse(dir string) bool {
	f, err := lockDir(dir)
	if err == nil {
		_ = f.Close()
	}
	return errors.Is(err, ErrLocked)
}

// roomBesides is what opening writes beside the tables that logs become.
const roomBesides = 16 << 20

// hasRoom sees that there is room for what opening writes.
func hasRoom(dir string) error {
	need := uint64(roomBesides)
	for _, name := range logsIn(dir) {
		if st, err := os.Stat(name); err == nil {
			need += uint64(st.Size())
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

// foreign is a file of a database that isn't this one's: of another program, or of a Shunt
// that kept its store in Badger. Pebble would take some of its files for its own.
func foreign(dir string) string {
	for _, name := range []string{"MANIFEST", "KEYREGISTRY", "CURRENT"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return name
		}
	}
	return ""
}

func foreignFormat(file string) error {
	return fmt.Errorf("%w: the file %s is another database's, or that of a Shunt that kept its store in Badger: choose another data_dir, or %s",
		ErrFormat, file, beginAnew)
}

// beginAnew is what to do without the store. Another order of shards, or one
// that was added later among them, would make another slot map.
const beginAnew = "move the directory aside and start again with the shards of the first start, in the same order, and the same placements; " +
	"the configuration's virtual indexes are then rebuilt from the shards, others are made anew by CREATE VIRTUAL INDEX, and statements are sent to all shards until they are ready"

func unreadable(dir string, cause error) error {
	return fmt.Errorf("open %s: %w (%w): %s", dir, ErrUnreadable, cause, beginAnew)
}

// openFiles opens the database of a directory.
func (e *engine) openFiles(o Options, memTable int64) error {
	if err := checkFiles(o); err != nil {
		return err
	}
	account, err := openAccount(o)
	if err != nil {
		return err
	}
	files := storeFS{FS: osFS, health: e.health, account: account}
	db, err := pebble.Open(o.Dir, engineOptions(memTable, cmp.Or(o.BlockCache, defaultBlockCache), files, e.health, e.hurt))
	if err == nil {
		err = e.health.err()
	}
	if err == nil {
		err = e.keep(o, db, files)
	}
	if err != nil {
		if db != nil {
			err = errors.Join(err, db.Close())
		}
		return errors.Join(err, account.close(false))
	}
	e.DB, e.account = db, account
	return nil
}

// checkFiles looks for what Pebble would open without a word.
func checkFiles(o Options) error {
	if why, err := os.ReadFile(filepath.Join(o.Dir, damagedFile)); err == nil {
		return fmt.Errorf("%w: %s", errUnaccounted, why)
	}
	if currentManifest(o.Dir) == 0 {
		// One that never came to be may have left files.
		if records, _, err := readKept(o.Dir); err == nil && len(records) > 0 {
			return fmt.Errorf("%w: there is no manifest", errUnaccounted)
		}
		return nil
	}
	return checkAccount(o)
}

// keep has the database's records but entries be kept once more.
func (e *engine) keep(o Options, db *pebble.DB, files storeFS) error {
	records := map[string]string{}
	for _, bounds := range []pebble.IterOptions{{UpperBound: []byte{kindEntry}}, {LowerBound: []byte{kindEntry + 1}}} {
		it, err := db.NewIter(&bounds)
		if err != nil {
			return err
		}
		it.First()
		err = each(it, func(key, val []byte) (bool, error) {
			records[string(key)] = string(val)
			return true, nil
		})
		if err != nil {
			return err
		}
	}
	if len(records) == 0 {
		if before, _, err := readKept(o.Dir); err == nil && len(before) > 0 {
			return fmt.Errorf("%w: it has no records", errUnaccounted)
		}
	}
	var err error
	e.kept, err = openKept(o.Dir, records, files.withRoom)
	return err
}

// close ends the database. One that can't be written to is left as by a crash: to end it would wait for ever.
func (e *engine) close() error {
	err := e.health.err()
	if err == nil {
		err = e.Close()
	}
	err = errors.Join(err, e.kept.close())
	return errors.Join(err, e.account.close(err == nil && e.intact() == nil))
}

// changes are records to be set and deleted, all at once.
type changes struct {
	*pebble.Batch
	// kept are those of records that aren't entries, as the log of kept has them.
	kept []byte
}

func (w *changes) set(key, val []byte) error {
	w.keep(key, val, false)
	return w.Set(key, val, nil)
}

func (w *changes) delete(key []byte) error {
	w.keep(key, nil, true)
	return w.Delete(key, nil)
}

func (w *changes) keep(key, val []byte, deleted bool) {
	if key[0] == kindEntry {
		return
	}
	if w.kept == nil {
		w.kept = make([]byte, keptHeader, 256)
	}
	w.kept = appendKept(w.kept, key, val, deleted)
}

// full: the next change is for another commit, where it may be.
func (w *changes) full() bool { return w.Len() >= maxCommit }

// commit makes changes survive the death of the process.
func (e *engine) commit(w *changes) (err error) {
	if w.Empty() {
		return nil
	}
	// Pebble panics where its log has failed before.
	defer func() {
		if r := recover(); r != nil {
			err = e.health.fail(fmt.Errorf("%v", r))
		}
	}()
	if err := e.health.err(); err != nil {
		return err
	}
	e.commits.Add(1)
	if err := e.kept.add(w.kept); err != nil {
		return e.health.fail(err)
	}
	if err := w.Commit(e.write); err != nil {
		return err
	}
	return e.health.err() // Pebble returns nil where it has called Fatalf
}

// read appends a record's value to dst.
func (e *engine) read(from pebble.Reader, key, dst []byte) (val []byte, found bool, err error) {
	in, err := e.lookups(from)
	if err != nil {
		return dst, false, err
	}
	val, found, err = in.find(key)
	dst = append(dst, val...)
	if closeErr := in.close(); err == nil {
		err = closeErr
	}
	return dst, found, err
}

// lookups are reads of records, of many best in the order of their keys. Unlike Pebble's Get they ask the bloom filters of
// the lowest level too, where most records are: one that there isn't costs half as much.
type lookups struct {
	e  *engine
	it *pebble.Iterator
}

var exact = pebble.IterOptions{UseL6Filters: true}

func (e *engine) lookups(from pebble.Reader) (lookups, error) {
	it, err := from.NewIter(&exact)
	return lookups{e, it}, e.noted(err)
}

// find returns a record's value, which is valid until the next call.
func (l lookups) find(key []byte) (val []byte, found bool, err error) {
	if found = l.it.SeekPrefixGE(key); found { // the prefix is the whole key
		val, err = l.it.ValueAndErr()
	} else {
		err = l.it.Error()
	}
	return val, found, l.e.noted(err)
}

func (l lookups) close() error { return l.e.noted(l.it.Close()) }

// iterator walks the records whose keys begin with prefix, from the first on. Behind the
// last one its Error is to be looked at.
func iterator(from pebble.Reader, prefix []byte) (*pebble.Iterator, error) {
	return from.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: behind(prefix)})
}

// behind is the first key that doesn't begin with prefix, nil for none.
func behind(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}

// each is the function each, and notes damage.
func (e *engine) each(it *pebble.Iterator, fn func(key, val []byte) (more bool, err error)) error {
	return e.noted(each(it, fn))
}

// each calls fn with the records that it walks, from where it stands on, until fn returns false,
// and closes it. Keys and values are valid only during the call.
func each(it *pebble.Iterator, fn func(key, val []byte) (more bool, err error)) error {
	for ; it.Valid(); it.Next() {
		more := true
		val, err := it.ValueAndErr()
		if err == nil {
			more, err = fn(it.Key(), val)
		}
		if err != nil || !more {
			return errors.Join(err, it.Close())
		}
	}
	return it.Close() // tells why it ended before the last record
}

// err is why nothing can be written any more, or nil.
func (h *health) err() error {
	if e := h.broken.Load(); e != nil {
		return *e
	}
	return nil
}

func (h *health) fail(err error) error {
	if h.broken.CompareAndSwap(nil, &err) {
		h.log.Error("the index store can't write any more; reads go on, and a restart finds what was written before", "error", err)
	}
	return h.err()
}

// Infof is Pebble's word on each flush and compaction.
func (h *health) Infof(format string, v ...any) {
	if h.log.Enabled(context.Background(), slog.LevelDebug) {
		h.log.Debug("pebble: " + strings.TrimSpace(fmt.Sprintf(format, v...)))
	}
}

func (h *health) Errorf(format string, v ...any) {
	h.log.Error("pebble: " + strings.TrimSpace(fmt.Sprintf(format, v...)))
}

// Fatalf is called where Pebble's log or manifest can't be written, or a file's directory has gone,
// and returns then as Pebble's code allows for: whoever waits gets the error. Anything else is an
// assertion that doesn't hold, and what would follow isn't known.
func (h *health) Fatalf(format string, v ...any) {
	const gone = "%+v"
	msg := strings.TrimSpace(fmt.Sprintf(format, v...))
	if format == gone || strings.HasPrefix(msg, "pebble: fatal commit error") || strings.HasPrefix(msg, "MANIFEST ") {
		_ = h.fail(errors.New(msg))
		return
	}
	h.log.Error("the index store ends the process: it is not as it should be", "error", msg)
	panic("index store: " + msg)
}

// logsIn are Pebble's logs.
func logsIn(dir string) []string {
	names, _ := filepath.Glob(filepath.Join(dir, "[0-9]*.log"))
	return names
}

// syncDir makes every commit so far survive a power loss. A log that vanishes under way
// belongs to a memtable whose table and manifest record are on disk already.
func syncDir(dir string, sync func(*os.File) error) error {
	// At once, since one write of the disk's journal may do for both.
	kept := make(chan error, 1)
	go func() { kept <- syncFiles(sync, filepath.Join(dir, keptFile)) }()
	err := syncFiles(sync, logsIn(dir)...)
	if err = cmp.Or(err, <-kept); err != nil {
		return err
	}
	return syncFiles(sync, dir) // the names of the files
}

func syncFiles(sync func(*os.File) error, names ...string) error {
	for _, name := range names {
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
