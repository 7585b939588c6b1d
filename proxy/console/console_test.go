package console

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/insights"
)

// fake is a Served with one index and a shard that is down. What it was asked to execute is in executed.
type fake struct {
	unready string
	// failed is what each statement ends with.
	failed error

	mu       *sync.Mutex
	executed *[]string
}

func newFake() fake { return fake{mu: &sync.Mutex{}, executed: &[]string{}} }

func (f fake) Unready() string { return f.unready }

func (fake) Degraded(why bool) []string {
	if why {
		return []string{"shard s1 is down: 10.0.0.1 refuses"}
	}
	return []string{"shard s1 is down"}
}

func (fake) Catalog() *catalog.Catalog {
	id, email := &catalog.Column{Name: "id"}, &catalog.Column{Name: "email"}
	shards := []catalog.Shard{{ID: 0, Name: "s0"}, {ID: 1, Name: "s1"}}
	all := catalog.Only(0).Union(catalog.Only(1))
	users := &catalog.Table{Schema: "shop", Name: "users", ShardKey: id, Columns: []*catalog.Column{id, email}, Shards: all}
	users.Indexes = []*catalog.Index{{Name: "by_email", Table: users, Columns: []*catalog.Column{email}}}
	c := &catalog.Catalog{Version: 1, Shards: shards, All: all, Schemas: map[string]*catalog.Schema{
		"shop": {Name: "shop", Tables: map[string]*catalog.Table{"users": users, "v": {Schema: "shop", Name: "v", IsView: true}}},
	}}
	for i := catalog.Slots / 2; i < catalog.Slots; i++ {
		c.Slots[i] = 1
	}
	return c
}

func (fake) Entries(_ *catalog.Index, from, to []byte, limit int) (any, error) {
	return []string{string(from), string(to), strings.Repeat("x", limit)}, nil
}

const digest = "00000000000000ab"

// answers are those of the statements that pages execute, by how these begin.
var answers = map[string]*Answer{
	"SHOW SHARDS": {Columns: []string{"Name", "Addr", "State", "Version", "Connections_in_use", "Role", "Error", "Binary_log"}, Rows: [][]any{
		{"s0", "10.0.0.0", "up", "9.7.4", 3, "primary", nil, "followed"},
		{"s1", "10.0.0.1", "down", "9.7.4", 0, "primary", "<refuses>", "not followed: <why>"},
	}},
	"SHOW MEMBERS": {Columns: []string{"Member", "Addr", "State"}, Rows: [][]any{{"17", "10.0.0.9", "joined"}}},
	"SHOW VIRTUAL COLUMNS": {Columns: []string{"Schema", "Table", "Name", "Expression", "Status", "Progress", "Hot", "Kept", "Hit_rate", "Lag"}, Rows: [][]any{
		{"shop", "users", "messages", "(SELECT COUNT(*) FROM messages m WHERE m.user_id = users.id)", "ready", int64(100), int64(3456), int64(20), "0.987", "0.1"},
	}},
	"SHOW VIRTUAL INDEXES": {Columns: []string{"Schema", "Table", "Name", "Columns", "Status", "Entries", "Reads", "Mean_shards", "Ideal_shards", "In_vain"}, Rows: [][]any{
		{"shop", "users", "by_email", "email", "ready", int64(1234567), int64(1000), "1.10", "1.00", "0.09"},
	}},
	"SHOW MAINTENANCE JOBS": {Columns: []string{"Id", "Type", "Schema", "Table", "State", "Error"}, Rows: [][]any{{int64(7), "scan", "shop", "users", "running", nil}}},
	"SHOW STATEMENT STATISTICS": {Columns: []string{"Digest", "Schema", "Statement", "Calls", "Errors", "P50_ms", "P99_ms", "Route", "Access"}, Rows: [][]any{
		{digest, "shop", "SELECT '<b>' FROM users WHERE email = ?", int64(4321), int64(1), "0.500", "2.000", "route", "scatter"},
		{nil, nil, nil, int64(9), int64(0), "0.500", "2.000", nil, nil},
	}},
	"SHOW FULL PROCESSLIST": {Columns: []string{"Id", "User", "Command", "State", "Info"}, Rows: [][]any{
		{int64(5), "app", "Query", "", "SELECT '<script>'"}, {int64(6), "app", "Sleep", "transaction or locks open", nil},
	}, Warnings: []string{"Member 3 doesn't answer"}},
	"SHOW INDEX ADVICE": {Columns: []string{"Schema", "Table", "Columns", "Advice"}, Rows: [][]any{
		{"shop", "users", "city", "CREATE VIRTUAL INDEX x ON shop.users (city)"}, {"shop", "orders", "a", "DROP VIRTUAL INDEX y ON shop.orders"},
	}},
	"EXPLAIN ROUTE": {Columns: []string{"Plan", "Shards", "Access", "Reason", "Statement"}, Rows: [][]any{{"route", "s1", "index:by_email", "because", "SELECT 1"}}},
	"KILL":          {},
}

