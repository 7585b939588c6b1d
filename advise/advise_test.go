package advise

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
)

func adviseOn(t *testing.T, name string, shards int) (*Report, *Design) {
	t.Helper()
	r, d, err := Advise(t.Context(), testSource(t, name, shards))
	if err != nil {
		t.Fatal(err)
	}
	return r, d
}

// wantRoutes holds the routes of all shapes: what a digest begins with, and its route. Others go to one shard.
func wantRoutes(t *testing.T, r *Report, want map[string]Route) {
	t.Helper()
	met := map[string]bool{}
	for _, s := range r.Statements {
		route := One
		for begin, of := range want {
			if strings.HasPrefix(s.Digest, begin) {
				route, met[begin] = of, true
			}
		}
		if s.Route != route {
			t.Errorf("%s: %s to %.2f shards (%s), want %s", s.Digest, s.Route, s.Shards, s.Reason, route)
		}
	}
	for begin := range want {
		if !met[begin] {
			t.Errorf("no statement begins with %q", begin)
		}
	}
}

func indexesOf(r *Report) (out []string) {
	for _, x := range r.Indexes {
		out = append(out, x.Table+": "+strings.Join(x.Columns, ","))
	}
	return out
}

func brokenOf(r *Report) (out []string) {
	for _, b := range r.Broken {
		out = append(out, b.Kind+" "+b.Table+": "+strings.Join(b.Columns, ","))
	}
	return out
}

// TestTPCC: all goes by the warehouse, items are everywhere, and no statement needs two shards. Of a
// payment's history the customer's warehouse is as good as that of the district.
func TestTPCC(t *testing.T) {
	t.Parallel()
	r, _ := adviseOn(t, "tpcc", 4)
	wantLines(t, "placements", placementsOf(r),
		"warehouse: w_id", "district: d_w_id", "customer: c_w_id", "history: h_c_w_id", "new_order: no_w_id", "orders: o_w_id",
		"order_line: ol_w_id", "stock: s_w_id", "item: reference")
	wantLines(t, "indexes", indexesOf(r))
	wantLines(t, "broken keys", brokenOf(r), "foreign key history: h_w_id,h_d_id")
	wantRoutes(t, r, map[string]Route{"BEGIN": Session, "COMMIT": Session})
}

// TestWordPress: posts with what is theirs by the post, users with theirs by the user, terms and options on every
// shard.
func TestWordPress(t *testing.T) {
	t.Parallel()
	r, _ := adviseOn(t, "wordpress", 4)
	wantLines(t, "placements", placementsOf(r),
		"wp_posts: ID", "wp_postmeta: post_id", "wp_comments: comment_post_ID", "wp_term_relationships: object_id",
		"wp_users: ID", "wp_usermeta: user_id", "wp_commentmeta: comment_id",
		"wp_terms: reference", "wp_term_taxonomy: reference", "wp_options: reference")
	wantLines(t, "indexes", indexesOf(r), "wp_posts: post_name", "wp_users: user_login", "wp_users: user_email")
	wantLines(t, "broken keys", brokenOf(r))
}

