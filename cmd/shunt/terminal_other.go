//go:build !unix

package main

import "os"

// size is a terminal's, in characters.
func size(*os.File) (width, height int) { return 120, 40 }
