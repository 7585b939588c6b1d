package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/table"
)

// checkTables looks at what Badger would take too lightly: without its manifest
// it begins anew and deletes the tables; a table whose index has a wrong
// checksum it leaves out, with the entries in it; at other damage it panics in a
// goroutine of its own. All of that must be an error: an entry that is silently
// missing is a row that is not found.
func checkTables(o badger.Options) error {
	f, err := os.Open(filepath.Join(o.Dir, badger.ManifestFilename))
	if errors.Is(err, fs.ErrNotExist) {
		left, err := filepath.Glob(filepath.Join(o.Dir, "*.sst"))
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("there are tables, and no file %s", badger.ManifestFilename)
		}
		return err
	}
	if err != nil {
		return err
	}
	defer f.Close()
	manifest, _, err := badger.ReplayManifestFile(f, o.ExternalMagicVersion, o)
	if err != nil {
		return err
	}
	for id := range manifest.Tables {
		name := table.NewFilename(id, o.Dir)
		if err := checkTable(name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

var errDamaged = errors.New("the table is damaged")

// checkTable verifies the index at a table's end. From the last byte backwards:
// the length of the checksum in four bytes, the checksum, the length of the
// index in four bytes, the index.
func checkTable(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	end := info.Size()
	before := func(n int64) ([]byte, error) {
		if n < 0 || n > end {
			return nil, errDamaged
		}
		end -= n
		b := make([]byte, n)
		_, err := f.ReadAt(b, end)
		return b, err
	}
	sized := func() ([]byte, error) {
		b, err := before(4)
		if err != nil {
			return nil, err
		}
		return before(int64(int32(binary.BigEndian.Uint32(b))))
	}
	checksum, err := sized()
	if err != nil {
		return err
	}
	index, err := sized()
	if err != nil {
		return err
	}
	if sum, ok := crcOf(checksum); !ok || sum != uint64(crc32.Checksum(index, crc32.MakeTable(crc32.Castagnoli))) {
		return errDamaged
	}
	return nil
}

// crcOf reads Badger's pb.Checksum: field 1 is the algorithm, 0 (CRC-32C) as
// Badger writes tables, and field 2 the sum.
func crcOf(message []byte) (sum uint64, ok bool) {
	for len(message) > 0 {
		field := message[0]
		v, n := binary.Uvarint(message[1:])
		if n <= 0 || field == 0x08 && v != 0 || field != 0x08 && field != 0x10 {
			return 0, false
		}
		if field == 0x10 {
			sum = v
		}
		message = message[1+n:]
	}
	return sum, true
}
