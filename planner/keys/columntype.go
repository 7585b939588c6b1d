package keys

import (
	"fmt"
	"strconv"
	"strings"
)

// columnType is a parsed COLUMN_TYPE of information_schema.columns.
type columnType struct {
	name     string   // lower case, without arguments
	args     []int    // of varchar(255), decimal(10,2)
	members  []string // of enum
	unsigned bool
}

func parseColumnType(s string) (columnType, error) {
	var t columnType
	bad := func() (columnType, error) { return t, fmt.Errorf("column type %q is not understood", s) }
	end := strings.IndexAny(s, "( ")
	if end < 0 {
		end = len(s)
	}
	t.name = strings.ToLower(s[:end])
	rest := s[end:]
	if t.name == "enum" || t.name == "set" {
		var ok bool
		if t.members, ok = parseMembers(rest); !ok {
			return bad()
		}
		return t, nil
	}
	if args, ok := strings.CutPrefix(rest, "("); ok {
		args, rest, ok = strings.Cut(args, ")")
		if !ok {
			return bad()
		}
		for a := range strings.SplitSeq(args, ",") {
			n, err := strconv.Atoi(strings.TrimSpace(a))
			if err != nil || n < 0 {
				return bad()
			}
			t.args = append(t.args, n)
		}
	}
	for word := range strings.FieldsSeq(strings.ToLower(rest)) {
		switch word {
		case "unsigned", "zerofill":
			t.unsigned = true // ZEROFILL columns always are
		case "signed":
		default: // e.g. MariaDB's COMPRESSED comment
			return bad()
		}
	}
	return t, nil
}

// Members are those of an ENUM or SET, from its COLUMN_TYPE.
func Members(columnType string) (members []string, ok bool) {
	t, err := parseColumnType(columnType)
	return t.members, err == nil && t.members != nil
}

// parseMembers reads ('a','b”c'). A backslash is refused: the servers escape
// some characters in this column and not others, by version.
func parseMembers(s string) ([]string, bool) {
	s, ok := strings.CutPrefix(s, "(")
	if !ok || strings.Contains(s, `\`) {
		return nil, false
	}
	var members []string
	for {
		if s, ok = strings.CutPrefix(s, "'"); !ok {
			return nil, false
		}
		var m strings.Builder
		for {
			i := strings.IndexByte(s, '\'')
			if i < 0 {
				return nil, false
			}
			m.WriteString(s[:i])
			if s = s[i+1:]; !strings.HasPrefix(s, "'") {
				break
			}
			m.WriteByte('\'')
			s = s[1:]
		}
		members = append(members, m.String())
		switch {
		case s == ")":
			return members, true
		case strings.HasPrefix(s, ","):
			s = s[1:]
		default:
			return nil, false
		}
	}
}

// arg is argument i, or otherwise.
func (t columnType) arg(i, otherwise int) int {
	if i < len(t.args) {
		return t.args[i]
	}
	return otherwise
}
