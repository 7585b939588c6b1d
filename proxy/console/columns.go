package console

import (
	"fmt"
	"time"

	"github.com/shunt-sql/shunt/planner/catalog"
)

var columnsPage = &page{
	path: "/columns", title: "Virtual columns", menu: "Columns", every: 2 * time.Second, data: virtualColumns,
	body: `
<h1>Virtual columns</h1>
<p class="lead">Values over other tables' rows that are kept as columns. Hot are values that have changed since they were last written to the shards, kept those that are whole in this Shunt's memory; hits are reads that found theirs there.</p>
{{template "table" .Data.State}}
{{template "statements" .Data.Do}}
`,
}

const showColumns = "SHOW VIRTUAL COLUMNS"

func virtualColumns(v *visit) (any, error) {
	a, err := v.execute(showColumns)
	if err != nil {
		return nil, err
	}
	const empty = "There is none. CREATE VIRTUAL COLUMN name ON table AS (SELECT COUNT(*) FROM child c WHERE c.parent_id = table.id) makes one."
	return map[string]any{
		"State": a.table("Virtual columns", showColumns, empty,
			column{of: "Name", label: "Column", as: func(name string, at func(string) string) cell {
				return cell{Text: fmt.Sprintf("%s on %s.%s", name, at("Schema"), at("Table"))}
			}},
			column{of: "Expression", label: "Is", as: code}, column{of: "Status", label: "State", as: state}, column{of: "Progress", label: "Progress", number: true},
			column{of: "Hot", label: "Hot", number: true}, column{of: "Kept", label: "Kept", number: true}, column{of: "Hit_rate", label: "Hits", number: true, as: percent},
			column{of: "Lag", label: "Behind, s", number: true}, column{of: "Consolidated", label: "Consolidated"}, column{of: "Error", label: "Error", as: failure}),
		"Do": a.statements("VIRTUAL COLUMN", func(on string, _ func(string) string) []string {
			return []string{"CHECK " + on, "CONSOLIDATE " + on, "REBUILD " + on, "DROP " + on}
		}),
	}, nil
}

// percent is a cell of a share, 0 to 1.
func percent(value string, _ func(string) string) cell {
	var share float64
	if _, err := fmt.Sscan(value, &share); err != nil {
		return cell{}
	}
	return cell{Text: fmt.Sprintf("%.1f %%", 100*share)}
}

// changing are the statements by which something with a name is changed.
type changing struct {
	Name       string
	Statements []string
}

// statements are those of each row that has a Name on a Table; all says which there are for `KIND name ON table`.
func (a *Answer) statements(kind string, all func(on string, at func(string) string) []string) (list []changing) {
	for _, r := range a.Rows {
		at := func(column string) string { return a.at(r, column) }
		list = append(list, changing{at("Name"), all(kind+" "+catalog.QuoteName(at("Name"))+" ON "+catalog.QuoteTable(at("Schema"), at("Table")), at)})
	}
	return list
}
