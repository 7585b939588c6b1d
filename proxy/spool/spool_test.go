package spool

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// cutter writes what it gets in pieces of random sizes.
type cutter struct {
	random *rand.Rand
	frames frames
	all    bytes.Buffer
}

func (c *cutter) Write(p []byte) (int, error) {
	c.all.Write(p)
	for rest := p; len(rest) > 0; {
		n := 1 + c.random.IntN(min(len(rest), 1+c.random.IntN(1<<22)))
		c.frames.scan(rest[:n])
		rest = rest[n:]
	}
	return len(p), nil
}

// TestFramesOfAnswers: whatever a client's capabilities, it is known of an answer
// that was set aside whether it is one result set, and where its rows lie.
func TestFramesOfAnswers(t *testing.T) {
	t.Parallel()
	long := make([]byte, wire.MaxFrame+10)
	long[wire.MaxFrame] = 0xFF // begins a frame, but no packet
	long[0] = 0
	cols := []wire.Column{wire.TextColumn("a"), wire.IntColumn("b")}
	result := func(rows ...[]byte) func(c *wire.Conn) {
		return func(c *wire.Conn) {
			_ = c.WriteColumns(cols, 2)
			for _, r := range rows {
				_ = c.WritePacket(r)
			}
			_ = c.WriteEnd(2, 5)
		}
	}
	ok := func(c *wire.Conn) { _ = c.WriteOK(wire.OK{Affected: 1, Status: 2}) }
	fail := func(c *wire.Conn) { _ = c.WriteError(mysqlerr.New(mysqlerr.ParseError, "no")) }
	rows := [][]byte{{0, 0, 5}, long, {0, 0, 0xFE}}
	for name, tc := range map[string]struct {
		answer    []func(c *wire.Conn)
		rows      [][]byte
		one, fail bool
	}{
		"rows":         {[]func(*wire.Conn){result(rows...)}, rows, true, false},
		"no rows":      {[]func(*wire.Conn){result()}, nil, true, false},
		"OK":           {[]func(*wire.Conn){ok}, nil, false, false},
		"error":        {[]func(*wire.Conn){fail}, nil, false, true},
		"rows, error":  {[]func(*wire.Conn){func(c *wire.Conn) { _ = c.WriteColumns(cols, 2); _ = c.WritePacket(rows[0]) }, fail}, nil, false, true},
		"two results":  {[]func(*wire.Conn){result(rows...), result(rows...)}, nil, false, false},
		"rows, OK":     {[]func(*wire.Conn){result(rows...), ok}, nil, false, false},
		"nothing":      {nil, nil, false, false},
		"header alone": {[]func(*wire.Conn){func(c *wire.Conn) { _ = c.WriteColumns(cols, 2) }}, nil, false, false},
	} {
		random := rand.New(rand.NewPCG(1, 2))
		for i := range 20 {
			near, _ := net.Pipe()
			c := wire.NewConn(near)
			for bit, capability := range []uint32{mysql.CLIENT_DEPRECATE_EOF, mysql.CLIENT_OPTIONAL_RESULTSET_METADATA} {
				if i>>bit&1 != 0 {
					c.Capabilities |= capability
				}
			}
			c.NoMetadata = i&6 == 6
			out := &cutter{random: random}
			back := c.Divert(out)
			for _, part := range tc.answer {
				part(c)
			}
			e, f := back(), &out.frames
			if f.oneResult(e) != tc.one || f.failed() != tc.fail {
				t.Fatalf("%s: one result %v, failed %v", name, f.oneResult(e), f.failed())
			}
			if !tc.one {
				continue
			}
			var want bytes.Buffer
			w := wire.NewWriter(&want)
			for _, r := range tc.rows {
				_ = w.WritePacket(r)
			}
			_ = w.Flush()
			between := 9
			if i&1 != 0 {
				between = 0
			}
			if got := out.all.Bytes()[e.Rows:e.End]; len(got) != want.Len() || e.Rows-e.Header != int64(between) || e.Warnings != 5 || e.Status != 2 {
				t.Fatalf("%s: %+v, %d bytes of rows, want %d", name, e, len(got), want.Len())
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
	all := New(Options{Dir: dir, MaxBytes: 10 << 20, Room: func() error { return room }})
	chunk := make([]byte, 100_000)
	fill := func(n int) (s *Answer, full int) {
		s = all.New("", func() { full++ })
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
		if got, err := io.ReadAll(s.Section(0, s.size)); err != nil || len(got) != n*len(chunk) || full != 0 || n > 0 && got[(n-1)*len(chunk)] != byte(n-1) {
			t.Errorf("%d chunks: %d bytes, %v, full %d", n, len(got), err, full)
		}
		if inFile := s.file != nil; inFile != (n > 10) {
			t.Errorf("%d chunks: in a file %v", n, inFile)
		}
		s.Drop()
	}
	first, _ := fill(60)
	second, full := fill(60)
	if full != 1 || second.full == nil || second.size != 0 {
		t.Errorf("full %d, %v", full, second.full)
	}
	second.Drop()
	first.Drop()
	room = noRoom
	small, full := fill(5)
	if full != 0 {
		t.Error("memory needs no room on the disk")
	}
	small.Drop()
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
