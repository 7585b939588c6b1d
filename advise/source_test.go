package advise

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	_ "github.com/pingcap/tidb/pkg/parser/test_driver" // whose values the parser makes

	"github.com/shunt-sql/shunt/planner/catalog"
)

// Lines of a file of testdata: CREATE TABLE ...; -- rows N column=DISTINCT .., and
// -- foreign child(columns) parent(columns).
var (
	createLine  = regexp.MustCompile(`^(CREATE TABLE .*);(?: -- rows (\d+)(.*))?$`)
	foreignLine = regexp.MustCompile(`^-- foreign (\w+)\(([\w,]+)\) (\w+)\(([\w,]+)\)$`)
	digestLine  = regexp.MustCompile(`^(\d+) (.*)$`)
)

// testSource reads NAME.sql and NAME.digests of testdata.
func testSource(t *testing.T, name string, shards int) *Source {
	t.Helper()
	src := &Source{Stats: map[catalog.TableName]Stats{}, Schemas: []string{"app"}, Budget: 200_000}
	tables := map[string]*catalog.Table{}
	for line := range strings.SplitSeq(strings.TrimSpace(read(t, name+".sql")), "\n") {
		if m := foreignLine.FindStringSubmatch(line); m != nil {
			src.ForeignKeys = append(src.ForeignKeys, ForeignKey{
				Name: "fk_" + m[1] + "_" + m[3], Table: inApp(m[1]), Columns: strings.Split(m[2], ","), Parent: inApp(m[3]), Refers: strings.Split(m[4], ","),
			})
			continue
		}
		m := createLine.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("%s.sql: no table: %s", name, line)
		}
		table := testTable(t, m[1])
		tables[table.Name] = table
		stats := Stats{Distinct: map[string]uint64{}}
		stats.Rows, _ = strconv.ParseUint(m[2], 10, 64)
		stats.Bytes = 100 * stats.Rows
		for known := range strings.FieldsSeq(m[3]) {
			column, n, _ := strings.Cut(known, "=")
			stats.Distinct[column], _ = strconv.ParseUint(n, 10, 64)
		}
		src.Stats[inApp(table.Name)] = stats
	}
	var w Workload
	for line := range strings.SplitSeq(strings.TrimSpace(read(t, name+".digests")), "\n") {
		m := digestLine.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("%s.digests: no digest: %s", name, line)
		}
		calls, _ := strconv.ParseUint(m[1], 10, 64)
		w.Add("app", m[2], "", calls, 0)
	}
	src.Shapes = w.Shapes()
	src.Build = func(d Design) (*catalog.Catalog, error) { return testCatalog(d, tables, shards), nil }
	return src
}

func inApp(table string) catalog.TableName { return catalog.TableName{Schema: "app", Name: table} }

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// testCatalog places tables as proxy/schema does.
func testCatalog(d Design, tables map[string]*catalog.Table, shards int) *catalog.Catalog {
	cat := &catalog.Catalog{
		Version: 1, ServerVersion: "9.7.4", SQLMode: "STRICT_TRANS_TABLES",
		DefaultCollation: map[string]string{"utf8mb4": "utf8mb4_0900_ai_ci"},
		Schemas:          map[string]*catalog.Schema{"app": {Name: "app", Tables: map[string]*catalog.Table{}}},
	}
	for i := range shards {
		cat.Shards = append(cat.Shards, catalog.Shard{ID: catalog.ShardID(i), Name: fmt.Sprintf("s%d", i)})
		cat.All.Add(catalog.ShardID(i))
	}
	for i := range cat.Slots {
		cat.Slots[i] = catalog.ShardID(i * shards / catalog.Slots)
	}
	id := catalog.IndexID(0)
	for name, t := range tables {
		p, ok := d.Placements[inApp(name)]
		if !ok && len(t.PrimaryKey) > 0 {
			p.Key = t.PrimaryKey[0].Name
		} else if !ok {
			p.Placement = catalog.Single
		}
		var indexes []*catalog.Index
		for _, x := range d.Indexes {
			if x.Table.Name != name {
				continue
			}
			id++
			ix := &catalog.Index{ID: id, Name: x.Name, Partitions: 1, Status: catalog.Ready}
			for _, c := range x.Columns {
				ix.Columns = append(ix.Columns, t.Column(c))
			}
			indexes = append(indexes, ix)
		}
		cat.Schemas["app"].Tables[name] = placed(cat, t, p, func(*catalog.Table) []*catalog.Index { return indexes })
	}
	return cat
}

func testTable(t *testing.T, ddl string) *catalog.Table {
	t.Helper()
	stmt, err := parser.New().ParseOneStmt(ddl, "", "")
	if err != nil {
		t.Fatalf("%v in %s", err, ddl)
	}
	c := stmt.(*ast.CreateTableStmt)
	out := &catalog.Table{Schema: "app", Name: c.Table.Name.O}
	for i, d := range c.Cols {
		col := &catalog.Column{Name: d.Name.Name.O, Position: i, Type: d.Tp.InfoSchemaStr(), Nullable: true}
		if mysql.HasUnsignedFlag(d.Tp.GetFlag()) && !strings.Contains(col.Type, "unsigned") {
			col.Type += " unsigned"
		}
		if d.Tp.EvalType().IsStringKind() && d.Tp.GetCharset() != "binary" {
			col.Charset, col.Collation = "utf8mb4", "utf8mb4_0900_ai_ci"
		}
		for _, o := range d.Options {
			switch o.Tp {
			case ast.ColumnOptionNotNull:
				col.Nullable = false
			case ast.ColumnOptionAutoIncrement:
				col.AutoIncrement = true
			case ast.ColumnOptionDefaultValue:
				none := ""
				col.Default = &none
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
			out.PrimaryKey, out.Unique = cols, append(out.Unique, cols)
		case ast.ConstraintUniq, ast.ConstraintUniqKey, ast.ConstraintUniqIndex:
			out.Unique = append(out.Unique, cols)
		}
	}
	return out
}

// placementsOf are a report's, `table: key` or `table: placement`.
func placementsOf(r *Report) (out []string) {
	for _, a := range r.Tables {
		what := a.Placement
		if a.ShardKey != "" {
			what = a.ShardKey
		}
		out = append(out, a.Table+": "+what)
	}
	return out
}

func wantLines(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant:\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
