package planner

import (
	"fmt"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
)

// describeGather writes what a gather copies and runs.
func describeGather(out *strings.Builder, b *plan.Bound, cat *catalog.Catalog) {
	if b.Gather.ByKey {
		out.WriteString("  its rows are found by keys\n")
	}
	for i := range b.Gather.Refs {
		r := &b.Gather.Refs[i]
		if r.Stays {
			fmt.Fprintf(out, "  %d: %s stays\n", i, r.Table.Name)
			continue
		}
		fmt.Fprintf(out, "  copy %d from %s by %s: %s\n    %s", i, shardNames(cat, r.Shards), r.Access, r.Reason, r.Select+r.Lock)
		if len(r.Params) > 0 {
			fmt.Fprintf(out, " params=%v", r.Params)
		}
		fmt.Fprintf(out, "\n    (%s)\n", r.Definition(true))
		for _, j := range r.Joins {
			fmt.Fprintf(out, "    %s narrowed by %s of copy %d\n", j.Column.Name, b.Gather.Refs[j.Ref].Columns[j.From].Name, j.Ref)
		}
	}
	fmt.Fprintf(out, "  %s\n", b.Gather.Query(func(ref int) string {
		if b.Gather.Refs[ref].Stays {
			return ""
		}
		return fmt.Sprintf("g%d", ref)
	}))
}