func (f fake) Execute(_ context.Context, schema, sql string) (*Answer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if *f.executed = append(*f.executed, schema+": "+sql); f.failed != nil {
		return nil, f.failed
	}
	for begin, a := range answers {
		if strings.HasPrefix(sql, begin) {
			return &Answer{a.Columns, slices.Clone(a.Rows), a.Warnings}, nil
		}
	}
	return nil, fmt.Errorf("no answer to %s", sql)
}

func (fake) Traffic() []Traffic {
	return []Traffic{
		{Digest: digest, Schema: "shop", Statement: "SELECT", Route: "route", Access: "scatter", Tables: []catalog.TableName{{Schema: "shop", Name: "users"}}, Calls: 4321, Shards: []insights.ShardRow{
			{Shard: 1, Parts: 4321, Total: 4321 * time.Millisecond, Max: time.Second}, {Shard: 0, Parts: 4320, Total: 4320 * time.Millisecond, Max: time.Second},
		}},
		{Calls: 9},
	}
}

func (fake) Histograms(digests ...string) map[string]insights.Histograms {
	out := map[string]insights.Histograms{}
	for _, d := range digests {
		if d == digest {
			b := []insights.Bucket{{Below: time.Millisecond, Count: 3}, {Below: 2 * time.Millisecond}, {Below: 3 * time.Millisecond, Count: 1}}
			out[d] = insights.Histograms{Whole: b, Part: b}
		}
	}
	return out
}

func TestHandler(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdef"
	for _, c := range []struct {
		name   string
		served fake
		token  string // of the configuration
		sent   string
		path   string
		status int
		body   string // a part
	}{
		{"health", newFake(), token, "", "/healthz", 200, "ok"},
		{"degraded, for anybody", newFake(), token, "", "/readyz", 200, "ok, degraded:\nshard s1 is down\n"},
		{"degraded, for who may know", newFake(), token, token, "/readyz", 200, "10.0.0.1"},
		{"not ready", fake{unready: "draining"}, token, "", "/readyz", 503, "draining"},
		{"page", newFake(), token, token, "/", 200, "shop.users"},
		{"no token sent", newFake(), token, "", "/", 401, "Bearer"},
		{"no token configured", newFake(), "", "", "/", 403, "http_token"},
		{"metrics without a token", newFake(), "", "", "/metrics", 200, ""},
		{"entries of a key", newFake(), token, token, "/v1/indexes/shop/users/by_email?key=61&limit=3", 200, `{"entries":["a","a\u0000","xxx"]}`},
		{"entries behind a key", newFake(), token, token, "/v1/indexes/shop/users/by_email?gt=61&lt=63&limit=1", 200, `{"entries":["a\u0000","c","x"]}`},
		{"no such index", newFake(), token, token, "/v1/indexes/shop/users/d", 404, "no such"},
		{"no key", newFake(), token, token, "/v1/indexes/shop/users/by_email?key=z", 400, "hexadecimal"},
		{"no number", newFake(), token, token, "/v1/indexes/shop/users/by_email?limit=0", 400, "1 to 10000"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+c.path, nil)
		if c.sent != "" {
			r.Header.Set("Authorization", "Bearer "+c.sent)
		}
		w := httptest.NewRecorder()
		Handler(c.served, prometheus.NewRegistry(), c.token).ServeHTTP(w, r)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.body) {
			t.Errorf("%s: %d %s, want %d with %q", c.name, w.Code, w.Body, c.status, c.body)
		}
	}
}

