package follow

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
)

// Kind of a change.
type Kind uint8

const (
	Insert Kind = iota
	Update
	Delete
)

func (k Kind) String() string { return [...]string{"insert", "update", "delete"}[k] }

// Rows are changes of a table's rows.
type Rows struct {
	Table *Table
	Kind  Kind

	data          []byte
	first, second []byte // which columns the images have
	partial       bool   // after-images may have parts of JSON documents
	before, after Row
	malformed     error
}

// Row is a row's image.
type Row struct {
	table *Table
	data  []byte
	// spans are where the columns lie in data; of one that isn't there: absent, null or part.
	spans []span
}

type span struct{ from, to int32 }

const (
	absent = -1 - iota
	null
	part
)

// State of a value.
type State uint8

const (
	// Absent: the image doesn't have the column (binlog_row_image is MINIMAL or NOBLOB). It may have
	// any value; in an update's after-image it has that of before.
	Absent State = iota
	// Null is NULL.
	Null
	// Present: there is a text.
	Present
	// Unreadable: there is a value, of which no text can be made (JSON, parts of a JSON document, a
	// character set that isn't known).
	Unreadable
)

// Each calls fn for every change. before is nil of an insert, after of a delete; both are valid for the
// call. Where the log can't be read it stops, and the stream's next event is an Unknown.
func (r *Rows) Each(fn func(before, after *Row) error) error {
	for data := r.data; len(data) > 0; {
		before, after, rest, err := r.change(data)
		if err == nil && len(rest) == len(data) {
			err = errNothing
		}
		if r.malformed = err; err != nil {
			return nil //nolint:nilerr // the stream tells
		}
		if err := fn(before, after); err != nil {
			return err
		}
		data = rest
	}
	return nil
}

// change reads the images of one change.
func (r *Rows) change(data []byte) (before, after *Row, rest []byte, err error) {
	rest = data
	if r.Kind != Insert {
		before = &r.before
		if rest, err = before.read(r.Table, rest, r.first, false); err != nil {
			return nil, nil, nil, err
		}
	}
	if r.Kind != Delete {
		after = &r.after
		present := r.first
		if r.Kind == Update {
			present = r.second
		}
		rest, err = after.read(r.Table, rest, present, r.partial)
	}
	return before, after, rest, err
}

var (
	errShort = errors.New("a row's image ends too early")
	// errNothing: an image of no columns takes no bytes, so that there were no end of them.
	errNothing = errors.New("a row's image has no columns")
)

// read finds the columns of one image in data, and returns what follows it.
func (w *Row) read(t *Table, data, present []byte, partial bool) (rest []byte, err error) {
	w.table, w.spans = t, w.spans[:0]
	var parts []byte // by JSON column: the value is the parts that have changed
	if partial {
		if parts, data, err = partialColumns(t, data); err != nil {
			return nil, err
		}
	}
	count := 0
	for _, b := range present {
		count += bits.OnesCount8(b)
	}
	w.data = data
	at := (count + 7) / 8
	if len(data) < at {
		return nil, errShort
	}
	nulls := data
	there, json := 0, 0
	for i := range t.Columns {
		c := &t.Columns[i]
		isPart := false
		if c.typ == mysql.MYSQL_TYPE_JSON {
			isPart = parts != nil && bit(parts, json)
			json++
		}
		if !bit(present, i) {
			w.spans = append(w.spans, span{absent, absent})
			continue
		}
		isNull := bit(nulls, there)
		there++
		if isNull {
			w.spans = append(w.spans, span{null, null})
			continue
		}
		size := c.size
		if size == 0 {
			if len(data)-at < c.prefix {
				return nil, errShort
			}
			for k := c.prefix - 1; k >= 0; k-- {
				size = size<<8 | int(data[at+k])
			}
			at += c.prefix
		}
		if size > len(data)-at {
			return nil, errShort
		}
		if isPart {
			w.spans = append(w.spans, span{part, part})
		} else {
			w.spans = append(w.spans, span{int32(at), int32(at + size)})
		}
		at += size
	}
	return data[at:], nil
}

