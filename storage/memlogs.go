package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Badger reads the log of a memtable up to the first record that is not whole, and
// takes that for the end. A damaged one in the midst so takes all that follows with
// it, without a word: entries, definitions, epochs. Then the store is not to be used.
//
// After a power loss it is otherwise: of what was not synced some pages are there and
// some are not, and the write-intents tell what may be lost. So the logs are looked at
// only in the boot of the system in which they were written, which a file tells.

const bootFile = "boot"

// noteBoot says in which boot the store is written from now on.
func noteBoot(o Options) error {
	if o.InMemory || o.BootID == "" {
		return nil
	}
	return os.WriteFile(filepath.Join(o.Dir, bootFile), []byte(o.BootID+"\n"), 0o600)
}

// checkMemLogs looks for damage in the logs that a dead process has left.
func checkMemLogs(o Options) error {
	was, err := os.ReadFile(filepath.Join(o.Dir, bootFile))
	if errors.Is(err, fs.ErrNotExist) || err == nil && (o.BootID == "" || strings.TrimSpace(string(was)) != o.BootID) {
		return nil
	}
	if err != nil {
		return err
	}
	names, err := filepath.Glob(filepath.Join(o.Dir, "*.mem"))
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := checkMemLog(name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

var errDamagedLog = errors.New("the log is damaged")

// checkMemLog looks at one log. Behind what is written it is empty: zeros, or nothing
// where it was read once before.
func checkMemLog(name string) error {
	const head = 20 // before the first record
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || st.Size() <= head {
		return err
	}
	log, err := syscall.Mmap(int(f.Fd()), 0, int(st.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return err
	}
	defer func() { _ = syscall.Munmap(log) }()
	at := head
	for n := memRecord(log[at:]); n > 0; n = memRecord(log[at:]) {
		at += n
	}
	rest := log[at:]
	end := len(rest)
	for end > 0 && rest[end-1] == 0 {
		end--
	}
	switch {
	case end == 0:
		return nil
	case end == len(rest):
		return fmt.Errorf("%w: it ends in the midst of a record, at byte %d", errDamagedLog, at)
	}
	// The last record may have been cut short by the death of the process. Another one
	// behind it shows that it was not the last.
	for i := 1; i < end; i++ {
		if i+2 < end && rest[i+2] != 0 && memRecord(rest[i:]) > 0 { // no key is empty
			return fmt.Errorf("%w at byte %d", errDamagedLog, at)
		}
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// memRecord is the length of the record that b begins with, 0 where there is none:
//
//	meta(1), user meta(1), length of key uvarint, of value uvarint, expiry uvarint, key, value, checksum(4)
func memRecord(b []byte) int {
	const maxKey = 1 << 16
	at := 2
	var sizes [3]uint64
	for i := range sizes {
		if at >= len(b) {
			return 0
		}
		v, n := binary.Uvarint(b[at:min(len(b), at+binary.MaxVarintLen64)])
		if n <= 0 {
			return 0
		}
		sizes[i], at = v, at+n
	}
	if sizes[0] == 0 || sizes[0] > maxKey || sizes[1] > uint64(len(b)) {
		return 0
	}
	end := uint64(at) + sizes[0] + sizes[1]
	if end+crc32.Size > uint64(len(b)) || crc32.Checksum(b[:end], castagnoli) != binary.BigEndian.Uint32(b[end:]) {
		return 0
	}
	return int(end) + crc32.Size
}
