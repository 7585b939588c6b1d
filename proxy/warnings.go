package proxy

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"

	"github.com/shunt-sql/shunt/mysqlerr"
)

// SHOW WARNINGS is answered from what was read right after the statement, before its
// connection went back to the pool.

// condition is a row of SHOW WARNINGS. level is Error, Warning or Note.
func condition(level string, code uint16, message string) [][]byte {
	return [][]byte{[]byte(level), strconv.AppendUint(nil, uint64(code), 10), []byte(message)}
}

// codeOf is the code of a row of SHOW WARNINGS, 0 where it has none.
func codeOf(w [][]byte) uint16 {
	if len(w) < 2 {
		return 0
	}
	code, _ := strconv.ParseUint(string(w[1]), 10, 16)
	return uint16(code)
}

// note is warn for what is only worth knowing: nothing where the client wants no notes. It
// returns how many there are.
func (s *session) note(code uint16, message string) uint16 {
	if !s.wantsNotes() {
		return 0
	}
	s.diag.add(condition("Note", code, message))
	return 1
}

// wantsNotes is sql_notes.
func (s *session) wantsNotes() bool {
	v, _ := s.settings.value("@@sql_notes")
	wanted, err := boolean(v)
	return err != nil || wanted
}

// warningCount is how many warnings an answer tells of.
func warningCount(n int) uint16 { return uint16(min(max(n, 0), math.MaxUint16)) }

// invalidText is the code of a warning of a literal whose bytes are no text, which
// every shard gives in the same words, or of a row's value.
const invalidText = mysqlerr.InvalidCharacterString

// ofText reports a warning of a statement's text (deprecated syntax), which
// every shard that gets it gives.
func ofText(code uint16) bool { return ofTexts[code] }

var ofTexts = map[uint16]bool{
	mysqlerr.WarnDeprecatedSyntax: true, mysqlerr.WarnDeprecatedSyntaxNoReplacement: true,
	3719: true, 3720: true, // character sets: utf8, N'x'
	3778: true, 4079: true, 4162: true, // collations
	3777: true, 3779: true, 3962: true, 3963: true, 3964: true, 3965: true, 4119: true, 4166: true, // SET @x in expressions, nested comments, INTO, VALUES(), SQL_CALC_FOUND_ROWS, FOUND_ROWS(), $names, others
	3858: true, 3859: true, 3860: true, 3861: true, 3956: true, 3961: true, // types, of CAST and JSON_TABLE
}

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

// rowOf is the row that a warning says it is about, from 1 on; 0 for none.
func rowOf(w [][]byte) int {
	if len(w) == 0 {
		return 0
	}
	if m := atRow.FindSubmatch(w[len(w)-1]); m != nil {
		n, _ := strconv.Atoi(string(m[1]))
		return n
	}
	return 0
}

// byRow puts warnings of several shards in the order of their rows, if each is about one. about has the rows of the first
// warnings (see writing.place); the rows of the others are in their texts.
func byRow(warnings [][][]byte, about []int) {
	type told struct {
		row     int
		warning [][]byte
	}
	all := make([]told, len(warnings))
	for i, w := range warnings {
		all[i] = told{rowOf(w), w}
		if i < len(about) {
			all[i].row = about[i]
		}
		if all[i].row == 0 {
			return
		}
	}
	slices.SortStableFunc(all, func(a, b told) int { return a.row - b.row })
	for i := range all {
		warnings[i] = all[i].warning
	}
}