// partialColumns reads what precedes an after-image under binlog_row_value_options = PARTIAL_JSON.
func partialColumns(t *Table, data []byte) (parts, rest []byte, err error) {
	const partialJSON = 1
	if len(data) == 0 || data[0] > 250 {
		return nil, nil, errShort
	}
	options, data := data[0], data[1:]
	if options&partialJSON == 0 {
		return nil, data, nil
	}
	n := (t.json + 7) / 8
	if len(data) < n {
		return nil, nil, errShort
	}
	return data[:n], data[n:], nil
}

// clearBeyond clears a bitmap's last bits, which servers set or don't.
func clearBeyond(bitmap []byte, n int) {
	if len(bitmap) > 0 && n%8 != 0 {
		bitmap[len(bitmap)-1] &= 1<<(n%8) - 1
	}
}

func bit(bitmap []byte, i int) bool { return bitmap[i>>3]>>(i&7)&1 != 0 }

func tableID(body []byte) uint64 {
	return uint64(binary.LittleEndian.Uint32(body)) | uint64(binary.LittleEndian.Uint16(body[4:]))<<32
}

// rowsFlags of a rows event.
const withoutForeignKeys = 2

// form is how a rows event is laid out.
type form struct {
	kind                       Kind
	extra, partial, compressed bool
}

var forms = map[replication.EventType]form{
	replication.WRITE_ROWS_EVENTv1:                      {kind: Insert},
	replication.UPDATE_ROWS_EVENTv1:                     {kind: Update},
	replication.DELETE_ROWS_EVENTv1:                     {kind: Delete},
	replication.WRITE_ROWS_EVENTv2:                      {kind: Insert, extra: true},
	replication.UPDATE_ROWS_EVENTv2:                     {kind: Update, extra: true},
	replication.DELETE_ROWS_EVENTv2:                     {kind: Delete, extra: true},
	replication.PARTIAL_UPDATE_ROWS_EVENT:               {kind: Update, extra: true, partial: true},
	replication.MARIADB_WRITE_ROWS_COMPRESSED_EVENT_V1:  {kind: Insert, compressed: true},
	replication.MARIADB_UPDATE_ROWS_COMPRESSED_EVENT_V1: {kind: Update, compressed: true},
	replication.MARIADB_DELETE_ROWS_COMPRESSED_EVENT_V1: {kind: Delete, compressed: true},
}

// rowsHeader is what a rows event begins with.
type rowsHeader struct {
	table *Table
	flags uint16
	rest  []byte
}

func (s *Stream) readRowsHeader(f form, body []byte) (h rowsHeader, err error) {
	const size = 6 + 2
	if len(body) < size {
		return h, errShort
	}
	id := tableID(body)
	h.flags = binary.LittleEndian.Uint16(body[6:])
	h.rest = body[size:]
	if h.table = s.tables[id]; h.table == nil {
		return h, fmt.Errorf("rows of table %d, which the log has not named", id)
	}
	if !f.extra {
		return h, nil
	}
	if len(h.rest) < 2 {
		return h, errShort
	}
	n := int(binary.LittleEndian.Uint16(h.rest))
	if n < 2 || n > len(h.rest) {
		return h, errShort
	}
	h.rest = h.rest[n:]
	return h, nil
}

// readRows prepares s.rows of a rows event's rest.
func (s *Stream) readRows(f form, h rowsHeader) error {
	if len(h.rest) == 0 {
		return errShort
	}
	count, _, n := mysql.LengthEncodedInt(h.rest)
	width := (int(count) + 7) / 8
	if h.rest = h.rest[n:]; int(count) != len(h.table.Columns) || len(h.rest) < width {
		return fmt.Errorf("rows have %d columns, the table %d", count, len(h.table.Columns))
	}
	r := &s.rows
	r.Table, r.Kind, r.partial, r.malformed = h.table, f.kind, f.partial, nil
	r.first, r.second, r.data = h.rest[:width], nil, h.rest[width:]
	if f.kind == Update {
		if len(r.data) < width {
			return errShort
		}
		r.second, r.data = r.data[:width], r.data[width:]
	}
	clearBeyond(r.first, int(count))
	clearBeyond(r.second, int(count))
	if f.compressed {
		var err error
		if r.data, err = s.inflater.inflate(r.data); err != nil {
			return err
		}
	}
	return nil
}
