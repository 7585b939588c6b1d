package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestReloadAccount: an account or TLS that a shard doesn't take is refused at SIGHUP,
// rather than noticed as connections end; one that it takes serves.
func TestReloadAccount(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: peoplePlacement})
		mustExec(t, p.conn(), people)
		refusals := func() int { return strings.Count(p.log.String(), "reload: nothing was changed") }
		s := p.servers[1]
		before := fmt.Sprintf("addr: '%s', user: %s, password: ", s.Addr(), s.User)
		right := fmt.Sprintf("%s'%s'", before, s.Password)
		for i, wrong := range []string{before + "mistyped", right + ", tls: {}"} {
			p.reload(right, wrong)
			if refusals() != i+1 {
				t.Errorf("%s was taken\n%s", wrong, p.log.Tail(5))
			}
			p.reload(wrong, right)
		}
		if refusals() != 2 {
			t.Errorf("the right account was refused\n%s", p.log.Tail(5))
		}
		want(t, p.conn(), "SELECT COUNT(*) AS n FROM people", "n", "0")
	})
}
