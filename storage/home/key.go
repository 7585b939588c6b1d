package home

import (
	"bytes"
	"crypto/sha512"

	"github.com/shunt-sql/shunt/storage"
)

const (
	// maxKept is the longest key as it is kept, which InnoDB can index. Only keys that were cut
	// are as long as that, so that none is taken for another one.
	maxKept = 3000
	// cutAt is how much of a cut key is its own; its hash follows.
	cutAt = Uncut
)

// Uncut is how much of a key is kept as it is, at least.
const Uncut = 2960

// Kept is a key as it is kept: itself, or its beginning and its hash if it is long. Order stays
// but between keys with the same long beginning. The hash is one that nobody finds two keys for:
// an entry goes when no row has it, and must not be another key's too.
func Kept(key []byte) []byte {
	if len(key) < maxKept {
		return bytesOf(key)
	}
	sum := sha512.Sum512(key)
	return append(append(make([]byte, 0, maxKept), key[:cutAt]...), sum[:maxKept-cutAt]...)
}

// keptRange is a range of kept keys that has all those of the keys in [from, to), nil to being the
// end: a bound that lies among keys with the same long beginning takes them all in.
func keptRange(from, to []byte) (low, high []byte) {
	low, high = bytesOf(from), to
	if len(from) > cutAt {
		low = from[:cutAt]
	}
	if len(to) > cutAt {
		high = after(to[:cutAt])
	}
	return low, high
}

// after is the least key behind all that begin with prefix, nil if none is.
func after(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	for n := len(end); n > 0; n-- {
		if end[n-1] < 0xFF {
			end[n-1]++
			return end[:n]
		}
	}
	return nil
}

// checkKey: storage bounds keys too.
func checkKey(key []byte) error {
	if len(key) > storage.MaxKey {
		return storage.ErrKeyTooLong
	}
	return nil
}
