package planner

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/spoken"
	"github.com/shunt-sql/shunt/planner/text"
)

// TestGolden runs testdata/*.txt. Commands:
//
//	catalog [shards=N] [mariadb]   the DDL that follows
//	entries                        lines: INDEX (literals) SHARD..
//	plan hot                       durable values of known keys lack something
//	virtual                        lines: TABLE NAME (SELECT ..), to which they add [building] in front
//	plan [options]                 one statement; lines `params: ..` bind it again
//
// Options of plan: schema=, charset=, collation=, ansi, nobackslash, pipes, nonstrict, pad,
// computes (ComputesOtherwise), nozero, noindex (lookups fail), replica (no lookups), short (statements left out), next=N (the
// AUTO_INCREMENT counter, 100).
func TestGolden(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if strings.Contains(path, "fuzz") {
			return
		}
		var cat *catalog.Catalog
		stored := entries{}
		p := New(ownForms...)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "catalog":
				n := 4
				d.MaybeScanArgs(t, "shards", &n)
				cat = buildCatalog(t, n, d.Input)
				if d.HasArg("mariadb") {
					cat.MariaDB, cat.ServerVersion = true, "10.11.8-MariaDB"
					cat.DefaultCollation["utf8mb4"] = "utf8mb4_general_ci"
					for _, t := range cat.Schemas["shop"].Tables {
						for _, c := range t.Columns {
							if c.Charset == "utf8mb4" {
								c.Collation = "utf8mb4_general_ci"
							}
						}
						if t.IsView {
							t.DefinitionCollation = "utf8mb4_general_ci"
						}
					}
				}
				stored = entries{}
				return ""
			case "entries":
				for line := range strings.SplitSeq(d.Input, "\n") {
					addEntries(t, cat, stored, line)
				}
				return ""
			case "virtual":
				return defineVirtual(t, p, cat, d.Input)
			case "plan":
				return goldenPlan(t, p, cat, stored, d)
			}
			t.Fatalf("unknown command %s", d.Cmd)
			return ""
		})
	})
}

// defineVirtual adds virtual columns.
func defineVirtual(t *testing.T, p *Planner, cat *catalog.Catalog, lines string) string {
	var columns []*catalog.VirtualColumn
	var told []string
	if cat.Virtual != nil {
		columns = cat.Virtual.Columns
	}
	for line := range strings.SplitSeq(lines, "\n") {
		line, building := strings.CutPrefix(line, "building ")
		table, rest, _ := strings.Cut(line, " ")
		name, expression, _ := strings.Cut(rest, " ")
		v, err := p.DefineVirtual(cat.Table("shop", table), name, expression, text.Settings{Schema: "shop", Charset: "utf8mb4"}, cat)
		if err != nil {
			told = append(told, err.Error())
			continue
		}
		v.ID, v.Status = uint32(len(columns)+1), catalog.Ready
		if building {
			v.Status = catalog.Building
		}
		columns = append(columns, v)
		filtered := ""
		switch {
		case len(v.Filters) > 0: // the log tells which rows count
			filtered = "filtered by"
			for _, f := range v.Filters {
				filtered += fmt.Sprintf(" %s%s %s", map[bool]string{true: "not "}[f.Not], f.Column, map[bool]string{true: "null", false: fmt.Sprintf("in %d", len(f.Keys))}[f.Null])
			}
		case v.Filtered:
			filtered = "filtered by the shards"
		}
		told = append(told, fmt.Sprintf("%s %s %s %s", v.Definition("m", "KEY"), v.KeyType, v.ValueType, filtered))
	}
	cat.WithVirtual(columns)
	return strings.Join(told, "\n")
}

func findIndex(t *testing.T, cat *catalog.Catalog, name string) *catalog.Index {
	t.Helper()
	for _, tab := range cat.Schemas["shop"].Tables {
		if ix := tab.Index(name); ix != nil {
			return ix
		}
	}
	t.Fatalf("no index %s", name)
	return nil
}

