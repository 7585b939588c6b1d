package console

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
)

var overviewPage = &page{
	path: "/{$}", title: "Overview", menu: "Overview", every: 2 * time.Second, data: overview,
	body: `
<h1>Overview</h1>
{{with .Data.Unready}}<p class="alert" role="alert">Takes no clients: {{.}}</p>{{end}}
{{range .Data.Degraded}}<p class="alert">{{.}}</p>{{end}}
{{template "figures" .Data.Figures}}
<section><h2>Routes</h2>
<p class="lead">How statements find their shards: {{.Data.Says}}.{{with .Data.Hidden}} {{.}}{{end}}</p>
{{template "drawing" .Data.Map}}
<details><summary>The same as a table</summary>{{template "table" .Data.Flows}}</details>
</section>
{{with .Data.Slots}}<section><h2>Slots</h2>
<p class="lead">Shard keys hash into {{.Total}} slots, each on a shard.</p>
{{if .Runs}}<svg class="slots" viewBox="0 0 1024 22" preserveAspectRatio="none" role="img" aria-label="{{.Label}}">{{range .Runs}}<rect class="shard{{.Color}}" x="{{.X}}" y="0" width="{{.W}}" height="22"><title>{{.Title}}</title></rect>{{end}}</svg>{{end}}
<ul class="legend">{{range .Shards}}<li><svg width="12" height="12" aria-hidden="true"><rect class="shard{{.Color}}" width="12" height="12" rx="3"/></svg> {{.Title}}</li>{{end}}</ul>
</section>{{end}}
<section><h2>Tables</h2>{{template "table" .Data.Tables}}{{with .Data.More}}<p class="note">{{.}}</p>{{end}}</section>
`,
}

const (
	// mapRows bounds the tables, ways and shards that the map shows, shownTables those of the list.
	mapRows     = 12
	shownTables = 100
)

// figure is a number that stands by itself.
type figureShown struct{ Name, Value, Note, Metric, Class string }

func overview(v *visit) (any, error) {
	now, rate, before := v.pace.look(v.site)
	c := v.served.Catalog()
	m := newRoutes(v, c, now, rate, before)
	tables, more := tablesOf(c)
	says := "statements and parts since the start"
	if rate != nil {
		says = "statements and parts a second"
	}
	return map[string]any{
		"Unready": v.served.Unready(), "Degraded": v.served.Degraded(true), "Figures": overviewFigures(c, now, rate, before),
		"Says": says, "Hidden": m.hidden, "Map": m.draw(), "Flows": m.table(), "Slots": slotsOf(c), "Tables": tables, "More": more,
	}, nil
}

func overviewFigures(c *catalog.Catalog, now sample, rate func(now, before float64) float64, before sample) []figureShown {
	f := now.figures
	counter := func(name, metric string) figureShown {
		s := figureShown{Name: name, Value: number(f.sum(metric)), Metric: metric}
		if rate != nil {
			s.Note = perSecond(rate(f.sum(metric), before.figures.sum(metric)))
		}
		return s
	}
	up, shards := f.sum("shunt_shard_up"), len(c.Shards)
	class := ""
	if int(up) < shards {
		class = "bad"
	}
	ready, indexes := f.sum("shunt_index_status", label{"status", "ready"}), 0
	for _, s := range c.Schemas {
		for _, t := range s.Tables {
			indexes += len(t.Indexes)
		}
	}
	return []figureShown{
		counter("Statements", "shunt_statements_total"),
		{Name: "Sessions", Value: number(f.sum("shunt_sessions")), Metric: "shunt_sessions", Note: number(f.sum("shunt_sessions_pinned")) + " keep a connection"},
		counter("Errors", "shunt_errors_total"),
		{Name: "Shards up", Value: number(up), Metric: "shunt_shard_up", Note: fmt.Sprint("of ", shards), Class: class},
		{Name: "Indexes ready", Value: number(ready), Note: fmt.Sprint("of ", indexes)},
		{Name: "Jobs", Value: number(f.sum("shunt_jobs")), Metric: "shunt_jobs", Note: "maintenance"},
	}
}

func perSecond(rate float64) string {
	switch {
	case rate >= 100:
		return count(int64(rate+0.5)) + " /s"
	case rate >= 10 || rate == 0:
		return fmt.Sprintf("%.0f /s", rate)
	}
	return fmt.Sprintf("%.1f /s", rate)
}

// routes are the map's.
type routes struct {
	rated  bool
	flows  map[flow]float64
	tables []*node
	ways   []*node
	shards []*node
	edges  []edge
	hidden string
	rows   [][]cell
}