// TestShop has ten planted cases.
func TestShop(t *testing.T) {
	t.Parallel()
	r, d := adviseOn(t, "shop", 4)
	wantLines(t, "placements", placementsOf(r),
		"users: id",            // 1. not by email, which most ask for: an index does that
		"orders: user_id",      // 2. beside its users, by neither its primary key
		"order_items: user_id", // 3. nor the order's
		"countries: reference", // 4. joined from all sides
		"products: id",         // 5. too large and too often written to be everywhere
		"reviews: user_id",     //
		"sessions: token",      //
		"notes: single",        // 6. no column to go by
		"people: id",           //
	)
	wantLines(t, "indexes", indexesOf(r),
		"users: email", "orders: code", "products: sku",
		"people: family,given", // 7. neither column alone has few rows to a value
	) // 8. none on orders.status, of four values, nor on sessions.last_seen, of many writes
	wantLines(t, "broken keys", brokenOf(r), // 9.
		"unique key users: email", "unique key products: sku", "foreign key reviews: product_id", "unique key order_items: order_id,line")
	wantRoutes(t, r, map[string]Route{
		"SELECT COUNT ( * ) FROM `orders` WHERE `status`": All,
		"DELETE FROM `sessions` WHERE `last_seen`":        All,
		"SELECT * FROM `orders` WHERE `code`":             Few,     // 1.3 rows to a code
		"UPDATE `users` SET `id`":                         Refused, // 10.
		"SELECT * FROM `gone`":                            Unread,
		"SELECT `a` . `x`":                                Unread,
	})
	for _, x := range r.Indexes {
		if x.Basis == "unique" && x.FanOut != 1 || x.FanOut > 2 {
			t.Errorf("%s: a key leads to %.2f shards by %s", x.Name, x.FanOut, x.Basis)
		}
	}
	sum := 0.0
	for _, share := range r.Shares {
		sum += share
	}
	if math.Abs(sum-1) > 1e-9 {
		t.Errorf("shares add up to %f: %v", sum, r.Shares)
	}
	var out bytes.Buffer
	if err := r.Write(&out); err != nil {
		t.Fatal(err)
	}
	for _, told := range []string{"app.orders", "hash by user_id", "v_people_family_given", "refused, ", "drop fk_reviews_products"} {
		if !strings.Contains(out.String(), told) {
			t.Errorf("the report lacks %q:\n%s", told, out.String())
		}
	}
	yaml := d.Configuration([]Address{{"s0", "10.0.0.1:3306"}, {"s1", "10.0.0.2:3306"}})
	for _, line := range []string{"'orders': {shard_key: 'user_id'}", "'countries': {placement: reference}", "'notes': {placement: single, shard: s0}", "{name: 'v_users_email', table: 'app.users', columns: ['email']}"} {
		if !strings.Contains(yaml, line) {
			t.Errorf("the configuration lacks %s:\n%s", line, yaml)
		}
	}
	if b, err := json.Marshal(r); err != nil || !bytes.Contains(b, []byte(`"shard_key":"user_id"`)) {
		t.Errorf("%s, %v", b, err)
	}
}

