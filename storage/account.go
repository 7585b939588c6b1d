package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// account says what was written to Pebble's logs and manifests: of each, how long it is at least
// and the checksum of that. Pebble reads them up to the first record that isn't whole, and doesn't
// miss a file that has gone: what follows would be lost without a word.
//
// It is a file that is mapped into memory, and so right after the death of the process. After a power
// loss it isn't, nor in a copy of the files: then Pebble's own checks must do, and the write-intents
// tell what may be lost.
//
//	head   64 bytes: magic, 1 where the store was closed, number of the current manifest,
//	       checksum of the boot's ID and of the identity (identity.go) that it is of
//	slots  two copies of: count, length, checksum of the file's beginning, of these; and the file's
//	       name. A change is written to the older copy, so that one is always whole
type account struct {
	mu    sync.Mutex
	f     *os.File
	mem   []byte
	slots map[string]int // by name
}

const (
	accountFile  = "account"
	accountMagic = 0x53484e54_41434331
	accountHead  = 64
	accountSlot  = 128
	accountSlots = 256
	accountSize  = accountHead + accountSlots*accountSlot
	// In a slot: two copies, and the name.
	accountCopy = 32
	accountName = 2 * accountCopy
)

// counted tells the files that are accounted for.
func counted(name string) bool {
	return isLog(name) || strings.HasPrefix(filepath.Base(name), "MANIFEST-")
}

var errUnaccounted = errors.New("its files are not as they were written")

// stamp is what an account is of.
func stamp(o Options) uint64 {
	if o.copies {
		return 1
	}
	st, err := os.Stat(filepath.Join(o.Dir, identityFile))
	if err != nil || o.BootID == "" {
		return 0
	}
	return checksumOf(identity(st))
}

func checksumOf(text string) uint64 {
	b := []byte(text)
	return uint64(crc32.ChecksumIEEE(b))<<32 | uint64(crc32.Checksum(b, castagnoli))
}

// checkAccount compares a directory's files with what its account says, where that is right.
func checkAccount(o Options) error {
	mem, err := os.ReadFile(filepath.Join(o.Dir, accountFile))
	if errors.Is(err, fs.ErrNotExist) {
		if _, _, err := readKept(o.Dir); errors.Is(err, fs.ErrNotExist) {
			return nil // of another program
		}
		return fmt.Errorf("%w: there is no file %s", errUnaccounted, accountFile)
	}
	if err != nil {
		return err
	}
	if len(mem) != accountSize || binary.LittleEndian.Uint64(mem) != accountMagic {
		return fmt.Errorf("%w: file %s", errUnaccounted, accountFile)
	}
	closed, manifest := binary.LittleEndian.Uint64(mem[8:]) == 1, binary.LittleEndian.Uint64(mem[16:])
	boot, of := binary.LittleEndian.Uint64(mem[24:]), binary.LittleEndian.Uint64(mem[32:])
	if !closed && (o.BootID == "" || boot != checksumOf(o.BootID)) || of == 0 || of != stamp(o) {
		return nil
	}
	if current := currentManifest(o.Dir); current < manifest {
		return fmt.Errorf("%w: the manifest is number %d, and was %d", errUnaccounted, current, manifest)
	}
	for i := range accountSlots {
		slot := mem[accountHead+i*accountSlot:][:accountSlot]
		name := string(bytes.TrimRight(slot[accountName:], "\x00"))
		if name == "" {
			continue
		}
		_, length, sum, ok := readSlot(slot)
		if !ok {
			return fmt.Errorf("%w: file %s", errUnaccounted, accountFile)
		}
		is, err := checksumFile(filepath.Join(o.Dir, filepath.Base(name)), length)
		if err != nil {
			return fmt.Errorf("%w: %w", errUnaccounted, err)
		}
		if is != sum {
			return fmt.Errorf("%w: file %s", errUnaccounted, name)
		}
	}
	return nil
}

func checksumFile(name string, length uint64) (uint32, error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	h := crc32.New(castagnoli)
	_, err = io.CopyN(h, f, int64(length))
	return h.Sum32(), err
}

// currentManifest is what the markers name, 0 for none.
func currentManifest(dir string) (number uint64) {
	names, _ := filepath.Glob(filepath.Join(dir, manifestMarker))
	for _, name := range names {
		number = max(number, manifestNumber(name))
	}
	return number
}

