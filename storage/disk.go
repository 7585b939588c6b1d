package storage

import (
	"os"
	"path/filepath"
	"syscall"
)

// allocatedBytes is what the files in dir take of the disk.
func allocatedBytes(dir string) int64 {
	names, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	var n int64
	for _, name := range names {
		fi, err := os.Stat(filepath.Join(dir, name.Name()))
		if err != nil {
			continue
		}
		if st, ok := fi.Sys().(*syscall.Stat_t); ok {
			n += st.Blocks * 512
		}
	}
	return n
}
