package spoken

import (
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/text"
)

// NamesInsertID reports whether a text may ask for LAST_INSERT_ID() or @@identity.
func NamesInsertID(sql string) bool {
	const name, stem = "last_insert_id", len("last")
	for at := 0; ; at++ {
		i := strings.IndexByte(sql[at:], '_')
		if i < 0 {
			break
		}
		if at += i; at >= stem && len(sql)-at >= len(name)-stem && strings.EqualFold(sql[at-stem:at-stem+len(name)], name) {
			return true
		}
	}
	at := strings.IndexByte(sql, '@')
	return at >= 0 && strings.Contains(strings.ToLower(sql[at:]), "identity") // @@session.identity, too
}

// AsksConnection reports whether a text may ask for what a connection or a primary knows alone: it may
// say so of one that does not.
func AsksConnection(sql string) bool {
	return slices.ContainsFunc([]string{"last_insert_id", "@@identity", "_schema", "mysql.", "nextval", "lastval", "setval", "next value", "previous value"}, func(word string) bool {
		return text.ContainsFold(sql, word)
	})
}