func newRoutes(v *visit, c *catalog.Catalog, now sample, rate func(now, before float64) float64, before sample) *routes {
	m := &routes{rated: rate != nil, flows: map[flow]float64{}}
	for f, n := range now.counters {
		if m.flows[f] = float64(n); rate != nil {
			m.flows[f] = rate(float64(n), float64(before.counters[f]))
		}
	}
	tables := m.tableNodes(c)
	ways := m.wayNodes(c)
	shards := m.shardNodes(v, c)
	for _, f := range slices.SortedFunc(maps.Keys(m.flows), compareFlows) {
		w := m.flows[f]
		way := ways[f.access]
		from, to := tables[catalog.TableName{Schema: f.schema, Name: f.table}], way
		if f.shard >= 0 {
			from, to = way, shards[f.shard]
		}
		if from == nil || to == nil {
			continue
		}
		e := edge{from: from, to: to, weight: w, Busy: m.rated && w > 0, Title: fmt.Sprintf("%s → %s: %s", from.Title, to.Title, m.amount(w))}
		m.edges = append(m.edges, e)
		m.rows = append(m.rows, []cell{{Text: from.Title}, {Text: to.Title}, {Text: m.amount(w), Number: true}})
	}
	return m
}

func compareFlows(a, b flow) int {
	return cmp.Or(cmp.Compare(a.shard, b.shard), strings.Compare(a.schema, b.schema), strings.Compare(a.table, b.table), strings.Compare(a.access, b.access))
}

func (m *routes) amount(n float64) string {
	if m.rated {
		return perSecond(n)
	}
	return count(int64(n))
}

// most are the keys with the largest sums, and how many there are beside.
func most[K comparable](sums map[K]float64, compare func(a, b K) int) ([]K, int) {
	keys := slices.SortedFunc(maps.Keys(sums), func(a, b K) int { return cmp.Or(cmp.Compare(sums[b], sums[a]), compare(a, b)) })
	kept := keys[:min(len(keys), mapRows)]
	slices.SortFunc(kept, compare)
	return kept, len(keys) - len(kept)
}

func compareNames(a, b catalog.TableName) int {
	return cmp.Or(strings.Compare(a.Schema, b.Schema), strings.Compare(a.Name, b.Name))
}

func (m *routes) tableNodes(c *catalog.Catalog) map[catalog.TableName]*node {
	sums := map[catalog.TableName]float64{}
	for _, s := range c.Schemas {
		for _, t := range s.Tables {
			if !t.IsView && t.Columns != nil {
				sums[catalog.TableName{Schema: t.Schema, Name: t.Name}] = 0
			}
		}
	}
	for f, n := range m.flows {
		if f.shard < 0 {
			sums[catalog.TableName{Schema: f.schema, Name: f.table}] += n
		}
	}
	names, more := most(sums, compareNames)
	if more > 0 {
		m.hidden = fmt.Sprintf("%s more tables have less traffic.", count(more))
	}
	nodes := map[catalog.TableName]*node{}
	for _, name := range names {
		n := &node{Name: name.Schema + "." + name.Name, Class: "table", Right: m.amount(sums[name])}
		if t := c.Table(name.Schema, name.Name); t != nil {
			n.Note = placementOf(t)
		}
		nodes[name] = n
		m.tables = append(m.tables, n)
	}
	return nodes
}

// placementOf says where a table's rows are.
func placementOf(t *catalog.Table) string {
	if t.ShardKey != nil {
		return t.Placement.String() + " by " + t.ShardKey.Name
	}
	return t.Placement.String()
}

// wayOf is what a way of finding shards is called.
func wayOf(access string) (name, note string) {
	switch access {
	case "shard_key":
		return "shard key", "the slot of its hash"
	case "scatter":
		return "all shards", "nothing says which"
	case "reference":
		return "any shard", "copies are everywhere"
	case "single", "":
		return "one shard", "the one that has it"
	case "hash":
		return "each row's shard", "by its shard key"
	}
	if access == "hint" {
		return "hint", "the statement names it"
	}
	return strings.NewReplacer("index:", "", "shard_key", "shard key", ",", ", ").Replace(access), "virtual index"
}

func wayNode(access string) *node {
	name, note := wayOf(access)
	n := &node{Name: name, Note: note, Title: name, Class: "way"}
	switch {
	case strings.Contains(access, "index:"):
		n.Class = "way index"
	case access == "scatter":
		n.Class = "way scatter"
	}
	return n
}

func (m *routes) wayNodes(c *catalog.Catalog) map[string]*node {
	sums := map[string]float64{}
	for _, s := range c.Schemas {
		for _, t := range s.Tables {
			for _, ix := range t.Indexes {
				sums["index:"+ix.Name] = 0
			}
		}
	}
	for f, n := range m.flows {
		if f.shard >= 0 {
			sums[f.access] += n
		}
	}
	ways, _ := most(sums, func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a, b)) })
	nodes := map[string]*node{}
	for _, w := range ways {
		n := wayNode(w)
		n.Right = m.amount(sums[w])
		nodes[w] = n
		m.ways = append(m.ways, n)
	}
	return nodes
}