// TestWithoutToken: without a token whoever is on Shunt's machine sees no values of rows, no
// statements and no profiles. A page that somebody there has open reads nothing at all, neither by
// asking, nor by a name of its own that it has let point here.
func TestWithoutToken(t *testing.T) {
	t.Parallel()
	gauges := prometheus.NewRegistry()
	gauges.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "shunt_sessions"}))
	server := httptest.NewServer(Handler(newFake(), gauges, ""))
	defer server.Close()
	port := server.URL[strings.LastIndex(server.URL, ":")+1:]
	for _, path := range []string{"/", "/v1/indexes/s/t/c", "/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/trace?seconds=1", "/debug/pprof/cmdline", "/no-such", "//v1/indexes/a/b/c"} {
		status, body := ask(t, server, path, nil)
		if status != http.StatusForbidden || strings.Contains(body, `{"entries"`) || !strings.Contains(body, "set one in the configuration") {
			t.Errorf("%s: %d %.200s", path, status, body)
		}
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if status, _ := ask(t, server, path, map[string]string{"Host": "shunt.example"}); status != http.StatusOK {
			t.Errorf("%s asked for by name: %d", path, status)
		}
	}
	for _, host := range []string{"evil.example", "evil.example:" + port, "localhost.evil.example"} {
		if status, body := ask(t, server, "/metrics", map[string]string{"Host": host}); status != http.StatusForbidden || strings.Contains(body, "shunt_") {
			t.Errorf("metrics of %s: %d %.100s", host, status, body)
		}
	}
	for _, mode := range []string{"no-cors", "navigate"} {
		if status, _ := ask(t, server, "/metrics", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": mode}); status != http.StatusForbidden {
			t.Errorf("metrics from another site's page: %d", status)
		}
	}
	for _, headers := range []map[string]string{nil, {"Host": "localhost:" + port}, {"Host": "LOCALHOST"}, {"Host": "[::1]:" + port}, {"Sec-Fetch-Site": "none"}, {"Sec-Fetch-Site": "same-origin"}} {
		if status, body := ask(t, server, "/metrics", headers); status != http.StatusOK || !strings.Contains(body, "shunt_sessions") {
			t.Errorf("metrics with %v: %d", headers, status)
		}
	}
}

// TestWithToken: without the token there is health alone.
func TestWithToken(t *testing.T) {
	t.Parallel()
	gauges := prometheus.NewRegistry()
	gauges.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "shunt_sessions"}))
	server := httptest.NewServer(Handler(newFake(), gauges, "a token of 24 letters"))
	defer server.Close()
	for _, path := range []string{"/", "/metrics", "/v1/indexes/a/b/c", "/debug/pprof/cmdline", "/no-such", "//healthz", "/healthz/../metrics", "/healthz/"} {
		for _, headers := range []map[string]string{nil, {"Authorization": "Bearer"}, {"Authorization": "a token of 24 letters"}, {"Authorization": "Basic YTpi"}, {"Authorization": "Bearer a token of 24 letter"}} {
			if status, body := ask(t, server, path, headers); status != http.StatusUnauthorized {
				t.Errorf("%s with %v: %d %.100s", path, headers, status, body)
			}
		}
	}
	// By name, as Prometheus asks.
	if status, body := ask(t, server, "/metrics", map[string]string{"Authorization": "Bearer a token of 24 letters", "Host": "shunt.example"}); status != http.StatusOK || !strings.Contains(body, "shunt_sessions") {
		t.Errorf("/metrics with the token: %d", status)
	}
	if status, _ := ask(t, server, "/healthz", nil); status != http.StatusOK {
		t.Errorf("/healthz: %d", status)
	}
}

// ask asks a server with headers; "Host" is the request's.
func ask(t *testing.T, server *httptest.Server, path string, headers map[string]string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range headers {
		if r.Header.Set(k, v); k == "Host" {
			r.Host = v
		}
	}
	resp, err := server.Client().Do(r)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return resp.StatusCode, string(body)
}
