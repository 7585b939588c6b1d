package e2e

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// ask asks the HTTP port with headers; "Host" is the request's.
func (p *process) ask(path string, headers map[string]string) (int, string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, "http://"+p.http+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	for k, v := range headers {
		if r.Header.Set(k, v); k == "Host" {
			r.Host = v
		}
	}
	resp, err := httpClient.Do(r)
	if err != nil {
		p.t.Fatalf("%s: %v", path, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatalf("%s: %v", path, err)
	}
	return resp.StatusCode, string(body)
}

// TestHTTPToken: without the token there is health alone, which doesn't say what a
// shard's account and address are; and nobody is waited for who sends a body slowly.
func TestHTTPToken(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		servers := f.own(t, 2)
		p := start(t, f, setup{servers: servers, extra: "http_token: a token of 24 letters", unchecked: true})
		bearer := map[string]string{"Authorization": "Bearer a token of 24 letters"}
		for _, path := range []string{"/", "/metrics", "/v1/indexes/a/b/c", "/debug/pprof/cmdline", "/no-such", "//healthz", "/healthz/../metrics", "/healthz/"} {
			for _, headers := range []map[string]string{nil, {"Authorization": "Bearer"}, {"Authorization": "a token of 24 letters"}, {"Authorization": "Basic YTpi"}, {"Authorization": "Bearer a token of 24 letter"}} {
				if status, body := p.ask(path, headers); status != http.StatusUnauthorized {
					t.Errorf("%s with %v: %d %.100s", path, headers, status, body)
				}
			}
		}
		// By name, as Prometheus asks.
		if status, body := p.ask("/metrics", map[string]string{"Authorization": bearer["Authorization"], "Host": "shunt.example"}); status != http.StatusOK || !strings.Contains(body, "shunt_sessions") {
			t.Errorf("/metrics with the token: %d", status)
		}
		if status, _ := p.ask("/healthz", nil); status != http.StatusOK {
			t.Errorf("/healthz: %d", status)
		}
		servers[1].Kill()
		eventually(t, "the shard's death is noticed", func() bool {
			_, _ = rowsOf(t.Context(), p.open(""), "SHOW DATABASES")
			_, body := p.ask("/readyz", bearer)
			return strings.Contains(body, "shard s1 is down: ")
		})
		if status, body := p.ask("/readyz", nil); status != http.StatusOK || !strings.Contains(body, "shard s1 is down\n") || strings.Contains(body, servers[1].Addr()) {
			t.Errorf("/readyz without the token: %d %q", status, body)
		}

		c, err := net.Dial("tcp", p.http)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nx"); err != nil {
			t.Fatal(err)
		}
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Errorf("a slow body: %v", err)
		}
	})
}
