package wire

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"github.com/shunt-sql/shunt/ci/suite"
)

var compressions = map[string]uint32{"zlib": mysql.CLIENT_COMPRESS, "zstd": mysql.CLIENT_ZSTD_COMPRESSION_ALGORITHM}

// packedPair are a Conn whose client has compression, and the client's end.
func packedPair(t testing.TB, capability uint32) (*Conn, *Reader, *Writer, *compressed) {
	t.Helper()
	a, b := net.Pipe()
	t.Cleanup(func() { a.Close(); b.Close() })
	c := NewConn(a)
	c.Capabilities = capability
	c.max = 40 << 20
	if err := c.Begin(); err != nil {
		t.Fatal(err)
	}
	layer := newCompressed(b, capability, 22)
	return c, &Reader{src: layer}, NewWriter(layer), layer
}

// TestCompressed: commands and answers of sizes around all limits, those over 16
// MiB in several frames, which the packets of the layer cut anywhere.
func TestCompressed(t *testing.T) {
	t.Parallel()
	for name, capability := range compressions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, r, w, layer := packedPair(t, capability)
			sizes := []int{1, 40, 45, 46, 47, 1000, BufferSize - 5, BufferSize - 4, BufferSize, maxCompressed, 3 * maxCompressed, MaxFrame - 1, MaxFrame, MaxFrame + 1, 1<<25 + 7}
			random := rand.NewChaCha8([32]byte{1})
			payloads := map[int][2][]byte{}
			for _, n := range sizes {
				noise := make([]byte, n)
				_, _ = random.Read(noise)
				payloads[n] = [2][]byte{bytes.Repeat([]byte("x"), n), noise}
			}
			go func() {
				for _, n := range sizes {
					for _, p := range payloads[n] {
						layer.seq = 0
						w.SetSequence(0)
						_ = w.WritePacket(p)
						_ = w.Flush()
						r.SetSequence(w.Sequence())
						got, err := r.ReadPacket(1 << 30)
						if err != nil || !bytes.Equal(got, p) {
							t.Errorf("%d bytes: the answer has %d: %v", n, len(got), err)
						}
						r.Release()
					}
				}
				c.Close()
			}()
			for _, n := range sizes {
				for _, p := range payloads[n] {
					cmd, rest, err := c.ReadCommand()
					if err != nil {
						t.Fatal(err)
					}
					if got := append([]byte{cmd}, rest...); !bytes.Equal(got, p) {
						t.Fatalf("%d bytes: the command has %d", n, len(got))
					}
					if err := c.WritePacket(p); err != nil {
						t.Fatal(err)
					}
					if err := c.Flush(); err != nil {
						t.Fatal(err)
					}
				}
			}
			if _, _, err := c.ReadCommand(); err == nil {
				t.Error("a command from nobody")
			}
		})
	}
}

// packed makes one packet of the layer.
func packed(seq byte, size int, payload []byte) []byte {
	n := len(payload)
	return append([]byte{byte(n), byte(n >> 8), byte(n >> 16), seq, byte(size), byte(size >> 8), byte(size >> 16)}, payload...)
}

func zlibOf(p []byte) []byte {
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	_, _ = w.Write(p)
	_ = w.Close()
	return b.Bytes()
}

func zstdOf(p []byte) []byte {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		panic(err)
	}
	return w.EncodeAll(p, nil)
}

