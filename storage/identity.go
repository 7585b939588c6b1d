package storage

import (
	"fmt"
	"os"
	"path/filepath"
)

// identityFile is a file whose identity the store knows: its number in its file system, and
// when it was last changed in any way, which no program that copies files can set. Where it
// isn't so any more the files are a copy, in another place or put back in this one.
//
// The serial tells of copies as well, but not of one whose original was killed before a second
// had passed.
const identityFile = "identity"

// settleIn sees whether the files are a copy; note is to keep what they are from now on.
//
// A copy of a store that wasn't closed may lack what was written while it was made, as after
// a power loss; and the connections that it knows to be left open may be the original's.
func (s *Store) settleIn(copies bool) (note func(*changes) error, err error) {
	nothing := func(*changes) error { return nil }
	if s.opt.InMemory || copies {
		return nothing, nil
	}
	was, err := s.get(counterKey(counterIdentity))
	if err != nil {
		return nil, s.loadError("identity", err)
	}
	name := filepath.Join(s.opt.Dir, identityFile)
	if st, err := os.Stat(name); err == nil && was != nil && identity(st) == string(was) {
		return nothing, nil
	}
	is, err := makeIdentity(name)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", s.opt.Dir, err)
	}
	if was == nil {
		return func(w *changes) error { return w.set(counterKey(counterIdentity), []byte(is)) }, nil
	}
	if s.intents.lose() {
		s.opt.Logger.Warn("data_dir is a copy, made while Shunt served: what was written to lately is taken for lost")
	}
	old := s.threads.disown()
	return func(w *changes) error {
		for _, key := range old {
			if err := w.delete(key); err != nil {
				return err
			}
		}
		return w.set(counterKey(counterIdentity), []byte(is))
	}, nil
}

// makeIdentity makes the file anew.
func makeIdentity(name string) (string, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if _, err := f.WriteString("The index store knows when this file was made: leave it as it is.\n"); err != nil {
		return "", err
	}
	if err := f.Sync(); err != nil {
		return "", err
	}
	st, err := f.Stat()
	if err != nil {
		return "", err
	}
	return identity(st), nil
}
