package e2e

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"testing"
)

// TestAllocations: once its plan is known, a SELECT that goes to one shard costs no
// allocation. The limits leave room for what runs beside: maintenance, metrics, the
// store's own.
func TestAllocations(t *testing.T) {
	if race {
		t.Skip("the race detector allocates")
	}
	f := flavours[0]
	p, _ := startPeople(t, f, 300, setup{maintenance: "{delay: 100ms, scan_duty: 0.1, reconcile_every: 24h, workers: 1, audit: 0}"})
	c := p.conn()
	byKey, err := c.PrepareContext(t.Context(), "SELECT email FROM people WHERE id = ?")
	if err != nil {
		t.Fatal(err)
	}
	byIndex, err := c.PrepareContext(t.Context(), "SELECT id FROM people WHERE email = ?")
	if err != nil {
		t.Fatal(err)
	}
	read := func(rows *sql.Rows, err error) {
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() { // until the answer's end
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range []struct {
		what  string
		limit float64
		run   func(i int)
	}{
		{"text by key", 0.9, func(i int) {
			read(c.QueryContext(t.Context(), fmt.Sprintf("SELECT email FROM people WHERE id = %d", 1+i%300)))
		}},
		{"text by index", 0.9, func(i int) {
			read(c.QueryContext(t.Context(), fmt.Sprintf("SELECT id FROM people WHERE email = 'p%d@x'", 1+i%300)))
		}},
		{"prepared by key", 0.9, func(i int) { read(byKey.QueryContext(t.Context(), 1+i%300)) }},
		{"prepared by index", 0.9, func(i int) { read(byIndex.QueryContext(t.Context(), fmt.Sprintf("p%d@x", 1+i%300))) }},
		{"text over all shards", 15, func(i int) {
			read(c.QueryContext(t.Context(), fmt.Sprintf("SELECT email FROM people WHERE id BETWEEN %d AND %d", 1+i%300, 3+i%300)))
		}},
	} {
		const n = 5000
		least := math.Inf(1) // what runs beside only adds to it
		for range 5 {
			for i := range 1000 {
				x.run(i)
			}
			before, found := p.metric("go_memstats_mallocs_total")
			for i := range n {
				x.run(i)
			}
			after, _ := p.metric("go_memstats_mallocs_total")
			if !found {
				t.Fatal("no metric of allocations")
			}
			if least = min(least, (after-before)/n); least <= x.limit {
				break
			}
		}
		t.Logf("%s: %.2f allocations", x.what, least)
		if least > x.limit {
			t.Errorf("%s: %.2f allocations a statement, want %.1f at most", x.what, least, x.limit)
		}
	}
}