func manifestNumber(marker string) (number uint64) {
	if at := strings.LastIndex(marker, "MANIFEST-"); at >= 0 {
		_, _ = fmt.Sscanf(marker[at:], "MANIFEST-%d", &number)
	}
	return number
}

// readSlot is the later of a slot's copies that are whole.
func readSlot(slot []byte) (count, length uint64, sum uint32, ok bool) {
	for i := range 2 {
		c := slot[i*accountCopy:][:accountCopy]
		if crc32.Checksum(c[:20], castagnoli) != binary.LittleEndian.Uint32(c[20:]) {
			continue
		}
		if n := binary.LittleEndian.Uint64(c); !ok || n > count {
			count, length, sum, ok = n, binary.LittleEndian.Uint64(c[8:]), binary.LittleEndian.Uint32(c[16:]), true
		}
	}
	return count, length, sum, ok
}

// openAccount begins an account for the files that there are. They have been looked at.
func openAccount(o Options) (a *account, err error) {
	f, err := os.OpenFile(filepath.Join(o.Dir, accountFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	a = &account{f: f, slots: map[string]int{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	// All blocks, so that a full disk is not SIGBUS. What it said is void.
	if _, err := f.WriteAt(make([]byte, accountSize), 0); err != nil {
		return nil, err
	}
	if err := errors.Join(f.Truncate(accountSize), f.Sync()); err != nil {
		return nil, err
	}
	a.mem, err = syscall.Mmap(int(f.Fd()), 0, accountSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	names, _ := filepath.Glob(filepath.Join(o.Dir, "MANIFEST-*"))
	for _, name := range append(names, logsIn(o.Dir)...) {
		st, err := os.Stat(name)
		if err != nil {
			return nil, err
		}
		sum, err := checksumFile(name, uint64(st.Size()))
		if err != nil {
			return nil, err
		}
		a.set(name, uint64(st.Size()), sum)
	}
	binary.LittleEndian.PutUint64(a.mem[16:], currentManifest(o.Dir))
	binary.LittleEndian.PutUint64(a.mem[24:], checksumOf(o.BootID))
	binary.LittleEndian.PutUint64(a.mem, accountMagic)
	return a, nil
}

// of says whose account it is: from here on it counts.
func (a *account) of(o Options) {
	if a != nil {
		binary.LittleEndian.PutUint64(a.mem[32:], stamp(o))
	}
}

// set says what a file has, which is new where it isn't accounted for.
func (a *account) set(name string, length uint64, sum uint32) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	name = filepath.Base(name)
	at, known := a.slots[name]
	if !known {
		for at = 0; at < accountSlots && a.mem[accountHead+at*accountSlot+accountName] != 0; at++ {
		}
		if at == accountSlots || len(name) > accountSlot-accountName {
			return // so many there never are
		}
		clear(a.mem[accountHead+at*accountSlot:][:accountSlot])
		a.slots[name] = at
	}
	slot := a.mem[accountHead+at*accountSlot:][:accountSlot]
	count, _, _, _ := readSlot(slot)
	c := slot[int((count+1)%2)*accountCopy:][:accountCopy]
	binary.LittleEndian.PutUint64(c, count+1)
	binary.LittleEndian.PutUint64(c[8:], length)
	binary.LittleEndian.PutUint32(c[16:], sum)
	binary.LittleEndian.PutUint32(c[20:], crc32.Checksum(c[:20], castagnoli))
	if !known {
		copy(slot[accountName:], name) // the last, since it makes it count
	}
}

// forget says that a file is about to go.
func (a *account) forget(name string) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if at, known := a.slots[filepath.Base(name)]; known {
		clear(a.mem[accountHead+at*accountSlot+accountName:][:accountSlot-accountName])
		delete(a.slots, filepath.Base(name))
	}
}

// manifest says which is the current one.
func (a *account) manifest(number uint64) {
	if a != nil && number > 0 {
		binary.LittleEndian.PutUint64(a.mem[16:], number)
	}
}

// close says, where it is told so, that all there is was written and is synced.
func (a *account) close(whole bool) error {
	if a == nil {
		return nil
	}
	var err error
	if whole {
		binary.LittleEndian.PutUint64(a.mem[8:], 1)
	}
	err = errors.Join(a.f.Sync(), syscall.Munmap(a.mem), a.f.Close())
	a.mem = nil
	return err
}
