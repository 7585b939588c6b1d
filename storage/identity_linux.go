package storage

import (
	"fmt"
	"io/fs"
	"syscall"
)

func identity(st fs.FileInfo) string {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%d %d.%09d", sys.Ino, sys.Ctim.Sec, sys.Ctim.Nsec)
}
