package shard

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/bench/instructions"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// sink is a connection that takes everything.
type sink struct {
	net.Conn
	writes, bytes int
}

func (s *sink) Write(p []byte) (int, error) {
	s.writes++
	s.bytes += len(p)
	return len(p), nil
}
func (s *sink) SetDeadline(time.Time) error      { return nil }
func (s *sink) SetWriteDeadline(time.Time) error { return nil }
func (s *sink) RemoteAddr() net.Addr             { return nil }

// answer is the bytes of a result set of n rows of two columns.
func answer(n int) []byte {
	var out bytes.Buffer
	w := wire.NewWriter(&out)
	w.SetSequence(1)
	col := wire.TextColumn("name")
	col.Schema, col.Table, col.OrgTable, col.OrgName = "shop", "users", "users", "name"
	def := col.Append(nil)
	eof := wire.EOF{Status: mysql.SERVER_STATUS_AUTOCOMMIT}.Append(nil)
	row := wire.AppendLenBytes(wire.AppendLenBytes(nil, "1234567"), strings.Repeat("x", 50))
	for _, p := range [][]byte{{2}, def, def, eof} {
		_ = w.WritePacket(p)
	}
	for range n {
		_ = w.WritePacket(row)
	}
	_ = w.WritePacket(eof)
	_ = w.Flush()
	return out.Bytes()
}

// replay makes a Conn whose server answers the same bytes to each command, and
// a client that takes them.
func replay(b []byte) (step func(o ForwardOptions) (Summary, error), out *sink) {
	src := bytes.NewReader(b)
	out = &sink{}
	c := &Conn{nc: &sink{}, r: wire.NewReader(src), w: wire.NewWriter(&sink{})}
	dst := wire.NewConn(out)
	q := []byte("SELECT id, name FROM users WHERE id = 1234567")
	return func(o ForwardOptions) (Summary, error) {
		src.Reset(b)
		if err := c.Send(mysql.COM_QUERY, q); err != nil {
			return Summary{}, err
		}
		dst.Writer().SetSequence(1)
		sum, err := c.Forward(dst, Result, o)
		if err == nil {
			err = dst.Flush()
		}
		return sum, err
	}, out
}

// Forwarding must allocate nothing and write a buffer at a time. Not parallel:
// it counts all of the process's allocations.
func TestForwardCosts(t *testing.T) {
	const rows = 10_000
	b := answer(rows)
	step, out := replay(b)
	o := ForwardOptions{StatusMask: 3, StatusSet: 2}
	if sum, err := step(o); err != nil || sum.Rows != rows || out.bytes != len(b) {
		t.Fatalf("%+v, %v, %d bytes of %d", sum, err, out.bytes, len(b))
	}
	if max := len(b)/(wire.BufferSize/2) + 2; out.writes > max {
		t.Errorf("%d writes for %d bytes, want %d at most", out.writes, len(b), max)
	}
	allocs := testing.AllocsPerRun(20, func() {
		if _, err := step(o); err != nil {
			t.Fatal(err)
		}
	})
	// Below one for each buffer: a sync.Pool may be emptied at any time.
	if allocs > 3 {
		t.Errorf("%v allocations for %d rows", allocs, rows)
	}
}

// TestForwardInstructions: a relay that does more for an answer, or for a row, is
// noticed. A sixth less was measured.
func TestForwardInstructions(t *testing.T) {
	for rows, most := range map[int]int{1: 2500, 101: 7200} {
		t.Run(fmt.Sprintf("rows=%d", rows), func(t *testing.T) {
			step, _ := replay(answer(rows))
			instructions.Check(t, most, func() {
				if _, err := step(ForwardOptions{StatusMask: 3, StatusSet: 2}); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func BenchmarkForward(b *testing.B) {
	for _, rows := range []int{0, 1, 100, 100_000} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			data := answer(rows)
			step, _ := replay(data)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := step(ForwardOptions{StatusMask: 3, StatusSet: 2}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
