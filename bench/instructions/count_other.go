//go:build !linux || !amd64 || race

package instructions

import (
	"errors"
	"testing"
)

func run(func()) {}

func count(*testing.T) (int, error) {
	return 0, errors.New("instructions are counted on Linux with amd64, without the race detector")
}
