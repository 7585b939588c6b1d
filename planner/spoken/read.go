package spoken

import (
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/text"
)

// Text is the text of one statement, read once for all that is asked of it: what it sets for itself
// alone, what it prepares, where its answer goes, what only the session knows, whom it names, its
// plan. It belongs to one session.
type Text struct {
	SQL      string
	settings text.Settings
	Catalog  *catalog.Catalog
	// st is the text lexed, err why it can't be; both nil before.
	st  *text.Statement
	err *text.Error
}

// keptText is how many bytes a text may have whose tokens are kept: those of a larger one are read
// again, and take no memory while it is executed.
const keptText = 256 << 10

// Read returns the text of one statement (no `;` between statements: see text.Split) under settings and
// the versions of a catalog's servers. It is lexed when something is asked of it.
func Read(sql string, s text.Settings, cat *catalog.Catalog) *Text {
	return &Text{SQL: sql, settings: s, Catalog: cat}
}

// Under is the text under other settings, or another catalog; the same one where these don't differ.
func (t *Text) Under(s text.Settings, cat *catalog.Catalog) *Text {
	if t.settings == s && t.Catalog == cat {
		return t
	}
	again := Read(t.SQL, s, cat)
	if s == t.settings && cat.MariaDB == t.Catalog.MariaDB && cat.ServerVersion == t.Catalog.ServerVersion && slices.Equal(cat.OtherVersions, t.Catalog.OtherVersions) {
		again.st, again.err = t.st, t.err
	}
	return again
}

// Statement is the text lexed, of which nothing but tokens at its end may be taken away.
func (t *Text) Statement() (*text.Statement, *text.Error) {
	st, err := t.st, t.err
	if st == nil && err == nil {
		st, err = text.Read(t.SQL, t.settings, t.Catalog)
		if len(t.SQL) <= keptText {
			t.st, t.err = st, err
		}
	}
	if err != nil {
		own := *err
		return nil, &own
	}
	own := *st
	return &own, nil
}

// Parameters are the ? of the statement.
func (t *Text) Parameters() ([]text.Parameter, error) {
	st, err := t.Statement()
	if err != nil {
		return nil, err
	}
	return st.Parameters(), nil
}

// OwnParameters are those that are values of a text which is executed: see text.Statement.
func (t *Text) OwnParameters() int {
	st, err := t.Statement()
	if err != nil {
		return 0 // what is wrong with it, planning says
	}
	return st.OwnParameters()
}

// WithValues is the statement with literals for its parameters.
func (t *Text) WithValues(values []keys.Value) (string, error) {
	st, err := t.Statement()
	if err != nil {
		return "", err
	}
	return st.WithValues(values), nil
}

// tells are words of which each text has one, in lower case, that ForSession may change.
var tells = []string{
	"warning_count", "error_count", "row_count", "found_rows", "user", "connection_id", "timeout", "completion_type", "sql_select_limit",
	"@@autocommit", ".autocommit", "gtid_", "resultset_metadata", "shunt_", "is_used_lock",
}

// mayTell is false for most texts that ForSession leaves as they are, and costs less than to read them.
func (t *Text) mayTell() bool {
	has := func(word string) bool { return text.ContainsFold(t.SQL, word) }
	return slices.ContainsFunc(tells, has) || !isCurrent(t.settings.Schema, t.Catalog) && (has("database") || has("schema"))
}

// mayHave reports whether a text may have one of these words, in lower case. Of one whose tokens are
// kept that isn't asked: to read it costs nothing then.
func (t *Text) mayHave(words ...string) bool {
	return len(t.SQL) <= keptText || slices.ContainsFunc(words, func(w string) bool { return text.ContainsFold(t.SQL, w) })
}

// MayNameVirtual is false for most texts that name no virtual column, and costs less than to read them.
func MayNameVirtual(sql string, cat *catalog.Catalog) bool {
	return cat.Virtual != nil && slices.ContainsFunc(cat.Virtual.Columns, func(v *catalog.VirtualColumn) bool { return text.ContainsFold(sql, strings.ToLower(v.Name)) })
}
