package planner

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
)

// home is what is asked by Remote, and how.
type home struct {
	ix   plan.Indexes
	asks [][]plan.Question
	err  error
}

func (h *home) ask(questions []plan.Question) error {
	h.asks = append(h.asks, slices.Clone(questions))
	if h.err != nil {
		return h.err
	}
	for i := range questions {
		q := &questions[i]
		if q.Ranged {
			q.Shards, q.Within, q.Err = h.ix.Range(q.Index, q.From, q.To, q.Limit)
			continue
		}
		if q.Components == nil { // fakeIndexes want them
			q.Components = [][]byte{q.Key}
		}
		q.Shards, q.Err = h.ix.Lookup(q.Index, q.Key, q.Components)
	}
	return nil
}

func remotely(ix plan.Indexes) plan.Indexes { return Remote((&home{ix: ix}).ask) }

// asked are the questions of one call, by index and what is asked.
func asked(questions []plan.Question) string {
	var out []string
	for _, q := range questions {
		what := "key"
		if q.Ranged {
			what = fmt.Sprintf("range to %d", q.Limit)
		}
		out = append(out, q.Index.Name+" "+what)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

const remoteDDL = `CREATE TABLE users (id BIGINT PRIMARY KEY, email VARCHAR(100), name VARCHAR(100), city VARCHAR(100), age INT);
-- @virtual idx_email email
-- @virtual idx_name_city name,city
-- @virtual idx_age age
CREATE TABLE orders (id BIGINT PRIMARY KEY, email VARCHAR(100), total INT);
-- @virtual idx_of email
CREATE TABLE spots (a INT PRIMARY KEY, b INT, c INT, UNIQUE (b));
-- @anywhere
-- @virtual idx_a a
-- @virtual idx_b b`

// TestAskedOnce: whatever a statement looks up is asked at once, if the answers are as good as
// they mostly are, and gives what one lookup after the other gives.
func TestAskedOnce(t *testing.T) {
	t.Parallel()
	cat := buildCatalog(t, 4, remoteDDL)
	p := New()
	for _, c := range []struct{ sql, asks string }{
		{"SELECT * FROM users WHERE id = 5", ""},
		{"SELECT * FROM users WHERE email = 'a'", "idx_email key"},
		{"SELECT * FROM users WHERE email IN ('a', 'b', 'c', 'a')", "idx_email key, idx_email key, idx_email key"},
		{"SELECT * FROM users WHERE email = 'a' OR name = 'b' AND city = 'c' OR age = 5", "idx_age key, idx_email key, idx_name_city key"},
		{"SELECT * FROM users WHERE email = 'a' AND name = 'b' AND city = 'c'", "idx_email key, idx_name_city key"},
		{"SELECT * FROM users WHERE email = 'a' OR email = 'a' AND age = 3", "idx_age key, idx_email key"},
		{"SELECT * FROM users WHERE age BETWEEN 3 AND 5", "idx_age range to 1000"},
		{"SELECT * FROM users WHERE email LIKE 'a%'", "idx_email range to 1000"},
		{"SELECT * FROM users WHERE name = 'a'", "idx_name_city range to 1000"},
		{"SELECT * FROM users WHERE name IN ('a', 'b') AND city > 'c'", "idx_name_city range to 500, idx_name_city range to 500"},
		{"SELECT * FROM users WHERE name IN ('a', 'b') AND city IN ('c', 'd')", "idx_name_city key, idx_name_city key, idx_name_city key, idx_name_city key"},
		{"SELECT * FROM users WHERE email LIKE 'a%' AND age > 5", "idx_age range to 1000, idx_email range to 1000"},
		// A range isn't asked for beside a key, which mostly leaves one shard.
		{"SELECT * FROM users WHERE email = 'a' AND age > 5", "idx_email key"},
		{"SELECT * FROM users WHERE (email = 'a' OR email = 'b') AND age > 5", "idx_email key, idx_email key"},
		{"SELECT * FROM users u JOIN orders o ON o.email = u.email WHERE u.email = 'a'", "idx_email key, idx_of key"},
		{"SELECT * FROM users u, orders o WHERE u.age = 5 AND o.email IN ('a', 'b')", "idx_age key, idx_of key, idx_of key"},
		{"SELECT * FROM users WHERE email = 'a' AND id IN (SELECT total FROM orders WHERE email = 'b')", "idx_email key, idx_of key"},
		{"UPDATE users SET age = 3 WHERE email IN ('a', 'b')", "idx_email key, idx_email key"},
		{"DELETE FROM users WHERE email = 'a' OR age = 5", "idx_age key, idx_email key"},
		{"EXPLAIN SELECT * FROM users WHERE email IN ('a', 'b')", "idx_email key, idx_email key"},
		{"INSERT INTO users VALUES (1, 'a', 'b', 'c', 5)", ""},
	} {
		planned, err := p.Plan(c.sql, shapeSettings, cat)
		if err != nil {
			t.Fatal(c.sql, err)
		}
		r := planned.(*plan.Rows)
		one := &fakeIndexes{
			lookup: func(*catalog.Index, []byte) (catalog.ShardSet, error) { return catalog.Only(2), nil },
			ranged: func(*catalog.Index, []byte, []byte, int) (catalog.ShardSet, bool, error) {
				return catalog.Only(2), true, nil
			},
		}
		h := &home{ix: one}
		far := Remote(h.ask)
		var bd Binding
		for n, bind := range []func(plan.Indexes) (*plan.Bound, error){
			func(ix plan.Indexes) (*plan.Bound, error) { return p.Bind(r, nil, ix) },
			func(ix plan.Indexes) (*plan.Bound, error) { return p.BindIn(&bd, r, nil, ix) },
		} {
			near, err := bind(one)
			if err != nil {
				t.Fatal(c.sql, err)
			}
			want := boundText(r, near)
			b, err := bind(far)
			if err != nil {
				t.Fatal(c.sql, err)
			}
			if got := boundText(r, b); got != want {
				t.Errorf("%s\n-- asked at once:\n%s\n-- one after the other:\n%s", c.sql, got, want)
			}
			var got []string
			for _, a := range h.asks {
				got = append(got, asked(a))
			}
			if strings.Join(got, "; ") != c.asks {
				t.Errorf("%s, binding %d: asked %q, want %q at once", c.sql, n, got, c.asks)
			}
			h.asks = nil
		}
	}
}

// TestAskedOnceBehind: so are the keys that an INSERT's rows may share with others, and those by
// which a copy is narrowed.
func TestAskedOnceBehind(t *testing.T) {
	t.Parallel()
	cat := buildCatalog(t, 4, remoteDDL)
	p := New()
	one := &fakeIndexes{lookup: func(*catalog.Index, []byte) (catalog.ShardSet, error) { return catalog.Only(2), nil }}
	h := &home{ix: one}

	planned, err := p.Plan("INSERT INTO spots VALUES (1, 2, 3), (4, 5, 6)", shapeSettings, cat)
	if err != nil {
		t.Fatal(err)
	}
	b, err := p.Bind(planned.(*plan.Rows), nil, Remote(h.ask))
	if err != nil {
		t.Fatal(err)
	}
	if b.Unique == nil || len(h.asks) != 0 {
		t.Fatalf("unique %v, asked %v", b.Unique, h.asks)
	}
	for range 2 { // what was told the first time isn't good later
		b.Unique.Elsewhere()
		if len(h.asks) != 1 || asked(h.asks[0]) != "idx_a key, idx_a key, idx_b key, idx_b key" {
			t.Errorf("asked %v", h.asks)
		}
		h.asks = nil
	}

	planned, err = p.Plan("SELECT COUNT(DISTINCT o.total), u.age FROM users u JOIN orders o ON o.email = u.email WHERE u.city = 'x' GROUP BY u.age", shapeSettings, cat)
	if err != nil {
		t.Fatal(err)
	}
	r := planned.(*plan.Rows)
	if b, err = p.BindGathered(r, nil, Remote(h.ask)); err != nil || len(h.asks) != 0 {
		t.Fatal(err, h.asks)
	}
	for i, ref := range b.Gather.Refs {
		if len(ref.Joins) == 0 || ref.Table.Name != "orders" {
			continue
		}
		_, near, ok1 := b.Gather.Narrow(b.Gather, i, ref.Joins, [][]string{{"a", "b", "c"}}, one)
		_, far, ok2 := b.Gather.Narrow(b.Gather, i, ref.Joins, [][]string{{"a", "b", "c"}}, Remote(h.ask))
		if !ok1 || !ok2 || near != far || near != catalog.Only(2) || len(h.asks) != 1 || len(h.asks[0]) != 3 {
			t.Errorf("%v %v, %v is not %v, asked %v", ok1, ok2, far, near, h.asks)
		}
		return
	}
	t.Fatal("nothing is narrowed")
}

// TestAskedAgain: where answers lead to more questions, what a binding goes by in the end is of
// one moment, or wide.
func TestAskedAgain(t *testing.T) {
	t.Parallel()
	cat := buildCatalog(t, 4, remoteDDL)
	p := New()
	planned, err := p.Plan("SELECT * FROM users WHERE email = 'a' AND age > 5", shapeSettings, cat)
	if err != nil {
		t.Fatal(err)
	}
	bind := func(h *home) *plan.Bound {
		b, err := p.Bind(planned.(*plan.Rows), nil, Remote(h.ask))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	two, three := catalog.Only(1).Union(catalog.Only(2)), catalog.Only(1).Union(catalog.Only(3))
	h := &home{}
	h.ix = &fakeIndexes{
		lookup: func(*catalog.Index, []byte) (catalog.ShardSet, error) {
			if len(h.asks) == 1 {
				return two, nil
			}
			return three, nil // the row has moved meanwhile
		},
		ranged: func(*catalog.Index, []byte, []byte, int) (catalog.ShardSet, bool, error) {
			return catalog.Only(3), true, nil
		},
	}
	if b := bind(h); len(b.Statements) != 1 || b.Statements[0].Shard != 3 || len(h.asks) != 2 || asked(h.asks[1]) != "idx_age range to 1000, idx_email key" {
		t.Errorf("sent to %v by what was asked in %v", b.Statements, h.asks)
	}

	// Nothing is asked any more of a home that doesn't answer.
	h = &home{err: errors.New("no route to it")}
	if b := bind(h); len(b.Statements) != 4 || len(h.asks) != 1 || !strings.Contains(b.Reason, "no route to it") {
		t.Errorf("sent to %v (%s) by what was asked in %v", b.Statements, b.Reason, h.asks)
	}

	// A lookup of no binding is answered, and several are of different moments.
	r := Remote(remoteHome(two).ask)
	ix := cat.Table("shop", "users").Index("idx_email")
	before := r.Removals()
	if set, err := r.Lookup(ix, []byte("k"), [][]byte{[]byte("k")}); err != nil || set != two || r.Removals() == before {
		t.Errorf("%v, %v", set, err)
	}
}

func remoteHome(set catalog.ShardSet) *home {
	return &home{ix: &fakeIndexes{lookup: func(*catalog.Index, []byte) (catalog.ShardSet, error) { return set, nil }}}
}

// TestAskedInVain: lookups that lead to others each time end, and bound nothing then.
func TestAskedInVain(t *testing.T) {
	t.Parallel()
	cat := buildCatalog(t, 4, remoteDDL)
	ix := cat.Table("shop", "users").Index("idx_email")
	h := remoteHome(catalog.Only(1))
	b := &binder{cat: cat, ix: Remote(h.ask)}
	n := 0
	var errs []error
	b.atOnce(func() {
		errs = nil
		for range 2 {
			n++
			k := []byte{byte(n)}
			_, err := b.ix.Lookup(ix, k, [][]byte{k})
			errs = append(errs, err)
		}
	})
	if len(h.asks) != momentTries || !errors.Is(errs[0], errMoving) || !errors.Is(errs[1], errMoving) {
		t.Errorf("asked %d times, then %v", len(h.asks), errs)
	}
}
