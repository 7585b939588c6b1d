package proxy

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"

	"github.com/shunt-sql/shunt/proxy/shard"
)

// condition is a row of SHOW WARNINGS. level is Error, Warning or Note.
func condition(level string, code uint16, message string) [][]byte {
	return [][]byte{[]byte(level), strconv.AppendUint(nil, uint64(code), 10), []byte(message)}
}

// warn adds to what SHOW WARNINGS tells of the statement.
func (s *session) warn(code uint16, message string) {
	s.last.warnings = append(s.last.warnings, condition("Warning", code, message))
}

// note is warn for what is only worth knowing: nothing where the client wants no notes. It
// returns how many there are.
func (s *session) note(code uint16, message string) uint16 {
	v, _ := s.settings.value("@@sql_notes")
	if wanted, err := boolean(v); err == nil && !wanted {
		return 0
	}
	s.last.warnings = append(s.last.warnings, condition("Note", code, message))
	return 1
}

// warningCount is how many warnings an answer tells of.
func warningCount(n int) uint16 { return uint16(min(max(n, 0), math.MaxUint16)) }

// addWarnings adds those that a shard has of its part of a read. What is of the text
// only the first shard tells; it returns how many the others have of that.
func (s *session) addWarnings(ctx context.Context, conn *shard.Conn, first bool) (again int) {
	res, err := conn.Query(ctx, "SHOW WARNINGS")
	if err != nil {
		return 0
	}
	for _, w := range res.Rows {
		if !first && len(w) > 2 && (ofText(string(w[1])) || string(w[1]) == invalidText && s.warnedOf(w)) {
			again++
		} else {
			s.last.warnings = append(s.last.warnings, w)
		}
	}
	return again
}

// addPartWarnings adds the n warnings that a shard has of its part of a write, and
// returns how many of them count. rows are the part's. first: it is the first shard,
// which alone tells of what is of the text. skipped: the row was left out, and the error
// that says why is a warning.
func (s *session) addPartWarnings(ctx context.Context, conn *shard.Conn, n uint16, rows []int, first, skipped bool) uint16 {
	if n == 0 {
		return 0
	}
	res, err := conn.Query(ctx, "SHOW WARNINGS")
	if err != nil {
		return n
	}
	if skipped {
		n = uint16(len(res.Rows))
	}
	for _, w := range res.Rows {
		if skipped {
			w[0] = []byte("Warning")
		}
		if !first && len(w) > 1 && ofText(string(w[1])) {
			n--
			continue
		}
		if len(w) > 2 {
			w[2] = []byte(ofRows(string(w[2]), rows))
		}
		s.last.warnings = append(s.last.warnings, w)
	}
	return n
}

// invalidText is the code of a warning of a literal whose bytes are no text, which
// every shard gives in the same words, or of a row's value.
const invalidText = "1300"

func (s *session) warnedOf(w [][]byte) bool {
	return slices.ContainsFunc(s.last.warnings, func(told [][]byte) bool {
		return slices.EqualFunc(told, w, bytes.Equal)
	})
}

// ofText reports a warning of a statement's text (deprecated syntax), which
// every shard that gets it gives.
func ofText(code string) bool { return code == "1287" || code == "1681" }

var atRow = regexp.MustCompile(` at row (\d+)(?: \(on shard .*)?$`)

// ofRows makes a message about a row of a shard's part one about the client's row.
func ofRows(msg string, rows []int) string {
	m := atRow.FindStringSubmatchIndex(msg)
	if m == nil || rows == nil {
		return msg
	}
	if n, err := strconv.Atoi(msg[m[2]:m[3]]); err == nil && n > 0 && n <= len(rows) {
		return fmt.Sprintf("%s%d%s", msg[:m[2]], rows[n-1]+1, msg[m[3]:])
	}
	return msg
}

// byRow puts warnings of several shards in the order of their rows, if each is
// about one.
func byRow(warnings [][][]byte) {
	row := func(w [][]byte) int {
		if m := atRow.FindSubmatch(w[len(w)-1]); m != nil {
			n, _ := strconv.Atoi(string(m[1]))
			return n
		}
		return 0
	}
	for _, w := range warnings {
		if len(w) == 0 || row(w) == 0 {
			return
		}
	}
	slices.SortStableFunc(warnings, func(a, b [][]byte) int { return row(a) - row(b) })
}
