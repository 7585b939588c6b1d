package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// identityFile says which file it is itself: in a copy of data_dir it is another one.
//
// What a copy of a store that is served from, or a backup, knows is of the moment when it was
// made, and its last life may be the one that the shards' records name.
const identityFile = "identity"

// isCopy reports that data_dir was copied since settleIn, known that there was one.
func isCopy(dir string) (copied, known bool, err error) {
	f, err := os.Open(filepath.Join(dir, identityFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	defer f.Close()
	is, err := identity(f)
	if err != nil {
		return false, false, err
	}
	said, err := io.ReadAll(f)
	return string(said) != is, true, err
}

// settleIn makes data_dir an original. Survives a power loss.
func settleIn(dir string) error { return writeSyncedBy(filepath.Join(dir, identityFile), identity) }
