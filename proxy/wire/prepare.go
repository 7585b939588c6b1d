package wire

import (
	"encoding/binary"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// PrepareOK is the first packet of the answer to COM_STMT_PREPARE. Parameter
// definitions (if any) and an EOF packet follow, then column definitions (if
// any) and an EOF packet; with DEPRECATE_EOF these are left out.
type PrepareOK struct {
	StatementID     uint32
	Columns, Params uint16
	Warnings        uint16
}

// Append appends the packet's payload to dst.
func (o PrepareOK) Append(dst []byte) []byte {
	dst = append(dst, mysql.OK_HEADER)
	dst = binary.LittleEndian.AppendUint32(dst, o.StatementID)
	dst = binary.LittleEndian.AppendUint16(dst, o.Columns)
	dst = binary.LittleEndian.AppendUint16(dst, o.Params)
	dst = append(dst, 0)
	return binary.LittleEndian.AppendUint16(dst, o.Warnings)
}

// ParsePrepareOK parses the packet's payload.
func ParsePrepareOK(p []byte) (PrepareOK, error) {
	if len(p) < 9 || p[0] != mysql.OK_HEADER {
		return PrepareOK{}, ErrMalformed
	}
	o := PrepareOK{
		StatementID: binary.LittleEndian.Uint32(p[1:]),
		Columns:     binary.LittleEndian.Uint16(p[5:]),
		Params:      binary.LittleEndian.Uint16(p[7:]),
	}
	if len(p) >= 12 {
		o.Warnings = binary.LittleEndian.Uint16(p[10:])
	}
	return o, nil
}

// WritePrepareOK writes the whole answer to COM_STMT_PREPARE. params and
// columns are definitions' payloads (as a shard sent them, or made by
// Column.Append); their numbers are those told to the client, whatever o says.
func (c *Conn) WritePrepareOK(o PrepareOK, params, columns [][]byte, status uint16) error {
	o.Params, o.Columns = uint16(len(params)), uint16(len(columns))
	c.scratch = o.Append(c.scratch[:0])
	if c.Capabilities&mysql.CLIENT_OPTIONAL_RESULTSET_METADATA != 0 {
		c.scratch = append(c.scratch, c.metadata())
	}
	if err := c.w.WritePacket(c.scratch); err != nil {
		return err
	}
	for _, defs := range [2][][]byte{params, columns} {
		if len(defs) == 0 {
			continue
		}
		for _, d := range defs {
			if err := c.WriteDefinition(d); err != nil {
				return err
			}
		}
		if err := c.WriteColumnsEnd(status); err != nil {
			return err
		}
	}
	return nil
}
