package planner

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	driver "github.com/pingcap/tidb/pkg/parser/test_driver"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/text"
)

// buildCatalog reads DDL and directives into a catalog of n shards s0, s1, ...
// whose slots go round. A line `-- @..` is a directive about the table made
// last:
//
//	-- @hash COLUMN | @reference | @single SHARD | @anywhere | @view [QUERY]
//	-- @temporary SHARD [lost]
//	-- @virtual NAME COLUMN,.. [STATUS | include COLUMN,..]
//	-- @function NAME [WORD,..]       (a stored function that may change rows; no words: a hidden one)
//	-- @bound NAME WORD,..           (one that reads a table of one shard)
//	-- @procedure NAME WORD,..
//	-- @trigger EVENT TABLE,..        (tables may come later)
//	-- @event EVENT NAME             (what an event may do to its rows)
//	-- @runs NAME SHARD WORD,..       (an event of the table's schema; all shards: `all`)
//	-- @cascade CHILD COLUMN,.. [update] [delete] [deleterows]
//	-- @differs TEXT
//	-- @column NAME [virtual] [varies] [blurred]
func buildCatalog(t testing.TB, n int, text string) *catalog.Catalog {
	t.Helper()
	cat := &catalog.Catalog{
		Version: 1, ServerVersion: "9.7.4", Schemas: map[string]*catalog.Schema{},
		DefaultCollation: map[string]string{"utf8mb4": "utf8mb4_0900_ai_ci"},
	}
	for i := range n {
		id := catalog.ShardID(i)
		cat.Shards = append(cat.Shards, catalog.Shard{ID: id, Name: fmt.Sprintf("s%d", i)})
		cat.All.Add(id)
	}
	for i := range cat.Slots {
		cat.Slots[i] = catalog.ShardID(i % n)
	}
	shop := &catalog.Schema{Name: "shop", Tables: map[string]*catalog.Table{}}
	cat.Schemas["shop"] = shop
	cat.Schemas["other"] = &catalog.Schema{Name: "other", Tables: map[string]*catalog.Table{}, Default: catalog.DefaultPlacement{Placement: catalog.Single, Shard: catalog.ShardID(n - 1)}}
	var last *catalog.Table
	var later []func()
	var ddl strings.Builder
	index := catalog.IndexID(0)
	table := func(name string) *catalog.Table {
		if t := shop.Tables[name]; t != nil {
			return t
		}
		t.Fatalf("no table %q", name)
		return nil
	}
	columns := func(of *catalog.Table, list string) (out []*catalog.Column) {
		for c := range strings.SplitSeq(list, ",") {
			col := of.Column(c)
			if col == nil {
				t.Fatalf("no column %q in %s", c, of.Name)
			}
			out = append(out, col)
		}
		return out
	}
	for line := range strings.SplitSeq(text, "\n") {
		d, ok := strings.CutPrefix(strings.TrimSpace(line), "-- @")
		if !ok {
			ddl.WriteString(line + "\n")
			if strings.HasSuffix(strings.TrimSpace(line), ";") {
				last = testTable(t, cat, ddl.String())
				cat.Schemas[last.Schema].Tables[last.Name] = last
				ddl.Reset()
			}
			continue
		}
		f := strings.Fields(d)
		of := last
		switch f[0] {
		case "hash":
			of.Placement, of.ShardKey = catalog.Hash, columns(of, f[1])[0]
		case "reference":
			of.Placement, of.ShardKey = catalog.Reference, nil
		case "single":
			s, _ := cat.ShardByName(f[1])
			of.Placement, of.ShardKey, of.Shards = catalog.Single, nil, catalog.Only(s.ID)
		case "temporary":
			s, ok := cat.ShardByName(f[1])
			if !ok {
				t.Fatalf("no shard %q", f[1])
			}
			of.Placement, of.ShardKey, of.Shards, of.Temporary = catalog.Single, nil, catalog.Only(s.ID), true
			of.Lost = len(f) > 2
			cat.Temporary++
			if !of.Lost {
				cat.Pinned = of.Shards
			}
		case "anywhere":
			of.Placement = catalog.Anywhere
		case "view":
			of.IsView, of.ShardKey, of.PrimaryKey = true, nil, nil
			if of.Definition = strings.Join(f[1:], " "); of.Definition == "" {
				of.Columns = nil
			}
			of.DefinitionCollation = "utf8mb4_0900_ai_ci"
		case "virtual":
			index++
			ix := &catalog.Index{ID: index, Name: f[1], Table: of, Columns: columns(of, f[2]), Partitions: 1, Status: catalog.Ready}
			switch {
			case len(f) > 4 && f[3] == "include":
				ix.Include = columns(of, f[4])
			case len(f) > 3:
				ix.Status = catalog.IndexStatus(f[3])
			}
			of.Indexes = append(of.Indexes, ix)
		case "procedure":
			words := map[string]bool{}
			for w := range strings.SplitSeq(f[2], ",") {
				words[w] = true
			}
			if cat.Procedures == nil {
				cat.Procedures = map[string]*catalog.Routine{}
			}
			cat.Procedures[catalog.ProcedureKey(of.Schema, f[1])] = &catalog.Routine{Schema: of.Schema, Name: f[1], Words: words}
		case "trigger":
			later = append(later, func() {
				tr := catalog.Trigger{Event: f[1], Leaves: len(f) > 3 && f[3] == "leaves"}
				for name := range strings.SplitSeq(f[2], ",") {
					tr.Touches = append(tr.Touches, table(name))
				}
				of.Triggers = append(of.Triggers, tr)
			})
		case "runs":
			e := &catalog.Event{Routine: catalog.Routine{Schema: of.Schema, Name: f[1], Words: map[string]bool{}}, On: cat.All}
			if s, ok := cat.ShardByName(f[2]); ok {
				e.On = catalog.Only(s.ID)
			}
			for w := range strings.SplitSeq(f[3], ",") {
				e.Words[w] = true
			}
			cat.Events = append(cat.Events, e)
		case "event":
			if of.Events == nil {
				of.Events = map[string]string{}
			}
			of.Events[f[1]] = f[2]
		case "cascade":
			later = append(later, func() {
				child := table(f[1])
				of.Cascades = append(of.Cascades, catalog.Cascade{
					Child: child, Columns: columns(child, f[2]), OnUpdate: slices.Contains(f, "update"),
					OnDelete: slices.Contains(f, "delete") || slices.Contains(f, "deleterows"), DeletesRows: slices.Contains(f, "deleterows"),
				})
			})
		case "function":
			if cat.WritingFunctions == nil {
				cat.WritingFunctions = map[string]bool{}
			}
			cat.WritingFunctions[f[1]] = true
			if cat.Bound == nil {
				cat.Bound = map[string][]*catalog.Routine{}
			}
			r := &catalog.Routine{Schema: of.Schema, Name: f[1], Hidden: len(f) < 3, Words: map[string]bool{}}
			for w := range strings.SplitSeq(strings.Join(f[2:], ""), ",") {
				r.Words[w] = true
			}
			cat.Bound[f[1]] = append(cat.Bound[f[1]], r)
		case "bound":
			if cat.Bound == nil {
				cat.Bound = map[string][]*catalog.Routine{}
			}
			r := &catalog.Routine{Schema: of.Schema, Name: f[1], Words: map[string]bool{}}
			for w := range strings.SplitSeq(f[2], ",") {
				r.Words[w] = true
			}
			cat.Bound[f[1]] = append(cat.Bound[f[1]], r)
		case "stored":
			if cat.Functions == nil {
				cat.Functions = map[string]bool{}
			}
			cat.Functions[f[1]] = len(f) > 2 && f[2] == "varies"
		case "reading":
			if cat.ReadingFunctions == nil {
				cat.ReadingFunctions = map[string]bool{}
			}
			cat.ReadingFunctions[f[1]] = true
		case "leaving":
			if cat.LeavingFunctions == nil {
				cat.LeavingFunctions = map[string]bool{}
			}
			cat.LeavingFunctions[f[1]] = true
			if len(f) > 2 {
				if cat.Assigned == nil {
					cat.Assigned = map[string][]string{}
				}
				cat.Assigned[f[1]] = strings.Split(f[2], ",")
			}
		case "column":
			for _, c := range columns(of, f[1]) {
				c.Virtual, c.Varies, c.DefaultBlurred = slices.Contains(f, "virtual"), slices.Contains(f, "varies"), slices.Contains(f, "blurred")
			}
		case "differs":
			of.Differs = strings.Join(f[1:], " ")
		default:
			t.Fatalf("unknown directive %q", d)
		}
	}
	for _, do := range later {
		do()
	}
	return cat
}

