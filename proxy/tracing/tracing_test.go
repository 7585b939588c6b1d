package tracing

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const (
	sampled   = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	unsampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
)

func TestParent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ sql, attribute, want string }{
		{"SELECT 1", "", ""},
		{"SELECT 1", sampled, sampled},
		{"SELECT 1 /*traceparent='" + unsampled + "'*/", sampled, sampled},
		{"SELECT 1 /*route='/a',traceparent='" + sampled + "',tracestate='x'*/ ", "", sampled},
		{"/*traceparent='" + sampled + "'*/ SELECT 1 /* that is all */", "", sampled},
		{"SELECT /*traceparent='" + sampled + "'*/ 1", "", ""},
		{"SELECT '/*traceparent=''" + sampled + "''*/'", "", ""},
		{"/*", "", ""},
		{"*/", "", ""},
		{"/*traceparent='", "", ""},
		{"", "", ""},
	} {
		if got := Parent(c.sql, c.attribute); got != c.want {
			t.Errorf("%s: %q", c.sql, got)
		}
	}
}

// TestWants: a parent's flag decides, and without one the share. Neither costs an allocation where a
// statement has no parent.
func TestWants(t *testing.T) {
	never, always := &Tracer{sample: 0}, &Tracer{sample: 1}
	for parent, want := range map[string][2]bool{
		"":        {false, true},
		sampled:   {true, true},
		unsampled: {false, false},
		"00-00000000000000000000000000000000-b7ad6b7169203331-01": {false, true},
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-zz": {false, true},
		sampled + "x": {false, true},
	} {
		if got := [2]bool{never.Wants(parent), always.Wants(parent)}; got != want {
			t.Errorf("%q: %v", parent, got)
		}
	}
	if n := testing.AllocsPerRun(100, func() { never.Wants(Parent("SELECT name FROM t WHERE id = 5", "")) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestCollectorFails: traces that aren't taken are told once, until they are taken again.
func TestCollectorFails(t *testing.T) {
	t.Parallel()
	var refuses atomic.Bool
	var taken atomic.Int32
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/traces" || r.Header.Get("X-Key") != "abc" {
			t.Errorf("%s %v", r.URL, r.Header)
		}
		if refuses.Load() {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		taken.Add(1)
	}))
	defer at.Close()
	var log bytes.Buffer
	tracer, err := New(t.Context(), Options{Endpoint: at.URL, Headers: map[string]string{"X-Key": "abc"}, Sample: 1, Service: "shunt", Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer tracer.Close(t.Context())
	send := func() {
		t.Helper()
		tracer.Record(&Statement{Began: time.Now(), System: "mysql", Text: "SELECT ?"})
		if err := tracer.provider.ForceFlush(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		refuses.Store(true)
		send()
		send()
		refuses.Store(false)
		send()
	}
	if told := strings.Count(log.String(), "traces are dropped"); told != 2 || taken.Load() != 2 {
		t.Errorf("told %d times, %d taken\n%s", told, taken.Load(), log.String())
	}
}
