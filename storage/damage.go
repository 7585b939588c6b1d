package storage

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"

	"github.com/cockroachdb/pebble/v2"
)

// Damage of the database heals:
//
//	noticed   at Open, or by a read or a compaction: from then on no lookup is answered, so
//	          that each goes to all shards
//	closed    nobody reads or writes it any more
//	aside     its files are in a directory damaged-<time>, of which only the last is kept
//	anew      another one has all records of kept (kept.go), but that each index has an empty
//	          generation that is being built, and no other
//
// The indexer finds the indexes that are being built, and builds them. A process that dies
// in between leaves no database, or one without records, and a log of records: Open goes on.
//
// Rule void: what a damaged database has of entries is void. It is made anew without them, by this process or,
// since damagedFile is there and synced by then, by the next. So who meets the damage
// as he adds entries, removes some or brings recent ones into the database, is as if he had done so
// (voided), and no statement waits or fails for it; all other records are in kept.
//
// Why no row is missed: an Add that the damage made void is as one that returned just before the
// database was made anew. Its statement is registered, and the build, which begins later, scans
// behind its end. Until the build is done no lookup is answered.
//
// Counter-example for damagedFile before that: an Add returns, its statement creates a row, the machine loses power.
// The next Open reads nothing of the damaged table, and answers lookups without the row's shard.

// damagedFile says that the database is to be made anew.
const damagedFile = "damaged"

// isDamage tells an error of reading from what passes by itself.
func isDamage(err error) bool {
	return pebble.IsCorruptionError(err) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.EIO) || errors.Is(err, errCorrupt)
}

