package schema

import (
	"cmp"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// Facts is what one shard says about itself. They are never changed: those of one
// reading share with the last what is the same, so that two are compared by their pointers.
type Facts struct {
	Version        string
	LowerCaseNames bool
	// Settings are the global values of settings, by name.
	Settings   map[string]string
	Collations []Collation
	Schemas    []string
	// Tables and views, sorted by schema and name.
	Tables []*tableFact
	// linked are those of Tables that others' changes are changes of: see links. nil: nobody has looked yet.
	linked    []*tableFact
	Functions []functionFact
	// Events are those of the schemas whose EVENT privilege the account has.
	Events []eventFact
	// Unsure: some of it could not be read now, and is taken for the worst. Ask
	// again.
	Unsure bool
}

// Collation is one that the server has.
type Collation struct {
	ID            int
	Name, Charset string
	Default       bool
}

// tableFact is a table or view with all that belongs to it.
type tableFact struct {
	schema, name string
	view         bool
	sequence     bool // of MariaDB's
	engine       string
	// definition is a view's query, "" where the account may not see it.
	definition, collation string
	// introducers: strings in it have had character sets of their own.
	introducers bool

	columns     []columnFact // in the table's order
	keys        []keyFact    // unique ones
	triggers    []triggerFact
	foreignKeys []foreignKeyFact // of which it is the child
}

type columnFact struct {
	name, typ, charset, collation string
	nullable                      bool
	def                           *string
	extra, generated              string
	json                          bool
	// keyed: it is in the primary key, or another begins with it; unique: in the primary key, or a unique one alone. As the column tells it:
	// it need not be so in a table that is renamed meanwhile.
	keyed, unique bool
}

type keyFact struct {
	key, column      string
	nullable, prefix bool
}

type triggerFact struct{ event, body, mode string }

type eventFact struct{ schema, name, body string }

// functionFact is a stored function or procedure; hidden: we may not see its
// body.
type functionFact struct {
	schema, name, body string
	hidden, procedure  bool
}

type foreignKeyFact struct {
	column, refSchema, refTable, refColumn string
	update, delete                         string
}

func (t *tableFact) tableName() catalog.TableName {
	return catalog.TableName{Schema: t.schema, Name: t.name}
}

func compareTables(a, b *tableFact) int { return compareNames(a.tableName(), b.tableName()) }

func compareNames(a, b catalog.TableName) int {
	return cmp.Or(cmp.Compare(a.Schema, b.Schema), cmp.Compare(a.Name, b.Name))
}

// table finds what is said of a table, nil for nothing.
func (f *Facts) table(name catalog.TableName) *tableFact {
	if i, found := f.find(name); found {
		return f.Tables[i]
	}
	return nil
}

func (f *Facts) find(name catalog.TableName) (i int, found bool) {
	return slices.BinarySearchFunc(f.Tables, name, func(t *tableFact, n catalog.TableName) int { return compareNames(t.tableName(), n) })
}

// triggers yields all of them with their tables.
func (f *Facts) triggers() iter.Seq2[*tableFact, triggerFact] {
	return func(yield func(*tableFact, triggerFact) bool) {
		for _, t := range f.Tables {
			for _, tf := range t.triggers {
				if !yield(t, tf) {
					return
				}
			}
		}
	}
}

// sort puts into an order what information_schema answers in none: a server may
// answer the same otherwise when its statistics have changed, and two facts that say
// the same must be equal.
func (f *Facts) sort() {
	slices.SortFunc(f.Collations, func(a, b Collation) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Name, b.Name)) })
	slices.Sort(f.Schemas)
	slices.SortFunc(f.Tables, compareTables)
	for _, t := range f.Tables {
		t.sort()
	}
	slices.SortFunc(f.Functions, func(a, b functionFact) int {
		return cmp.Or(cmp.Compare(a.schema, b.schema), cmp.Compare(a.name, b.name), cmp.Compare(a.body, b.body))
	})
	slices.SortFunc(f.Events, func(a, b eventFact) int { return cmp.Or(cmp.Compare(a.schema, b.schema), cmp.Compare(a.name, b.name)) })
}

