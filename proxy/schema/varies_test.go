package schema

import (
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// TestVaries judges expressions as information_schema has them.
func TestVaries(t *testing.T) {
	const mysql, mariaDB, both = 1, 2, 3
	for _, x := range []struct {
		expr string
		// varies: on which servers.
		varies int
	}{
		{"concat(`a`,'-',`u`)", 0},
		{"((`n` + `u`) * 2)", 0},
		{"json_unquote(json_extract(`j`,'$.a-b'))", 0},
		{"coalesce(`n`,`u`)", 0},
		// Rule dates.
		{"concat(`d`,'-',`n`)", 0},
		{"year(`d`)", 0},
		{"(`d` < `e`)", 0},
		{"(`d` <=> `e`)", 0},
		{"if((`d` is null),`a`,NULL)", 0},
		{"(case when (`at` is not null) then 1 else 0 end)", 0},
		{"case when `d` is null and `e` is null then `n` else 1 end", 0},
		{"coalesce(`d`,`e`)", both},
		{"if(`n`,`d`,`e`)", both},
		{"if((`v` is null),`a`,NULL)", both},
		{"(case when (`d` < `e`) then `d` else NULL end)", both},
		{"concat_ws('-',nullif(`d`,`e`),'x')", both},
		{"greatest(`d`,`e`)", 0}, // or NULL, which has no entry
		{"coalesce(greatest(`d`,`e`),0)", both},
		{"coalesce(`least`,0)", both},
		{"concat(`least`,0)", 0},
		{"floor(`t`)", 0},
		{"ifnull(floor(`t`),0)", both},
		// Rule opened.
		{`(not(` + "`d`" + ` in (_utf8mb4\'0000-00-00\',_utf8mb4\'1970-01-01\')))`, both},
		{"(`d` in (0,20200101))", 0},
		{"(year(`d`) in (2010,2020))", 0},
		{`(` + "`a`" + ` like _utf8mb4\'x%\')`, 0},
		{"`a` like 'x%'", 0},
		{`(` + "`a`" + ` like _utf8mb4\'x\\\\_y\')`, both},
		{`(` + "`a`" + ` like 'x%' or ` + "`a`" + ` like 'x\\_y')`, both},
		{"(`a` like `b`)", both},
		{"`n` - 1", 0},
		{"`n` - `u`", mariaDB},
		{"`n` - `y`", mariaDB},
		{"`n` - cast(`a` as unsigned)", mariaDB},
		{"`n` - crc32(`a`)", mariaDB},
		{"`n` - (`n` | 1)", mariaDB},
		{`concat('\\',` + "`u` - `n`" + `,'\\')`, mariaDB},
		{"concat(`u`,' - ',`n`)", 0},
	} {
		for _, server := range []int{mysql, mariaDB} {
			table := &catalog.Table{}
			for i, def := range strings.Split("a varchar(20)|b varchar(20)|n int|u int unsigned|y year|j json|d date|e date|t datetime|at timestamp", "|") {
				name, typ, _ := strings.Cut(def, " ")
				c := &catalog.Column{Name: name, Type: typ, Position: i, Nullable: true}
				if strings.HasPrefix(typ, "varchar") {
					c.Charset = "utf8mb4"
				}
				table.Columns = append(table.Columns, c)
			}
			virtual := func(name, typ, expr string) *catalog.Column {
				c := &catalog.Column{Name: name, Type: typ, Nullable: true, Virtual: true, Expression: expr}
				table.Columns = append(table.Columns, c)
				return c
			}
			// Before those that they are computed from.
			c := virtual("c", "int", x.expr)
			virtual("least", "int", "least(`d`,`e`)")
			virtual("v", "date", "`d`")
			b := &builder{c: &catalog.Catalog{MariaDB: server == mariaDB}}
			b.varying(table)
			if want := x.varies&server != 0; c.Varies != want {
				t.Errorf("%s, MariaDB: %v: varies: %v, want %v", x.expr, server == mariaDB, c.Varies, want)
			}
		}
	}
}
