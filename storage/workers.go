package storage

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// WorkerOf names who claims jobs for a process. ProcessOf tells that process, "" if there is none.
func WorkerOf(process string) string { return fmt.Sprintf("%s/%08x", process, rand.Uint32()) }

// ProcessOf is WorkerOf's opposite.
func ProcessOf(worker string) string {
	process, _, ok := strings.Cut(worker, "/")
	if !ok {
		return ""
	}
	return process
}