func (t *tableFact) sort() {
	// Servers order names by collations of their own; a key's columns stay in their order.
	slices.SortStableFunc(t.keys, func(a, b keyFact) int { return cmp.Compare(a.key, b.key) })
	slices.SortFunc(t.triggers, func(a, b triggerFact) int {
		return cmp.Or(cmp.Compare(a.event, b.event), cmp.Compare(a.body, b.body))
	})
	slices.SortFunc(t.foreignKeys, func(a, b foreignKeyFact) int {
		return cmp.Or(cmp.Compare(a.column, b.column), cmp.Compare(a.refSchema, b.refSchema),
			cmp.Compare(a.refTable, b.refTable), cmp.Compare(a.refColumn, b.refColumn), cmp.Compare(a.update, b.update), cmp.Compare(a.delete, b.delete))
	})
}

// sharing are the facts with what is equal in earlier ones taken from there.
func (f *Facts) sharing(was *Facts) *Facts {
	if was == nil {
		return f
	}
	of := *f
	share(&of.Settings, was.Settings)
	share(&of.Collations, was.Collations)
	share(&of.Schemas, was.Schemas)
	share(&of.Functions, was.Functions)
	share(&of.Events, was.Events)
	of.Tables = slices.Clone(f.Tables)
	same := len(of.Tables) == len(was.Tables)
	for i, t := range of.Tables {
		if before := was.table(t.tableName()); before != nil && reflect.DeepEqual(t, before) {
			of.Tables[i] = before
		}
		same = same && of.Tables[i] == was.Tables[i]
	}
	if same {
		of.Tables = was.Tables
	}
	return &of
}

func share[T any](is *T, was T) {
	if reflect.DeepEqual(*is, was) {
		*is = was
	}
}

// Equal reports whether both say the same. It looks at no table that they share.
func (f *Facts) Equal(other *Facts) bool {
	if f == nil || other == nil || f == other {
		return f == other
	}
	return f.Unsure == other.Unsure && f.sameServer(other) && slices.EqualFunc(f.Tables, other.Tables, sameTable)
}

// sameServer reports whether both say the same but of tables.
func (f *Facts) sameServer(other *Facts) bool {
	return f.Version == other.Version && f.LowerCaseNames == other.LowerCaseNames && maps.Equal(f.Settings, other.Settings) &&
		reflect.DeepEqual(f.Collations, other.Collations) && slices.Equal(f.Schemas, other.Schemas) &&
		slices.Equal(f.Functions, other.Functions) && slices.Equal(f.Events, other.Events)
}

func sameTable(a, b *tableFact) bool { return a == b || reflect.DeepEqual(a, b) }

// differing are the tables of which the two don't say the same.
func (f *Facts) differing(other *Facts) (names []catalog.TableName) {
	a, b := f.Tables, other.Tables
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(a) > 0 && len(b) > 0 && a[0] == b[0]:
			a, b = a[1:], b[1:]
		case len(b) == 0 || len(a) > 0 && compareTables(a[0], b[0]) < 0:
			names, a = append(names, a[0].tableName()), a[1:]
		case len(a) == 0 || compareTables(a[0], b[0]) > 0:
			names, b = append(names, b[0].tableName()), b[1:]
		default:
			if !sameTable(a[0], b[0]) {
				names = append(names, a[0].tableName())
			}
			a, b = a[1:], b[1:]
		}
	}
	return names
}

// Changed names what is otherwise in later facts, for the log.
func (f *Facts) Changed(later *Facts) []string {
	var names []string
	was, is := reflect.ValueOf(*f), reflect.ValueOf(*later)
	for i := range was.NumField() {
		if f := was.Type().Field(i); f.Name != "Tables" && f.IsExported() && !reflect.DeepEqual(was.Field(i).Interface(), is.Field(i).Interface()) {
			names = append(names, strings.ToLower(f.Name))
		}
	}
	for _, t := range f.differing(later) {
		names = append(names, t.Schema+"."+t.Name)
	}
	return names
}

// askAtMost is how many tables are asked for one by one; more are less work all at once.
const askAtMost = 32

// Part is a part of facts: what a statement may have changed. The zero Part is all.
type Part struct {
	// Tables are some tables, by all names that they have had.
	Tables []catalog.TableName
	Lists  Lists
	// Schema is all tables of a schema, and Views are all views. They stand for Tables: see Affected.
	Schema string
	Views  bool
}

// Lists are what there is besides tables.
type Lists uint8