func addEntries(t *testing.T, cat *catalog.Catalog, stored entries, line string) {
	open, end := strings.Index(line, "("), strings.LastIndex(line, ")")
	name := strings.TrimSpace(line[:open])
	ix := findIndex(t, cat, name)
	var key []byte
	for i, v := range values(t, line[open+1:end]) {
		codec, err := plan.CodecOf(cat, ix.Columns[i])
		if err != nil {
			t.Fatal(err)
		}
		var ok bool
		if key, ok = codec.Stored(key, v, true, false); !ok {
			t.Fatalf("%s: no key", line)
		}
	}
	for s := range strings.FieldsSeq(line[end+1:]) {
		shard, ok := cat.ShardByName(s)
		if !ok {
			t.Fatalf("no shard %s", s)
		}
		stored.add(name, key, shard.ID)
	}
}

func goldenPlan(t *testing.T, p *Planner, cat *catalog.Catalog, stored entries, d *datadriven.TestData) string {
	s := text.Settings{Schema: "shop", Charset: "utf8mb4", Collation: cat.DefaultCollation["utf8mb4"], Strict: true}
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "schema":
			s.Schema = ""
			if len(a.Vals) > 0 {
				s.Schema = a.Vals[0]
			}
		case "charset":
			s.Charset = a.Vals[0]
		case "collation":
			s.Collation = a.Vals[0]
		case "ansi":
			s.ANSIQuotes = true
		case "nobackslash":
			s.NoBackslashEscapes = true
		case "pipes":
			s.PipesAsConcat = true
		case "nonstrict":
			s.Strict = false
		case "pad":
			s.PadCharToFullLength = true
		case "computes":
			s.ComputesOtherwise = true
		case "limit":
			n, err := strconv.ParseUint(a.Vals[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			s.LimitsSelect, s.SelectLimit = true, n
		case "nozero":
			s.NoAutoValueOnZero = true
		}
	}
	next := uint64(100)
	if d.HasArg("next") {
		d.ScanArgs(t, "next", &next)
	}
	fake := stored.indexes()
	if d.HasArg("noindex") {
		fake.lookup = func(*catalog.Index, []byte) (catalog.ShardSet, error) { return catalog.ShardSet{}, os.ErrClosed }
	}
	var ix plan.Indexes = fake
	if d.HasArg("replica") {
		ix = nil
	}
	var sql []string
	var binds [][]keys.Value
	for line := range strings.SplitSeq(d.Input, "\n") {
		if list, ok := strings.CutPrefix(line, "params:"); ok {
			binds = append(binds, values(t, list))
			continue
		}
		sql = append(sql, line)
	}
	text := strings.Join(sql, "\n")
	if v := p.Virtual(spoken.Read(text, s, cat), nil); v != nil {
		s.Virtual = true
		values := map[int]catalog.VirtualHot{}
		for i, r := range v.Reads {
			switch {
			case r.Column.Status != catalog.Ready:
			case r.Key != nil && d.HasArg("hot"):
				values[i] = catalog.VirtualHot{Parts: []catalog.VirtualPart{{Batch: 7, Whole: true, N: 3, Value: "17", Order: "170"}, {Batch: 8, N: 1, Value: "18", Order: "180"}}}
			default:
				values[i] = catalog.VirtualHot{}
			}
		}
		put := v.Put(values)
		return put + "\n" + goldenText(t, p, cat, ix, put, s, binds, next, d.HasArg("short"))
	}
	return goldenText(t, p, cat, ix, text, s, binds, next, d.HasArg("short"))
}

