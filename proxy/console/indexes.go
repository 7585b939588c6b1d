package console

import (
	"fmt"
	"strconv"
	"time"
)

var indexesPage = &page{
	path: "/indexes", title: "Virtual indexes", menu: "Indexes", every: 2 * time.Second, data: indexes,
	body: `
<h1>Virtual indexes</h1>
{{template "table" .Data.State}}
<section><h2>What they are worth</h2>
<p class="lead">Shards that a read by the index is sent to, beside those that had a row, and all that it would have been sent to. Since the start of this Shunt, but for reads in transactions.</p>
{{template "table" .Data.Worth}}
</section>
{{template "statements" .Data.Do}}
`,
}

const showIndexes = "SHOW VIRTUAL INDEXES"

func indexes(v *visit) (any, error) {
	a, err := v.execute(showIndexes)
	if err != nil {
		return nil, err
	}
	const empty = "There is none. CREATE VIRTUAL INDEX name ON table (column) makes one; the page Advice says which would be of use."
	c := v.served.Catalog()
	named := func(value string, at func(string) string) cell {
		return cell{Text: fmt.Sprintf("%s on %s.%s", value, at("Schema"), at("Table"))}
	}
	shards := func(at func(string) string) int {
		if t := c.Table(at("Schema"), at("Table")); t != nil {
			return t.Shards.Len()
		}
		return 0
	}
	data := map[string]any{
		"State": a.table("Virtual indexes", showIndexes, empty,
			column{of: "Name", label: "Index", as: named}, column{of: "Columns", label: "Columns"}, column{of: "Status", label: "State", as: state},
			column{of: "Progress", label: "Progress", number: true}, column{of: "Entries", label: "Entries", number: true}, column{of: "Bytes", label: "Bytes", number: true},
			column{of: "Unknown_shards", label: "Unknown on"}, column{of: "Unknown_since", label: "Since"}, column{of: "Pending_jobs", label: "Jobs", number: true},
			column{of: "Last_scan", label: "Last scan"}, column{of: "Home", label: "Home"}, column{of: "Partitions", label: "Partitions", number: true}, column{of: "Error", label: "Error", as: failure}),
		"Worth": a.table("What virtual indexes are worth", "", "",
			column{of: "Name", label: "Index", as: named}, column{of: "Reads", label: "Reads", number: true},
			column{of: "Mean_shards", label: "Shards", number: true}, column{of: "Ideal_shards", label: "Had a row", number: true},
			column{label: "Without it", number: true, as: func(_ string, at func(string) string) cell { return cell{Text: fmt.Sprint(shards(at))} }},
			column{of: "In_vain", label: "In vain", number: true},
			column{label: "Statements saved", number: true, as: func(_ string, at func(string) string) cell {
				return cell{Text: saved(at("Reads"), at("Mean_shards"), shards(at))}
			}}),
		"Do": a.statements("VIRTUAL INDEX", func(on string, at func(string) string) []string {
			use := " DISABLE"
			if at("Status") == "disabled" {
				use = " ENABLE"
			}
			return []string{"CHECK " + on, "REBUILD " + on, "ALTER " + on + use, "DROP " + on}
		}),
	}
	return data, nil
}

// saved is how many statements of shards an index has made needless.
func saved(reads, mean string, shards int) string {
	n, err := strconv.ParseFloat(reads, 64)
	each, none := strconv.ParseFloat(mean, 64)
	if err != nil || none != nil {
		return ""
	}
	return count(int64(n*max(0, float64(shards)-each) + 0.5))
}