// testTable makes a table of a CREATE TABLE as information_schema would show it.
func testTable(t testing.TB, cat *catalog.Catalog, ddl string) *catalog.Table {
	t.Helper()
	stmt, err := parser.New().ParseOneStmt(ddl, "", "")
	if err != nil {
		t.Fatalf("%v in %s", err, ddl)
	}
	c := stmt.(*ast.CreateTableStmt)
	out := &catalog.Table{Schema: cmp.Or(c.Table.Schema.O, "shop"), Name: c.Table.Name.O, Shards: cat.All}
	var primary, unique []string
	for i, d := range c.Cols {
		col := &catalog.Column{Name: d.Name.Name.O, Position: i, Type: d.Tp.InfoSchemaStr(), Nullable: true}
		if mysql.HasUnsignedFlag(d.Tp.GetFlag()) && !strings.Contains(col.Type, "unsigned") {
			col.Type += " unsigned"
		}
		if d.Tp.EvalType().IsStringKind() && d.Tp.GetCharset() != "binary" {
			col.Charset, col.Collation = "utf8mb4", "utf8mb4_0900_ai_ci"
			if cs := d.Tp.GetCharset(); cs != "" {
				col.Charset = cs
				if cs == "latin1" {
					col.Collation = "latin1_swedish_ci"
				}
			}
			if co := d.Tp.GetCollate(); co != "" {
				col.Collation = co
			}
		}
		for _, o := range d.Options {
			switch o.Tp {
			case ast.ColumnOptionNotNull:
				col.Nullable = false
			case ast.ColumnOptionAutoIncrement:
				col.AutoIncrement = true
			case ast.ColumnOptionPrimaryKey:
				primary = []string{col.Name}
				col.Nullable = false
			case ast.ColumnOptionUniqKey:
				unique = append(unique, col.Name)
			case ast.ColumnOptionCollate:
				col.Collation = o.StrValue
				col.Charset, _, _ = strings.Cut(o.StrValue, "_")
			case ast.ColumnOptionGenerated:
				col.Generated = true
			case ast.ColumnOptionOnUpdate:
				col.OnUpdate = true
			case ast.ColumnOptionDefaultValue:
				v, ok := o.Expr.(*driver.ValueExpr)
				switch {
				case !ok:
					col.DefaultExpr = true
					if f, ok := o.Expr.(*ast.FuncCallExpr); ok {
						col.DefaultNow = f.FnName.L == ast.CurrentTimestamp
						col.DefaultText = strings.ToLower(f.FnName.L) + "()"
					}
				case v.Kind() == driver.KindNull:
				default:
					s := v.GetString()
					if v.Kind() == driver.KindInt64 {
						s = fmt.Sprint(v.GetInt64())
					}
					col.Default = &s
				}
			}
		}
		out.Columns = append(out.Columns, col)
	}
	for _, k := range c.Constraints {
		var cols []*catalog.Column
		for _, part := range k.Keys {
			cols = append(cols, out.Column(part.Column.Name.O))
		}
		switch k.Tp {
		case ast.ConstraintPrimaryKey:
			for _, c := range cols {
				primary = append(primary, c.Name)
				c.Nullable = false
			}
		case ast.ConstraintUniq, ast.ConstraintUniqKey, ast.ConstraintUniqIndex:
			out.Unique = append(out.Unique, cols)
		case ast.ConstraintKey, ast.ConstraintIndex:
			cols[0].Keyed = true
		}
	}
	for _, name := range primary {
		out.PrimaryKey = append(out.PrimaryKey, out.Column(name))
	}
	for _, name := range unique {
		out.Unique = append(out.Unique, []*catalog.Column{out.Column(name)})
	}
	if len(out.PrimaryKey) > 0 {
		out.Unique = append(out.Unique, out.PrimaryKey)
		out.ShardKey = out.PrimaryKey[0]
	}
	for _, key := range out.Unique {
		key[0].Keyed = true
	}
	return out
}