// heal makes the database of a directory anew from records. Nobody has it open.
func heal(o Options, records map[string]string, cause error) error {
	if len(records) == 0 {
		return errors.New("there is no second copy of its records")
	}
	aside, err := setAside(o)
	if err != nil {
		return fmt.Errorf("set damaged files aside: %w", err)
	}
	fresh, err := renewed(records, cause)
	if err != nil {
		return fmt.Errorf("read the second copy of its records: %w", err)
	}
	h := &health{log: o.Logger}
	db, err := pebble.Open(o.Dir, engineOptions(memTableSize, defaultBlockCache, storeFS{FS: osFS, health: h}, h, func(error) {}))
	if err != nil {
		return err
	}
	b := db.NewBatch()
	for key, val := range fresh {
		err = errors.Join(err, b.Set([]byte(key), []byte(val), nil))
	}
	if err = errors.Join(err, b.Commit(pebble.Sync), db.Flush(), db.Close(), h.err()); err != nil {
		return err
	}
	// One that says nothing.
	account, err := openAccount(o)
	if err == nil {
		err = account.close(false)
	}
	if err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(o.Dir, damagedFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	o.Logger.Error("the index store was damaged: it is made anew, and its virtual indexes are built again; reads by them go to all shards until then",
		"error", cause, "damaged_files", aside)
	return nil
}

// setAside moves the database's files out of the way, and removes what was set aside before.
func setAside(o Options) (dir string, err error) {
	entries, err := os.ReadDir(o.Dir)
	if err != nil {
		return "", err
	}
	var names []string
	for _, e := range entries {
		name := e.Name()
		switch {
		case strings.HasPrefix(name, asidePrefix):
			if err := os.RemoveAll(filepath.Join(o.Dir, name)); err != nil {
				return "", err
			}
		case isDatabase(name):
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "", nil
	}
	return SetAside(o.Dir, names...)
}

const asidePrefix = "damaged-"

// SetAside moves damaged files of a store's directory into one below it, which is damaged-<time>.
func SetAside(dir string, names ...string) (to string, err error) {
	to = filepath.Join(dir, asidePrefix+time.Now().UTC().Format("20060102-150405.000"))
	if err := os.MkdirAll(to, 0o700); err != nil {
		return "", err
	}
	for _, name := range names {
		if err := os.Rename(filepath.Join(dir, name), filepath.Join(to, name)); err != nil {
			return "", err
		}
	}
	return to, nil
}

// isDatabase tells Pebble's files, and what counts them.
func isDatabase(name string) bool {
	for _, pattern := range []string{"*.sst", "[0-9]*.log", "MANIFEST-*", "OPTIONS-*", "marker.*", "temporary.*", accountFile} {
		if ok, _ := filepath.Match(pattern, name); ok {
			return true
		}
	}
	return false
}

// renewed are the records of a new database.
func renewed(records map[string]string, cause error) (map[string]string, error) {
	generationKey := string(counterKey(counterGeneration))
	next, _ := binary.Uvarint([]byte(records[generationKey]))
	next = max(next, 1)
	fresh := map[string]string{}
	for key, val := range records {
		switch key[0] {
		case kindGarbage, kindCounts:
			continue
		case kindIndex:
			var d definition
			if err := json.Unmarshal([]byte(val), &d); err != nil {
				return nil, err
			}
			d.renew(uint32(next), cause)
			next++
			raw, err := json.Marshal(d)
			if err != nil {
				return nil, err
			}
			val = string(raw)
		}
		fresh[key] = val
	}
	fresh[generationKey] = string(binary.AppendUvarint(nil, next))
	return fresh, nil
}

// renew leaves an index with an empty generation that is being built.
func (d *definition) renew(generation uint32, cause error) {
	partitions := max(d.Partitions, 1)
	d.Read, d.Move, d.Build = nil, nil, &genRef{generation, partitions}
	if d.Status == catalog.Ready {
		d.Status = catalog.Building
	}
	if d.Status == catalog.Building {
		d.Error = fmt.Sprintf("the index store was damaged (%v); being rebuilt", cause)
	}
}

// hurt notes that the database can't be read. It may be called by Pebble, with locks held.
func (e *engine) hurt(err error) {
	if e.reachable != nil && e.reachable() != nil {
		return // it has gone, and may come back
	}
	if e.damaged.CompareAndSwap(nil, &err) {
		e.health.log.Error("the index store is damaged; reads by virtual indexes go to all shards until it is made anew", "error", err)
		notify(e.wounded)
	}
}

// noted is hurt for errors that tell of damage.
func (e *engine) noted(err error) error {
	if err != nil && isDamage(err) {
		e.hurt(err)
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

// intact returns ErrDamaged, or nil. It costs an atomic load.
func (e *engine) intact() error {
	if err := e.damaged.Load(); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, *err)
	}
	return nil
}

// reading returns ErrDamaged, or has the caller hold use for reading, of what can be read.
func (e *engine) reading() error {
	if !e.use.TryRLock() {
		return ErrDamaged // another one is being put in its place
	}
	if err := e.intact(); err != nil { // it may be closed, where it can't be made anew
		e.use.RUnlock()
		return err
	}
	return nil
}

// voided returns nil where an error of adding or removing entries says that the database they are in is
// damaged, and that is certain to be made anew without them; otherwise the error. again: that has happened
// since, and the call is to be made again. renewals are those of before the call. REQUIRES: use is not held.
func (s *Store) voided(err error, renewals uint64) (again bool, _ error) {
	if !errors.Is(err, ErrDamaged) {
		return false, err
	}
	e := s.db
	e.use.RLock()
	defer e.use.RUnlock()
	cause := e.damaged.Load()
	if cause == nil {
		if again = e.renewals.Load() != renewals; again {
			err = nil
		}
		return again, err // its directory has gone, and may come back
	}
	if s.opt.InMemory {
		return false, err
	}
	if err := e.health.err(); err != nil {
		return false, s.space.fail(err)
	}
	if condemnErr := s.condemn(*cause); condemnErr != nil {
		return false, errors.Join(err, condemnErr)
	}
	return false, nil
}

// condemn has the database be made anew by the next process, should this one not come to it.
// REQUIRES: use is held, and the database is damaged.
func (s *Store) condemn(cause error) error {
	e := s.db
	e.condemning.Lock()
	defer e.condemning.Unlock()
	if e.condemned {
		return nil
	}
	err := s.disk.do(func() error {
		name := filepath.Join(s.opt.Dir, damagedFile)
		if err := os.WriteFile(name, []byte(cause.Error()), 0o600); err != nil {
			return err
		}
		return syncFiles((*os.File).Sync, name, s.opt.Dir)
	})
	e.condemned = err == nil
	return err
}

// mendDamage makes the database anew where it is damaged, until ctx ends.
func (s *Store) mendDamage(ctx context.Context) {
	if s.opt.InMemory {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.db.wounded:
		}
		builds, err := s.replace()
		for _, j := range builds {
			if err == nil {
				_, err = s.Enqueue(j)
			}
		}
		if err != nil {
			s.opt.Logger.Error("the index store is not made anew; reads by virtual indexes go to all shards until it is restarted", "error", err)
		}
	}
}

// replace puts another database in the place of the damaged one. It returns the jobs that build the
// indexes; the indexer would see, too, that they are lacking.
func (s *Store) replace() (builds []Job, err error) {
	e := s.db
	cause := *e.damaged.Load()
	if err := e.health.err(); err != nil {
		return nil, err
	}
	e.use.RLock()
	err = s.condemn(cause)
	e.use.RUnlock()
	if err != nil {
		return nil, err
	}
	s.counting.Lock()
	defer s.counting.Unlock()
	s.change.Lock()
	defer s.change.Unlock()
	e.use.Lock()
	defer e.use.Unlock()
	s.published.close()
	_ = e.Close() // what it says of a damaged one is no news
	_ = errors.Join(e.kept.close(), e.account.close(false))
	e.account = nil
	if err = heal(s.opt, e.kept.records, cause); err == nil {
		err = e.openFiles(s.opt, s.memTable)
	}
	if err != nil {
		return nil, e.health.fail(err) // what kept has in memory is read on
	}
	e.account.of(s.opt)
	s.published.open(e)
	if builds, err = s.renewIndexes(); err != nil {
		return nil, e.health.fail(err)
	}
	e.condemned = false
	e.renewals.Add(1)
	e.damaged.Store(nil)
	return builds, nil
}

// renewIndexes shows what heal has made of the indexes' records. REQUIRES: nothing is read or written.
func (s *Store) renewIndexes() (builds []Job, err error) {
	s.garbage.mu.Lock()
	s.garbage.gens, s.garbage.next = nil, nil
	s.garbage.mu.Unlock()
	for key, val := range s.db.kept.records {
		if key[0] != kindIndex {
			continue
		}
		var d definition
		if err := json.Unmarshal([]byte(val), &d); err != nil {
			return nil, err
		}
		ix := s.find(d.ID)
		if ix == nil {
			continue // its drop is under way
		}
		for _, g := range ix.view.Load().all {
			for _, p := range g.parts {
				p.lost.Store(true)
			}
		}
		s.nextGeneration = max(s.nextGeneration, d.Build.ID+1)
		s.publish(ix, d.IndexRecord, newView(nil, s.newGeneration(*d.Build, nil, true), nil))
		builds = append(builds, Job{Type: BuildIndex, Schema: d.Schema, Table: d.Table, Operation: "DAMAGE", Indexes: []catalog.IndexID{d.ID}, NotBefore: s.opt.Now()})
	}
	return builds, nil
}