// TestCompressedHostile: what isn't right ends the connection, whose client is
// told why, and costs no memory.
func TestCompressedHostile(t *testing.T) {
	t.Parallel()
	ping := []byte{100, 0, 0, 0, mysql.COM_QUERY}
	ping = append(ping, strings.Repeat("q", 99)...)
	bomb := append([]byte{0xff, 0xff, 0xff, 0}, make([]byte, 1<<24-20)...)
	for name, capability := range compressions {
		pack := zlibOf
		if name == "zstd" {
			pack = zstdOf
		}
		good := pack(ping)
		flipped := slices.Clone(good)
		flipped[len(flipped)-1] ^= 1
		for what, tc := range map[string]struct {
			bytes []byte
			err   error
			code  uint16
		}{
			"good":            {packed(0, len(ping), good), nil, 0},
			"not compressed":  {packed(0, 0, ping), nil, 0},
			"wrong sequence":  {packed(1, len(ping), good), ErrSequence, 1156},
			"too long":        {packed(0, len(ping)-1, good), ErrCompressed, 1157},
			"too short":       {packed(0, len(ping)+1, good), ErrCompressed, 1157},
			"cut off":         {packed(0, len(ping), good[:len(good)-5]), ErrCompressed, 1157},
			"more behind":     {packed(0, len(ping), append(slices.Clone(good), 0)), ErrCompressed, 1157},
			"wrong checksum":  {packed(0, len(ping), flipped), ErrCompressed, 1157},
			"garbage":         {packed(0, 100, []byte("garbage garbage garbage")), ErrCompressed, 1157},
			"empty":           {packed(0, 0, nil), ErrCompressed, 1157},
			"empty, claiming": {packed(0, 5, nil), ErrCompressed, 1157},
			"bomb":            {packed(0, len(bomb), pack(bomb)), ErrPacketTooLarge, 1153},
		} {
			t.Run(name+" "+what, func(t *testing.T) {
				c, r, _, layer := packedPair(t, capability)
				c.max = 1 << 20
				go func() { _, _ = layer.nc.Write(tc.bytes) }()
				told := make(chan uint16, 1)
				if tc.err != nil {
					go func() {
						layer.seq, r.unnumbered = 1, true
						p, _ := r.ReadPacket(1000)
						e, err := ParseError(p)
						if err != nil {
							e = &Error{}
						}
						told <- e.Code
						layer.nc.Close()
					}()
				}
				_, p, err := c.ReadCommand()
				if err == nil && what == "too short" {
					// The command may be whole before it shows.
					_, _, err = c.ReadCommand()
				}
				if !errors.Is(err, tc.err) || tc.err == nil && err != nil {
					t.Fatalf("error %v, want %v", err, tc.err)
				}
				if tc.err == nil {
					if len(p) != 99 {
						t.Errorf("%d bytes", len(p))
					}
					return
				}
				// What is told after a wrong number can only be guessed at.
				if code := <-told; code != tc.code && !errors.Is(tc.err, ErrSequence) {
					t.Errorf("told %d, want %d", code, tc.code)
				}
			})
		}
	}
}

// TestCompressedBomb: a stream of little that claims much is read in pieces.
func TestCompressedBomb(t *testing.T) {
	for name, capability := range compressions {
		pack := zlibOf
		if name == "zstd" {
			pack = zstdOf
		}
		zeros := make([]byte, 1<<24-1)
		stream := bytes.NewReader(packed(0, len(zeros), pack(zeros)))
		c := newCompressed(nil, capability, 0)
		c.in.src = stream
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var b [1000]byte
		n := 0
		for n < len(zeros) {
			m, err := c.Read(b[:])
			if n += m; err != nil {
				t.Fatalf("%s: after %d bytes: %v", name, n, err)
			}
		}
		runtime.ReadMemStats(&after)
		if _, err := c.Read(b[:]); !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v at the end", name, err)
		}
		limit := uint64(1 << 20)
		if name == "zstd" {
			limit = 40 << 20 // its window
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > limit {
			t.Errorf("%s: %d bytes were allocated", name, got)
		}
	}
}

// TestCompressedSlow: a client that stops in a packet's middle runs into the
// deadline, as everywhere else.
func TestCompressedSlow(t *testing.T) {
	t.Parallel()
	for _, capability := range compressions {
		c, _, _, layer := packedPair(t, capability)
		go func() { _, _ = layer.nc.Write(packed(0, 1000, zlibOf(make([]byte, 1000)))[:9]) }()
		_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		var timeout net.Error
		if _, _, err := c.ReadCommand(); !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("error %v", err)
		}
	}
}

// FuzzCompressed: whatever comes, what is read is what the packets' headers say,
// or an error.
func FuzzCompressed(f *testing.F) {
	suite.Promise(f)
	content := bytes.Repeat([]byte("select "), 20)
	f.Add(true, packed(0, len(content), zlibOf(content)))
	f.Add(false, packed(0, len(content), zstdOf(content)))
	f.Add(false, append(packed(0, 0, content), packed(1, 0, content)...))
	f.Fuzz(func(t *testing.T, z bool, stream []byte) {
		capability := mysql.CLIENT_ZSTD_COMPRESSION_ALGORITHM
		if z {
			capability = mysql.CLIENT_COMPRESS
		}
		c := newCompressed(nil, capability, 0)
		c.in.src = bytes.NewReader(stream)
		want := 0
		for rest, seq := stream, byte(0); len(rest) >= compressedHeader && rest[3] == seq; seq++ {
			n := int(rest[0]) | int(rest[1])<<8 | int(rest[2])<<16
			size := int(rest[4]) | int(rest[5])<<8 | int(rest[6])<<16
			if size == 0 {
				size = n
			}
			want += size
			rest = rest[min(len(rest), compressedHeader+n):]
		}
		n, err := io.Copy(io.Discard, struct{ io.Reader }{c})
		if n > int64(want) || err == nil && n != int64(want) {
			t.Errorf("%d bytes, the headers say %d: %v", n, want, err)
		}
	})
}
