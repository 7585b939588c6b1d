package main

import (
	"io"
	"os"
	"path/filepath"
)

// identityFile says which file it is itself: in a copy of data_dir it is another one.
//
// What a copy of a store that is served from, or a backup, knows is of the moment when it was
// made, and its last life may be the one that the shards' records name.
const identityFile = "identity"

// isCopy reports that data_dir was copied since settleIn; the error is fs.ErrNotExist before the first.
func isCopy(dir string) (bool, error) {
	f, err := os.Open(filepath.Join(dir, identityFile))
	if err != nil {
		return false, err
	}
	defer f.Close()
	is, err := identity(f)
	if err != nil {
		return false, err
	}
	said, err := io.ReadAll(f)
	return string(said) != is, err
}

// settleIn makes data_dir an original. Survives a power loss.
func settleIn(dir string) error { return writeSyncedBy(filepath.Join(dir, identityFile), identity) }
