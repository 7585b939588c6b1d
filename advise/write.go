package advise

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// shown bounds the statements of a report for people; JSON has all.
const shown = 15

// Write writes a report for people.
func (r *Report) Write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "%d executions of %d shapes of statements, on %d shards:\n\n", r.Executions, r.Shapes, r.Shards)
	for _, x := range []struct {
		route Route
		what  string
	}{
		{One, "to one shard"},
		{Few, "to several shards"},
		{All, "to all shards"},
		{Copied, "with rows copied between shards"},
		{Refused, "refused"},
		{DDL, "DDL"},
		{Session, "answered by Shunt itself (BEGIN, SET)"},
		{Unread, "not read, so not judged"},
	} {
		if share := r.Shares[x.route]; share > 0 {
			fmt.Fprintf(w, "  %6.2f %%\t%s\n", 100*share, x.what)
		}
	}
	fmt.Fprintf(w, "\nA statement goes to %.2f shards on average.\n", r.Reached)
	fmt.Fprintf(w, "\nTABLE\tPLACEMENT\tROWS\tEXECUTIONS\tONE SHARD\tBESIDE\n")
	for _, t := range r.Tables {
		what := t.Placement
		if t.ShardKey != "" {
			what += " by " + t.ShardKey
		}
		one := "-"
		if t.Executions > 0 {
			one = fmt.Sprintf("%.1f %%", 100*t.OneShard)
		}
		fmt.Fprintf(w, "%s.%s\t%s\t%d\t%d\t%s\t%s\n", t.Schema, t.Table, what, t.Rows, t.Executions, one, strings.Join(t.Beside, ", "))
	}
	if len(r.Indexes) > 0 {
		fmt.Fprintf(w, "\nVIRTUAL INDEX\tON\tSHARDS A KEY\tBY\tROUTES\tWRITES\n")
		for _, x := range r.Indexes {
			fmt.Fprintf(w, "%s\t%s.%s (%s)\t%.2f\t%s\t%d\t%d\n", x.Name, x.Schema, x.Table, strings.Join(x.Columns, ", "), x.FanOut, x.Basis, x.Executions, x.Writes)
		}
	}
	if len(r.Broken) > 0 {
		fmt.Fprintf(w, "\nKeys that hold on each shard only:\n")
		for _, b := range r.Broken {
			fmt.Fprintf(w, "  %s.%s (%s): %s, %s\n", b.Schema, b.Table, strings.Join(b.Columns, ", "), b.Kind, b.Why)
		}
	}
	r.worst(w)
	for _, n := range r.Notes {
		fmt.Fprintf(w, "\nnote: %s\n", n)
	}
	return w.Flush()
}

// worst writes the statements that go to more than one shard, or nowhere.
func (r *Report) worst(w io.Writer) {
	n := 0
	for _, s := range r.Statements {
		if weight[s.Route] <= weight[One] {
			continue
		}
		if n++; n > shown {
			fmt.Fprintf(w, "  ... more with --json\n")
			break
		}
		if n == 1 {
			fmt.Fprintf(w, "\nStatements to look at:\n")
		}
		text := strings.Join(strings.Fields(s.Digest), " ")
		if len(text) > 160 {
			text = strings.ToValidUTF8(text[:160], "") + "..."
		}
		fmt.Fprintf(w, "  %s, %.1f shards, %d executions: %s\n    %s\n", s.Route, s.Shards, s.Executions, text, cmp.Or(s.Reason, s.Access))
	}
}

// Address is a shard's.
type Address struct{ Name, Addr string }

// Configuration is a shunt.yaml of the design. Passwords are variables of the environment.
func (d *Design) Configuration(shards []Address) string {
	var b strings.Builder
	b.WriteString("# By shunt advise. Set the addresses, APP_PASSWORD and SHARD_PASSWORD; then: shunt check --config FILE\n")
	b.WriteString("users:\n  - {name: app, password: \"${APP_PASSWORD}\"}\nshards:\n")
	for _, s := range shards {
		fmt.Fprintf(&b, "  - {name: %s, addr: %s, user: shunt, password: \"${SHARD_PASSWORD}\"}\n", s.Name, quoted(s.Addr))
	}
	b.WriteString("schemas:\n")
	schema := ""
	for _, n := range d.names() {
		if n.Schema != schema {
			schema = n.Schema
			fmt.Fprintf(&b, "  %s:\n    tables:\n", quoted(schema))
		}
		p := d.Placements[n]
		what := "placement: " + p.Placement.String()
		switch p.Placement {
		case catalog.Hash:
			what = "shard_key: " + quoted(p.Key)
		case catalog.Single:
			what += ", shard: " + shards[0].Name
		case catalog.Reference, catalog.Anywhere:
		}
		fmt.Fprintf(&b, "      %s: {%s}\n", quoted(n.Name), what)
	}
	if len(d.Indexes) > 0 {
		b.WriteString("indexes:\n")
	}
	for _, x := range d.Indexes {
		var columns []string
		for _, c := range x.Columns {
			columns = append(columns, quoted(c))
		}
		fmt.Fprintf(&b, "  - {name: %s, table: %s, columns: [%s]}\n", quoted(x.Name), quoted(x.Table.Schema+"."+x.Table.Name), strings.Join(columns, ", "))
	}
	return b.String()
}

func (d *Design) names() (out []catalog.TableName) {
	for n := range d.Placements {
		out = append(out, n)
	}
	slices.SortFunc(out, compareNames)
	return out
}

// quoted is a name that YAML can't take for anything else.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
