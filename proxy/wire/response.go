package wire

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/mysqlerr"
)

// OK is the content of an OK packet.
type OK struct {
	Affected, LastInsertID uint64
	Status                 uint16 // mysql.SERVER_STATUS_... flags
	Warnings               uint16
	Info                   string // such as "Rows matched: 1  Changed: 1  Warnings: 0"
}

// Append appends the packet's payload to dst, as it is without SESSION_TRACK.
func (o OK) Append(dst []byte) []byte {
	return o.append(dst, mysql.OK_HEADER, nil)
}

// append appends the payload. header is OK's, or EOF's where it ends rows (and the
// client has DEPRECATE_EOF); changes are those of the session, encoded, and only
// for a client that has SESSION_TRACK; nil for none.
func (o OK) append(dst []byte, header byte, changes []byte) []byte {
	if changes != nil {
		o.Status |= mysql.SERVER_SESSION_STATE_CHANGED
	}
	dst = append(dst, header)
	dst = AppendLenInt(dst, o.Affected)
	dst = AppendLenInt(dst, o.LastInsertID)
	dst = binary.LittleEndian.AppendUint16(dst, o.Status)
	dst = binary.LittleEndian.AppendUint16(dst, o.Warnings)
	// The manual says that without SESSION_TRACK the text runs to the end of
	// the packet; servers and libmysqlclient give it a length all the same.
	if o.Info != "" || changes != nil {
		dst = AppendLenBytes(dst, o.Info)
	}
	if changes != nil {
		dst = AppendLenBytes(dst, changes)
	}
	return dst
}

// ParseOK parses an OK packet's payload.
func ParseOK(p []byte) (o OK, err error) {
	if len(p) == 0 || p[0] != mysql.OK_HEADER {
		return o, ErrMalformed
	}
	var ok1, ok2 bool
	o.Affected, p, ok1 = TakeLenInt(p[1:])
	o.LastInsertID, p, ok2 = TakeLenInt(p)
	if !ok1 || !ok2 || len(p) < 4 {
		return OK{}, ErrMalformed
	}
	o.Status = binary.LittleEndian.Uint16(p)
	o.Warnings = binary.LittleEndian.Uint16(p[2:])
	if p = p[4:]; len(p) > 0 {
		if info, _, ok := TakeLenBytes(p); ok {
			o.Info = string(info)
		}
	}
	return o, nil
}

// EOF is the content of an EOF packet.
type EOF struct{ Warnings, Status uint16 }

// Append appends the packet's payload to dst.
func (e EOF) Append(dst []byte) []byte {
	dst = append(dst, mysql.EOF_HEADER)
	dst = binary.LittleEndian.AppendUint16(dst, e.Warnings)
	return binary.LittleEndian.AppendUint16(dst, e.Status)
}

// ParseEOF parses an EOF packet's payload.
func ParseEOF(p []byte) (EOF, error) {
	if len(p) != 5 || p[0] != mysql.EOF_HEADER {
		return EOF{}, ErrMalformed
	}
	return EOF{Warnings: binary.LittleEndian.Uint16(p[1:]), Status: binary.LittleEndian.Uint16(p[3:])}, nil
}

// Error is the content of an ERR packet.
type Error struct {
	Code    uint16
	State   string // SQLSTATE, five characters
	Message string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%d (%s): %s", e.Code, e.State, e.Message)
}

// Append appends the packet's payload to dst.
func (e *Error) Append(dst []byte) []byte {
	dst = append(dst, mysql.ERR_HEADER)
	dst = binary.LittleEndian.AppendUint16(dst, e.Code)
	state := e.State
	if len(state) != 5 {
		state = "HY000"
	}
	dst = append(dst, '#')
	dst = append(dst, state...)
	return append(dst, e.Message...)
}

// ParseError parses an ERR packet's payload.
func ParseError(p []byte) (*Error, error) {
	if len(p) < 3 || p[0] != mysql.ERR_HEADER {
		return nil, ErrMalformed
	}
	e := &Error{Code: binary.LittleEndian.Uint16(p[1:]), State: "HY000"}
	p = p[3:]
	if len(p) >= 6 && p[0] == '#' {
		e.State, p = string(p[1:6]), p[6:]
	}
	e.Message = string(p)
	return e, nil
}

// Column is a column definition of a result set.
type Column struct {
	Schema, Table, OrgTable, Name, OrgName string
	Charset                                uint16 // collation id
	Length                                 uint32 // display length in bytes
	Type                                   byte   // mysql.MYSQL_TYPE_...
	Flags                                  uint16
	Decimals                               byte
}

// TextCharset is the collation id of the texts that Shunt itself answers:
// utf8mb4_general_ci, which all servers know.
const TextCharset = 45

