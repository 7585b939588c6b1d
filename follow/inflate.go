package follow

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zlib"
)

// inflater decompresses MariaDB's events (log_bin_compress), each into the same memory.
type inflater struct {
	r   io.ReadCloser
	out []byte
}

var errTooLarge = errors.New("it is too large to be read")

// inflate reads a byte with the method and the length of a length; that length, big endian, of what follows
// when it is decompressed; and that. (MariaDB, sql/log_event.cc, binlog_buf_uncompress)
func (i *inflater) inflate(data []byte) ([]byte, error) {
	if len(data) == 0 {
		return nil, errShort
	}
	method, n := data[0]>>4&7, int(data[0]&7)
	if data = data[1:]; method != 0 || n > 4 || len(data) < n {
		return nil, errors.New("it is compressed in a way that isn't known")
	}
	size := int(big(data[:n]))
	if size > largestEvent {
		return nil, errTooLarge
	}
	packed := bytes.NewReader(data[n:])
	if i.r == nil {
		r, err := zlib.NewReader(packed)
		if err != nil {
			return nil, fmt.Errorf("decompress: %w", err)
		}
		i.r = r
	} else if err := i.r.(zlib.Resetter).Reset(packed, nil); err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	if cap(i.out) < size {
		i.out = make([]byte, size)
	}
	if _, err := io.ReadFull(i.r, i.out[:size]); err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	return i.out[:size], nil
}
