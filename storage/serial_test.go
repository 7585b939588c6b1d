package storage

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// TestSerial: a life knows all serials that the one before may have told, however it ended, and
// a state of before a write-intent or a definition doesn't know that of it.
func TestSerial(t *testing.T) {
	t.Parallel()
	o := testOpts(t.TempDir())
	at := func(boot string) Options {
		dir := filepath.Join(t.TempDir(), "copy")
		check(t, os.CopyFS(dir, os.DirFS(o.Dir)))
		other := testOpts(dir)
		other.BootID = boot
		return other
	}
	s := openTest(t, o, testOptions{manual: true})
	if s.KnownSerial() != 0 {
		t.Error("a new store knows of serials")
	}
	id := readyIndex(t, s, "i", 1)
	knows := func(what string, serial uint64, snapshot Options, want bool) {
		t.Helper()
		c := openTest(t, snapshot, testOptions{manual: true})
		defer c.Close()
		if got := serial <= c.KnownSerial(); got != want {
			t.Errorf("%s: %d is known: %t, want %t (up to %d)", what, serial, got, want, c.KnownSerial())
		}
		check(t, c.serial.jump(c))
		if c.Serial() <= c.KnownSerial() || c.Serial() <= serial && want {
			t.Errorf("%s: the next life goes on at %d, behind %d", what, c.Serial(), c.KnownSerial())
		}
	}
	for what, write := range map[string]func() (uint64, error){
		"write-intent": func() (uint64, error) { return s.Intend([]Pair{{"shop", "users", 1}}) },
		"definition": func() (uint64, error) {
			err := s.UpdateIndex(id, func(d *IndexRecord) { d.Status = catalog.Disabled })
			return s.Serial(), err
		},
		"next": s.NextSerial,
		"jump": s.JumpSerial,
	} {
		killed, lost := at(o.BootID), at("another boot")
		n, err := write()
		check(t, err)
		knows(what+", killed before", n, killed, false)
		knows(what+", power lost before", n, lost, what == "next")
		knows(what+", killed", n, at(o.BootID), true)
		knows(what+", power lost", n, at("another boot"), true)
	}
	pairs := []Pair{{"shop", "users", 1}}
	n, err := s.Intend(pairs)
	check(t, err)
	if n == 0 {
		t.Error("a pair whose shard isn't told is taken for told")
	}
	s.Told(pairs, 0)
	if again, err := s.Intend(pairs); again == 0 || err != nil {
		t.Errorf("told of an earlier serial: %d, %v", again, err)
	}
	s.Told(pairs, n)
	if again, err := s.Intend(pairs); again != 0 || err != nil {
		t.Errorf("the shard is told again: %d, %v", again, err)
	}
	check(t, s.Close())
	knows("stopped", n, at("another boot"), true)
}

// TestSerialRoom: serials go on over what was paid for.
func TestSerialRoom(t *testing.T) {
	t.Parallel()
	s := openTest(t, testOpts(t.TempDir()), testOptions{manual: true})
	last := s.Serial()
	for range 2*serialRoom + 10 {
		n, err := s.NextSerial()
		check(t, err)
		if n <= last || n > s.serial.limit {
			t.Fatal(n, last, s.serial.limit)
		}
		last = n
	}
}

// TestCopied: files that were copied while they were written to lack what was written
// meanwhile, be they put in another place, or back in their own. What has been closed is as good
// as its original.
func TestCopied(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openTest(t, testOpts(dir), testOptions{})
	readyIndex(t, s, "i", 1)
	check(t, s.Close())
	// written has a process write, and kills it.
	written := func() {
		t.Helper()
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childDir+"="+dir)
		out, err := cmd.StdoutPipe()
		check(t, err)
		check(t, cmd.Start())
		if !bufio.NewScanner(out).Scan() {
			t.Error("it has not written")
		}
		check(t, cmd.Process.Kill())
		_ = cmd.Wait()
	}
	isCopy := func(what, dir string, want bool) {
		t.Helper()
		s, err := Open(testOpts(dir))
		check(t, err)
		if lost, unclean := len(s.Lost()) > 0, len(s.Unclean()) > 0; lost != want || unclean == want || (len(s.OldThreads(1)) == 0) != want {
			t.Errorf("%s: %v lost, %v unclean, left open %v", what, s.Lost(), s.Unclean(), s.OldThreads(1))
		}
		check(t, s.Recovered())
		check(t, s.Close())
	}
	written()
	isCopy("a copy", copyStore(t, dir), true)
	isCopy("the original", dir, false)
	written()
	backup := copyStore(t, dir)
	isCopy("the original again", dir, false)
	written()
	putBack(t, dir, backup)
	isCopy("put back", dir, true)
	written()
	isCopy("settled in", dir, false)

	s, err := Open(testOpts(copyStore(t, dir)))
	check(t, err)
	if len(s.Lost())+len(s.Unclean()) > 0 {
		t.Error("what was closed lacks something")
	}
	check(t, s.Close())
}

// putBack overwrites the files of dir with those of from, which leaves them the numbers that
// they have in the file system, and sets their times, as cp -a does.
func putBack(t *testing.T, dir, from string) {
	t.Helper()
	files, err := os.ReadDir(from)
	check(t, err)
	for _, f := range files {
		raw, err := os.ReadFile(filepath.Join(from, f.Name()))
		check(t, err)
		name := filepath.Join(dir, f.Name())
		check(t, os.WriteFile(name, raw, 0o600))
		st, err := f.Info()
		check(t, err)
		check(t, os.Chtimes(name, st.ModTime(), st.ModTime()))
	}
}
