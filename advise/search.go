package advise

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

const (
	planCost       = 200     // to plan a shape is so many times as dear as to look its verdict up
	maxKeys        = 10      // columns of a table that are tried as its shard key
	maxPairs       = 12      // pairs of columns that are tried as an index of a table
	referenceRows  = 1 << 18 // more are not copied to every shard
	referenceBytes = 256 << 20
	singleRows     = 1 << 20 // more are not kept on one shard
	// failing is what a shape at least costs, in shares of all statements, that is refused: an application that fails once in
	// a thousand times isn't usable. Counter-example: comments by whether they are approved, which nearly all readers ask for.
	failing = 0.5
	// growing is what it costs, in shares of all statements, to copy a row of a table that gets new ones for ever.
	growing = 2.5e-6
	// Where the planner sees no difference, these decide; all together are less than one statement in a hundred.
	brokenKey    = 0.004 // a foreign key that would not hold
	brokenUnique = 0.001
	alikeNames   = 0.0005 // names that say the same: user_id and users.id
	copiedTable  = 0.0002
)

// search looks for placements.
type search struct {
	src    *Source
	base   *catalog.Catalog
	judge  *judge
	shards int
	tables map[catalog.TableName]*candidateTable
	names  []catalog.TableName // sorted
	shapes []*shapeCost
	total  float64 // executions
	design Design
	notes  []string
	ended  func() bool // the time is up
	left   int         // of the budget, in verdicts that are looked up
}

// candidateTable is a table that is to be placed.
type candidateTable struct {
	*catalog.Table
	stats   Stats
	choices []Placement
	// ideal are virtual indexes on each column that statements name.
	ideal []*catalog.Index
	// shapes name the table; beside are the tables that they, and foreign keys, name with it.
	shapes  []*shapeCost
	beside  map[catalog.TableName]bool
	foreign []ForeignKey // of which it is the child
}

// shapeCost is a shape with the tables that it names, and its verdicts under their placements.
type shapeCost struct {
	*Shape
	names  []catalog.TableName
	tables []*catalog.Table
	costs  map[string]float64
}

func newSearch(ctx context.Context, src *Source, base *catalog.Catalog, j *judge) *search {
	s := &search{
		src: src, base: base, judge: j, shards: len(base.Shards), tables: map[catalog.TableName]*candidateTable{}, left: src.Budget * planCost,
		design: Design{Placements: map[catalog.TableName]Placement{}}, ended: func() bool { return ctx.Err() != nil },
	}
	for t := range base.Tables() {
		if t.IsView || t.Sequence || len(t.Columns) == 0 || !slices.Contains(src.Schemas, t.Schema) {
			continue
		}
		s.tables[nameOf(t)] = &candidateTable{Table: t, stats: src.Stats[nameOf(t)], beside: map[catalog.TableName]bool{}}
		s.names = append(s.names, nameOf(t))
	}
	slices.SortFunc(s.names, compareNames)
	mentions := map[*catalog.Column]float64{}
	for _, shape := range src.Shapes {
		c := &shapeCost{Shape: shape, costs: map[string]float64{}}
		words := wordsOf(shape)
		s.named(c, words, shape.Schema)
		if len(c.names) == 0 {
			continue
		}
		s.shapes = append(s.shapes, c)
		s.total += float64(shape.Calls)
		for _, n := range c.names {
			t := s.tables[n]
			t.shapes = append(t.shapes, c)
			for _, other := range c.names {
				t.beside[other] = true
			}
			for _, col := range t.Columns {
				if words[strings.ToLower(col.Name)] {
					mentions[col] += float64(shape.Calls)
				}
			}
		}
	}
	for _, fk := range src.ForeignKeys {
		child, parent := s.tables[fk.Table], s.tables[fk.Parent]
		if child == nil || parent == nil {
			continue
		}
		child.beside[fk.Parent], parent.beside[fk.Table] = true, true
		child.foreign = append(child.foreign, fk)
		for i := range fk.Columns {
			for _, c := range []*catalog.Column{child.Column(fk.Columns[i]), parent.Column(fk.Refers[i])} {
				if c != nil {
					mentions[c] += 0.5
				}
			}
		}
	}
	id := catalog.IndexID(0)
	for _, n := range s.names {
		t := s.tables[n]
		s.choose(t, mentions, &id)
		s.design.Placements[n] = t.choices[0]
	}
	return s
}

