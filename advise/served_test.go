package advise

import (
	"slices"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
)

// TestServed: a Shunt that serves is told the indexes that it lacks, and those that nobody reads by.
func TestServed(t *testing.T) {
	t.Parallel()
	src := testSource(t, "shop", 4)
	_, design, err := Advise(t.Context(), src)
	if err != nil || len(design.Indexes) < 2 {
		t.Fatal(design, err)
	}
	served := func(indexes ...Index) (do []string) {
		t.Helper()
		cat, err := src.Build(Design{Placements: design.Placements, Indexes: indexes})
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range Served(t.Context(), src, cat, func(*catalog.Index) float64 { return 0 }) {
			if a.Executions > 0 && (a.Shards <= 1 || a.FanOut <= 0) {
				t.Errorf("%+v", a)
			}
			do = append(do, a.Do)
		}
		return do
	}
	var creates []string
	for _, x := range design.Indexes {
		creates = append(creates, "CREATE VIRTUAL INDEX "+x.Name+" ON `app`.`"+x.Table.Name+"` (`"+strings.Join(x.Columns, "`, `")+"`)")
	}
	if got := served(); !slices.Equal(got, creates) {
		t.Errorf("without indexes: %q, wanted %q", got, creates)
	}
	if got := served(design.Indexes...); len(got) > 0 {
		t.Errorf("with all: %q", got)
	}
	first := design.Indexes[0]
	if got := served(design.Indexes[1:]...); !slices.Equal(got, creates[:1]) {
		t.Errorf("without the first: %q", got)
	}
	idle := Index{Table: first.Table, Name: "idle"}
	base, _ := src.Build(Design{})
	for _, c := range base.Table("app", first.Table.Name).Columns {
		if !slices.ContainsFunc(design.Indexes, func(x Index) bool { return slices.Contains(x.Columns, c.Name) }) && c.Charset != "" {
			idle.Columns = []string{c.Name}
		}
	}
	if want, got := "DROP VIRTUAL INDEX `idle` ON `app`.`"+first.Table.Name+"`", served(append(slices.Clone(design.Indexes), idle)...); !slices.Equal(got, []string{want}) {
		t.Errorf("with one on %q that nobody reads by: %q", idle.Columns, got)
	}
}
