package follow

import (
	"encoding/binary"
	"fmt"
	"hash"
	"hash/crc32"
	"io"

	"github.com/go-mysql-org/go-mysql/replication"
	"github.com/klauspost/compress/zstd"
)

// payload is a compressed transaction (TRANSACTION_PAYLOAD_EVENT), whose events are read while it is
// decompressed: it may hold a gigabyte, compressed.
type payload struct {
	raw    *io.LimitedReader // the event's body without the checksum
	sum    hash.Hash32       // of what was read of the event; nil: it has no checksum
	stream io.Reader         // the packet
	zstd   *zstd.Decoder
}

// largestWindow is how far back compressed data may refer. MySQL's highest level goes to 128 MiB; its
// default level to 2 MiB.
const largestWindow = 128 << 20

func (s *Stream) openPayload(h header) (*payload, error) {
	p := &payload{stream: s.packets}
	var r io.Reader = s.packets
	size := h.size - headerSize
	if s.checks {
		p.sum = crc32.NewIEEE()
		p.sum.Write(s.head[:])
		r = io.TeeReader(r, p.sum)
		size -= checksumSize
	}
	p.raw = &io.LimitedReader{R: r, N: int64(size)}
	if err := p.fields(); err != nil {
		return nil, err
	}
	var err error
	p.zstd, err = zstd.NewReader(p.raw, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(largestWindow))
	if err != nil {
		return nil, fmt.Errorf("open a compressed transaction: %w", err)
	}
	return p, nil
}

// fields reads what precedes the compressed data: type, length and value of each, as lengths are written
// in MySQL's protocol.
func (p *payload) fields() error {
	for {
		typ, err := p.integer()
		if err != nil {
			return err
		}
		if typ == replication.OTW_PAYLOAD_HEADER_END_MARK {
			return nil
		}
		if _, err = p.integer(); err != nil {
			return err
		}
		value, err := p.integer()
		if err != nil {
			return err
		}
		if typ == replication.OTW_PAYLOAD_COMPRESSION_TYPE_FIELD && value != replication.ZSTD {
			return fmt.Errorf("a transaction is compressed in way %d, which isn't known", value)
		}
	}
}

// integer reads a length-encoded integer.
func (p *payload) integer() (uint64, error) {
	var b [8]byte
	if _, err := io.ReadFull(p.raw, b[:1]); err != nil {
		return 0, fmt.Errorf("read a compressed transaction: %w", unexpected(err))
	}
	n := 0
	switch b[0] {
	case 0xfc:
		n = 2
	case 0xfd:
		n = 3
	case 0xfe:
		n = 8
	default:
		return uint64(b[0]), nil
	}
	b[0] = 0
	if _, err := io.ReadFull(p.raw, b[:n]); err != nil {
		return 0, fmt.Errorf("read a compressed transaction: %w", unexpected(err))
	}
	return binary.LittleEndian.Uint64(b[:]), nil
}

// Read reads decompressed events.
func (p *payload) Read(b []byte) (int, error) { return p.zstd.Read(b) }

// end checks the event, of which all has been read.
func (p *payload) end() error {
	p.close()
	if _, err := io.Copy(io.Discard, p.raw); err != nil {
		return err
	}
	if p.sum == nil {
		return nil
	}
	var sum [checksumSize]byte
	if _, err := io.ReadFull(p.stream, sum[:]); err != nil {
		return fmt.Errorf("read a compressed transaction: %w", unexpected(err))
	}
	if binary.LittleEndian.Uint32(sum[:]) != p.sum.Sum32() {
		return fmt.Errorf("%w: a compressed transaction has another checksum", ErrDamaged)
	}
	return nil
}

func (p *payload) close() {
	if p != nil {
		p.zstd.Close()
	}
}