// named notes the tables that a shape names, in views too.
func (s *search) named(c *shapeCost, words map[string]bool, schema string) {
	seen := map[*catalog.Table]bool{}
	var add func(words map[string]bool, schema string)
	add = func(words map[string]bool, schema string) {
		for t := range s.base.Tables() {
			if seen[t] || !words[strings.ToLower(t.Name)] || !strings.EqualFold(t.Schema, schema) && !words[strings.ToLower(t.Schema)] {
				continue
			}
			seen[t] = true
			if t.IsView {
				add(identifiers(t.Definition), t.Schema)
			}
			if s.tables[nameOf(t)] != nil {
				c.names, c.tables = append(c.names, nameOf(t)), append(c.tables, t)
			}
		}
	}
	add(words, schema)
	slices.SortFunc(c.names, compareNames)
}

func wordsOf(s *Shape) map[string]bool {
	if len(s.Samples) > 0 {
		return identifiers(s.Samples[0])
	}
	return identifiers(s.Digest)
}

// identifiers are the words of a text that may be names.
func identifiers(sql string) map[string]bool {
	out := map[string]bool{}
	lx := text.NewLexer(sql, text.Settings{Charset: "utf8mb4"}, text.ServerVersion{})
	for t := lx.Next(); t.Kind != text.EOF && t.Kind != text.Bad; t = lx.Next() {
		if t.Kind == text.Word || t.Kind == text.Quoted {
			out[strings.ToLower(strings.Trim(sql[t.Start:t.End], "`"))] = true
		}
	}
	return out
}

func compareNames(a, b catalog.TableName) int {
	return cmp.Or(strings.Compare(a.Schema, b.Schema), strings.Compare(a.Name, b.Name))
}

// choose finds the placements that a table is tried with, its primary key first.
func (s *search) choose(t *candidateTable, mentions map[*catalog.Column]float64, id *catalog.IndexID) {
	var columns []*catalog.Column
	for _, c := range t.Columns {
		if mentions[c] > 0 && keyable(s.base, c) {
			columns = append(columns, c)
		}
	}
	slices.SortStableFunc(columns, func(a, b *catalog.Column) int { return cmp.Compare(mentions[b], mentions[a]) })
	columns = columns[:min(len(columns), 2*maxKeys)]
	ideal := func(of ...*catalog.Column) {
		*id++
		t.ideal = append(t.ideal, &catalog.Index{ID: *id, Name: strings.Join(columnNames(of), "_"), Columns: of, Partitions: 1, Status: catalog.Ready})
	}
	for _, c := range columns {
		ideal(c)
	}
	for _, pair := range t.pairs(columns) {
		ideal(pair[0], pair[1])
	}
	if pk := t.PrimaryKey; len(pk) > 0 && !pk[0].Invisible {
		columns = append([]*catalog.Column{pk[0]}, columns...)
	}
	for _, c := range columns {
		p := Placement{Placement: catalog.Hash, Key: c.Name}
		if len(t.choices) < maxKeys && !c.Nullable && keyable(s.base, c) && s.spreads(t, c) && !slices.Contains(t.choices, p) {
			t.choices = append(t.choices, p)
		}
	}
	keyed := len(t.choices) > 0
	if !keyed || t.stats.Rows <= singleRows {
		t.choices = append(t.choices, Placement{Placement: catalog.Single})
	}
	if t.stats.Rows <= referenceRows && t.stats.Bytes <= referenceBytes {
		t.choices = append(t.choices, Placement{Placement: catalog.Reference})
	}
}

// pairs are columns that statements name together, where neither alone has few rows to a value.
func (t *candidateTable) pairs(columns []*catalog.Column) (out [][2]*catalog.Column) {
	for _, shape := range t.shapes {
		words := wordsOf(shape.Shape)
		for i, a := range columns {
			for _, b := range columns[i+1:] {
				pair := [2]*catalog.Column{a, b}
				if len(out) < maxPairs && words[strings.ToLower(a.Name)] && words[strings.ToLower(b.Name)] && t.repeats(a) && t.repeats(b) && !slices.Contains(out, pair) {
					out = append(out, pair)
				}
			}
		}
	}
	return out
}

// repeats reports a column that has several rows to a value, or may.
func (t *candidateTable) repeats(c *catalog.Column) bool {
	d, known := t.stats.Distinct[strings.ToLower(c.Name)]
	return !uniquely(t.Table, []*catalog.Column{c}) && (!known || t.stats.Rows > 2*d)
}

// spreads reports a column with values enough that its rows come to all shards.
func (s *search) spreads(t *candidateTable, c *catalog.Column) bool {
	n, known := t.stats.Distinct[strings.ToLower(c.Name)]
	return !known || t.stats.Rows < uint64(8*s.shards) || n >= uint64(s.shards)
}

// run finds the placements.
func (s *search) run() {
	for _, component := range s.components() {
		s.seed(component)
	}
	for changed := true; changed && s.left > 0; {
		changed = false
		for _, n := range s.names {
			changed = s.improve(n) || changed
		}
		if !changed {
			changed = s.improvePairs()
		}
	}
}

