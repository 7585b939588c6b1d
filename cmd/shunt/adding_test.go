package main

import (
	"maps"
	"slices"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/storage/shared"
)

// TestWrittenBy: what others have written is known where all that may have written have said so.
func TestWrittenBy(t *testing.T) {
	t.Parallel()
	rates, codes := catalog.TableName{Schema: "shop", Name: "rates"}, catalog.TableName{Schema: "shop", Name: "codes"}
	wrote := shared.Written{Since: 7, Whole: true, Tables: []catalog.TableName{rates}}
	for name, tt := range map[string]struct {
		there []string
		said  map[string]shared.Written
		any   bool
	}{
		"all have said":            {[]string{"b", "c"}, map[string]shared.Written{"b": wrote, "c": {Since: 7, Whole: true}}, false},
		"one says any":             {[]string{"b"}, map[string]shared.Written{"b": {Since: 7, Whole: true, Any: true, Tables: []catalog.TableName{rates}}}, true},
		"one is gone, having said": {nil, map[string]shared.Written{"b": wrote}, false},
		"one has died":             {[]string{"b"}, map[string]shared.Written{"b": wrote, "c": {Since: 7}}, true},
		"one of before has died":   {[]string{"b"}, map[string]shared.Written{"b": wrote, "c": {Since: 6}}, false},
		"one notes nothing":        {[]string{"b", "c"}, map[string]shared.Written{"b": wrote}, true},
		"one notes for an earlier": {[]string{"b", "c"}, map[string]shared.Written{"b": wrote, "c": {Since: 6, Whole: true}}, true},
	} {
		w := writtenBy(tt.there, 7, tt.said)
		if w.Any != tt.any || !slices.Equal(slices.Collect(maps.Keys(w.Tables)), []catalog.TableName{rates}) || w.May(codes) != tt.any || !w.May(rates) {
			t.Errorf("%s: %v", name, w)
		}
	}
}
