package keys

import "strings"

// A temporal text in MySQL's own form, and nothing looser: the servers also
// read '2024-1-2', '20240102', '2024.01.02', '10:11', '2024-01-02T10:11:12' and
// time zone offsets, each with its own rules by version and column type.

type temporalKind uint8

const (
	dateOnly temporalKind = iota
	dateTime
	timeOnly
)

// moment is a parsed date, datetime or time.
type moment struct {
	kind                   temporalKind
	year, month, day       int
	hour, minute, second   int
	micro                  int
	negative               bool // time only
	fraction               int  // digits after the point, trailing zeros not counted
	hasFraction, zeroParts bool // zeroParts: year, month or day is 0
}

// keyword is the word of m's typed literal.
func (m moment) keyword() string {
	return [...]string{dateOnly: "DATE", dateTime: "TIMESTAMP", timeOnly: "TIME"}[m.kind]
}

// parseTemporal reads YYYY-MM-DD, YYYY-MM-DD HH:MM:SS[.ffffff] and
// [-]HH[H]:MM:SS[.ffffff]. Dates are real ones or have zero parts; times are
// within 838:59:59.
func parseTemporal(s string) (m moment, ok bool) {
	if len(s) >= 10 && s[4] == '-' && s[7] == '-' {
		if m.year, ok = digits(s[0:4]); !ok {
			return m, false
		}
		if m.month, ok = digits(s[5:7]); !ok {
			return m, false
		}
		if m.day, ok = digits(s[8:10]); !ok {
			return m, false
		}
		m.zeroParts = m.year == 0 || m.month == 0 || m.day == 0
		if m.month > 12 || m.day > 31 || !m.zeroParts && m.day > daysIn(m.year, m.month) {
			return m, false
		}
		if len(s) == 10 {
			return m, true
		}
		m.kind = dateTime
		if s[10] != ' ' || !m.clock(s[11:]) || m.hour > 23 {
			return m, false
		}
		return m, true
	}
	m.kind = timeOnly
	s, m.negative = strings.CutPrefix(s, "-")
	if !m.clock(s) || m.hour > 838 {
		return m, false
	}
	return m, true
}

func (m *moment) clock(s string) bool {
	hours, rest, ok := strings.Cut(s, ":")
	if !ok || len(hours) < 2 || len(hours) > 3 || len(hours) == 3 && hours[0] == '0' ||
		len(rest) < 5 || rest[2] != ':' {
		return false
	}
	if m.hour, ok = digits(hours); !ok {
		return false
	}
	if m.minute, ok = digits(rest[0:2]); !ok || m.minute > 59 {
		return false
	}
	if m.second, ok = digits(rest[3:5]); !ok || m.second > 59 {
		return false
	}
	if rest = rest[5:]; rest == "" {
		return true
	}
	if rest[0] != '.' || len(rest) < 2 || len(rest) > 7 {
		return false
	}
	m.hasFraction = true
	n, ok := digits(rest[1:])
	if !ok {
		return false
	}
	for range 7 - len(rest) {
		n *= 10
	}
	m.micro = n
	m.fraction = len(strings.TrimRight(rest[1:], "0"))
	return true
}

func digits(s string) (n int, ok bool) {
	if s == "" || !allDigits(s) {
		return 0, false
	}
	for i := range len(s) {
		n = n*10 + int(s[i]-'0')
	}
	return n, true
}

func daysIn(year, month int) int {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// packed is m as one number in the order of its kind. Dates pack as their
// midnight.
func (m moment) packed() int64 {
	clock := int64((m.hour*60+m.minute)*60+m.second)*1e6 + int64(m.micro)
	if m.kind == timeOnly {
		if m.negative {
			return -clock
		}
		return clock
	}
	return int64((m.year*13+m.month)*32+m.day)*86400e6 + clock
}

// temporalOf reads a literal that surely means the same to every conversion:
// in canonical form, a real date of the years 1000 to 9999, no negative zero.
func temporalOf(v Value) (m moment, ok bool) {
	switch v.kind {
	case kindTemporal:
	case kindString:
		if !asciiSet(v.charset) {
			return m, false
		}
	default: // numbers: 20240102 and its like
		return m, false
	}
	m, ok = parseTemporal(v.text)
	if !ok || m.zeroParts || m.negative && m.packed() == 0 || m.kind != timeOnly && m.year < 1000 {
		return m, false
	}
	return m, true
}

// storedTemporal: what a column with fewer fractional digits than the literal
// holds depends on sql_mode (TIME_TRUNCATE_FRACTIONAL) and on the server.
func (c *Codec) storedTemporal(dst []byte, v Value) ([]byte, bool) {
	m, ok := temporalOf(v)
	if !ok || m.fraction > c.scale {
		return dst, false
	}
	switch c.class {
	case classDate:
		if m.kind == timeOnly || m.hasFraction {
			return dst, false
		}
		m = moment{kind: dateOnly, year: m.year, month: m.month, day: m.day}
	case classDateTime:
		if m.kind == timeOnly { // today's date
			return dst, false
		}
	case classTime:
		if m.kind != timeOnly || !m.fits() {
			return dst, false
		}
	default:
	}
	return appendInt(dst, m.packed()), true
}

// fits reports whether a TIME column can hold m: 838:59:59 is the end.
func (m moment) fits() bool {
	return m.packed() <= 838*3600e6+3599e6 && m.packed() >= -838*3600e6-3599e6
}

func (c *Codec) equalTemporal(dst []byte, v Value, f fraction) ([]byte, bool) {
	m, ok := temporalOf(v)
	if !ok || m.fraction > c.scale && c.class != classDate {
		return dst, false
	}
	switch c.class {
	case classDate:
		if m.kind == timeOnly || m.hasFraction {
			return dst, false
		}
		if m.kind == dateTime {
			// Compared as datetimes: the column's day at midnight.
			midnight := moment{kind: dateOnly, year: m.year, month: m.month, day: m.day}
			if f == refuse && midnight.packed() != m.packed() {
				return dst, false
			}
			m = midnight // the floor, which as a bound covers too much at most
		}
	case classDateTime:
		if m.kind == timeOnly {
			return dst, false
		}
	case classTime:
		if m.kind != timeOnly || !m.fits() {
			return dst, false
		}
	default:
	}
	return appendInt(dst, m.packed()), true
}

func (c *Codec) scannedTemporal(dst, raw []byte) ([]byte, bool) {
	m, ok := parseTemporal(string(raw))
	if !ok {
		return dst, false
	}
	switch {
	case c.class == classDate && m.kind == dateOnly,
		c.class == classDateTime && m.kind == dateTime,
		c.class == classTime && m.kind == timeOnly:
		return appendInt(dst, m.packed()), true
	}
	return dst, false
}
