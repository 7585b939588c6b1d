package console

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

var statementsPage = &page{
	path: "/statements", title: "Statements", menu: "Statements", every: 5 * time.Second, data: statements,
	body: `
<h1>Statements</h1>
<form class="filter" method="get" action="/statements" data-keep id="filter">
<label>Text like <input name="like" value="{{.Data.Like}}" placeholder="%orders%" spellcheck="false"></label>
<label>Order by <select name="by">{{range .Data.Orders}}<option value="{{.Of}}"{{if eq .Of $.Data.By}} selected{{end}}>{{.Label}}</option>{{end}}</select></label>
<button class="primary">Show</button>
</form>
{{template "table" .Data.Table}}
<p class="note">A row is a shape: statements that differ in their literals alone. Times are in milliseconds.</p>
`,
}

// shownStatements bounds the rows of the list.
const shownStatements = 50

// order is a column that statements can be sorted by, the largest first.
type order struct{ Of, Label string }

var orders = []order{
	{"Total_ms", "time in total"},
	{"Calls", "calls"},
	{"Mean_ms", "mean time"},
	{"P99_ms", "99th percentile"},
	{"Max_ms", "longest time"},
	{"Errors", "errors"},
	{"Shards", "shards"},
	{"Rows_sent", "rows sent"},
	{"Lookups_in_vain", "lookups in vain"},
	{"Last_seen", "last seen"},
}

func statements(v *visit) (any, error) {
	q := v.r.URL.Query()
	by, like := q.Get("by"), q.Get("like")
	if !slices.ContainsFunc(orders, func(o order) bool { return o.Of == by }) {
		by = orders[0].Of
	}
	sql := "SHOW STATEMENT STATISTICS"
	if like != "" {
		if !strings.ContainsAny(like, "%_") {
			like = "%" + like + "%"
		}
		sql += " LIKE " + quoted(like)
	}
	sql += fmt.Sprintf(" ORDER BY %s DESC LIMIT %d", by, shownStatements)
	t, err := v.statementTable(sql)
	if err != nil {
		return nil, err
	}
	for i, c := range statementColumns {
		if slices.ContainsFunc(orders, func(o order) bool { return o.Of == c.of }) {
			t.Columns[i].Link = "/statements?" + url.Values{"by": {c.of}, "like": {q.Get("like")}}.Encode()
		}
		if c.of == by {
			t.Columns[i].Sorted = "descending"
		}
	}
	return map[string]any{"Table": t, "Like": q.Get("like"), "By": by, "Orders": orders}, nil
}

// quoted is a string literal.
func quoted(s string) string {
	return "'" + strings.NewReplacer("'", "''", `\`, `\\`).Replace(s) + "'"
}

// shape is the text of a statement, linked to its page.
func shape(value string, at func(string) string) cell {
	if at("Digest") == "" {
		return cell{Text: "all others together", Class: "wide"}
	}
	return cell{Text: short(300, value), Link: "/statements/" + at("Digest"), Class: "wide statement"}
}

func access(value string, at func(string) string) cell {
	if at("Route") == "" || value == "" {
		return cell{Text: at("Route")}
	}
	name, _ := wayOf(value)
	if strings.HasSuffix(name, " shard") {
		return cell{Text: at("Route") + " to " + name}
	}
	if value == "scatter" {
		return cell{Text: at("Route") + " to " + name, Class: "warm"}
	}
	return cell{Text: at("Route") + " by " + name}
}

var statementColumns = []column{
	{of: "Statement", label: "Statement", as: shape},
	{of: "Times", label: "Times"},
	{of: "Calls", label: "Calls", number: true},
	{of: "Errors", label: "Errors", number: true},
	{of: "P50_ms", label: "p50", number: true},
	{of: "P99_ms", label: "p99", number: true},
	{of: "Total_ms", label: "Total", number: true},
	{of: "Shards", label: "Shards", number: true},
	{of: "Access", label: "Route", as: access},
	{of: "Last_seen", label: "Last seen"},
}

func (v *visit) statementTable(sql string) (table, error) {
	a, err := v.execute(sql)
	if err != nil {
		return table{}, err
	}
	t := a.table("Statements", sql, "No statement was executed yet, or none is like that.", statementColumns...)
	digests := make([]string, len(a.Rows))
	for i, r := range a.Rows {
		digests[i] = a.at(r, "Digest")
	}
	times := v.served.Histograms(digests...)
	for i, d := range digests {
		if h := spark("times of "+d, times[d].Whole); h != nil {
			t.Rows[i][1].Histogram = h
		}
	}
	return t, nil
}
