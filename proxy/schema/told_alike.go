package schema

import (
	"context"
	"regexp"
	"slices"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner/catalog"
)

// toldAlike has several shards asked for the same tables, as ReadPart does it, at the cost of little more than one: what
// the first says of a table is so on each other that would make it by the same text (SHOW CREATE TABLE), for which a server
// takes a thirtieth of the time. That text has all but triggers: these have to be what they were, and the same.
type toldAlike struct {
	done chan struct{} // closed when the first shard has told, or couldn't
	// was and is are the first's facts before and now, nil where it couldn't tell.
	was, is *Facts
	texts   map[catalog.TableName]string
}

// first asks the shard that tells for all. Whoever calls it closes done.
func (x *toldAlike) first(ctx context.Context, q Querier, known *Facts, part Part) (*Facts, error) {
	before := makingTexts(ctx, q, part.Tables)
	is, err := ReadPart(ctx, q, known, part)
	if err != nil {
		return nil, err
	}
	x.was, x.is, x.texts = known, is, map[catalog.TableName]string{}
	for name, text := range makingTexts(ctx, q, part.Tables) {
		if before[name] == text { // else it has changed in between
			x.texts[name] = text
		}
	}
	return is, nil
}

// other asks another shard.
func (x *toldAlike) other(ctx context.Context, q Querier, known *Facts, part Part) (*Facts, error) {
	texts := makingTexts(ctx, q, part.Tables)
	<-x.done
	left := Part{Lists: part.Lists}
	var alike []catalog.TableName
	var tables []*tableFact
	for _, name := range part.Tables {
		if text := texts[name]; text == "" || x.is == nil || x.texts[name] != text || x.is.Version != known.Version || !x.tells(name, known) {
			left.Tables = append(left.Tables, name)
			continue
		}
		alike = append(alike, name)
		if t := x.is.table(name); t != nil {
			tables = append(tables, t)
		}
	}
	is, err := ReadPart(ctx, q, known, left)
	if err != nil {
		return nil, err
	}
	return is.with(alike, tables), nil
}

// tells reports that a table's triggers are what they were, on the first shard and on the one where known was so. A view
// has columns by what its tables are, and of a table without any the account may not see them.
func (x *toldAlike) tells(name catalog.TableName, known *Facts) bool {
	is := x.is.table(name)
	return (is == nil || !is.view && len(is.columns) > 0) && slices.Equal(is.triggersOf(), x.was.table(name).triggersOf()) && slices.Equal(is.triggersOf(), known.table(name).triggersOf())
}

func (t *tableFact) triggersOf() []triggerFact {
	if t == nil {
		return nil
	}
	return t.triggers
}

// noTable is the text of a table that isn't there.
const noTable = "none"

// counted is how far a table's AUTO_INCREMENT is, where SHOW CREATE TABLE has it: each shard's own.
var counted = regexp.MustCompile(`(\n\) ENGINE=\w+) AUTO_INCREMENT=[0-9]+`)

// makingTexts are the texts by which a server would make tables as it has them. What has none is left out: a view, a table
// that the account may not see.
func makingTexts(ctx context.Context, q Querier, names []catalog.TableName) map[catalog.TableName]string {
	texts := map[catalog.TableName]string{}
	for _, name := range names {
		rows, err := q.Rows(ctx, "SHOW CREATE TABLE "+catalog.QuoteTable(name.Schema, name.Name))
		switch {
		case answered(err, mysqlerr.NoSuchTable):
			texts[name] = noTable
		case err == nil && len(rows) == 1 && len(rows[0]) == 2:
			texts[name] = counted.ReplaceAllString(string(rows[0][1]), "$1")
		}
	}
	return texts
}