func goldenText(t *testing.T, p *Planner, cat *catalog.Catalog, ix plan.Indexes, text string, s text.Settings, binds [][]keys.Value, next uint64, short bool) string {
	planned, err := p.Plan(text, s, cat)
	if err != nil {
		return errorText(err)
	}
	switch plan := planned.(type) {
	case *plan.Rows:
		if len(binds) == 0 {
			binds = [][]keys.Value{nil}
		}
		var out strings.Builder
		names := dictionary(cat, text, s, binds)
		for i, params := range binds {
			if i > 0 {
				out.WriteString("--\n")
			}
			if plan.Meets != nil {
				goldenRows(t, &out, p, plan, params, s, next)
				continue
			}
			b, err := bindGolden(p, plan, params, ix, next)
			if ix != nil {
				far, farErr := bindGolden(p, plan, params, remotely(ix), next)
				if near, far := goldenBound(plan, b, err), goldenBound(plan, far, farErr); near != far {
					t.Errorf("%s\n-- asked at once:\n%s\n-- one after the other:\n%s", text, far, near)
				}
			}
			if plan.Copy != nil && (err != nil || b.Refuse != nil) {
				head, query, tail := plan.Copy.Texts(params)
				fmt.Fprintf(&out, "copy: %s[%s]%s, since ", head, query, tail)
			}
			if k := plan.Keyed; k != nil && b != nil && b.Refuse != nil {
				fmt.Fprintf(&out, "keys: %s, ", k.Query(params))
				for _, c := range k.Changes(params) {
					fmt.Fprintf(&out, "then %s..%s, ", c.Head, c.Tail)
				}
				out.WriteString("since ")
			}
			if err != nil && plan.Constants != nil {
				q := plan.Constants
				fmt.Fprintf(&out, "ask: %s, then %s, since ", strings.Join(q.Queries(params), "; "), q.With(slices.Repeat([]string{"[..]"}, q.Len()), params))
			}
			if err != nil {
				out.WriteString(errorText(err))
				continue
			}
			describeBound(&out, plan, b, text, cat, names, short)
		}
		return out.String()
	case *plan.DDL:
		var out strings.Builder
		fmt.Fprintf(&out, "%s shards=%s", plan.Op, shardNames(cat, plan.Shards))
		if plan.Schema != "" {
			fmt.Fprintf(&out, " schema=%s", plan.Schema)
		}
		for i, n := range plan.Tables {
			fmt.Fprintf(&out, " %s.%s", n.Schema, n.Name)
			if i < len(plan.Renamed) && plan.Renamed[i] != (catalog.TableName{}) {
				fmt.Fprintf(&out, " -> %s.%s", plan.Renamed[i].Schema, plan.Renamed[i].Name)
			}
		}
		if len(plan.Touches) > 0 {
			fmt.Fprintf(&out, " touches=%v", plan.Touches)
		}
		if plan.AllColumns {
			out.WriteString(" all columns")
		}
		if plan.Unforeseen {
			out.WriteString(" unforeseen")
		}
		if plan.SameTime {
			out.WriteString(" same time")
		}
		if plan.Counts != "" {
			out.WriteString(" counts=" + plan.Counts)
		}
		if plan.Undoes {
			out.WriteString(" undoes")
		}
		for _, v := range plan.Virtual {
			fmt.Fprintf(&out, " virtual=%+v", v)
		}
		if plan.Refused != nil {
			out.WriteString("\n  what fires it is refused: " + strings.TrimSpace(errorText(plan.Refused)))
		}
		for _, v := range plan.Violations {
			fmt.Fprintf(&out, "\n  violated by %s", v)
		}
		for _, s := range cat.Shards {
			if text, ok := plan.Texts[s.ID]; ok && plan.As == nil {
				fmt.Fprintf(&out, "\n  %s: %s", s.Name, text)
			}
		}
		switch {
		case plan.Collation != "":
			fmt.Fprintf(&out, "\n  has the collation %s, or is empty, else %s", plan.Collation, strings.TrimSpace(errorText(plan.Filled)))
		case plan.Filled != nil:
			out.WriteString("\n  is empty, else " + strings.TrimSpace(errorText(plan.Filled)))
		}
		return out.String() + createAsText(plan.As) + "\n"
	case *plan.LockTables:
		return lockTablesText(plan, cat)
	case *plan.Temporary:
		return temporaryText(plan, cat)
	case *plan.Admin:
		home := ""
		if len(plan.Homes) > 0 {
			home = fmt.Sprintf(" homes=%q", plan.Homes)
		}
		limit := ""
		if plan.Like != "" || plan.Order != "" {
			limit = fmt.Sprintf(" like=%q order=%q descending=%t", plan.Like, plan.Order, plan.Descending)
		}
		if plan.Limit != 0 || plan.Offset != 0 {
			limit += fmt.Sprintf(" limit=%d offset=%d", plan.Limit, plan.Offset)
		}
		return fmt.Sprintf("admin %s index=%+v explain=%q%s%s\n", plan.Form, plan.Index, plan.Explain, home, limit)
	case *plan.Session:
		return sessionText(plan)
	case *plan.Load:
		return fmt.Sprintf("load %q: %s charset=%q skip=%d format=%+q\n", plan.File, plan.Statement(), plan.Charset, plan.Skip, plan.Format)
	}
	return "?"
}

