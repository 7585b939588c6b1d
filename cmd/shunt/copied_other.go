//go:build !linux

package main

import "os"

// identity isn't told here: no copy is noticed.
func identity(*os.File) (string, error) { return "", nil }
