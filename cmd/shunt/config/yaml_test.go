package config

import (
	"slices"
	"strings"
	"testing"
)

// TestUnspaced: a colon without a space behind it makes no mapping, in a list either.
func TestUnspaced(t *testing.T) {
	t.Parallel()
	parse := func(nodes string) (*Config, error) {
		return Parse("f.yaml", []byte("data_dir: d\nusers: [{name: a, password: x}]\nshards: [{name: s0, addr: h:1, user: u}]\n"+
			"store: {servers: [{addr: h1:2, user: u, nodes: "+nodes+"}]}\n"), func(string) (string, bool) { return "", false })
	}
	for nodes, want := range map[string][]string{
		"[10.0.0.9:3306, h2:3]": {"10.0.0.9:3306", "h2:3"}, "['h2:3' , h3:4 ]": {"h2:3", "h3:4"}, "\n    - h2:3\n    - h3:4\n    ": {"h2:3", "h3:4"},
	} {
		c, err := parse(nodes)
		if err != nil {
			t.Errorf("%s: %v", nodes, err)
		} else if got := c.Store.Servers[0].Nodes; !slices.Equal(got, want) {
			t.Errorf("%s: %q", nodes, got)
		}
	}
	for _, nodes := range []string{"[h2: 3]", "[{h2: 3}]", "[{h2:3}]", "[h2 :3]", "[h2:[3]]"} {
		if _, err := parse(nodes); err == nil || !strings.Contains(err.Error(), "nodes") {
			t.Errorf("%s: %v", nodes, err)
		}
	}
}
