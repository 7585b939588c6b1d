package storage

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// kept are all records but entries, a second time: in a log of its own, and in memory, of which
// it is made anew where it has become long. Entries can be read from the shards again; what else
// the store knows is nowhere else. There is little of it.
//
// The log has a change before the database does, and Open makes it anew from the database. So
// it is used only where that can't be read: see damage.go.
type kept struct {
	mu      sync.Mutex
	name    string
	f       *os.File
	size    int64
	live    int64 // what of size a new log would have
	records map[string]string
	// withRoom waits where the disk is full.
	withRoom func(func() error) error
}

const (
	keptFile = "records.log"
	// keptSlack is how much longer than needed the log gets.
	keptSlack = 4 << 20
)

// A log's record is
//
//	checksum(4) of the rest, length(4) of the rest, (length of key uvarint, key, 0 | length of value+1 uvarint, value)*
//
// and one that is not whole ends the log: its change is not in the database, or was not synced.
const keptHeader = 8

func appendKept(dst []byte, key, val []byte, deleted bool) []byte {
	dst = append(binary.AppendUvarint(dst, uint64(len(key))), key...)
	if deleted {
		return append(dst, 0)
	}
	return append(binary.AppendUvarint(dst, uint64(len(val))+1), val...)
}

// readKept reads what a log has; fs.ErrNotExist where there is none. whole is false where
// something follows the last record that is whole.
func readKept(dir string) (records map[string]string, whole bool, err error) {
	log, err := os.ReadFile(filepath.Join(dir, keptFile))
	if err != nil {
		return nil, false, err
	}
	records = map[string]string{}
	for len(log) >= keptHeader {
		n := uint64(binary.BigEndian.Uint32(log[4:]))
		if n > uint64(len(log)-keptHeader) {
			break
		}
		rest := log[keptHeader : keptHeader+int(n)]
		if crc32.Checksum(rest, castagnoli) != binary.BigEndian.Uint32(log) {
			break
		}
		if err := applyKept(records, rest); err != nil {
			return nil, false, err
		}
		log = log[keptHeader+int(n):]
	}
	return records, len(log) == 0, nil
}

func applyKept(records map[string]string, changes []byte) error {
	field := func(n uint64) []byte {
		if n > uint64(len(changes)) {
			return nil
		}
		f := changes[:n]
		changes = changes[n:]
		return f
	}
	number := func() (uint64, bool) {
		n, l := binary.Uvarint(changes)
		changes = changes[max(l, 0):]
		return n, l > 0
	}
	for len(changes) > 0 {
		n, ok := number()
		key := field(n)
		m, ok2 := number()
		if !ok || !ok2 || key == nil {
			return errCorrupt
		}
		if m == 0 {
			delete(records, string(key))
			continue
		}
		val := field(m - 1)
		if val == nil {
			return errCorrupt
		}
		records[string(key)] = string(val)
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// openKept makes the log anew of records.
func openKept(dir string, records map[string]string, withRoom func(func() error) error) (*kept, error) {
	k := &kept{name: filepath.Join(dir, keptFile), records: records, withRoom: withRoom}
	return k, k.rewrite()
}

func (k *kept) rewrite() (err error) {
	f, err := os.OpenFile(k.name+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	w := bufio.NewWriter(f)
	var size int64
	for _, key := range slices.Sorted(maps.Keys(k.records)) {
		rec := sealKept(appendKept(make([]byte, keptHeader), []byte(key), []byte(k.records[key]), false))
		size += int64(len(rec))
		if _, err := w.Write(rec); err != nil {
			return err
		}
	}
	if err := errors.Join(w.Flush(), f.Sync()); err != nil {
		return err
	}
	if err := os.Rename(k.name+".new", k.name); err != nil {
		return err
	}
	if k.f != nil {
		_ = k.f.Close() // another one is in its place
	}
	k.f, k.size, k.live = f, size, size
	return nil
}

// sealKept fills in the header.
func sealKept(rec []byte) []byte {
	binary.BigEndian.PutUint32(rec[4:], uint32(len(rec)-keptHeader))
	binary.BigEndian.PutUint32(rec, crc32.Checksum(rec[keptHeader:], castagnoli))
	return rec
}

// add appends changes, which are what appendKept has made behind a header.
func (k *kept) add(rec []byte) error {
	if k == nil || len(rec) <= keptHeader {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := applyKept(k.records, rec[keptHeader:]); err != nil {
		return err
	}
	if k.size > 2*k.live+keptSlack {
		return k.withRoom(k.rewrite)
	}
	sealKept(rec)
	err := k.withRoom(func() error {
		_, err := k.f.WriteAt(rec, k.size)
		return err
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", k.name, err)
	}
	k.size += int64(len(rec))
	return nil
}

func (k *kept) close() error {
	if k == nil {
		return nil
	}
	return errors.Join(k.f.Sync(), k.f.Close())
}

func (k *kept) get(key []byte) []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	if val, ok := k.records[string(key)]; ok {
		return append([]byte{}, val...)
	}
	return nil
}

// scan calls fn with the records under prefix whose keys are greater than behind; nil: all.
func (k *kept) scan(prefix, behind []byte, fn func(key, val []byte) (more bool, err error)) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(k.records)) {
		if !strings.HasPrefix(key, string(prefix)) || behind != nil && key <= string(behind) {
			continue
		}
		if more, err := fn([]byte(key), []byte(k.records[key])); err != nil || !more {
			return err
		}
	}
	return nil
}
