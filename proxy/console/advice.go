package console

import (
	"slices"

	"github.com/shunt-sql/shunt/planner/catalog"
)

var advicePage = &page{
	path: "/advice", title: "Advice", menu: "Advice",
	data: func(v *visit) (any, error) {
		return v.table("Advice", showAdvice, noAdvice, adviceColumns...), nil
	},
	body: `
<h1>Advice</h1>
<p class="lead">Virtual indexes that would route what this Shunt has executed, and those that cost more than they are worth, by samples and statistics of the shards.</p>
{{template "table" .Data}}
<p class="note">Nothing is done here: send the statement in the last column to Shunt.</p>
`,
}

const (
	showAdvice = "SHOW INDEX ADVICE"
	noAdvice   = "There is none: what was executed is routed as well as virtual indexes can."
)

var adviceColumns = []column{
	{of: "Table", label: "Table", as: func(value string, at func(string) string) cell { return cell{Text: at("Schema") + "." + value} }},
	{of: "Columns", label: "Columns"},
	{of: "Executions", label: "Executions", number: true},
	{of: "Time_ms", label: "Time (ms)", number: true},
	{of: "Shards", label: "Shards now", number: true},
	{of: "Fan_out", label: "Shards then", number: true},
	{of: "Basis", label: "By"},
	{of: "Entries", label: "Entries", number: true},
	{of: "Writes", label: "Writes", number: true},
	{of: "Advice", label: "Statement", as: code},
}

// adviceFor is that about some tables.
func (v *visit) adviceFor(tables []catalog.TableName) table {
	a, err := v.execute(showAdvice)
	if err != nil {
		return table{Label: "Advice", SQL: showAdvice, Failed: err.Error()}
	}
	a.Rows = slices.DeleteFunc(a.Rows, func(r []any) bool {
		return !slices.Contains(tables, catalog.TableName{Schema: a.at(r, "Schema"), Name: a.at(r, "Table")})
	})
	return a.table("Advice", showAdvice, "There is none for its tables.", adviceColumns...)
}
