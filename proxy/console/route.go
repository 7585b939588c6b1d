package console

import (
	"maps"
	"net/http"
	"slices"

	"github.com/shunt-sql/shunt/planner/catalog"
)

var routePage = &page{
	path: "/route", title: "Route of a statement", menu: "Route", data: route, posts: true,
	body: `
<h1>Route of a statement</h1>
<p class="lead">Which shards a statement would go to, how they are found, and what each is sent, by <code>EXPLAIN ROUTE</code>. Nothing is executed.</p>
<form class="card" method="post" action="/route">
<input type="hidden" name="form" value="{{.Form}}">
<label for="statement">Statement, with values</label>
<textarea id="statement" name="sql" rows="5" spellcheck="false" required maxlength="65536">{{.Data.SQL}}</textarea>
<div class="filter"><label>Schema <select name="schema"><option value=""></option>{{range .Data.Schemas}}<option{{if eq . $.Data.Schema}} selected{{end}}>{{.}}</option>{{end}}</select></label>
<button class="primary">Draw the route</button></div>
</form>
{{with .Data.Failed}}<p class="alert" role="alert">{{.}}</p>{{end}}
{{with .Data.Drawing}}{{template "drawing" .}}{{end}}
{{with .Data.Table}}{{template "table" .}}{{end}}
`,
}

// longestStatement is what EXPLAIN ROUTE is asked for here.
const longestStatement = 64 << 10

func route(v *visit) (any, error) {
	c := v.served.Catalog()
	sql, schema := v.r.FormValue("sql"), v.r.FormValue("schema")
	schemas := slices.Sorted(maps.Keys(c.Schemas))
	if len(schemas) == 1 && v.r.Method == http.MethodGet {
		schema = schemas[0]
	}
	data := map[string]any{"SQL": sql, "Schema": schema, "Schemas": schemas, "Failed": "", "Drawing": nil, "Table": nil}
	if v.r.Method != http.MethodPost {
		return data, nil
	}
	if len(sql) > longestStatement {
		data["Failed"] = "The statement is too long for this form: send EXPLAIN ROUTE and it over a connection."
		return data, nil
	}
	explain := "EXPLAIN ROUTE " + sql
	a, err := v.executeIn(schema, explain)
	if err != nil {
		data["Failed"] = err.Error()
		return data, nil //nolint:nilerr // the page tells it, beside the statement
	}
	data["Drawing"] = drawRoute(c, a)
	data["Table"] = a.table("Route", short(200, explain), "It goes to no shard.", column{of: "Shards", label: "Shard"}, column{of: "Plan", label: "Plan"},
		column{of: "Access", label: "Found by", as: func(value string, _ func(string) string) cell { name, _ := wayOf(value); return cell{Text: name} }},
		column{of: "Reason", label: "Why", as: func(value string, _ func(string) string) cell { return cell{Text: value, Class: "wide"} }},
		column{of: "Statement", label: "What it is sent", as: func(value string, _ func(string) string) cell {
			return cell{Text: short(2000, value), Code: true, Class: "wide"}
		}})
	return data, nil
}

// drawRoute draws an answer of EXPLAIN ROUTE; of the shards that it names so many as fit.
func drawRoute(c *catalog.Catalog, a *Answer) *drawing {
	statement := &node{Name: "statement", Class: "table"}
	ways, shards := map[string]*node{}, map[string]*node{}
	columns := [][]*node{{statement}, nil, nil}
	var edges []edge
	for _, r := range a.Rows {
		statement.Note = a.at(r, "Plan")
		access, name := a.at(r, "Access"), a.at(r, "Shards")
		way := ways[access]
		if way == nil {
			if len(ways) == mapRows {
				continue
			}
			way = wayNode(access)
			way.Title = a.at(r, "Reason")
			ways[access], columns[1] = way, append(columns[1], way)
			edges = append(edges, edge{from: statement, to: way, weight: 1, Busy: true, Title: way.Title})
		}
		if name == "" || shards[name] == nil && len(shards) == mapRows {
			continue
		}
		if shards[name] == nil {
			shards[name] = &node{Name: name, Class: "shard"}
			columns[2] = append(columns[2], shards[name])
		}
		edges = append(edges, edge{from: way, to: shards[name], weight: 1, Busy: true, Title: name})
	}
	if len(shards) == 0 {
		return nil
	}
	for _, sh := range c.Shards { // those that it leaves out
		if shards[sh.Name] == nil && len(columns[2]) < mapRows {
			columns[2] = append(columns[2], &node{Name: sh.Name, Note: "not asked", Class: "shard idle"})
		}
	}
	slices.SortStableFunc(columns[2], func(a, b *node) int { return compareShards(c, a.Name, b.Name) })
	return draw("Route of the statement", []string{"Plan", "Shards are found by", "Shards"}, columns, edges)
}

func compareShards(c *catalog.Catalog, a, b string) int {
	at := func(name string) int {
		return slices.IndexFunc(c.Shards, func(s catalog.Shard) bool { return s.Name == name })
	}
	return at(a) - at(b)
}