// TextColumn describes a nullable utf8mb4 string column that Shunt itself
// answers, as in SHOW statements.
func TextColumn(name string) Column {
	return Column{Name: name, Charset: TextCharset, Length: 1024, Type: mysql.MYSQL_TYPE_VAR_STRING, Decimals: 31}
}

// IntColumn describes a nullable BIGINT column.
func IntColumn(name string) Column {
	return Column{Name: name, Charset: 63, Length: 20, Type: mysql.MYSQL_TYPE_LONGLONG, Flags: mysql.BINARY_FLAG}
}

// Append appends the definition's payload to dst.
func (c *Column) Append(dst []byte) []byte {
	dst = AppendLenBytes(dst, "def")
	for _, s := range [...]string{c.Schema, c.Table, c.OrgTable, c.Name, c.OrgName} {
		dst = AppendLenBytes(dst, s)
	}
	dst = append(dst, 0x0C)
	dst = binary.LittleEndian.AppendUint16(dst, c.Charset)
	dst = binary.LittleEndian.AppendUint32(dst, c.Length)
	dst = append(dst, c.Type)
	dst = binary.LittleEndian.AppendUint16(dst, c.Flags)
	return append(dst, c.Decimals, 0, 0)
}

// ParseColumn parses a column definition's payload.
func ParseColumn(p []byte) (c Column, err error) {
	names, p, err := splitColumn(p)
	if err != nil {
		return Column{}, err
	}
	c.Schema, c.Table, c.OrgTable = string(names[1]), string(names[2]), string(names[3])
	c.Name, c.OrgName = string(names[4]), string(names[5])
	c.Charset = binary.LittleEndian.Uint16(p)
	c.Length = binary.LittleEndian.Uint32(p[2:])
	c.Type = p[6]
	c.Flags = binary.LittleEndian.Uint16(p[7:])
	c.Decimals = p[9]
	return c, nil
}

// ColumnType is what a column definition's payload says of its values.
func ColumnType(p []byte) (typ byte, flags uint16, err error) {
	_, p, err = splitColumn(p)
	if err != nil {
		return 0, 0, err
	}
	return p[6], binary.LittleEndian.Uint16(p[7:]), nil
}

// splitColumn cuts a column definition's payload into its names and its part of
// fixed length.
func splitColumn(p []byte) (names [6][]byte, fixed []byte, err error) {
	for i := range names {
		var ok bool
		if names[i], p, ok = TakeLenBytes(p); !ok {
			return names, nil, ErrMalformed
		}
	}
	n, p, ok := TakeLenInt(p)
	if !ok || n < 10 || uint64(len(p)) < n {
		return names, nil, ErrMalformed
	}
	return names, p[:n], nil
}

// WriteOK writes an OK packet.
func (c *Conn) WriteOK(o OK) error {
	if c.vouches != "" {
		o.Info, c.vouches = c.vouches, ""
	}
	o.Warnings -= min(o.Warnings, c.Told)
	c.scratch = o.append(c.scratch[:0], mysql.OK_HEADER, c.changes())
	return c.w.WritePacket(c.scratch)
}

// WriteError writes an ERR packet.
func (c *Conn) WriteError(e mysqlerr.Error) error {
	c.scratch = (*Error)(&e).Append(c.scratch[:0])
	return c.w.WritePacket(c.scratch)
}

// WriteEnd writes what ends rows, or is an answer without any (COM_SET_OPTION): an
// EOF packet, or an OK packet that looks like one.
func (c *Conn) WriteEnd(status, warnings uint16) error {
	if c.changed {
		status |= mysql.SERVER_STATUS_METADATA_CHANGED
		c.changed = false
	}
	warnings -= min(warnings, c.Told)
	if e := c.diverted; e != nil && !e.Ended {
		e.Ended, e.End, e.Status, e.Warnings = true, c.w.total, status, warnings
	}
	if c.Capabilities&mysql.CLIENT_DEPRECATE_EOF != 0 {
		var changes []byte
		if c.diverted == nil {
			changes = c.changes() // else they are told with what is written at last
		}
		o := OK{Status: status, Warnings: warnings}
		c.scratch = o.append(c.scratch[:0], mysql.EOF_HEADER, changes)
	} else {
		c.scratch = EOF{Warnings: warnings, Status: status}.Append(c.scratch[:0])
	}
	return c.w.WritePacket(c.scratch)
}

// changes is what the client is told of its session.
func (c *Conn) changes() []byte {
	if c.Changes == nil || c.Capabilities&mysql.CLIENT_SESSION_TRACK == 0 {
		return nil
	}
	return c.Changes()
}

