package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/planner/catalog"
)

// TestAlike: all that rows are placed by is in what members compare, and an error says what differs.
func TestAlike(t *testing.T) {
	t.Parallel()
	configured := func(change func(*config.Config)) *config.Config {
		c := &config.Config{
			Shards: []config.Shard{{Name: "s0", Addr: "a"}, {Name: "s1", Addr: "b"}},
			Schemas: []config.Schema{
				{Name: "shop", Default: config.Table{Placement: catalog.Reference}, Tables: []config.Table{{Name: "users", ShardKey: "id"}, {Name: "one", Placement: catalog.Single, Shard: "s1"}}},
				{Name: "blog", Tables: []config.Table{{Name: "posts", Placement: catalog.Anywhere}}},
			},
		}
		change(c)
		return c
	}
	made := func(change func(*config.Config)) []string { return alike(configured(change)) }
	base := made(func(*config.Config) {})
	for what, change := range map[string]func(*config.Config){
		"":                               func(c *config.Config) { c.Shards[0].Addr = "c"; slices.Reverse(c.Schemas) },
		"shards s1, s0":                  func(c *config.Config) { slices.Reverse(c.Shards) },
		"shards s0":                      func(c *config.Config) { c.Shards = c.Shards[:1] },
		"table shop.users: hash of city": func(c *config.Config) { c.Schemas[0].Tables[0].ShardKey = "city" },
		"table shop.users: hash":         func(c *config.Config) { c.Schemas[0].Tables[0].ShardKey = "" },
		"table shop.one: single on s0":   func(c *config.Config) { c.Schemas[0].Tables[1].Shard = "s0" },
		"schema shop: hash":              func(c *config.Config) { c.Schemas[0].Default = config.Table{} },
		"schema more: hash":              func(c *config.Config) { c.Schemas = append(c.Schemas, config.Schema{Name: "more"}) },
		"table blog.posts: anywhere, check_unique: false": func(c *config.Config) { c.Schemas[1].Tables[0].UniqueByShard = true },
	} {
		got := made(change)
		// Who has base and finds got begins by that, unless the shards are others.
		own := configured(func(*config.Config) {})
		var serving []string
		for _, sh := range own.Shards {
			serving = append(serving, sh.Name)
		}
		if theirs, ok := byOthers(own, serving, got); ok == strings.HasPrefix(what, "shards") || ok && !slices.Equal(alike(theirs), got) {
			t.Errorf("%s: taken for %+v", what, theirs.Schemas)
		}
		if what == "" {
			if !slices.Equal(got, base) {
				t.Errorf("%q differs from %q", got, base)
			}
			continue
		}
		if told := difference(base, got); slices.Equal(got, base) || !strings.HasSuffix(told, "and this configuration has "+what) {
			t.Errorf("%s: %s", what, told)
		}
	}
	if told := difference(base, made(func(c *config.Config) { c.Schemas = c.Schemas[:1] })); told != "they have schema blog: hash; table blog.posts: anywhere, and this configuration has nothing else" {
		t.Error(told)
	}
}
