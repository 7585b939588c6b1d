package proxy

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/shunt-sql/shunt/proxy/wire"
)

// stream puts frames together; n is the payload's length behind its first byte.
func stream(packets ...[]byte) []byte {
	var b bytes.Buffer
	w := wire.NewWriter(&b)
	for _, p := range packets {
		_ = w.WritePacket(p)
	}
	_ = w.Flush()
	return b.Bytes()
}

func TestFramesOfAnswers(t *testing.T) {
	t.Parallel()
	eof := []byte{0xFE, 0, 0, 2, 0}
	def := []byte("\x03def...")
	long := make([]byte, wire.MaxFrame+10)
	long[wire.MaxFrame] = 0xFF // begins a frame, but no packet
	rows := stream([]byte{1}, def, eof, []byte{0, 0, 5}, long, []byte{0, 0, 0xFE}, eof)
	for name, tc := range map[string]struct {
		answer    []byte
		one, fail bool
	}{
		"rows":         {rows, true, false},
		"no rows":      {stream([]byte{1}, def, eof, eof), true, false},
		"OK":           {stream([]byte{0, 1, 0, 2, 0, 0, 0}), false, false},
		"error":        {stream([]byte{0xFF, 1, 2}), false, true},
		"rows, error":  {stream([]byte{1}, def, eof, []byte{0, 0, 5}, []byte{0xFF, 1, 2}), false, true},
		"two results":  {append(bytes.Clone(rows), rows...), false, false},
		"rows, OK":     {append(bytes.Clone(rows), stream([]byte{0, 1, 0, 2, 0, 0, 0})...), false, false},
		"cut off":      {rows[:len(rows)-1], false, false},
		"nothing":      {nil, false, false},
		"header alone": {stream([]byte{1}, def, eof), false, false},
	} {
		random := rand.New(rand.NewPCG(1, 2))
		for range 20 {
			var f frames
			for rest := tc.answer; len(rest) > 0; {
				n := 1 + random.IntN(min(len(rest), 1+random.IntN(1<<22)))
				f.scan(rest[:n])
				rest = rest[n:]
			}
			if f.oneResult() != tc.one || f.failed() != tc.fail {
				t.Fatalf("%s: one result %v, failed %v", name, f.oneResult(), f.failed())
			}
			if tc.one {
				header := int64(len(stream([]byte{1}, def)))
				if f.header != header || f.rows != header+9 || f.last != int64(len(tc.answer)-9) {
					t.Fatalf("%s: header to %d, rows from %d to %d", name, f.header, f.rows, f.last)
				}
			}
		}
	}
}

// TestSpool: what was written is read again, in memory and beyond; what is too
// much is told once, and everything is given back.
func TestSpool(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/cursors"
	noRoom := errors.New("the disk is full")
	var room error
	all := newSpools(SpoolOptions{Dir: dir, MaxBytes: 10 << 20, Room: func() error { return room }})
	chunk := make([]byte, 100_000)
	fill := func(n int) (s *spool, full int) {
		s = &spool{all: all, onFull: func() { full++ }}
		for i := range n {
			chunk[0] = byte(i)
			if _, err := s.Write(chunk); err != nil {
				t.Fatal(err)
			}
		}
		return s, full
	}
	for _, n := range []int{0, 3, 10, 11, 60} {
		s, full := fill(n)
		if got, err := io.ReadAll(s.section(0, s.size)); err != nil || len(got) != n*len(chunk) || full != 0 || n > 0 && got[(n-1)*len(chunk)] != byte(n-1) {
			t.Errorf("%d chunks: %d bytes, %v, full %d", n, len(got), err, full)
		}
		if inFile := s.file != nil; inFile != (n > 10) {
			t.Errorf("%d chunks: in a file %v", n, inFile)
		}
		s.drop()
	}
	first, _ := fill(60)
	second, full := fill(60)
	if full != 1 || second.full == nil || second.size != 0 {
		t.Errorf("full %d, %v", full, second.full)
	}
	second.drop()
	first.drop()
	room = noRoom
	small, full := fill(5)
	if full != 0 {
		t.Error("memory needs no room on the disk")
	}
	small.drop()
	if large, full := fill(20); full != 1 || large.full == nil {
		t.Errorf("a full disk: %d, %v", full, large.full)
	}
	if all.total.Load() != 0 || all.memory.Load() != 0 {
		t.Errorf("%d bytes, %d in memory are never given back", all.total.Load(), all.memory.Load())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("files: %v %v", left, err)
	}
}
