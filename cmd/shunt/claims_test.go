package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
)

func TestLockNames(t *testing.T) {
	t.Parallel()
	of := func(schemas ...string) []string {
		cfg := &config.Config{}
		for _, s := range schemas {
			cfg.Schemas = append(cfg.Schemas, config.Schema{Name: s})
		}
		return lockNames(cfg)
	}
	if got := of("shop", "Blog", "SHOP"); !slices.Equal(got, []string{"shunt-serves-blog", "shunt-serves-shop"}) {
		t.Error(got)
	}
	if got := of(); len(got) != 1 || slices.Contains(of("*"), got[0]) {
		t.Error(got)
	}
	seen := map[string]bool{}
	for _, schema := range []string{strings.Repeat("a", 51), strings.Repeat("a", 52), strings.Repeat("a", 64), "läden", "it's", "a b", "*", "#"} {
		got := of(schema)[0]
		if len(got) > maxLock || strings.ContainsAny(strings.TrimPrefix(got, lockPrefix), "' ä*") || seen[got] {
			t.Errorf("%s: %s", schema, got)
		}
		seen[got] = true
	}
}
