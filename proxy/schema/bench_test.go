package schema

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// manyTables is a shard with the table changed.made beside many of another schema. With each reading made has another column.
type manyTables struct {
	others int
	reads  int
}

func (m *manyTables) Rows(_ context.Context, sql string) ([][][]byte, error) {
	row := func(values ...string) (row [][]byte) {
		for _, v := range values {
			row = append(row, []byte(v))
		}
		return row
	}
	var rows [][][]byte
	switch {
	case strings.HasPrefix(sql, "SELECT VERSION()"):
		return [][][]byte{row("9.7.4", "0")}, nil
	case strings.Contains(sql, "information_schema.SCHEMATA"):
		return [][][]byte{row("changed"), row("others")}, nil
	case strings.Contains(sql, "TABLE_NAME = 'made'"):
		m.reads++
		pad := func(part string, values ...string) [][]byte {
			r := row(append([]string{part, "0"}, values...)...)
			for len(r) < 13 {
				r = append(r, nil)
			}
			return r
		}
		return [][][]byte{
			pad("0", "changed", "made", "BASE TABLE", "InnoDB"),
			pad("1", "changed", "made", fmt.Sprint("c", m.reads), "int", "", "", "NO", "", "", "", ""),
		}, nil
	case strings.Contains(sql, "information_schema.TABLES"):
		for i := range m.others {
			rows = append(rows, row("others", fmt.Sprint("t", i), "BASE TABLE", "InnoDB"))
		}
	case strings.Contains(sql, "information_schema.COLUMNS"):
		for i := range m.others {
			for _, c := range []string{"id", "name", "n", "at"} {
				rows = append(rows, row("others", fmt.Sprint("t", i), c, "int", "", "", "NO", "", "", "", ""))
			}
		}
	}
	return rows, nil
}

// BenchmarkReadBehindDDL is what a table that was changed on three shards costs, beside tables that weren't.
func BenchmarkReadBehindDDL(b *testing.B) {
	for _, others := range []int{0, 10_000} {
		b.Run(fmt.Sprint(others), func(b *testing.B) {
			d := directoryOf(&askedShard{})
			shards := map[catalog.ShardID]*manyTables{}
			d.opts.Shards = nil
			var all catalog.ShardSet
			for id := range catalog.ShardID(3) {
				d.opts.Shards = append(d.opts.Shards, catalog.Shard{ID: id, Name: fmt.Sprint("s", id)})
				shards[id] = &manyTables{others: others}
				all.Add(id)
			}
			d.opts.Open = func(_ context.Context, id catalog.ShardID) (Querier, func(), error) {
				return shards[id], func() {}, nil
			}
			if err := d.Refresh(b.Context()); err != nil {
				b.Fatal(err)
			}
			read := func() {
				if _, err := d.RefreshTold(b.Context(), Part{Tables: []catalog.TableName{{Schema: "changed", Name: "made"}}}, all); err != nil {
					b.Fatal(err)
				}
			}
			read() // the first one makes room
			for b.Loop() {
				read()
			}
			if t := d.Catalog().Table("changed", "made"); t == nil || len(d.Catalog().Schema("others").Tables) != others {
				b.Errorf("%v", t)
			}
		})
	}
}