// components are the tables that are named with one another, in turn.
func (s *search) components() (out [][]catalog.TableName) {
	seen := map[catalog.TableName]bool{}
	for _, n := range s.names {
		if seen[n] {
			continue
		}
		seen[n] = true
		component := []catalog.TableName{n}
		for i := 0; i < len(component); i++ {
			for _, next := range s.neighbours(component[i]) {
				if !seen[next] {
					seen[next] = true
					component = append(component, next)
				}
			}
		}
		out = append(out, component)
	}
	return out
}

func (s *search) neighbours(n catalog.TableName) []catalog.TableName {
	var out []catalog.TableName
	for other := range s.tables[n].beside {
		if other != n && s.tables[other] != nil {
			out = append(out, other)
		}
	}
	slices.SortFunc(out, compareNames)
	return out
}

// seed tries each key of each table of a component, with the tables beside it as suits it best.
func (s *search) seed(component []catalog.TableName) {
	if len(component) < 2 {
		return
	}
	best, cheapest := s.placements(component), s.costOf(component)
	began := slices.Clone(best)
	for i, n := range component {
		for _, p := range s.tables[n].choices {
			if p.Placement != catalog.Hash || s.left <= 0 {
				continue
			}
			s.put(component, began)
			s.design.Placements[n] = p
			fixed := map[catalog.TableName]bool{n: true}
			for queue := []catalog.TableName{component[i]}; len(queue) > 0; queue = queue[1:] {
				for _, next := range s.neighbours(queue[0]) {
					if !fixed[next] {
						fixed[next] = true
						queue = append(queue, next)
						s.improve(next)
					}
				}
			}
			if c := s.costOf(component); c < cheapest {
				best, cheapest = s.placements(component), c
			}
		}
	}
	s.put(component, best)
}

func (s *search) placements(of []catalog.TableName) (out []Placement) {
	for _, n := range of {
		out = append(out, s.design.Placements[n])
	}
	return out
}

func (s *search) put(of []catalog.TableName, placements []Placement) {
	for i, n := range of {
		s.design.Placements[n] = placements[i]
	}
}

// improve gives a table the placement that is cheapest, all others being where they are.
func (s *search) improve(n catalog.TableName) (changed bool) {
	is := s.design.Placements[n]
	best, cheapest := is, s.costAround(n)
	for _, p := range s.tables[n].choices {
		if p == is || s.left <= 0 {
			continue
		}
		s.design.Placements[n] = p
		if c := s.costAround(n); c < cheapest-1e-9 {
			best, cheapest = p, c
		}
	}
	s.design.Placements[n] = best
	return best != is
}

// improvePairs moves two tables that are named together to columns of equal keys.
func (s *search) improvePairs() (changed bool) {
	for _, n := range s.names {
		for _, m := range s.neighbours(n) {
			if compareNames(n, m) > 0 {
				continue
			}
			pair := []catalog.TableName{n, m}
			best, cheapest := s.placements(pair), s.costAround(pair...)
			is := slices.Clone(best)
			for _, p := range s.tables[n].choices {
				for _, q := range s.tables[m].choices {
					if s.left <= 0 || p.Placement != catalog.Hash || q.Placement != catalog.Hash ||
						!plan.SameKeys(s.base, s.tables[n].Column(p.Key), s.tables[m].Column(q.Key)) {
						continue
					}
					s.put(pair, []Placement{p, q})
					if c := s.costAround(pair...); c < cheapest-1e-9 {
						best, cheapest = s.placements(pair), c
					}
				}
			}
			s.put(pair, best)
			changed = changed || !slices.Equal(best, is)
		}
	}
	return changed
}

// costOf is what some tables, and all that names them, cost.
func (s *search) costOf(tables []catalog.TableName) (sum float64) {
	seen := map[*shapeCost]bool{}
	for _, n := range tables {
		for _, c := range s.tables[n].shapes {
			if !seen[c] {
				seen[c] = true
				sum += float64(c.Calls) * s.cost(c)
			}
		}
		sum += s.total * s.tableCost(n)
	}
	return sum
}

// costAround is costOf of tables that move, and what those beside them cost by themselves.
func (s *search) costAround(moved ...catalog.TableName) float64 {
	sum := s.costOf(moved)
	seen := map[catalog.TableName]bool{}
	for _, n := range moved {
		for other := range s.tables[n].beside {
			if !seen[other] && s.tables[other] != nil && !slices.Contains(moved, other) {
				seen[other] = true
				sum += s.total * s.tableCost(other)
			}
		}
	}
	return sum
}

