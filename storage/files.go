package storage

import (
	"errors"
	"hash/crc32"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// storeFS is the file system as Pebble is to see it.
//
// Of its logs, Pebble waits for a sync where a commit is to be waited for at all: behind a commit
// without one, what is committed is still in the process, and dies with it. So Sync of a log
// returns when the write has, and syncDir is what syncs. A log that another one follows is
// synced before, so that a power loss takes the last commits only.
//
// Logs are written from the first byte on to files that are new, and grow: how long one is tells
// how much was written.
//
// What is written to a full disk waits for room: a write of Pebble's that fails is the last one
// until a restart.
type storeFS struct {
	vfs.FS
	health *health
	// account is nil for none.
	account *account
}

var osFS = vfs.Default

func (s storeFS) Create(name string, c vfs.DiskWriteCategory) (f vfs.File, err error) {
	err = s.withRoom(func() error {
		f, err = s.FS.Create(name, c)
		return err
	})
	if err != nil {
		return nil, err
	}
	made := &file{File: f, fs: s}
	if counted(name) {
		made.name = name
		s.account.set(name, 0, 0)
	}
	if strings.HasPrefix(filepath.Base(name), "marker.manifest.") {
		s.account.manifest(manifestNumber(name))
	}
	if isLog(name) {
		return logFile{made}, nil
	}
	return made, nil
}

func (s storeFS) Remove(name string) error {
	s.account.forget(name)
	return s.FS.Remove(name)
}

// withRoom repeats do while the disk is full. What else fails isn't repeated at once: Pebble
// tries flushes and compactions for ever.
func (s storeFS) withRoom(do func() error) error {
	told := false
	for {
		err := do()
		if err == nil || !s.health.serving.Load() {
			return err
		}
		if isFull(err) && !told {
			s.health.log.Error("the index store's disk is full: its writes wait for room", "error", err)
			told = true
		}
		select {
		case <-s.health.ended:
			return err
		case <-time.After(spacePeriod):
		}
		if !isFull(err) {
			return err
		}
	}
}

func (s storeFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := s.Remove(old); err != nil {
		return nil, err
	}
	return s.Create(name, c)
}

func (s storeFS) Unwrap() vfs.FS { return s.FS }

func isLog(name string) bool {
	base := filepath.Base(name)
	return strings.HasSuffix(base, ".log") && base[0] >= '0' && base[0] <= '9'
}

// file is one that Pebble writes.
type file struct {
	vfs.File
	fs storeFS
	// name is empty where it isn't accounted for. length and sum are those of what was written.
	name   string
	length uint64
	sum    uint32
}

func (f *file) Write(b []byte) (n int, err error) {
	err = f.fs.withRoom(func() error {
		m, err := f.File.Write(b[n:])
		n += m
		return err
	})
	if f.name != "" {
		f.length += uint64(n)
		f.sum = crc32.Update(f.sum, castagnoli, b[:n])
		f.fs.account.set(f.name, f.length, f.sum)
	}
	return n, err
}

func (*file) Preallocate(int64, int64) error { return nil }

// logFile is one of Pebble's logs.
type logFile struct{ *file }

func (logFile) Sync() error                { return nil }
func (logFile) SyncData() error            { return nil }
func (logFile) SyncTo(int64) (bool, error) { return false, nil }

func (f logFile) Close() error { return errors.Join(f.File.Sync(), f.File.Close()) }

// isFull tells an error for lack of room.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
