//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// size is a terminal's, in characters.
func size(f *os.File) (width, height int) {
	if w, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && w.Col > 0 && w.Row > 0 {
		return int(w.Col), int(w.Row)
	}
	return 120, 40
}
