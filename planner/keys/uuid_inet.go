package keys

import (
	"encoding/hex"
	"net/netip"
)

// MariaDB's UUID, INET4 and INET6 are bytes that are read and written as text. Servers
// take more texts for a value than the usual one, and bytes: these are in doubt. The order
// of UUIDs isn't that of their text, and not the same in all versions.

// bytesOf gives the value of the column that a text stands for.
func (c *Codec) bytesOf(text []byte) (value [16]byte, ok bool) {
	switch c.class {
	case classUUID:
		return uuidOf(text)
	case classINET4:
		addr, err := netip.ParseAddr(string(text))
		if err != nil || !addr.Is4() {
			return value, false
		}
		four := addr.As4()
		copy(value[:], four[:])
		return value, true
	default:
		addr, err := netip.ParseAddr(string(text))
		if err != nil || !addr.Is6() || addr.Zone() != "" {
			return value, false
		}
		return addr.As16(), true
	}
}

// uuidOf reads 8-4-4-4-12 hexadecimal digits.
func uuidOf(text []byte) (id [16]byte, ok bool) {
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return id, false
	}
	at := 0
	for _, part := range [][]byte{text[:8], text[9:13], text[14:18], text[19:23], text[24:]} {
		n, err := hex.Decode(id[at:], part)
		if err != nil {
			return id, false
		}
		at += n
	}
	return id, true
}

func (c *Codec) equalBytes(dst []byte, v Value) ([]byte, bool) {
	s := scratches.Get().(*scratch)
	defer s.release()
	var ok bool
	if s.text, ok = decode(s.text[:0], v); !ok {
		return dst, false
	}
	return c.scannedBytes(dst, s.text)
}

func (c *Codec) scannedBytes(dst, raw []byte) ([]byte, bool) {
	value, ok := c.bytesOf(raw)
	if !ok {
		return dst, false
	}
	n := len(value)
	if c.class == classINET4 {
		n = 4
	}
	return appendPlain(dst, value[:n], whole), true
}
