package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"syscall"

	"github.com/shunt-sql/shunt/storage"
)

// keptFile is a file that holds a map as JSON, by shards' names, and a checksum of the rest under "": older versions of
// Shunt take that for one more shard's.
//
// Counter-example without it: one bit makes a 1 a 9 in the serial up to which a life has told shards. A data_dir
// that was put back would count as one that had told them all.
type keptFile[V any] struct {
	path string
	// sealed is a checksum as a value.
	sealed func(sum string) V
}

// errDamaged: a file isn't what was written to it.
var errDamaged = errors.New("it is damaged")

// read returns what write has written: an empty map without a file, fs.ErrNotExist, and for one that is
// damaged, errDamaged.
func (k keptFile[V]) read() (of map[string]V, err error) {
	text, err := os.ReadFile(k.path)
	switch {
	case errors.Is(err, syscall.EIO):
		return map[string]V{}, fmt.Errorf("%w: %w", errDamaged, err)
	case err != nil:
		return map[string]V{}, err
	}
	if err := json.Unmarshal(text, &of); err != nil {
		return map[string]V{}, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if of == nil {
		return map[string]V{}, fmt.Errorf("%w: it holds null", errDamaged)
	}
	seal, has := of[""]
	delete(of, "")
	if !has {
		return of, nil // an older version's
	}
	sum, err := k.sum(of)
	if err == nil && !reflect.DeepEqual(seal, sum) {
		return map[string]V{}, fmt.Errorf("%w: its checksum is another", errDamaged)
	}
	return of, err
}

func (k keptFile[V]) sum(of map[string]V) (V, error) {
	text, err := json.Marshal(of)
	return k.sealed(fmt.Sprintf("crc32c %08x", crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli)))), err
}

// write keeps a map. Survives a power loss.
func (k keptFile[V]) write(of map[string]V) error {
	sum, err := k.sum(of)
	if err != nil {
		return err
	}
	all := map[string]V{"": sum}
	maps.Copy(all, of)
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return writeSynced(k.path, string(text)+"\n")
}

// setAside moves a damaged file of data_dir out of the way, and tells what follows from that.
func setAside(path, follows string, damage error, log *slog.Logger) error {
	aside, err := storage.SetAside(filepath.Dir(path), filepath.Base(path))
	if err != nil {
		return fmt.Errorf("set the damaged file %s aside: %w", path, err)
	}
	log.Error("a file in data_dir is damaged and set aside: "+follows, "file", path, "error", damage, "damaged_files", aside)
	return nil
}

// writeSynced makes a file that is there as a whole or not at all.
func writeSynced(path, text string) error {
	f, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
