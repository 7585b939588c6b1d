package infile

import (
	"bufio"
	"errors"
	"io"

	"github.com/shunt-sql/shunt/planner/plan"
)

// File reads the lines of a file that is loaded, as a server's LOAD DATA
// does (sql_load.cc, READ_INFO), of which it holds one line at a time.
type File struct {
	r    *bufio.Reader
	f    plan.LoadFormat
	line int
	// bytes of all values of the line, and the fields in it.
	buf    []byte
	fields []field
}

// field is one field of a line: the bytes in buf, or NULL.
type field struct {
	start, end int
	null       bool
}

// maxLine bounds a line: what a statement may hold.
const maxLine = 16 << 20

var errLine = errors.New("a line of the file is longer than 16 MiB")

// New reads a file from its beginning.
func New(r io.Reader, f plan.LoadFormat) *File {
	return &File{r: bufio.NewReaderSize(r, 64<<10), f: f}
}

// Line is the number of the line that Next read last, from 1, without those skipped.
func (l *File) Line() int { return l.line }

// Fields is how many fields the line has.
func (l *File) Fields() int { return len(l.fields) }

// Value is a field of the line, valid until Next; null: it is NULL, and what is left of it the text for that.
func (l *File) Value(i int) (v []byte, null bool) {
	f := l.fields[i]
	return l.buf[f.start:f.end], f.null
}

// take consumes a text where it comes next.
func (l *File) take(text string) bool {
	p, _ := l.r.Peek(len(text))
	if string(p) != text {
		return false
	}
	_, _ = l.r.Discard(len(text)) // they were peeked at
	return true
}

// SkipLines leaves out whole lines.
func (l *File) SkipLines(n int) error {
	for range n {
		if _, err := l.skipLine(); err != nil {
			return err
		}
	}
	return nil
}

// skipLine moves to the next line; some: there was something left in this one.
// An escaped line end ends none. io.EOF: there is no next line.
func (l *File) skipLine() (some bool, err error) {
	for !l.take(l.f.LineEnd) {
		c, err := l.r.ReadByte()
		if err == nil && l.f.Escape != 0 && c == l.f.Escape {
			some = true
			_, err = l.r.ReadByte()
		}
		if err != nil {
			return some, err
		}
		some = true
	}
	return some, nil
}

// skipTo moves behind the next occurrence of a text. io.EOF: there is none.
func (l *File) skipTo(text string) error {
	for !l.take(text) {
		if _, err := l.r.ReadByte(); err != nil {
			return err
		}
	}
	return nil
}

// Next reads a line of up to n fields; more are dropped, and extra says so.
// io.EOF ends the file.
func (l *File) Next(n int) (extra bool, err error) {
	l.buf, l.fields = l.buf[:0], l.fields[:0]
	if l.f.LineStart != "" {
		if err := l.skipTo(l.f.LineStart); err != nil {
			return false, err
		}
	}
	if _, err := l.r.Peek(1); err != nil {
		return false, err
	}
	for {
		last, err := l.readField()
		if err != nil {
			return false, err
		}
		if last {
			break
		}
		if len(l.fields) == n {
			// A separator at the line's very end is no field more.
			extra, err = l.skipLine()
			if errors.Is(err, io.EOF) {
				extra = false // a server doesn't mind at the file's end
			} else if err != nil {
				return false, err
			}
			break
		}
	}
	l.line++
	return extra, nil
}

// readField reads one field with what ends it. last: that was the line's end, or
// the file's.
func (l *File) readField() (last bool, err error) {
	f := field{start: len(l.buf)}
	enclosed, foundNull := false, false
	if _, err := l.r.Peek(1); err != nil {
		if errors.Is(err, io.EOF) {
			return true, nil // no field, not an empty one
		}
		return false, err
	}
	done := func(isLast bool) (bool, error) {
		f.end = len(l.buf)
		v := l.buf[f.start:f.end]
		f.null = foundNull && len(v) == 1 || !enclosed && l.f.Enclose != 0 && string(v) == "NULL"
		l.fields = append(l.fields, f)
		return isLast, nil
	}
	if l.f.Enclose != 0 {
		if p, _ := l.r.Peek(1); len(p) == 1 && p[0] == l.f.Enclose {
			_, _ = l.r.Discard(1) // it was peeked at
			enclosed = true
		}
	}
	for {
		if len(l.buf) > maxLine {
			return false, errLine
		}
		if !enclosed {
			switch {
			case l.take(l.f.LineEnd):
				return done(true)
			case l.take(l.f.FieldEnd):
				return done(false)
			}
		}
		c, err := l.r.ReadByte()
		if errors.Is(err, io.EOF) {
			if enclosed {
				// Never closed: a server takes the quote for a part of it.
				l.buf = append(l.buf[:f.start], append([]byte{l.f.Enclose}, l.buf[f.start:]...)...)
				enclosed = false
			}
			return done(true)
		}
		if err != nil {
			return false, err
		}
		switch {
		case l.f.Escape != 0 && c == l.f.Escape:
			e, err := l.r.ReadByte()
			if errors.Is(err, io.EOF) {
				l.buf = append(l.buf, c)
				continue
			}
			if err != nil {
				return false, err
			}
			if e == 'N' {
				foundNull = true
			}
			l.buf = append(l.buf, unescaped(e))
		case enclosed && c == l.f.Enclose:
			if p, _ := l.r.Peek(1); len(p) == 1 && p[0] == c { // doubled
				_, _ = l.r.Discard(1) // it was peeked at
				l.buf = append(l.buf, c)
				continue
			}
			switch {
			case l.take(l.f.LineEnd):
				return done(true)
			case l.take(l.f.FieldEnd):
				return done(false)
			}
			if _, err := l.r.Peek(1); errors.Is(err, io.EOF) {
				return done(true)
			}
			l.buf = append(l.buf, c) // a quote in the midst is a part of it
		default:
			l.buf = append(l.buf, c)
		}
	}
}

func unescaped(c byte) byte {
	switch c {
	case '0':
		return 0
	case 'b':
		return '\b'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'Z':
		return 26
	}
	return c
}