// TestSample: where values' rows are is found by their shard keys, and a value of many rows counts for as many.
func TestSample(t *testing.T) {
	t.Parallel()
	src := testSource(t, "shop", 4)
	src.Sample = func(_ context.Context, table *catalog.Table, columns []*catalog.Column, key string) ([]Value, error) {
		if names := columnNames(columns); table.Name != "orders" || !slices.Equal(names, []string{"code"}) || key != "user_id" {
			return nil, fmt.Errorf("asked for %s (%v) by %s", table.Name, names, key)
		}
		alone := Value{Rows: 5, ShardKeys: [][]byte{[]byte("7")}}
		wide := Value{Rows: 20, ShardKeys: [][]byte{[]byte("7"), []byte("1"), []byte("2"), []byte("3"), []byte("4"), []byte("5"), []byte("6"), []byte("8"), []byte("9"), []byte("10"), []byte("11"), []byte("12")}}
		return []Value{alone, alone, {}, wide}, nil
	}
	r, _, err := Advise(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(r.Indexes, func(x IndexAdvice) bool { return x.Table == "orders" })
	if i < 0 || r.Indexes[i].Basis != "sample" || math.Abs(r.Indexes[i].FanOut-2) > 0.01 {
		t.Errorf("%+v", r.Indexes)
	}
	if !slices.ContainsFunc(r.Notes, func(n string) bool { return strings.HasPrefix(n, "no sample of app.people (family, given)") }) {
		t.Errorf("what could not be sampled is not told: %q", r.Notes)
	}
}

// TestFailing: a shard key that a statement changes, if rarely, is dearer than one by which more go to all shards.
func TestFailing(t *testing.T) {
	t.Parallel()
	table := testTable(t, "CREATE TABLE comments (id BIGINT NOT NULL AUTO_INCREMENT, post_id BIGINT NOT NULL, approved VARCHAR(20) NOT NULL, PRIMARY KEY (id))")
	var w Workload
	w.Add("app", "SELECT * FROM comments WHERE approved = ?", "", 600, 0)
	w.Add("app", "SELECT * FROM comments WHERE post_id = ?", "", 400, 0)
	w.Add("app", "INSERT INTO comments (post_id, approved) VALUES (...)", "", 100, 0)
	// So many that the others weigh little.
	other := testTable(t, "CREATE TABLE options (name BIGINT NOT NULL, PRIMARY KEY (name))")
	w.Add("app", "SELECT * FROM options WHERE name = ?", "", 50_000, 0)
	src := &Source{
		Build: func(d Design) (*catalog.Catalog, error) {
			return testCatalog(d, map[string]*catalog.Table{"comments": table, "options": other}, 4), nil
		},
		Stats: map[catalog.TableName]Stats{
			inApp("comments"): {Rows: 4 << 20, Distinct: map[string]uint64{"id": 4 << 20, "post_id": 1 << 18, "approved": 40}},
			inApp("options"):  {Rows: 4 << 20, Distinct: map[string]uint64{"name": 4 << 20}},
		},
		Schemas: []string{"app"}, Budget: 10_000,
	}
	for _, changed := range []bool{false, true} {
		want := "comments: approved"
		if changed {
			w.Add("app", "UPDATE comments SET approved = ? WHERE id = ?", "", 1, 0)
			want = "comments: post_id"
		}
		src.Shapes = w.Shapes()
		r, _, err := Advise(t.Context(), src)
		if err != nil {
			t.Fatal(err)
		}
		if got := placementsOf(r); !slices.Contains(got, want) {
			t.Errorf("changed: %v: %q", changed, got)
		}
	}
}

// TestNarrowed: an index beside one that has its column and another sends no statement to fewer shards.
func TestNarrowed(t *testing.T) {
	t.Parallel()
	src := testSource(t, "shop", 4)
	src.Sample = func(_ context.Context, table *catalog.Table, columns []*catalog.Column, _ string) ([]Value, error) {
		if table.Name != "people" {
			return nil, nil
		}
		three := Value{Rows: 40, Shards: catalog.Only(0)}
		three.Shards.Add(1)
		three.Shards.Add(2)
		return []Value{three}, nil
	}
	r, _, err := Advise(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	people := slices.DeleteFunc(indexesOf(r), func(x string) bool { return !strings.HasPrefix(x, "people: ") })
	if len(people) != 1 {
		t.Errorf("advised %q", people)
	}
}

// TestManyTables: of a schema that is too large to try all of, it is said that not all was tried; the search ends by its
// budget, and has placed all tables.
func TestManyTables(t *testing.T) {
	t.Parallel()
	const many = 120
	tables := map[string]*catalog.Table{}
	var w Workload
	for i := range many {
		name := fmt.Sprintf("t%03d", i)
		tables[name] = testTable(t, "CREATE TABLE "+name+" (id BIGINT NOT NULL, user_id BIGINT NOT NULL, a BIGINT NOT NULL, b BIGINT NOT NULL, c BIGINT NOT NULL, PRIMARY KEY (id))")
		for k, column := range []string{"id", "user_id", "a", "b", "c"} {
			w.Add("app", fmt.Sprintf("SELECT * FROM %s WHERE %s = ?", name, column), "", uint64(10+k), 0)
		}
		w.Add("app", fmt.Sprintf("SELECT * FROM %s x JOIN t000 y ON x.user_id = y.id WHERE y.id = ?", name), "", 50, 0)
	}
	src := &Source{
		Build:  func(d Design) (*catalog.Catalog, error) { return testCatalog(d, tables, 4), nil },
		Stats:  map[catalog.TableName]Stats{},
		Shapes: w.Shapes(), Schemas: []string{"app"}, Budget: 3000,
	}
	for name := range tables {
		src.Stats[inApp(name)] = Stats{Rows: 1 << 22, Distinct: map[string]uint64{}}
	}
	told := map[string]int64{}
	src.Progress = func(what string, done, all int64) {
		if done < told[what] || done > all {
			t.Errorf("%s: %d of %d behind %d", what, done, all, told[what])
		}
		told[what] = done
	}
	r, d, err := Advise(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	if told["placing tables"] == 0 || told["estimating virtual indexes"] == 0 {
		t.Errorf("of a search is told %v", told)
	}
	src.Progress = nil
	if len(d.Placements) != many || !slices.ContainsFunc(r.Notes, func(n string) bool { return strings.HasPrefix(n, "not all placements were tried") }) {
		t.Errorf("%d tables are placed, notes %q", len(d.Placements), r.Notes)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Advise(ctx, src); !errors.Is(err, context.Canceled) {
		t.Errorf("a search that was cancelled: %v", err)
	}
}
