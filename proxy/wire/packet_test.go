package wire

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/shunt-sql/shunt/ci/suite"
)

// payload makes n bytes that differ along the way.
func payload(n int) []byte {
	p := make([]byte, n)
	for i := range min(n, 4099) { // a prime: no piece lies where another did
		p[i] = byte(i*7 + i>>8)
	}
	for done := 4099; done < n; done *= 2 {
		copy(p[done:], p[:done])
	}
	return p
}

func TestPacketRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		edge := rapid.SampledFrom([]int{0, 1, 8, 9, BufferSize - 5, BufferSize - 4, BufferSize - 1, BufferSize, BufferSize + 1, 3 * BufferSize})
		sizes := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(0, 300), edge, rapid.IntRange(0, 100_000)), 1, 20).Draw(t, "sizes")
		seq := rapid.Byte().Draw(t, "sequence")
		var wire bytes.Buffer
		w := NewWriter(&wire)
		w.SetSequence(seq)
		for _, n := range sizes {
			if err := w.WritePacket(payload(n)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		var src io.Reader = &wire
		if rapid.Bool().Draw(t, "one byte a read") {
			src = iotest.OneByteReader(src)
		}
		r := NewReader(src)
		r.SetSequence(seq)
		for _, n := range sizes {
			p, err := r.ReadPacket(1 << 20)
			if err != nil {
				t.Fatalf("packet of %d bytes: %v", n, err)
			}
			if !bytes.Equal(p, payload(n)) {
				t.Fatalf("packet of %d bytes came as %d others", n, len(p))
			}
		}
		if _, err := r.ReadPacket(1 << 20); !errors.Is(err, io.EOF) {
			t.Fatalf("at the end: %v, want io.EOF", err)
		}
	})
}

func TestPacketOfSeveralFrames(t *testing.T) {
	t.Parallel()
	for _, n := range []int{MaxFrame - 1, MaxFrame, MaxFrame + 1, 2*MaxFrame + 5} {
		for _, command := range []bool{false, true} {
			var wire bytes.Buffer
			w := NewWriter(&wire)
			want := payload(n)
			var err error
			if command {
				err = w.WriteCommand(want[0], want[1:])
			} else {
				err = w.WritePacket(want)
			}
			if err != nil || w.Flush() != nil {
				t.Fatal(err)
			}
			if frames := n/MaxFrame + 1; wire.Len() != n+4*frames {
				t.Errorf("%d bytes make %d on the wire, want %d frames", n, wire.Len(), frames)
			}
			p, err := NewReader(&wire).ReadPacket(n)
			if err != nil || !bytes.Equal(p, want) {
				t.Errorf("%d bytes: got %d, %v", n, len(p), err)
			}
		}
	}
}