func temporaryText(t *plan.Temporary, cat *catalog.Catalog) string {
	var out strings.Builder
	fmt.Fprintf(&out, "temporary: %s on one of %s", t.Op, shardNames(cat, t.Shards))
	for i, n := range t.Tables {
		fmt.Fprintf(&out, " %s.%s", n.Schema, n.Name)
		if t.Renamed[i] != (catalog.TableName{}) {
			fmt.Fprintf(&out, " -> %s.%s", t.Renamed[i].Schema, t.Renamed[i].Name)
		}
	}
	if t.Commits {
		out.WriteString(", commits")
	}
	if t.Quiet {
		out.WriteString(", quiet")
	}
	return out.String() + createAsText(t.As) + "\n"
}

func createAsText(as *plan.CreateAs) string {
	if as == nil {
		return ""
	}
	return fmt.Sprintf("\n  query: %s\n  make: %s\n  insert: %s", as.Query, as.Make, as.Insert)
}

func lockTablesText(l *plan.LockTables, cat *catalog.Catalog) string {
	switch {
	case l.Failed != nil:
		return "lock tables, then " + errorText(l.Failed)
	case l.Unlock:
		return "unlock tables\n"
	}
	out := "lock tables"
	if l.Writes() {
		out += ", to write"
	}
	for id := range l.Shards().All {
		out += "\n  " + cat.ShardName(id) + ": " + l.Text(id)
	}
	return out + "\n"
}

// bindGolden takes values from a counter that stands at next.
func bindGolden(p *Planner, plan *plan.Rows, params []keys.Value, ix plan.Indexes, next uint64) (*plan.Bound, error) {
	n, err := p.Increment(plan, params)
	if err != nil || n == nil {
		if err != nil {
			return nil, err
		}
		return p.Bind(plan, params, ix)
	}
	if _, ok := n.End(next); !ok {
		return nil, &text.Error{Code: 1467, State: "HY000", Message: "the counter is used up"}
	}
	return p.BindGenerated(plan, params, ix, next, plan.Params > 0)
}

func sessionText(s *plan.Session) string {
	names := []string{
		"Begin", "Commit", "Rollback", "Savepoint", "RollbackTo", "ReleaseSavepoint", "Use", "SetVariables", "SetNames",
		"NoOp",
	}
	out := names[s.Op]
	for _, f := range []struct {
		on   bool
		name string
	}{
		{s.ReadOnly, "read only"},
		{s.ReadWrite, "read write"},
		{s.ConsistentSnapshot, "consistent snapshot"},
		{s.Chain, "chain"},
		{s.NoChain, "no chain"},
		{s.NoRelease, "no release"},
		{s.Release, "release"},
		{s.Schema != "", "schema=" + s.Schema},
		{s.Name != "", "name=" + s.Name},
	} {
		if f.on {
			out += ", " + f.name
		}
	}
	for _, a := range s.Set {
		out += fmt.Sprintf("\n  %s %s = %s", a.Scope, a.Name, a.Value)
		if a.IsLiteral {
			out += fmt.Sprintf(" (%q)", a.Literal)
		}
	}
	return out + "\n"
}

func errorText(err error) string {
	e, ok := err.(*text.Error) //nolint:errorlint // the contract is *Error itself
	if !ok {
		return "NOT AN *Error: " + err.Error() + "\n"
	}
	return fmt.Sprintf("error %d (%s): %s\n", e.Code, e.State, e.Message)
}

func shardNames(cat *catalog.Catalog, set catalog.ShardSet) string {
	if set == cat.All && set.Len() > 1 {
		return "all"
	}
	var out []string
	for id := range set.All {
		out = append(out, cat.ShardName(id))
	}
	return strings.Join(out, ",")
}

