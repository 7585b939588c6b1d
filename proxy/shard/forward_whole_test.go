package shard

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/proxy/wire"
)

// TestForwardWhole: an answer that comes whole is forwarded as one that comes byte by byte.
func TestForwardWhole(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 3000 {
		var out bytes.Buffer
		w := wire.NewWriter(&out)
		w.SetSequence(1)
		columns := 1 + random.IntN(3)
		packets := [][]byte{{byte(columns)}}
		for range columns {
			col := wire.TextColumn("name")
			packets = append(packets, col.Append(nil))
		}
		status := uint16(random.UintN(4)) << random.UintN(14)
		eof := wire.EOF{Status: status, Warnings: uint16(random.IntN(2))}.Append(nil)
		packets = append(packets, eof)
		for range random.IntN(4) * random.IntN(200) {
			row := []byte(nil)
			for range columns {
				row = wire.AppendLenBytes(row, string(bytes.Repeat([]byte{byte(random.UintN(256))}, random.IntN(40))))
			}
			packets = append(packets, row)
		}
		packets = append(packets, eof)
		if status&mysql.SERVER_MORE_RESULTS_EXISTS != 0 {
			packets = append(packets, wire.OK{}.Append(nil))
		}
		if at := random.IntN(3 * len(packets)); at < len(packets) { // something goes wrong
			packets[at] = [][]byte{{0xFF, 1, 2, '#', '4', '2', '0', '0', '0', 'x'}, {}, {0xFE}, {0}}[random.IntN(4)]
		}
		for _, p := range packets {
			if err := w.WritePacket(p); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		o := ForwardOptions{StatusMask: 3, StatusSet: 2, MoreResults: random.IntN(2) == 0}
		var capabilities uint32
		if random.IntN(2) == 0 {
			capabilities = mysql.CLIENT_DEPRECATE_EOF
		}
		forward := func(src io.Reader) (Summary, []byte, error) {
			to := &kept{}
			dst := wire.NewConn(to)
			dst.Capabilities = capabilities
			dst.Writer().SetSequence(1)
			c := &Conn{nc: &sink{}, r: wire.NewReader(src), w: wire.NewWriter(&sink{}), busy: true}
			c.r.SetSequence(1)
			sum, err := c.Forward(dst, Result, o)
			_ = dst.Flush()
			return sum, to.Bytes(), err
		}
		sum, got, err := forward(bytes.NewReader(out.Bytes()))
		slow, want, slowErr := forward(iotest.OneByteReader(bytes.NewReader(out.Bytes())))
		if sum.Err != nil && slow.Err != nil && *sum.Err == *slow.Err {
			sum.Err, slow.Err = nil, nil
		}
		if sum != slow || (err == nil) != (slowErr == nil) || !bytes.Equal(got, want) {
			at := 0
			for at < min(len(got), len(want)) && got[at] == want[at] {
				at++
			}
			t.Fatalf("%d packets, status %#x, %#x:\n whole %+v, %v: %d bytes\npieces %+v, %v: %d bytes, which differ from %d on: %.40q %.40q",
				len(packets), status, capabilities, sum, err, len(got), slow, slowErr, len(want), at, got[at:], want[at:])
		}
	}
}

// kept is a sink that keeps what it gets.
type kept struct {
	sink
	bytes.Buffer
}

func (k *kept) Write(p []byte) (int, error) { return k.Buffer.Write(p) }
func (k *kept) Read(p []byte) (int, error)  { return k.Buffer.Read(p) }
