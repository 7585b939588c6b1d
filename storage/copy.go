package storage

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Exists reports whether there is a store in a directory, be it one that Open refuses, or makes anew.
func Exists(dir string) bool {
	if currentManifest(dir) > 0 || foreign(dir) != "" {
		return true
	}
	records, _, err := readKept(dir)
	return err == nil && len(records) > 0
}

// Damage is why Open would make the store of a directory anew, as far as that shows before it is opened; nil while a
// process has it open.
func Damage(dir string) error {
	if InUse(dir) {
		return nil
	}
	return checkFiles(Options{Dir: dir, BootID: bootID()})
}

// manifestMarker are the files whose names say which manifest is the current one.
const manifestMarker = "marker.manifest.*"

// InUse reports whether a process has the store of a directory open.
func InUse(dir string) bool { return inUse(dir) }

// Copy makes a copy of a store to look at, which may be open in a process: what was committed
// when Copy was called is in it. Its tables are links to the store's, which are never written to again.
// fs.ErrNotExist, there or from Open of the copy: a file has gone meanwhile; try again. records: with
// the second copy of its records, by which Open makes a damaged copy anew.
func Copy(dir, to string, records bool) error {
	if name := foreign(dir); name != "" {
		return foreignFormat(name)
	}
	// Logs first: what moves from them to a table is then in both. The manifest comes before
	// the marker that names it has come to name another.
	patterns := []string{"recent-*.log", "[0-9]*.log", "MANIFEST-*", "marker.*"}
	if records {
		patterns = append(patterns, keptFile)
	}
	for _, pattern := range patterns {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err
		}
		for _, name := range names {
			err := copyFile(name, filepath.Join(to, filepath.Base(name)))
			if errors.Is(err, fs.ErrNotExist) && isLog(name) {
				continue // it is a table now
			}
			if err != nil {
				return err
			}
		}
	}
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil {
		return err
	}
	for _, name := range tables {
		from, err := filepath.Abs(name)
		if err != nil {
			return err
		}
		link := filepath.Join(to, filepath.Base(name))
		if err = os.Link(from, link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			err = os.Symlink(from, link) // in another file system
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// copyFile copies what there is of a file at the call.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	st, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.CopyN(out, in, st.Size())
	return errors.Join(err, out.Close())
}