// rank orders ways by how narrow they are.
func rank(access string) int {
	switch {
	case access == "shard_key":
		return 0
	case access == "hash":
		return 1
	case strings.HasPrefix(access, "index:"):
		return 2
	case access == "scatter":
		return 4
	}
	return 3
}

func (m *routes) shardNodes(v *visit, c *catalog.Catalog) map[int]*node {
	sums := map[int]float64{}
	for f, n := range m.flows {
		if f.shard >= 0 {
			sums[f.shard] += n
		}
	}
	states := map[string]string{}
	if a, err := v.execute("SHOW SHARDS"); err == nil {
		for _, r := range a.Rows {
			if a.at(r, "Role") == "primary" {
				states[a.at(r, "Name")] = a.at(r, "State")
			}
		}
	}
	nodes := map[int]*node{}
	for _, sh := range c.Shards {
		if len(m.shards) == mapRows {
			m.hidden = strings.TrimSpace(m.hidden + fmt.Sprintf(" %d more shards are not drawn.", len(c.Shards)-mapRows))
			break
		}
		n := &node{Name: sh.Name, Note: states[sh.Name], Class: "shard", Right: m.amount(sums[int(sh.ID)])}
		if states[sh.Name] == "down" || states[sh.Name] == "stalled" {
			n.Class = "shard bad"
		}
		nodes[int(sh.ID)] = n
		m.shards = append(m.shards, n)
	}
	return nodes
}

func (m *routes) draw() *drawing {
	return draw("Traffic from tables over ways of finding shards to shards", []string{"Tables", "Shards are found by", "Shards"}, [][]*node{m.tables, m.ways, m.shards}, m.edges)
}

func (m *routes) table() table {
	return table{Label: "Traffic", Empty: "Nothing was executed yet.", Columns: []heading{{Label: "From"}, {Label: "To"}, {Label: "Traffic", Number: true}}, Rows: m.rows}
}

// slots are how slots lie on shards.
type slots struct {
	Total  int
	Label  string
	Runs   []slotRun
	Shards []slotRun
}

type slotRun struct {
	X, W, Color int
	Title       string
}

// maxRuns is up to how many runs of slots are drawn.
const maxRuns = 200

// colors are those that shards are told apart by.
const colors = 8

func slotsOf(c *catalog.Catalog) *slots {
	s := &slots{Total: catalog.Slots}
	had := map[catalog.ShardID]int{}
	for i := 0; i < catalog.Slots; {
		from, id := i, c.Slots[i]
		for i < catalog.Slots && c.Slots[i] == id {
			i++
		}
		had[id] += i - from
		s.Runs = append(s.Runs, slotRun{from, i - from, int(id) % colors, fmt.Sprintf("%s: slots %d to %d", c.ShardName(id), from, i-1)})
	}
	if len(s.Runs) > maxRuns {
		s.Runs = nil
	}
	for _, sh := range c.Shards {
		s.Shards = append(s.Shards, slotRun{Color: int(sh.ID) % colors, Title: fmt.Sprintf("%s: %d slots", sh.Name, had[sh.ID])})
	}
	s.Label = fmt.Sprintf("%d slots on %d shards", catalog.Slots, len(c.Shards))
	return s
}

func tablesOf(c *catalog.Catalog) (table, string) {
	t := table{Label: "Tables", Empty: "No shard has a table yet.", Columns: []heading{{Label: "Table"}, {Label: "Placement"}, {Label: "Shards", Number: true}, {Label: "Virtual indexes"}, {Label: "Lacks"}}}
	var all []*catalog.Table
	for _, s := range c.Schemas {
		for _, x := range s.Tables {
			all = append(all, x)
		}
	}
	slices.SortFunc(all, func(a, b *catalog.Table) int {
		return compareNames(catalog.TableName{Schema: a.Schema, Name: a.Name}, catalog.TableName{Schema: b.Schema, Name: b.Name})
	})
	for _, x := range all[:min(len(all), shownTables)] {
		var indexes []string
		for _, ix := range x.Indexes {
			indexes = append(indexes, ix.Name)
		}
		placement := placementOf(x)
		if x.IsView {
			placement = "view"
		}
		t.Rows = append(t.Rows, []cell{{Text: x.Schema + "." + x.Name}, {Text: placement}, {Text: fmt.Sprint(x.Shards.Len()), Number: true}, {Text: strings.Join(indexes, ", ")}, failure(cmp.Or(x.Differs, x.Unseen), nil)})
	}
	if more := len(all) - len(t.Rows); more > 0 {
		return t, fmt.Sprintf("%s more are not shown.", count(more))
	}
	return t, ""
}