// Knows says how many columns the client has been told that the next answers have, 0
// for none: where they have others it is told that they have changed. It returns how
// many it knows of by now.
func (c *Conn) Knows(columns int) (before int) {
	before, c.known, c.changed = c.known, columns, false
	return before
}

// WriteCount begins a result set. So many definitions follow, then
// WriteColumnsEnd, rows and WriteEnd.
func (c *Conn) WriteCount(columns int) error {
	c.Answers++
	if c.known > 0 && columns != c.known {
		c.known, c.changed = columns, true
	}
	if c.diverted != nil {
		c.diverted.Results++
	}
	c.scratch = AppendLenInt(c.scratch[:0], uint64(columns))
	if c.Capabilities&mysql.CLIENT_OPTIONAL_RESULTSET_METADATA != 0 {
		// The manual has it before the number; MySQL writes it behind.
		c.scratch = append(c.scratch, c.metadata())
	}
	return c.w.WritePacket(c.scratch)
}

// metadata says whether definitions follow: RESULTSET_METADATA_NONE or _FULL.
func (c *Conn) metadata() byte {
	if c.NoMetadata {
		return 0
	}
	return 1
}

// WriteDefinition writes the payload of a column's definition, to a client that
// wants it.
func (c *Conn) WriteDefinition(p []byte) error {
	if c.NoMetadata {
		return nil
	}
	return c.w.WritePacket(p)
}

// WriteColumnsEnd writes what stands between definitions and rows, if anything
// does.
func (c *Conn) WriteColumnsEnd(status uint16) error {
	if c.changed {
		status |= mysql.SERVER_STATUS_METADATA_CHANGED
	}
	first := c.diverted != nil && c.diverted.Results == 1
	if first {
		c.diverted.Header, c.diverted.Rows = c.w.total, c.w.total
	}
	if c.Capabilities&mysql.CLIENT_DEPRECATE_EOF != 0 {
		return nil
	}
	c.scratch = EOF{Status: status}.Append(c.scratch[:0])
	err := c.w.WritePacket(c.scratch)
	if first {
		c.diverted.Rows = c.w.total
	}
	return err
}

// WriteColumns begins a result set: the number of columns, their definitions
// and what ends these, with status. Rows and WriteEnd follow.
func (c *Conn) WriteColumns(cols []Column, status uint16) error {
	if err := c.WriteCount(len(cols)); err != nil {
		return err
	}
	for i := range cols {
		c.scratch = cols[i].Append(c.scratch[:0])
		if err := c.WriteDefinition(c.scratch); err != nil {
			return err
		}
	}
	return c.WriteColumnsEnd(status)
}

// WriteRow writes one row of the text protocol. Values are nil, string,
// []byte, bool, integers or floats; anything else is written with fmt.
func (c *Conn) WriteRow(row []any) error {
	c.scratch = c.scratch[:0]
	for _, v := range row {
		c.scratch = appendText(c.scratch, v)
	}
	return c.writeScratch()
}

// WriteResult writes a whole text result set: definitions, rows, their end.
func (c *Conn) WriteResult(cols []Column, rows [][]any, status, warnings uint16) error {
	if err := c.WriteColumns(cols, status); err != nil {
		return err
	}
	for _, row := range rows {
		if err := c.WriteRow(row); err != nil {
			return err
		}
	}
	return c.WriteEnd(status, warnings)
}

// WritePacket writes a payload as it is, with the next sequence number.
func (c *Conn) WritePacket(payload []byte) error { return c.w.WritePacket(payload) }

func (c *Conn) writeScratch() error {
	err := c.w.WritePacket(c.scratch)
	if cap(c.scratch) > keptPayload {
		c.scratch = nil
	}
	return err
}

func appendText(dst []byte, v any) []byte {
	var num [32]byte
	switch v := v.(type) {
	case nil:
		return append(dst, 0xFB)
	case string:
		return AppendLenBytes(dst, v)
	case []byte:
		if v == nil {
			return append(dst, 0xFB)
		}
		return AppendLenBytes(dst, v)
	case bool:
		if v {
			return append(dst, 1, '1')
		}
		return append(dst, 1, '0')
	case int:
		return AppendLenBytes(dst, strconv.AppendInt(num[:0], int64(v), 10))
	case int64:
		return AppendLenBytes(dst, strconv.AppendInt(num[:0], v, 10))
	case uint64:
		return AppendLenBytes(dst, strconv.AppendUint(num[:0], v, 10))
	case float64:
		return AppendLenBytes(dst, strconv.AppendFloat(num[:0], v, 'g', -1, 64))
	}
	return AppendLenBytes(dst, fmt.Sprint(v))
}
