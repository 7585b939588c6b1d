package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// recentLog is a file of entries, mapped into memory: to write one is to copy it
// there, which is done when it returns, whatever becomes of the process. A system
// call would take ten times as long, and where the servers beside sync their logs
// wait for them.
//
// The file has its blocks from the start, so that a full disk can't be in the way. It ends with
//
//	recentMark, size(8) of the records before, in the machine's order
//
// of which the size is written behind a record, and before records are cleared.
//
// Counter-example without it: a process is killed while it writes a record, of which a part is there
// then. That looked as what a power loss leaves, which lacks what was acknowledged.
type recentLog struct {
	f      *os.File
	mapped []byte // nil until reset
	mem    []byte // of it, for records
	size   int    // up to where mem is not zero
}

// recentLogSize takes what is recent while a flush is under way, and the longest
// keys that there are of one Add at least.
const recentLogSize = 2 << 20

const (
	recentMark = "records:"
	recentRoom = recentLogSize - len(recentMark) - 8
)

func recentName(i int) string { return fmt.Sprintf("recent-%d.log", i) }

// openRecentLog opens the log i of a store and calls add with the records that an
// earlier process has left there. whole is false where some of them may be lacking.
func openRecentLog(o Options, i int, fresh bool, add func(key []byte, pair ShardEpoch)) (l *recentLog, whole bool, err error) {
	name := filepath.Join(o.Dir, recentName(i))
	log, err := os.ReadFile(name)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return nil, false, err
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, false, err
	}
	rest, end := log, -1
	if len(log) == recentLogSize && string(log[recentRoom:recentLogSize-8]) == recentMark {
		end = int(min(binary.NativeEndian.Uint64(log[recentLogSize-8:]), recentLogSize))
		rest = log[:min(end, recentRoom)]
	}
	for key, pair, next := nextRecent(rest); next != nil; key, pair, next = nextRecent(rest) {
		add(key, pair)
		rest = next
	}
	// One without zeros, or without the mark, is of a version that wrote no others.
	whole = len(rest) == 0 && end <= recentRoom || end < 0 && len(log) == recentLogSize && len(bytes.TrimRight(rest, "\x00")) == 0
	return &recentLog{f: f}, whole && (!missing || fresh), nil
}

// reset empties the log. It is not written to meanwhile.
func (l *recentLog) reset() error {
	if l.mem == nil {
		if err := l.allot(); err != nil {
			return fmt.Errorf("empty %s: %w", l.f.Name(), err)
		}
	}
	written := l.mem[:l.size]
	l.grow(-l.size)
	clear(written)
	return nil
}

// grow tells of records that are there, or are to go.
func (l *recentLog) grow(n int) {
	l.size += n
	binary.NativeEndian.PutUint64(l.mapped[recentLogSize-8:], uint64(l.size))
}

// allot fills the file with zeros, which gives it all its blocks, be it one that was
// copied with holes, and maps it.
func (l *recentLog) allot() (err error) {
	empty := make([]byte, recentLogSize)
	copy(empty[recentRoom:], recentMark)
	if _, err := l.f.WriteAt(empty, 0); err != nil {
		return err
	}
	if err := l.f.Truncate(recentLogSize); err != nil {
		return err
	}
	if l.mapped, err = syscall.Mmap(int(l.f.Fd()), 0, recentLogSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED); err == nil {
		l.mem = l.mapped[:recentRoom]
	}
	return err
}

func (l *recentLog) close() error {
	if l == nil {
		return nil
	}
	var err error
	if l.mem != nil {
		err = syscall.Munmap(l.mapped)
		l.mapped, l.mem = nil, nil
	}
	return errors.Join(err, l.f.Close())
}

// A log's record is
//
//	checksum(4) of the rest, length(4) of the rest, shard uvarint, epoch uvarint, record key
//
// and one that is not whole ends the log: its Add did not return.
const recentHeader = 8

// recentOverhead is how much longer than its key a record may be.
const recentOverhead = recentHeader + 2*binary.MaxVarintLen64

// add appends a record.
//
// REQUIRES: room for it.
func (l *recentLog) add(key []byte, pair ShardEpoch) {
	dst := l.mem[l.size:]
	n := recentHeader
	n += binary.PutUvarint(dst[n:], uint64(pair.Shard))
	n += binary.PutUvarint(dst[n:], uint64(pair.Epoch))
	n += copy(dst[n:], key)
	binary.BigEndian.PutUint32(dst[4:], uint32(n-recentHeader))
	binary.BigEndian.PutUint32(dst, crc32.ChecksumIEEE(dst[4:n]))
	l.grow(n)
}

// nextRecent returns the first record of a log and what follows; rest is nil at
// the end.
func nextRecent(log []byte) (key []byte, pair ShardEpoch, rest []byte) {
	if len(log) < recentHeader {
		return nil, pair, nil
	}
	n := uint64(binary.BigEndian.Uint32(log[4:]))
	if n == 0 || n > uint64(len(log)-recentHeader) {
		return nil, pair, nil
	}
	end := recentHeader + int(n)
	if crc32.ChecksumIEEE(log[4:end]) != binary.BigEndian.Uint32(log) {
		return nil, pair, nil
	}
	pair, key, ok := nextPair(log[recentHeader:end])
	if !ok {
		return nil, pair, nil
	}
	return key, pair, log[end:]
}
