package wire

import (
	"encoding/binary"
)

// copied is what is written while it is wanted.
type copied struct {
	packets []byte
	max     int
	over    bool
}

func (c *copied) add(p []byte) {
	if c.over = c.over || len(c.packets)+len(p) > c.max; !c.over {
		c.packets = append(c.packets, p...)
	}
}

// Copy has what is written be copied, until Copied.
func (c *Conn) Copy(max int) { c.w.copied = &copied{max: max} }

// Copied are the packets that were written since Copy; ok is false where they were more than max bytes, or failed.
func (c *Conn) Copied() (packets []byte, ok bool) {
	x := c.w.copied
	c.w.copied = nil
	return x.packets, !x.over && c.w.err == nil
}

// Form is appended: all of the connection that the packets of a result set depend on. ok is false where it is more than
// can be said, or packets go elsewhere.
func (c *Conn) Form(to []byte) (_ []byte, ok bool) {
	to = binary.LittleEndian.AppendUint32(to, c.Capabilities)
	metadata := byte(0)
	if c.NoMetadata {
		metadata = 1
	}
	return append(to, byte(c.known), byte(c.known>>8), c.w.seq, metadata), c.diverted == nil && !c.changed
}

// WriteCopied writes the packets of an answer that was copied from a connection of the same Form.
func (c *Conn) WriteCopied(packets []byte) error {
	c.Answers++
	c.w.seq = lastSequence(packets) + 1
	return c.w.raw(packets)
}

// lastSequence is the number of the last of some packets.
func lastSequence(packets []byte) (seq uint8) {
	for at := 0; at+headerSize <= len(packets); {
		seq = packets[at+3]
		at += headerSize + (int(packets[at]) | int(packets[at+1])<<8 | int(packets[at+2])<<16)
	}
	return seq
}