const (
	SchemaList Lists = 1 << iota
	ProgramList
	EventList
)

func (p Part) whole() bool { return len(p.Tables) == 0 && p.Lists == 0 }

// Affected is what a shard may tell otherwise when a part is changed: the tables
// themselves, the views that read them, and the tables whose foreign keys refer to them,
// since the columns and names there change too. That is all if the server folds names, or
// they are too many.
func (f *Facts) Affected(part Part) Part {
	if f == nil || part.whole() {
		return Part{}
	}
	names := slices.Clone(part.Tables)
	for _, t := range f.Tables {
		if part.Schema != "" && strings.EqualFold(t.schema, part.Schema) || part.Views && t.view {
			names = append(names, t.tableName())
		}
	}
	if len(names) == 0 {
		return Part{Lists: part.Lists}
	}
	if names = f.affected(names); names == nil {
		return Part{}
	}
	return Part{Tables: names, Lists: part.Lists}
}

// affected is Affected of tables, nil for any.
func (f *Facts) affected(names []catalog.TableName) []catalog.TableName {
	if f.LowerCaseNames {
		return nil
	}
	affected := names
	slices.SortFunc(affected, compareNames)
	affected = slices.Compact(affected) // RENAME TABLE a TO b, c TO a has one twice
	add := func(t *tableFact) {
		if name := t.tableName(); !slices.Contains(affected, name) {
			affected = append(affected, name)
		}
	}
	for i := 0; i < len(affected) && len(affected) <= askAtMost; i++ { // it grows
		n := affected[i]
		if strings.ContainsAny(n.Schema+n.Name, "'\\`") { // a string would have to escape it
			return nil
		}
		for _, t := range f.links() {
			if t.view && (t.definition == "" || mentions(t.definition, n.Name)) ||
				slices.ContainsFunc(t.foreignKeys, func(k foreignKeyFact) bool { return k.refSchema == n.Schema && k.refTable == n.Name }) {
				add(t)
			}
		}
	}
	if len(affected) > askAtMost {
		return nil
	}
	return affected
}

// links are the views, and the tables with foreign keys. They are kept, since to look at each of 10,000
// tables costs more than all else of reading one.
func (f *Facts) links() []*tableFact {
	if f.linked != nil {
		return f.linked
	}
	linked := []*tableFact{}
	for _, t := range f.Tables {
		if t.links() {
			linked = append(linked, t)
		}
	}
	return linked
}

func (t *tableFact) links() bool { return t.view || len(t.foreignKeys) > 0 }

// mentions reports whether a text has a name, whatever its case, which is no part of a
// longer one.
func mentions(text, name string) bool {
	text, name = strings.ToLower(text), strings.ToLower(name)
	partOf := func(s string) bool {
		return s != "" && (s[0] == '_' || s[0] == '$' || s[0] >= 0x80 || s[0] >= '0' && s[0] <= '9' || s[0] >= 'a' && s[0] <= 'z')
	}
	for from := 0; ; {
		at := strings.Index(text[from:], name)
		if at < 0 {
			return false
		}
		at += from
		end := at + len(name)
		if (at == 0 || !partOf(text[at-1:at])) && !partOf(text[end:]) {
			return true
		}
		from = at + 1
	}
}

// with is f with what part says of tables in place of what f says of them.
func (f *Facts) with(names []catalog.TableName, part []*tableFact) *Facts {
	of := *f
	of.Tables, of.linked = slices.Clone(f.Tables), slices.Clone(f.links())
	changed := false
	for _, name := range names {
		var is *tableFact
		if i := slices.IndexFunc(part, func(t *tableFact) bool { return t.tableName() == name }); i >= 0 {
			is = part[i]
		}
		at, known := of.find(name)
		if is == nil && !known || is != nil && known && sameTable(of.Tables[at], is) {
			continue
		}
		if known {
			of.linked = slices.DeleteFunc(of.linked, func(t *tableFact) bool { return t == of.Tables[at] })
		}
		if is != nil && is.links() {
			of.linked = append(of.linked, is)
		}
		switch {
		case is == nil:
			of.Tables = slices.Delete(of.Tables, at, at+1)
		case known:
			of.Tables[at] = is
		default:
			of.Tables = slices.Insert(of.Tables, at, is)
		}
		changed = true
	}
	if !changed {
		return f
	}
	return &of
}
