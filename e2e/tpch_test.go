package e2e

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/shunt-sql/shunt/e2e/generate"
	"github.com/shunt-sql/shunt/e2e/tpch"
)

// TestTPCH: the 22 queries of TPC-H over four shards give exactly what one
// server gives. SHUNT_E2E_TPCH is the scale factor (default 0.002).
func TestTPCH(t *testing.T) {
	scale := 0.002
	if s := os.Getenv("SHUNT_E2E_TPCH"); s != "" {
		var err error
		if scale, err = strconv.ParseFloat(s, 64); err != nil {
			t.Fatal(err)
		}
	}
	oneFlavour(t, func(t *testing.T, f *flavour) {
		var tables []string
		for _, table := range tpch.Tables {
			tables = append(tables, table.Placement())
		}
		p := start(t, f, setup{tables: tables})
		connect := func(addr, user, password, schema string) *wireConn {
			c, err := dialWire(addr, user, password, "")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			for _, sql := range []string{"CREATE DATABASE IF NOT EXISTS " + schema, "USE " + schema} {
				if r := c.do(sql, nil, false); r.broken != nil || r.code != 0 {
					t.Fatalf("%s: %s", sql, r)
				}
			}
			for _, table := range tpch.Tables {
				if r := c.do(table.Create, nil, false); r.broken != nil || r.code != 0 {
					t.Fatalf("%s: %s", table.Create, r)
				}
			}
			return c
		}
		srv := p.servers[3]
		shunt := connect(p.addr, "app", "secret", p.schema)
		plain := connect(srv.Addr(), srv.User, srv.Password, p.schema+"_plain")
		t.Cleanup(func() { plain.do("DROP DATABASE "+p.schema+"_plain", nil, false) })
		in := tpch.Insert{Exec: func(sql string) error {
			for _, c := range []*wireConn{shunt, plain} {
				if r := c.do(sql, nil, false); r.broken != nil || r.code != 0 {
					t.Fatalf("%.100s: %s", sql, r)
				}
			}
			return nil
		}}
		if err := tpch.Rows(scale, 1, in.Add); err != nil {
			t.Fatal(err)
		}
		if err := in.Flush(); err != nil {
			t.Fatal(err)
		}
		for _, table := range tpch.Tables {
			// Statistics as any server that is in use has them.
			plain.do("ANALYZE TABLE "+table.Name, nil, false)
			for i := range p.servers {
				mustRows(t, p.shard(i), "ANALYZE TABLE "+table.Name)
			}
		}
		found := 0
		for i, sql := range tpch.Queries(scale) {
			began := time.Now()
			got := shunt.do(sql, nil, false)
			between := time.Now()
			want := plain.do(sql, nil, false)
			t.Logf("Q%d: %d rows, %s; one server %s", i+1, len(want.rows), between.Sub(began).Round(time.Millisecond), time.Since(between).Round(time.Millisecond))
			check := generate.Check{Ordered: true, Total: true}
			if d := compareReplies(got, want, check, false); d.class != "" && !d.minor() {
				t.Errorf("Q%d: %s: %s\n%s\n shunt: %s\n plain: %s", i+1, d.class, d.detail, sql, got, want)
			}
			if len(want.rows) > 0 {
				found++
			}
		}
		// Few rows leave some of the rarer conditions without any.
		if found < 14 {
			t.Errorf("only %d queries find rows: the test says little", found)
		}
	})
}
