package spoken

import (
	"slices"
	"strconv"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// Statements that a server has too, which the planner reads without a form.
const (
	ShowProcesslist = "SHOW PROCESSLIST"
	ShowGrants      = "SHOW GRANTS"
	ShowCount       = "SHOW COUNT"
	ShowWarnings    = "SHOW WARNINGS"
	ShowErrors      = "SHOW ERRORS"
	Kill            = "KILL"
	TellSession     = "SELECT" // CONNECTION_ID(), USER() and the like, which a shard has its own of
)

var readHere = []string{ShowProcesslist, ShowGrants, ShowCount, ShowWarnings, ShowErrors, Kill, TellSession}

// form is a statement of the proxy's own, as New is told it: words, and for what is read
//
//	<index>      name ON [schema.]table
//	<table>      [schema.]table
//	<columns>    (name, ..)
//	<included>   likewise
//	<partitions> a number from 1 to catalog.MaxPartitions
//	<homes>      a, .. where each is a name, or a string
//	<pattern>    a string
//	<order>      a column, and ASC or DESC
//	<limit>      a number of rows
//	<statement>  all that follows
//
// Words of which any will do have | between them. What stands in [] may be left out.
type form struct {
	text  string
	parts []string
	lead  int // how many parts are words by which the form is known
}

func newForm(text string) form {
	f := form{text: text, parts: strings.Fields(strings.ToLower(text))}
	for f.lead < len(f.parts) && !strings.ContainsAny(f.parts[f.lead], "[<|") {
		f.lead++
	}
	return f
}

// OwnForms are all statements of the proxy's own.
type OwnForms []form

// NewOwnForms are those of the texts given, but for statements that are read without a form.
func NewOwnForms(texts []string) (fs OwnForms) {
	for _, text := range texts {
		if !slices.Contains(readHere, text) {
			fs = append(fs, newForm(text))
		}
	}
	return fs
}

// Plan reads a statement of the proxy's own; ok is false where it is none.
func (fs OwnForms) Plan(st *text.Statement) (plan plan.Plan, ok bool, err *text.Error) {
	furthest := -1
	for i := range fs {
		f := &fs[i]
		if !f.leads(st) {
			continue
		}
		a, at, wrong := f.read(st)
		if wrong == nil {
			return a, true, nil
		}
		if at > furthest {
			furthest, err = at, wrong
			err.Own = true
		}
	}
	return nil, err != nil, err
}

// leads reports whether a statement begins as the form does.
func (f *form) leads(st *text.Statement) bool {
	for i, w := range f.parts[:f.lead] {
		if !st.Is(i, w) {
			return false
		}
	}
	return true
}

// read reads a whole statement. at is the token that err is about. REQUIRES: leads.
func (f *form) read(st *text.Statement) (a *plan.Admin, at int, err *text.Error) {
	a, at = &plan.Admin{Form: f.text}, f.lead
	if slices.Contains(f.parts, "<limit>]") {
		a.Limit = -1
	}
	for rest := f.parts[f.lead:]; len(rest) > 0; rest = rest[1:] {
		part, optional := strings.CutPrefix(rest[0], "[")
		part = strings.TrimSuffix(part, "]")
		switch {
		case strings.HasPrefix(part, "<"):
			var next int
			if next, err = readPart(a, st, part, at); err != nil {
				return nil, at, err
			}
			at = next
		case isOneOf(st, at, part):
			at++
		case !optional:
			return nil, at, st.Near(at)
		default:
			for !strings.HasSuffix(rest[0], "]") {
				rest = rest[1:]
			}
		}
	}
	if at < len(st.Tokens) {
		return nil, at, st.Near(at)
	}
	return a, at, nil
}

func isOneOf(st *text.Statement, i int, words string) bool {
	for w := range strings.SplitSeq(words, "|") {
		if st.Is(i, w) {
			return true
		}
	}
	return false
}

// readPart reads what a form has for one of its parts at token i; next is the token behind it.
func readPart(a *plan.Admin, st *text.Statement, part string, i int) (next int, err *text.Error) {
	switch part {
	case "<index>":
		name, found := st.Identifier(i)
		if !found || !st.Is(i+1, "on") {
			return 0, st.Near(i)
		}
		a.Index.Name = name
		a.Index.Table, next, err = st.TableAt(i + 2)
	case "<table>":
		a.Index.Table, next, err = st.TableAt(i)
	case "<columns>":
		a.Index.Columns, next, err = nameList(st, i)
	case "<included>":
		a.Index.Include, next, err = nameList(st, i)
	case "<partitions>":
		a.Index.Partitions, err = partitions(st, i)
		next = i + 1
	case "<homes>":
		for {
			name, found := st.Identifier(i)
			if !found && i < len(st.Tokens) && st.Tokens[i].Kind == text.String {
				name = string(st.Unescape(st.Tokens[i]))
			}
			if name == "" {
				return 0, st.Near(i)
			}
			a.Homes = append(a.Homes, name)
			if i++; !st.Op(i, ",") {
				return i, nil
			}
			i++
		}
	case "<pattern>":
		if i == len(st.Tokens) || st.Tokens[i].Kind != text.String {
			return 0, st.Near(i)
		}
		a.Like, next = string(st.Unescape(st.Tokens[i])), i+1
	case "<order>":
		var found bool
		if a.Order, found = st.Identifier(i); !found {
			return 0, st.Near(i)
		}
		next = i + 1
		if a.Descending = st.Is(next, "desc"); a.Descending || st.Is(next, "asc") {
			next++
		}
	case "<limit>":
		n, wrong := strconv.Atoi(st.Text(i))
		if wrong != nil || n < 0 {
			return 0, st.Near(i)
		}
		a.Limit, next = n, i+1
	case "<statement>":
		if i == len(st.Tokens) {
			return 0, st.Near(i)
		}
		rest := strings.TrimSpace(st.Src[st.Tokens[i-1].End:])
		a.Explain = strings.TrimSpace(strings.TrimSuffix(rest, ";"))
		next = len(st.Tokens)
	}
	return next, err
}

// nameList reads (a, b, c); next is the token behind it.
func nameList(st *text.Statement, i int) (names []string, next int, err *text.Error) {
	if !st.Op(i, "(") {
		return nil, 0, st.Near(i)
	}
	for i++; ; i++ {
		name, found := st.Identifier(i)
		if !found {
			return nil, 0, st.Near(i)
		}
		names = append(names, name)
		if i++; st.Op(i, ")") {
			return names, i + 1, nil
		}
		if !st.Op(i, ",") {
			return nil, 0, st.Near(i)
		}
	}
}

func partitions(st *text.Statement, i int) (int, *text.Error) {
	n, err := strconv.Atoi(st.Text(i))
	if err != nil || n < 1 || n > catalog.MaxPartitions {
		return 0, text.SyntaxError("PARTITIONS must be a number from 1 to %d", catalog.MaxPartitions)
	}
	return n, nil
}
