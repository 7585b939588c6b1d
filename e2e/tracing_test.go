package e2e

import (
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// traceCollector takes traces by OTLP over HTTP.
type traceCollector struct {
	url   string
	mu    sync.Mutex
	spans []*tracepb.Span
	names map[string]bool // of services
}

func collectTraces(t *testing.T) *traceCollector {
	c := &traceCollector{names: map[string]bool{}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		b, err := io.ReadAll(body)
		var all collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(b, &all)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Error(r.URL, err)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, of := range all.GetResourceSpans() {
			c.names[attributesOf(of.GetResource().GetAttributes())["service.name"]] = true
			for _, in := range of.GetScopeSpans() {
				c.spans = append(c.spans, in.GetSpans()...)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(s.Close)
	c.url = s.URL
	return c
}

func attributesOf(all []*common.KeyValue) map[string]string {
	out := map[string]string{}
	for _, a := range all {
		switch v := a.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			out[a.GetKey()] = v.StringValue
		case *common.AnyValue_IntValue:
			out[a.GetKey()] = fmt.Sprint(v.IntValue)
		case *common.AnyValue_ArrayValue:
			var items []string
			for _, x := range v.ArrayValue.GetValues() {
				items = append(items, x.GetStringValue())
			}
			out[a.GetKey()] = strings.Join(items, " ")
		}
	}
	return out
}

// of waits for a trace, and returns the span of its statement and those of the shards' parts.
func (c *traceCollector) of(t *testing.T, id string) (statement *tracepb.Span, parts []*tracepb.Span) {
	t.Helper()
	eventually(t, "the trace "+id, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		statement, parts = nil, nil
		for _, s := range c.spans {
			switch {
			case hex.EncodeToString(s.GetTraceId()) != id:
			case s.GetKind() == tracepb.Span_SPAN_KIND_SERVER:
				statement = s
			default:
				parts = append(parts, s)
			}
		}
		return statement != nil
	})
	for _, p := range parts {
		if !slices.Equal(p.GetParentSpanId(), statement.GetSpanId()) || p.GetKind() != tracepb.Span_SPAN_KIND_CLIENT ||
			p.GetStartTimeUnixNano() < statement.GetStartTimeUnixNano() || p.GetEndTimeUnixNano() < p.GetStartTimeUnixNano() || p.GetEndTimeUnixNano() > statement.GetEndTimeUnixNano() {
			t.Errorf("%v is not within %v", p, statement)
		}
	}
	return statement, parts
}

func traceParent(n int, flag string) (id, parent string) {
	id = fmt.Sprintf("%032x", n)
	return id, "00-" + id + "-00f067aa0ba902b7-" + flag
}

// TestTraces: a statement whose client traces it gives a span below the client's, with one for each shard's part.
func TestTraces(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		to := collectTraces(t)
		log := filepath.Join(t.TempDir(), "statements.log")
		p, c := startPeople(t, f, 100, setup{env: []string{"OTEL_BSP_SCHEDULE_DELAY=50"}, extra: fmt.Sprintf("tracing: {endpoint: %q, sample: 0, service: shop}\nstatement_log: {file: %q, slow: 0s}", to.url, log)})
		n := 0
		comment := func(sql string, args ...any) string { // executes it within a trace
			t.Helper()
			n++
			id, parent := traceParent(n, "01")
			rows, err := c.QueryContext(t.Context(), sql+" /*traceparent='"+parent+"'*/", args...)
			if err == nil {
				for rows.Next() {
				}
				rows.Close()
			}
			return id
		}
		check := func(id string, shards int, want map[string]string) (statement *tracepb.Span, parts []*tracepb.Span) {
			t.Helper()
			statement, parts = to.of(t, id)
			got := attributesOf(statement.GetAttributes())
			for k, v := range want {
				if got[k] != v {
					t.Errorf("%s is %q, not %q: %v", k, got[k], v, got)
				}
			}
			for k, v := range map[string]string{"db.system.name": string(f.name), "db.namespace": p.schema, "user.name": "app"} {
				if got[k] != v {
					t.Errorf("%s is %q, not %q", k, got[k], v)
				}
			}
			if hex.EncodeToString(statement.GetParentSpanId()) != "00f067aa0ba902b7" {
				t.Errorf("the parent is %x", statement.GetParentSpanId())
			}
			seen := map[string]bool{}
			for _, part := range parts {
				a := attributesOf(part.GetAttributes())
				seen[a["shunt.shard"]] = true
				if a["server.address"] == "" || a["shunt.thread"] == "" || a["shunt.thread"] == "0" {
					t.Errorf("%v", a)
				}
			}
			if len(seen) != shards || len(strings.Fields(got["shunt.shards"])) != len(parts) {
				t.Errorf("%d shards, not %d: %v", len(seen), shards, slices.Collect(maps.Keys(seen)))
			}
			return statement, parts
		}

		id := comment("SELECT email FROM people WHERE id = 505")
		check(id, 1, map[string]string{"db.query.text": "SELECT email FROM people WHERE id = ?", "db.operation.name": "SELECT", "shunt.access": "shard_key", "db.response.returned_rows": "0"})
		if b, err := os.ReadFile(log); err != nil || !strings.Contains(string(b), `"trace":"`+id+`"`) {
			t.Errorf("%v\n%s", err, b)
		}
		check(comment("SELECT email FROM people WHERE id = ?", 5), 1, map[string]string{"db.response.returned_rows": "1"}) // the driver prepares it
		check(comment("SELECT COUNT(*) FROM people"), 4, map[string]string{"shunt.route": "merge"})
		check(comment("UPDATE people SET age = 7"), 4, map[string]string{"shunt.rows_affected": "100"})
		check(comment("SELECT a.id FROM people a JOIN people b ON a.age = b.age WHERE a.id < 10"), 4, map[string]string{"shunt.route": "gather"})

		failed, parts := check(comment("INSERT INTO people (id, email) VALUES (5, 'secret')"), 1, map[string]string{"db.response.status_code": "1062", "error.type": "1062"})
		for _, s := range append(parts, failed) {
			if s.GetStatus().GetCode() != tracepb.Status_STATUS_CODE_ERROR {
				t.Errorf("no error: %v", s)
			}
		}
		check(comment("SELECT email FROM peopl"), 0, map[string]string{"db.response.status_code": "1146"})

		conn, err := dialWire(p.addr, "app", "secret", p.schema)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for _, prepared := range []bool{false, true} {
			n++
			id, parent := traceParent(n, "01")
			if err := conn.SetQueryAttributes(mysql.QueryAttribute{Name: "n", Value: int64(5)}, mysql.QueryAttribute{Name: "traceparent", Value: parent}); err != nil {
				t.Fatal(err)
			}
			sql, params := "SELECT email FROM people WHERE id = 7", []any(nil)
			if prepared {
				sql, params = "SELECT email FROM people WHERE id = ?", []any{7}
			}
			if r := conn.do(sql, params, prepared); r.code != 0 || r.broken != nil || len(r.rows) != 1 {
				t.Fatalf("%+v", r)
			}
			check(id, 1, map[string]string{"db.query.text": "SELECT email FROM people WHERE id = ?"})
		}

		// Neither of these is traced, as the one behind them shows.
		n++
		not, parent := traceParent(n, "00")
		mustRows(t, c, "SELECT email FROM people WHERE id = 1 /*traceparent='"+parent+"'*/")
		mustRows(t, c, "SELECT email FROM people WHERE id = 1")
		check(comment("SELECT 1"), 1, nil)
		to.mu.Lock()
		defer to.mu.Unlock()
		for _, s := range to.spans {
			if id := hex.EncodeToString(s.GetTraceId()); id == not || !strings.HasPrefix(id, strings.Repeat("0", 24)) || strings.Contains(attributesOf(s.GetAttributes())["db.query.text"], "5") || strings.Contains(s.String(), "secret") {
				t.Errorf("traced: %v", s)
			}
		}
		if !to.names["shop"] {
			t.Error(to.names)
		}
	})
}

// TestTracesAtReload: SIGHUP has statements traced, and no more.
func TestTracesAtReload(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		to := collectTraces(t)
		p, c := startPeople(t, f, 10, setup{})
		const before = "maintenance: {delay"
		tracing := fmt.Sprintf("tracing: {endpoint: %q, sample: 1}\n", to.url)
		p.reload(before, tracing+before)
		want(t, c, "SELECT email FROM people WHERE id = 5", "email", "p5@x")
		p.reload(tracing, "") // which sends what is left
		want(t, c, "SELECT age FROM people WHERE id = 5", "age", "25")
		to.mu.Lock()
		defer to.mu.Unlock()
		texts := map[string]bool{}
		for _, s := range to.spans {
			texts[attributesOf(s.GetAttributes())["db.query.text"]] = true
		}
		if !texts["SELECT email FROM people WHERE id = ?"] || texts["SELECT age FROM people WHERE id = ?"] {
			t.Error(texts)
		}
	})
}
