package proxy

import (
	"strings"

	"github.com/shunt-sql/shunt/mysqlerr"
)

// freshness is what a session has SET shunt_virtual_columns or shunt_index_reads to.
type freshness int

const (
	freshUser  freshness = iota // as the user is configured
	freshExact                  // reads wait for what may have changed
	freshFast                   // for nothing
)

// assign is SET of the variable.
func (f *freshness) assign(variable, literal string) error {
	switch strings.ToLower(literal) {
	case "default":
		*f = freshUser
	case "exact":
		*f = freshExact
	case "fast":
		*f = freshFast
	default:
		return mysqlerr.Newf(mysqlerr.WrongValueForVar, "Variable '%s' can't be set to the value of '%s': expected exact, fast or DEFAULT", variable, literal)
	}
	return nil
}

// fast reports that reads wait for nothing; user: the user is configured so.
func (f freshness) fast(user bool) bool { return f == freshFast || f == freshUser && user }

// fastVirtual reports that reads of virtual columns wait for nothing.
func (s *session) fastVirtual() bool {
	return s.settings.own.virtualColumns.fast(s.rights().FastVirtualColumns)
}

// fastIndexes reports that kept answers of covering indexes wait for no write.
func (s *session) fastIndexes() bool {
	return s.settings.own.indexReads.fast(s.rights().FastIndexReads)
}

// tellFreshness is what @@shunt_virtual_columns and @@shunt_index_reads tell.
func tellFreshness(fast bool) string {
	if fast {
		return "fast"
	}
	return "exact"
}
