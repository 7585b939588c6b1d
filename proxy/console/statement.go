package console

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/insights"
)

var statementPage = &page{
	path: "/statements/{digest}", title: "Statement", every: 5 * time.Second, data: statement,
	body: `
<h1>Statement</h1>
<pre class="statement">{{.Data.Text}}</pre>
{{with .Data.Sample}}<h2>The longest one</h2><pre class="statement">{{.}}</pre>{{end}}
<p class="lead">{{with .Data.Schema}}In schema <b>{{.}}</b>; {{end}}digest <code>{{.Data.Digest}}</code>, first seen {{.Data.First}}, last {{.Data.Last}} (UTC)</p>
{{template "figures" .Data.Figures}}
<section><h2>Times</h2>
{{with .Data.Whole}}<h3>Whole statements</h3>{{template "histogram" .}}{{end}}
{{with .Data.Part}}<h3>Parts of shards</h3>{{template "histogram" .}}{{end}}
</section>
<section><h2>Route</h2>
{{with .Data.Route}}{{template "drawing" .}}{{else}}<p class="empty">It was sent to no shard.</p>{{end}}
{{template "table" .Data.Shards}}
<p><a class="button" href="{{.Data.Explain}}">Draw the route of one with values</a></p>
</section>
<section id="advice"{{if .Data.Again}} data-keep{{end}}><h2>Advice</h2>
{{if .Data.Advice}}{{template "table" .Data.Advice}}{{end}}
</section>
`,
}

func statement(v *visit) (any, error) {
	digest := v.r.PathValue("digest")
	a, err := v.execute("SHOW STATEMENT STATISTICS")
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(a.Rows, func(r []any) bool { return a.at(r, "Digest") == digest })
	if i < 0 {
		return nil, errNotFound("No statement has the digest " + digest + ": it may have been forgotten, by FLUSH STATEMENT STATISTICS or for others that are used more.")
	}
	at := func(column string) string { return a.at(a.Rows[i], column) }
	times := v.served.Histograms(digest)[digest]
	from, to := extent(times.Whole, times.Part)
	data := map[string]any{
		"Text": at("Statement"), "Sample": at("Sample"), "Digest": digest, "Schema": at("Schema"), "First": at("First_seen"), "Last": at("Last_seen"), "Again": v.again,
		"Figures": statementFigures(at),
		"Whole":   drawHistogram("times of the whole statement", times.Whole, from, to, percentiles(at, "")...),
		"Part":    drawHistogram("times of shards' parts", times.Part, from, to, percentiles(at, "Shard_")...),
		"Explain": "/route?" + url.Values{"sql": {cmp.Or(at("Sample"), at("Statement"))}, "schema": {at("Schema")}}.Encode(),
	}
	traffic := v.served.Traffic()
	t := Traffic{Access: at("Access")}
	if i := slices.IndexFunc(traffic, func(t Traffic) bool { return t.Digest == digest }); i >= 0 {
		t = traffic[i]
	}
	data["Route"], data["Shards"] = routeOf(v.served.Catalog(), &t, at)
	if !v.again { // it asks the shards
		data["Advice"] = v.adviceFor(t.Tables)
	}
	return data, nil
}

func statementFigures(at func(string) string) []figureShown {
	figures := []figureShown{{Name: "Calls", Value: grouped(at("Calls"))}}
	errors := figureShown{Name: "Errors", Value: grouped(at("Errors"))}
	if code := at("Last_error"); code != "" {
		errors.Note, errors.Class = "the last one "+code, "bad"
	}
	figures = append(figures, errors,
		figureShown{Name: "p50", Value: spokenMillis(at("P50_ms"))},
		figureShown{Name: "p99", Value: spokenMillis(at("P99_ms")), Note: "p99.9 " + spokenMillis(at("P999_ms"))},
		figureShown{Name: "Time", Value: spokenMillis(at("Total_ms")), Note: "in total"},
		figureShown{Name: "Shards", Value: at("Shards"), Note: "on average"},
		figureShown{Name: "Rows sent", Value: grouped(at("Rows_sent")), Note: grouped(at("Rows_affected")) + " changed"})
	if plan := at("Route"); plan != "" {
		figures = append(figures, figureShown{Name: "Plan", Value: plan, Note: "shards by " + at("Access")})
	}
	for _, f := range []struct{ of, name string }{{"Rows_copied", "Rows copied"}, {"Waits", "Waits"}, {"Lookups_in_vain", "Lookups in vain"}} {
		if n := at(f.of); n != "" && n != "0" {
			figures = append(figures, figureShown{Name: f.name, Value: grouped(n)})
		}
	}
	return figures
}

func percentiles(at func(string) string, prefix string) (marks []mark) {
	for _, p := range []struct{ of, text string }{{"P50_ms", "p50"}, {"P95_ms", "p95"}, {"P99_ms", "p99"}, {"P999_ms", "p99.9"}} {
		if d := ofMillis(at(prefix + p.of)); d > 0 {
			marks = append(marks, mark{Time: d, Text: p.text})
		}
	}
	return marks
}

// ofMillis is a time in milliseconds as SHOW STATEMENT STATISTICS has it, 0 where it has none.
func ofMillis(ms string) time.Duration {
	n, _ := strconv.ParseFloat(ms, 64)
	return time.Duration(n * float64(time.Millisecond))
}

func spokenMillis(ms string) string { return spoken(ofMillis(ms)) }

// routeOf is where a shape of statements went.
func routeOf(c *catalog.Catalog, t *Traffic, at func(string) string) (*drawing, table) {
	list := table{Label: "Parts by shard", Empty: "No shard had a part.", Columns: []heading{{Label: "Shard"}, {Label: "Parts", Number: true}, {Label: "Mean", Number: true}, {Label: "Longest", Number: true}}}
	if len(t.Shards) == 0 {
		return nil, list
	}
	slices.SortFunc(t.Shards, func(a, b insights.ShardRow) int { return cmp.Compare(a.Shard, b.Shard) })
	way := wayNode(t.Access)
	way.Right = grouped(at("Calls"))
	var left, right []*node
	var edges []edge
	for _, n := range t.Tables[:min(len(t.Tables), mapRows)] {
		x := &node{Name: n.Schema + "." + n.Name, Class: "table"}
		if t := c.Table(n.Schema, n.Name); t != nil {
			x.Note = placementOf(t)
		}
		left = append(left, x)
		edges = append(edges, edge{from: x, to: way, weight: 1, Busy: true, Title: x.Name})
	}
	if left == nil {
		left = append(left, &node{Name: "statement", Note: at("Route"), Class: "table"})
		edges = append(edges, edge{from: left[0], to: way, weight: 1, Busy: true})
	}
	for _, s := range t.Shards {
		shard, mean := c.ShardName(catalog.ShardID(s.Shard)), s.Total/time.Duration(max(1, s.Parts))
		list.Rows = append(list.Rows, []cell{{Text: shard}, {Text: count(s.Parts), Number: true}, {Text: spoken(mean), Number: true}, {Text: spoken(s.Max), Number: true}})
		if len(right) < mapRows {
			x := &node{Name: shard, Note: "mean " + spoken(mean), Right: count(s.Parts), Class: "shard"}
			right = append(right, x)
			edges = append(edges, edge{from: way, to: x, weight: float64(s.Parts), Busy: true, Title: fmt.Sprintf("%s: %s parts", shard, count(s.Parts))})
		}
	}
	return draw("Route of the statement", []string{"Tables", "Shards are found by", "Shards"}, [][]*node{left, {way}, right}, edges), list
}
