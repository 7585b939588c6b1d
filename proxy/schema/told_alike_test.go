package schema

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// asked is a shard that answers, and notes what it was asked.
type asked struct {
	shuffled
	making  map[string]string // by table
	queries []string
}

func (q *asked) Rows(ctx context.Context, sql string) ([][][]byte, error) {
	table, making := strings.CutPrefix(sql, "SHOW CREATE TABLE `s`.")
	if !making {
		q.queries = append(q.queries, sql)
		return q.shuffled.Rows(ctx, sql)
	}
	text := q.making[strings.Trim(table, "`")]
	if text == "" {
		return nil, errors.New("ERROR 1146 (42S02): Table doesn't exist")
	}
	return [][][]byte{{[]byte(table), []byte(text)}}, nil
}

// TestToldAlike: of tables that shards would make by one text the first tells for all, and of others each.
func TestToldAlike(t *testing.T) {
	t.Parallel()
	const text = "CREATE TABLE `t` (\n  `a` int NOT NULL AUTO_INCREMENT,\n  `b` char(20) DEFAULT 'x'\n) ENGINE=InnoDB AUTO_INCREMENT=7 DEFAULT CHARSET=utf8mb4"
	name := catalog.TableName{Schema: "s", Name: "t"}
	trigger := func(body string) *tableFact {
		return &tableFact{schema: "s", name: "t", triggers: []triggerFact{{"INSERT", body, ""}}}
	}
	facts := func(tables ...*tableFact) *Facts { return &Facts{Version: "9.7.4", Tables: tables} }
	tells := [][]string{{"0", "0", "s", "t", "BASE TABLE", "InnoDB"}, {"1", "1", "s", "t", "a", "int", "", "", "NO", "", "", "", ""}}
	with := func(body string) [][]string {
		return append(slices.Clone(tells), []string{"3", "0", "s", "t", "INSERT", body, ""})
	}
	for what, x := range map[string]struct {
		first, other       [][]string // of information_schema
		making             string     // on the other
		wasFirst, wasOther *Facts
		asks               bool
	}{
		"made by the same text":          {tells, nil, text, facts(), facts(), false},
		"counted to elsewhere":           {tells, nil, strings.Replace(text, "=7", "=9", 1), facts(), facts(), false},
		"changed":                        {tells, nil, text, facts(&tableFact{schema: "s", name: "t"}), facts(&tableFact{schema: "s", name: "t"}), false},
		"with the triggers as they were": {with("DO 1"), nil, text, facts(trigger("DO 1")), facts(trigger("DO 1")), false},
		"made otherwise":                 {tells, tells, strings.Replace(text, "'x'", "'y'", 1), facts(), facts(), true},
		"a number in a text":             {tells, tells, strings.Replace(text, "'x'", "' AUTO_INCREMENT=8'", 1), facts(), facts(), true},
		"not there":                      {tells, nil, "", facts(), facts(), true},
		"columns that can't be seen":     {tells[:1], tells, text, facts(), facts(), true},
		"another version":                {tells, tells, text, facts(), &Facts{Version: "9.8.0"}, true},
		"a new trigger":                  {with("DO 1"), with("DO 2"), text, facts(), facts(), true},
		"other triggers":                 {with("DO 1"), with("DO 2"), text, facts(trigger("DO 1")), facts(trigger("DO 2")), true},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			const query = "SELECT 0 AS part"
			shards := map[catalog.ShardID]*asked{
				4: {shuffled: shuffled{map[string][][]string{query: x.first}}, making: map[string]string{"t": text}},
				2: {shuffled: shuffled{map[string][][]string{query: x.other}}, making: map[string]string{"t": x.making}},
			}
			known := map[catalog.ShardID]*Facts{4: x.wasFirst, 2: x.wasOther}
			open := func(_ context.Context, id catalog.ShardID) (Querier, func(), error) {
				return shards[id], func() {}, nil
			}
			part := Part{Tables: []catalog.TableName{name}}
			parts := map[catalog.ShardID]Part{4: part, 2: part}
			got, errs := ReadAll(t.Context(), []catalog.Shard{{ID: 4}, {ID: 2}}, open, known, parts)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			want := maps.Clone(got)
			for id := range shards {
				f, err := ReadPart(t.Context(), shards[id].shuffled, known[id], parts[id])
				if err != nil {
					t.Fatal(err)
				}
				want[id] = f
			}
			if !x.asks {
				want[2] = known[2].with([]catalog.TableName{name}, got[4].Tables)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, want %+v", got[2].Tables, want[2].Tables)
			}
			if asks := len(shards[2].queries) > 0; asks != x.asks {
				t.Errorf("asked %q", shards[2].queries)
			}
		})
	}
}

// TestToldAlikeUnopened: the first shard doesn't answer, and the others tell for themselves.
func TestToldAlikeUnopened(t *testing.T) {
	t.Parallel()
	name := catalog.TableName{Schema: "s", Name: "t"}
	other := &asked{shuffled: shuffled{map[string][][]string{"SELECT 0 AS part": {{"0", "0", "s", "t", "BASE TABLE", "InnoDB"}, {"1", "1", "s", "t", "a", "int", "", "", "NO", "", "", "", ""}}}}}
	open := func(_ context.Context, id catalog.ShardID) (Querier, func(), error) {
		if id == 0 {
			return nil, nil, errors.New("refused")
		}
		return other, func() {}, nil
	}
	part := Part{Tables: []catalog.TableName{name}}
	got, errs := ReadAll(t.Context(), []catalog.Shard{{ID: 0}, {ID: 1}}, open, map[catalog.ShardID]*Facts{0: {}, 1: {}}, map[catalog.ShardID]Part{0: part, 1: part})
	if len(errs) != 1 || errs[0] == nil || got[1] == nil || got[1].table(name) == nil {
		t.Errorf("%v, %v", got, errs)
	}
}
