package e2e

import (
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// TestManyStatements: what a statement of a long list costs doesn't grow with the list.
func TestManyStatements(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{})
		c := p.conn(func(c *mysql.Config) { c.MultiStatements = true })
		list := "SET sql_mode = ''" + strings.Repeat("; DO 1 /*"+strings.Repeat("x", 200)+"*/", 2000)
		before, found := p.metric("go_memstats_alloc_bytes_total")
		if !found {
			t.Fatal("no go_memstats_alloc_bytes_total")
		}
		mustExec(t, c, list)
		after, _ := p.metric("go_memstats_alloc_bytes_total")
		if n := int(after-before) / len(list); n > 400 {
			t.Errorf("%d bytes are allocated for each of the list's", n)
		}
	})
}
