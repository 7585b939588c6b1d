package advise

import (
	"context"
	"math"
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

// TestServedSample: fan-out and entries are those of the shards' rows; a NULL has no entry.
func TestServedSample(t *testing.T) {
	t.Parallel()
	src := testSource(t, "shop", 4)
	_, design, err := Advise(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	cat, err := src.Build(Design{Placements: design.Placements})
	if err != nil {
		t.Fatal(err)
	}
	src.Sample = func(_ context.Context, table *catalog.Table, columns []*catalog.Column, _ string) ([]Value, error) {
		if table.Name != "orders" {
			return nil, nil // the shards have no index
		}
		two := catalog.Only(0)
		two.Add(2)
		return []Value{{Rows: 1, Shards: catalog.Only(1)}, {Rows: 4, Shards: two}, {}, {}}, nil
	}
	met := 0
	for _, a := range Served(t.Context(), src, cat, func(*catalog.Index) float64 { return 0 }) {
		rows := float64(src.Stats[inApp(a.Table)].Rows)
		switch {
		case a.Table == "orders":
			met++
			if a.Basis != "sample" || a.FanOut != 1.5 || math.Abs(float64(a.Entries)-rows*(1+0.5)/4) > 1 {
				t.Errorf("%+v of %.0f rows", a, rows)
			}
		case a.Basis == "statistics":
			met++
			if a.FanOut < 1 || float64(a.Entries) > rows {
				t.Errorf("%+v of %.0f rows", a, rows)
			}
		case a.Basis != "unique" || float64(a.Entries) != rows:
			t.Errorf("%+v of %.0f rows", a, rows)
		}
	}
	if met < 2 {
		t.Errorf("%d advised by sample and statistics", met)
	}
}