// cost is that of a shape under the design.
func (s *search) cost(c *shapeCost) float64 {
	var key strings.Builder
	for _, n := range c.names {
		p := s.design.Placements[n]
		fmt.Fprintf(&key, "%d%s,", p.Placement, p.Key)
	}
	if s.left--; s.ended() {
		s.left = 0
	}
	if known, ok := c.costs[key.String()]; ok {
		return known
	}
	s.left -= planCost
	s.src.tell("placing tables", s.src.Budget*planCost-s.left, s.src.Budget*planCost) // it may end before
	cat := s.design.place(s.base, c.tables, func(t *catalog.Table) []*catalog.Index { return s.tables[nameOf(t)].ideal })
	v := s.judge.of(c.Shape, cat)
	cost := v.cost(s.shards)
	if v.Route == Refused {
		cost = math.Max(cost, failing*s.total/float64(max(1, c.Calls)))
	}
	if v.Route == One && s.onSingle(c) {
		// One shard has all of it: no better than all shards, but that they need not be asked.
		cost = 0.75 * float64(s.shards)
	}
	c.costs[key.String()] = cost
	return cost
}

// onSingle reports a shape that names a table of one shard.
func (s *search) onSingle(c *shapeCost) bool {
	return slices.ContainsFunc(c.names, func(n catalog.TableName) bool { return s.design.Placements[n].Placement == catalog.Single })
}

// tableCost is what a placement costs by itself, in shares of all statements.
func (s *search) tableCost(n catalog.TableName) (sum float64) {
	t, p := s.tables[n], s.design.Placements[n]
	switch p.Placement {
	case catalog.Reference:
		sum += copiedTable
		if len(t.PrimaryKey) == 1 && t.PrimaryKey[0].AutoIncrement {
			sum += growing * float64(t.stats.Rows)
		}
	case catalog.Single:
		sum += copiedTable
	case catalog.Hash:
		key := t.Column(p.Key)
		for _, u := range t.Unique {
			if !slices.Contains(u, key) && !countedKey(u) {
				sum += brokenUnique
			}
		}
		for other := range t.beside {
			if q := s.design.Placements[other]; other != n && q.Placement == catalog.Hash && alike(t.Table, p.Key, s.tables[other].Table, q.Key) {
				sum -= alikeNames
				break
			}
		}
		if d, known := t.stats.Distinct[strings.ToLower(p.Key)]; known && t.stats.Rows >= uint64(8*s.shards) && d < uint64(8*s.shards) {
			sum += copiedTable // few values: shards get unlike shares
		}
	case catalog.Anywhere:
	}
	for _, fk := range t.foreign {
		if !holds(s.base, s.design, fk) {
			sum += brokenKey
		}
	}
	return sum
}

// countedKey reports a unique key of an AUTO_INCREMENT column alone, whose values Shunt counts.
func countedKey(u []*catalog.Column) bool { return len(u) == 1 && u[0].AutoIncrement }

// alike reports columns whose names say that they have the same values: o_w_id and w_id, user_id and users.id.
func alike(t *catalog.Table, a string, u *catalog.Table, b string) bool {
	x, y := meaning(t, a), meaning(u, b)
	return x == y || strings.HasSuffix(x, "_"+y) || strings.HasSuffix(y, "_"+x)
}

// meaning is a column's name without what stands for its table in it: ol_w_id is w_id.
func meaning(t *catalog.Table, column string) string {
	name := strings.ToLower(column)
	if name == "id" {
		return strings.TrimSuffix(strings.ToLower(t.Name), "s") + "_id"
	}
	prefix, rest, ok := strings.Cut(name, "_")
	if !ok || rest == "id" || slices.ContainsFunc(t.Columns, func(c *catalog.Column) bool { return !strings.HasPrefix(strings.ToLower(c.Name), prefix+"_") }) {
		return name
	}
	return rest
}

// holds reports whether a foreign key is looked after on each shard under a design.
func holds(cat *catalog.Catalog, d Design, fk ForeignKey) bool {
	child, parent := d.Placements[fk.Table], d.Placements[fk.Parent]
	if parent.Placement == catalog.Reference {
		return true
	}
	if child.Placement != parent.Placement || child.Placement == catalog.Reference {
		return false
	}
	if child.Placement == catalog.Single {
		return true
	}
	c, p := cat.Table(fk.Table.Schema, fk.Table.Name), cat.Table(fk.Parent.Schema, fk.Parent.Name)
	for i := range fk.Columns {
		if strings.EqualFold(fk.Columns[i], child.Key) && strings.EqualFold(fk.Refers[i], parent.Key) {
			return c != nil && p != nil && plan.SameKeys(cat, c.Column(child.Key), p.Column(parent.Key))
		}
	}
	return false
}
