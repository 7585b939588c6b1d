package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/e2e/throwaway"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// TestSampler: rows are drawn from all of a table by any primary key, counted by a key alone, and a large table is never
// read as a whole.
func TestSampler(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, at *throwaway.Server) {
		conn, err := shard.Dial(t.Context(), shard.Config{Name: "s0", Addr: at.Addr(), User: at.User, Password: at.Password, Target: &shard.Target{}}, false)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		testSampler(t, querier{conn})
	})
}

func testSampler(t *testing.T, q querier) {
	exec := func(sql string) {
		t.Helper()
		if _, err := q.conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%.200s: %v", sql, err)
		}
	}
	rows := func(n int, row func(i int) string) string {
		all := make([]string, n)
		for i := range all {
			all[i] = row(i)
		}
		return strings.Join(all, ", ")
	}
	// All have 10,000 rows, of 100 values, in the order of the primary key.
	const many, each = 10_000, 100
	exec("CREATE DATABASE app")
	column := func(name, typ string) *catalog.Column { return &catalog.Column{Name: name, Type: typ} }
	c, d := column("c", "varchar(20)"), column("d", "int")
	c.Charset, d.Nullable = "utf8mb4", true
	table := func(name, key string, columns ...*catalog.Column) *catalog.Table {
		exec("CREATE TABLE app." + name + " (" + key + ", c VARCHAR(20) NOT NULL, d INT, b VARBINARY(20), KEY (c), KEY other (d, c), KEY (b))")
		return &catalog.Table{Schema: "app", Name: name, PrimaryKey: columns}
	}
	value := func(i int) string { return fmt.Sprintf("'ä%02d''', NULL, x'ff%02x'", i/each, i/each) }
	tables := map[*catalog.Table]int{ // by how many of the values are met at least
		table("counted", "id BIGINT UNSIGNED PRIMARY KEY", column("id", "bigint unsigned")):                        35,
		table("signed", "id BIGINT PRIMARY KEY", column("id", "bigint")):                                           35,
		table("pairs", "x INT, y SMALLINT, PRIMARY KEY (x, y)", column("x", "int"), column("y", "smallint")):       35,
		table("named", "x INT, n VARCHAR(20), PRIMARY KEY (x, n)", column("x", "int"), column("n", "varchar(20)")): 35,
		table("texts", "n VARCHAR(20) PRIMARY KEY", column("n", "varchar(20)")):                                    headRows / each,
		table("unkeyed", "x INT"): headRows / each,
	}
	exec("INSERT INTO app.counted VALUES " + rows(many, func(i int) string { return fmt.Sprintf("(%d, %s)", uint64(1<<63)+uint64(i)*7, value(i)) }))
	exec("INSERT INTO app.signed VALUES " + rows(many, func(i int) string { return fmt.Sprintf("(%d, %s)", i-many/2, value(i)) }))
	exec("INSERT INTO app.pairs VALUES " + rows(many, func(i int) string { return fmt.Sprintf("(%d, %d, %s)", i/2500, i%2500, value(i)) }))
	exec("INSERT INTO app.named VALUES " + rows(many, func(i int) string { return fmt.Sprintf("(%d, 'n%d', %s)", i/5, i%5, value(i)) }))
	exec("INSERT INTO app.texts VALUES " + rows(many, func(i int) string { return fmt.Sprintf("('n%05d', %s)", i, value(i)) }))
	exec("INSERT INTO app.unkeyed VALUES " + rows(many, func(i int) string { return fmt.Sprintf("(%d, %s)", i, value(i)) }))
	exec("SET SESSION TRANSACTION READ ONLY")
	read := func() (n int) {
		t.Helper()
		found, err := q.Rows(t.Context(), "SHOW SESSION STATUS LIKE 'Handler_read%'")
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range found {
			k := 0
			if _, err := fmt.Sscan(string(row[1]), &k); err != nil {
				t.Fatal(err)
			}
			n += k
		}
		return n
	}
	s := sampler{q}
	for of, least := range tables {
		before := read()
		drawn, err := s.draw(t.Context(), of, []*catalog.Column{c, d}, sampledValues)
		if err != nil || len(drawn) != sampledValues {
			t.Errorf("%s: %d rows drawn, %v", of.Name, len(drawn), err)
			continue
		}
		values := map[string]bool{}
		for _, row := range drawn {
			values[string(row[0])] = true
			if row[1] != nil {
				t.Errorf("%s: %q for NULL", of.Name, row[1])
			}
		}
		if len(values) < least {
			t.Errorf("%s: %d values, want %d", of.Name, len(values), least)
		}
		key, err := s.keyOf(t.Context(), of, []*catalog.Column{c, d})
		if key != "other" || err != nil {
			t.Errorf("%s: key %q, %v", of.Name, key, err)
		}
		drawn = append(drawn[:8:8], [][]byte{[]byte("none"), nil})
		counts, err := s.count(t.Context(), of, []*catalog.Column{c, d}, key, drawn)
		if want := append(slices.Repeat([]uint64{each}, 8), 0); !slices.Equal(counts, want) || err != nil {
			t.Errorf("%s: counted %v, %v", of.Name, counts, err)
		}
		if n := read() - before; n > headRows+2500 {
			t.Errorf("%s: %d rows were read", of.Name, n)
		}
	}
	for of := range tables {
		b := column("b", "varbinary(20)")
		drawn, err := s.draw(t.Context(), of, []*catalog.Column{b}, 2)
		if err != nil {
			t.Fatal(err)
		}
		if counts, err := s.count(t.Context(), of, []*catalog.Column{b}, "b", drawn); !slices.Equal(counts, []uint64{each, each}) || err != nil {
			t.Errorf("%s: bytes %q counted %v, %v", of.Name, drawn, counts, err)
		}
		if key, err := s.keyOf(t.Context(), of, []*catalog.Column{b, d}); key != "" || err != nil {
			t.Errorf("%s: key %q, %v", of.Name, key, err)
		}
		if counts, err := s.count(t.Context(), of, []*catalog.Column{c}, "gone", [][][]byte{{[]byte("x")}}); err == nil {
			t.Errorf("%s: counted %v by no key", of.Name, counts)
		}
	}
}

// TestBetween: numbers between two ends are drawn, however far these are apart.
func TestBetween(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	for _, ends := range [][2]string{{"0", "0"}, {"-5", "5"}, {"-9223372036854775808", "9223372036854775807"}, {"0", "18446744073709551615"}, {"-3", "-3"}} {
		for range 100 {
			at, ok := between([][]byte{[]byte(ends[0]), []byte(ends[1])}, r)
			if !ok {
				t.Fatalf("%v: none", ends)
			}
			if ends[0] == ends[1] && at != ends[0] || ends[0] == "-5" && !slices.Contains(strings.Fields("-5 -4 -3 -2 -1 0 1 2 3 4 5"), at) {
				t.Errorf("%v: %s", ends, at)
			}
		}
	}
	for _, ends := range [][][]byte{nil, {nil, nil}, {[]byte("x"), []byte("1")}} {
		if at, ok := between(ends, r); ok {
			t.Errorf("%q: %s", ends, at)
		}
	}
}