func describeBound(out *strings.Builder, r *plan.Rows, b *plan.Bound, sql string, cat *catalog.Catalog, names map[string]string, short bool) {
	if c := b.Covered; c != nil {
		fmt.Fprintf(out, "covered by %s: %d keys\n", c.Index.Name, len(c.Keys))
	}
	if b.Gather != nil && len(b.Statements) == 0 {
		fmt.Fprintf(out, "gather by %s\n", b.Access)
		describeGather(out, b, cat)
		return
	}
	kinds := [...]string{"Select", "Locking", "Insert", "Replace", "Update", "Delete", "Show", "Other"}
	var set catalog.ShardSet
	same := true
	for _, s := range b.Statements {
		set.Add(s.Shard)
		same = same && s.SQL == sql && s.Params == nil
	}
	fmt.Fprintf(out, "%s on %s by %s: %s\n", kinds[r.Kind], shardNames(cat, set), b.Access, b.Reason)
	if b.Refuse != nil {
		out.WriteString(errorText(b.Refuse))
		return
	}
	if b.Gather != nil {
		describeGather(out, b, cat)
	}
	if !same && !short {
		for _, s := range b.Statements {
			fmt.Fprintf(out, "  %s: %s", cat.ShardName(s.Shard), s.SQL)
			if s.Params != nil {
				fmt.Fprintf(out, " params=%v", s.Params)
			}
			out.WriteString("\n")
		}
	}
	if g := b.Generated; g != nil && g.First > 0 {
		fmt.Fprintf(out, "  generated %s %d to %d", g.Column.Name, g.First, g.Last)
		if g.Uncertain != nil {
			out.WriteString(", perhaps not all")
		}
		if g.Values != nil {
			fmt.Fprintf(out, ", parameters %d", g.Values)
		}
		out.WriteString("\n")
	}
	if b.SameTime {
		out.WriteString("  all at the same time\n")
	}
	for _, t := range b.Doubts {
		fmt.Fprintf(out, "  doubt the counter of %s\n", t.Name)
	}
	for _, a := range b.Adds {
		fmt.Fprintf(out, "  add %s %s on %s\n", a.Index.Name, keyText(a.Index, a.Key, names), cat.ShardName(a.Shard))
	}
	for _, m := range b.Marks {
		fmt.Fprintf(out, "  mark %s on %s", m.Index.Name, cat.ShardName(m.Shard))
		if m.Known != nil {
			var parts []string
			for _, k := range m.Known {
				if k == nil {
					parts = append(parts, "?")
				} else {
					parts = append(parts, componentText(k, names))
				}
			}
			fmt.Fprintf(out, " known (%s)", strings.Join(parts, ", "))
		}
		out.WriteString("\n")
	}
	for _, m := range b.Maintain {
		var ix []string
		for _, x := range m.Indexes {
			ix = append(ix, x.Name)
		}
		fmt.Fprintf(out, "  maintain %s after %s on %s: %s", m.Table.Name, m.Operation, shardNames(cat, m.Shards), strings.Join(ix, ","))
		if len(m.Columns) > 0 {
			fmt.Fprintf(out, " columns=%s", strings.Join(m.Columns, ","))
		}
		for _, k := range m.Keys {
			fmt.Fprintf(out, " verify %s", keyText(k.Index, k.Key, names))
		}
		out.WriteString("\n")
	}
	for _, p := range b.Probes {
		fmt.Fprintf(out, "  probe %s %s\n", p.Index.Name, keyText(p.Index, p.Key, names))
	}
}

// dictionary maps components to the literals they were made from, so that
// goldens don't pin the encoding.
func dictionary(cat *catalog.Catalog, sql string, s text.Settings, binds [][]keys.Value) map[string]string {
	out := map[string]string{string(keys.AppendNull(nil)): "NULL"}
	var vals []keys.Value
	for _, b := range binds {
		vals = append(vals, b...)
	}
	st := &text.Statement{Src: sql, Settings: s}
	lx := text.NewLexer(sql, s, text.ServerVersion{})
	for t := lx.Next(); t.Kind != text.EOF && t.Kind != text.Bad; t = lx.Next() {
		if o := st.Evaluate([]text.Token{t}); o.Kind == text.Literal {
			vals = append(vals, o.Value)
		}
	}
	for _, tab := range cat.Schemas["shop"].Tables {
		for _, ix := range tab.Indexes {
			for _, c := range ix.Columns {
				codec, err := plan.CodecOf(cat, c)
				if err != nil {
					continue
				}
				all := vals
				if c.Default != nil {
					all = append(slices.Clip(all), keys.String([]byte(*c.Default), "utf8mb4"))
				}
				for _, v := range all {
					if k, ok := codec.Stored(nil, v, false, false); ok && !v.IsNull() {
						out[string(k)] = shortLiteral(v)
					}
				}
			}
		}
	}
	return out
}

