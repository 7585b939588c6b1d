package proxy

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/shunt-sql/shunt/planner/plan"
)

// appendRow appends a row of GatherRef.Select as a row of VALUES.
func appendRow(dst []byte, cols []plan.GatherColumn, row [][]byte) ([]byte, error) {
	if len(row) != len(cols) {
		return dst, fmt.Errorf("shard answered %d columns instead of %d", len(row), len(cols))
	}
	dst = append(dst, '(')
	for i, v := range row {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendLiteral(dst, &cols[i], v); err != nil {
			return dst, fmt.Errorf("copy column %s: %w", cols[i].Name, err)
		}
	}
	return append(dst, ')'), nil
}

// appendLiteral writes a value as the scratch connection reads it back: with
// backslash escapes, in utf8mb4.
func appendLiteral(dst []byte, c *plan.GatherColumn, v []byte) ([]byte, error) {
	if v == nil {
		return append(dst, "NULL"...), nil
	}
	switch c.Form {
	case plan.FormNumber:
		return append(dst, v...), nil
	case plan.FormDouble:
		dst = append(dst, v...)
		if !bytes.ContainsAny(v, "eE") {
			dst = append(dst, "e0"...) // or it would be a DECIMAL, in which -0 is 0
		}
		return dst, nil
	case plan.FormBytes, plan.FormEncoded:
		// A binary string is stored in a text column byte by byte.
		dst = hex.AppendEncode(append(dst, "X'"...), v)
		return append(dst, '\''), nil
	case plan.FormJSON:
		if len(v) == 0 {
			return dst, refuse("copying a JSON value of column %s that holds more than its text says (a date or a decimal that a function has put there) to another server is not supported: leave the column out, or ask each shard", c.Name)
		}
		return appendQuoted(dst, v), nil
	case plan.FormInstant:
		return appendInstant(dst, v)
	default: // FormText, FormPlain
		return appendQuoted(dst, v), nil
	}
}

func appendQuoted(dst, v []byte) []byte {
	dst = append(dst, '\'')
	for {
		i := bytes.IndexAny(v, `'\`)
		if i < 0 {
			break
		}
		dst = append(append(dst, v[:i]...), '\\', v[i])
		v = v[i+1:]
	}
	return append(append(dst, v...), '\'')
}

// appendInstant writes UNIX_TIMESTAMP's answer as a TIMESTAMP in UTC.
func appendInstant(dst, v []byte) ([]byte, error) {
	whole, fraction, dot := bytes.Cut(v, []byte("."))
	sec, err := strconv.ParseInt(string(whole), 10, 64)
	if err != nil {
		return dst, fmt.Errorf("read a TIMESTAMP: %w", err)
	}
	if sec == 0 && len(bytes.Trim(fraction, "0")) == 0 {
		return append(dst, "'0000-00-00 00:00:00'"...), nil
	}
	dst = append(dst, '\'')
	dst = time.Unix(sec, 0).UTC().AppendFormat(dst, time.DateTime)
	if dot {
		dst = append(append(dst, '.'), fraction...)
	}
	return append(dst, '\''), nil
}