// fakeIndexes answers lookups from functions.
type fakeIndexes struct {
	lookup   func(ix *catalog.Index, key []byte) (catalog.ShardSet, error)
	ranged   func(ix *catalog.Index, from, to []byte, limit int) (catalog.ShardSet, bool, error)
	removals uint64
}

func (f *fakeIndexes) Removals() uint64 { return f.removals }

func (f *fakeIndexes) Lookup(ix *catalog.Index, key []byte, components [][]byte) (catalog.ShardSet, error) {
	if len(components) != len(ix.Columns) || !bytes.Equal(bytes.Join(components, nil), key) {
		panic("the components are not those of the key")
	}
	return f.lookup(ix, key)
}

func (f *fakeIndexes) Range(ix *catalog.Index, from, to []byte, limit int) (catalog.ShardSet, bool, error) {
	return f.ranged(ix, from, to, limit)
}

// entries is an index in memory: index name -> key -> shards.
type entries map[string]map[string]catalog.ShardSet

func (e entries) indexes() *fakeIndexes {
	return &fakeIndexes{
		lookup: func(ix *catalog.Index, key []byte) (catalog.ShardSet, error) {
			return e[ix.Name][string(key)], nil
		},
		ranged: func(ix *catalog.Index, from, to []byte, limit int) (set catalog.ShardSet, ok bool, err error) {
			n := 0
			for k, s := range e[ix.Name] {
				if k >= string(from) && (to == nil || k < string(to)) {
					set = set.Union(s)
					n++
				}
			}
			return set, n <= limit, nil
		},
	}
}

func (e entries) add(ix string, key []byte, shard catalog.ShardID) {
	if e[ix] == nil {
		e[ix] = map[string]catalog.ShardSet{}
	}
	s := e[ix][string(key)]
	s.Add(shard)
	e[ix][string(key)] = s
}

// values reads a list of literals.
func values(t testing.TB, list string) (out []keys.Value) {
	t.Helper()
	if strings.TrimSpace(list) == "" {
		return nil
	}
	st, err := text.Read("("+list+")", text.Settings{Charset: "utf8mb4"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range st.RowColumns(text.RowSpan{Start: 0, End: uint32(len(st.Src))}) {
		o := st.Evaluate(f)
		if o.Kind != text.Literal {
			t.Fatalf("%q is no list of literals", list)
		}
		out = append(out, o.Value)
	}
	return out
}