func componentText(k []byte, names map[string]string) string {
	if n, ok := names[string(k)]; ok {
		return n
	}
	return fmt.Sprintf("%x", k)
}

func keyText(ix *catalog.Index, key []byte, names map[string]string) string {
	var parts []string
	rest := string(key)
	for range ix.Columns {
		best := ""
		for k := range names {
			if strings.HasPrefix(rest, k) && len(k) > len(best) {
				best = k
			}
		}
		if best == "" {
			return fmt.Sprintf("(%x)", key)
		}
		parts = append(parts, names[best])
		rest = rest[len(best):]
	}
	if rest != "" {
		return fmt.Sprintf("(%x)", key)
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

// goldenBound is all that a binding gives, to compare it with another.
func goldenBound(r *plan.Rows, b *plan.Bound, err error) string {
	if err != nil {
		return errorText(err)
	}
	out := boundText(r, b)
	if b.Gather != nil {
		out += b.Gather.Query(func(ref int) string { return strconv.Itoa(ref) })
		for _, ref := range b.Gather.Refs {
			out += fmt.Sprintf("\n%s %v", ref.Select, ref.Shards)
		}
	}
	return out
}

// goldenRows binds each row of a plan that must be tried first: as a new row, and
// where the trial met one on the last shard.
func goldenRows(t *testing.T, out *strings.Builder, p *Planner, rows *plan.Rows, params []keys.Value, s text.Settings, next uint64) {
	t.Helper()
	for _, sql := range rows.Meets.Rows(params) {
		row, err := p.Plan(sql, s, rows.Catalog)
		if err != nil {
			t.Fatal(err)
		}
		last := rows.Catalog.Shards[len(rows.Catalog.Shards)-1].ID
		for _, at := range []*catalog.ShardID{nil, &last} {
			b, err := p.BindRow(row.(*plan.Rows), (&entries{}).indexes(), next, at)
			if err != nil {
				out.WriteString(errorText(err))
				continue
			}
			if at == nil {
				trial, err := Trial(b.Statements[0].SQL, s, rows.Catalog)
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(out, "try: %s\n", trial)
			}
			describeBound(out, row.(*plan.Rows), b, sql, rows.Catalog, nil, false)
		}
	}
}

// ownForms are statements as the proxy has them of its own; proxy's TestOwnStatements holds them.
var ownForms = []string{
	"CREATE VIRTUAL COLUMN <index> AS <statement>", "DROP VIRTUAL COLUMN <index>", "REBUILD VIRTUAL COLUMN <index>", "CONSOLIDATE VIRTUAL COLUMN <index>", "CHECK VIRTUAL COLUMN <index>", "SHOW VIRTUAL COLUMNS",
	"SHOW SHARDS", "SHOW SHARD CONNECTIONS", "SHOW MEMBERS", "SHOW MAINTENANCE JOBS", "SHOW VIRTUAL INDEXES [FROM|IN <table>]", "EXPLAIN ROUTE <statement>",
	"CREATE VIRTUAL INDEX <index> <columns> [INCLUDE <included>] [PARTITIONS <partitions>] [HOME <homes>]", "DROP VIRTUAL INDEX <index>",
	"ALTER VIRTUAL INDEX <index> PARTITIONS <partitions>", "ALTER VIRTUAL INDEX <index> DISABLE", "ALTER VIRTUAL INDEX <index> ENABLE",
	"SHOW STATEMENT STATISTICS [LIKE <pattern>] [ORDER BY <order>] [LIMIT <limit>]", "FLUSH STATEMENT STATISTICS", "SHOW INDEX ADVICE",
	"REBUILD VIRTUAL INDEX <index> [HOME <homes>]", "CHECK VIRTUAL INDEX <index>",
}