func TestReaderRefuses(t *testing.T) {
	t.Parallel()
	big := append([]byte{0xFF, 0xFF, 0xFF, 0}, payload(MaxFrame)...)
	big = append(big, 0xFF, 0xFF, 0xFF, 1)
	for name, c := range map[string]struct {
		bytes []byte
		max   int
		want  error
	}{
		"nothing":           {nil, 10, io.EOF},
		"half a header":     {[]byte{1, 0}, 10, io.ErrUnexpectedEOF},
		"half a payload":    {[]byte{5, 0, 0, 0, 'a'}, 10, io.ErrUnexpectedEOF},
		"no payload":        {[]byte{5, 0, 0, 0}, 10, io.ErrUnexpectedEOF},
		"too large":         {[]byte{11, 0, 0, 0}, 10, ErrPacketTooLarge},
		"sequence":          {[]byte{1, 0, 0, 3, 'a'}, 10, ErrSequence},
		"half a large one":  {append([]byte{0xFF, 0xFF, 0xFF, 0}, payload(100_000)...), MaxFrame, io.ErrUnexpectedEOF},
		"joined too large":  {big, 2*MaxFrame - 1, ErrPacketTooLarge},
		"second frame gone": {big[:len(big)-4], 2 * MaxFrame, io.ErrUnexpectedEOF},
	} {
		if _, err := NewReader(bytes.NewReader(c.bytes)).ReadPacket(c.max); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// A peer that claims 16 MiB and sends little must not make us allocate 16 MiB.
// Not parallel: it counts all of the process's allocations.
func TestClaimedLengthCostsNothing(t *testing.T) {
	src := append([]byte{0xFE, 0xFF, 0xFF, 0}, payload(3*BufferSize)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := NewReader(bytes.NewReader(src))
	if _, err := r.ReadPacket(MaxFrame); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
		t.Errorf("allocated %d bytes for 48 KiB that came", got)
	}
	if cap(r.joined) > 4*len(src) {
		t.Errorf("buffer of %d bytes for %d that came", cap(r.joined), len(src))
	}
}

// Joining a packet's frames costs at most three times its length: the beginning of a frame that
// came along with its header grows the buffer as the rest does. Not parallel, as above.
func TestJoiningCosts(t *testing.T) {
	const n = 4*MaxFrame - 1
	var wire bytes.Buffer
	w := NewWriter(&wire)
	if err := w.WritePacket(make([]byte, n)); err != nil || w.Flush() != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if p, err := NewReader(&wire).ReadPacket(n); err != nil || len(p) != n {
		t.Fatal(len(p), err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 3*n {
		t.Errorf("allocated %d MiB for %d that came", got>>20, n>>20)
	}
}

func TestWriterFailureSticks(t *testing.T) {
	t.Parallel()
	broken := errors.New("gone")
	w := NewWriter(writerFunc(func([]byte) (int, error) { return 0, broken }))
	if err := w.WritePacket([]byte("x")); err != nil {
		t.Fatal("a small packet is buffered:", err)
	}
	if err := w.Flush(); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if err := w.WritePacket([]byte("x")); !errors.Is(err, broken) || !errors.Is(w.Err(), broken) || !errors.Is(w.Flush(), broken) {
		t.Fatalf("after the failure: %v, %v", err, w.Err())
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// CopyUntilEnd must copy what comes before the first EOF or ERR packet, and
// not take a value of 16 MiB or a continued packet for one.
func TestCopyUntilEnd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.SampledFrom([]byte{0x00, 0x01, 0xFB, 0xFD, 0xFE})
		size := rapid.OneOf(rapid.IntRange(0, 40), rapid.IntRange(BufferSize-20, BufferSize+20), rapid.IntRange(0, 50_000))
		var rows [][]byte
		for range rapid.IntRange(0, 60).Draw(t, "rows") {
			p := payload(size.Draw(t, "size"))
			if len(p) > 0 {
				p[0] = first.Draw(t, "first byte")
				if p[0] == 0xFE && len(p) < 9 {
					p = payload(9)
					p[0] = 0xFE
				}
			}
			rows = append(rows, p)
		}
		end := rapid.SampledFrom([][]byte{
			EOF{Warnings: 1, Status: 2}.Append(nil),
			(&Error{1317, "70100", "interrupted"}).Append(nil),
		}).Draw(t, "end")
		checkCopy(t, rows, end, rapid.Bool().Draw(t, "one byte a read"))
	})
}

func TestCopyOfSeveralFrames(t *testing.T) {
	t.Parallel()
	end := EOF{}.Append(nil)
	for _, n := range []int{MaxFrame - 1, MaxFrame, MaxFrame + 5} {
		row := payload(n)
		row[0] = 0xFE
		if n > MaxFrame {
			// The continuation looks like an EOF packet.
			copy(row[MaxFrame:], end)
		}
		checkCopy(t, [][]byte{[]byte("\x01a"), row, []byte("\x01b")}, end, false)
	}
}

func checkCopy(t interface {
	Helper()
	Fatalf(string, ...any)
}, rows [][]byte, end []byte, slow bool,
) {
	t.Helper()
	var in, out bytes.Buffer
	w := NewWriter(&in)
	w.SetSequence(5)
	for _, p := range rows {
		_ = w.WritePacket(p)
	}
	_ = w.WritePacket(end)
	_ = w.Flush()
	var src io.Reader = bytes.NewReader(in.Bytes())
	if slow {
		src = iotest.OneByteReader(src)
	}
	r := NewReader(src)
	r.SetSequence(5)
	w = NewWriter(&out)
	w.SetSequence(250)
	n, size, err := r.CopyUntilEnd(w)
	if err != nil || n != int64(len(rows)) || size != len(end) {
		t.Fatalf("copied %d of %d packets, end of %d bytes: %v", n, len(rows), size, err)
	}
	if p, err := r.Rest(); err != nil || !bytes.Equal(p, end) {
		t.Fatalf("the end is %q, %v", p, err)
	}
	_ = w.Flush()
	r = NewReader(&out)
	r.SetSequence(250)
	for i, want := range rows {
		p, err := r.ReadPacket(1 << 30)
		if err != nil || !bytes.Equal(p, want) {
			t.Fatalf("packet %d of %d bytes came as %d: %v", i, len(want), len(p), err)
		}
	}
	if _, err := r.ReadPacket(10); !errors.Is(err, io.EOF) {
		t.Fatalf("something follows: %v", err)
	}
}

func FuzzReader(f *testing.F) {
	suite.Promise(f)
	f.Add([]byte{1, 0, 0, 0, 3, 0, 0, 0, 1}, byte(1))
	f.Add([]byte{0xFF, 0xFF, 0xFF, 0, 1}, byte(3))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), byte(2))
	f.Fuzz(func(t *testing.T, b []byte, how byte) {
		var src io.Reader = bytes.NewReader(b)
		if how&1 != 0 {
			src = iotest.OneByteReader(src)
		}
		r := NewReader(src)
		total := 0
		for {
			if how&2 != 0 {
				var out bytes.Buffer
				w := NewWriter(&out)
				_, n, err := r.CopyUntilEnd(w)
				if err != nil {
					return
				}
				if _, err := r.Packet(n, 1<<20); err != nil {
					return
				}
				_ = w.Flush()
				continue
			}
			p, err := r.ReadPacket(1 << 20)
			if err != nil {
				return
			}
			if total += len(p) + 4; total > len(b) {
				t.Fatalf("read %d bytes of %d", total, len(b))
			}
			_, _ = ParseOK(p)
			_, _ = ParseEOF(p)
			_, _ = ParseError(p)
			_, _ = ParseColumn(p)
			_, _ = ParsePrepareOK(p)
		}
	})
}

// A statement is sent as a command of the same bytes.
func TestWriteStatement(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 100, BufferSize - 6, BufferSize - 5, BufferSize - 4, BufferSize, 3*BufferSize + 7, MaxFrame - 2, MaxFrame - 1, MaxFrame, MaxFrame + 5} {
		sql := strings.Repeat("0123456789abcdef", size/16+1)[:size]
		var got, want bytes.Buffer
		for _, x := range []struct {
			to    *bytes.Buffer
			write func(w *Writer) error
		}{
			{&got, func(w *Writer) error { return w.WriteStatement(3, sql) }},
			{&want, func(w *Writer) error { return w.WriteCommand(3, []byte(sql)) }},
		} {
			w := NewWriter(x.to)
			// Something is in the buffer before it.
			for _, err := range []error{w.WritePacket([]byte("before")), x.write(w), w.Flush()} {
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		if !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Errorf("%d bytes: sent %d, want %d", size, got.Len(), want.Len())
		}
	}
}
