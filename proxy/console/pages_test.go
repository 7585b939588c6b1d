package console

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const token = "a token of 24 letters"

// browser asks as one does, with the cookie that it was given.
type browser struct {
	t      *testing.T
	server *httptest.Server
	client http.Client
}

func browse(t *testing.T, f Served, token string) *browser {
	t.Helper()
	gauges := prometheus.NewRegistry()
	sessions := prometheus.NewGauge(prometheus.GaugeOpts{Name: "shunt_sessions"})
	sessions.Set(12345)
	gauges.MustRegister(sessions)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &browser{t: t, server: httptest.NewServer(Handler(f, gauges, token))}
	b.client = http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(b.server.Close)
	return b
}

// ask asks for a path, posting a form where there is one. A header is a name and a value.
func (b *browser) ask(path string, form url.Values, headers ...string) (*http.Response, string) {
	b.t.Helper()
	method, body := http.MethodGet, io.Reader(nil)
	if form != nil {
		method, body = http.MethodPost, strings.NewReader(form.Encode())
	}
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.server.URL+path, body)
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html,*/*")
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := b.client.Do(r)
	if err != nil {
		b.t.Fatalf("%s: %v", path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatalf("%s: %v", path, err)
	}
	return resp, string(text)
}

func (b *browser) login() {
	b.t.Helper()
	if r, text := b.ask("/login", url.Values{"token": {token}, "to": {"/"}}); r.StatusCode != http.StatusSeeOther || r.Header.Get("Location") != "/" {
		b.t.Fatalf("log in: %d %s", r.StatusCode, text)
	}
}

var formToken = regexp.MustCompile(`name="form" value="([^"]+)"`)

// form is the token of a page's forms.
func (b *browser) form(path string) string {
	b.t.Helper()
	_, text := b.ask(path, nil)
	m := formToken.FindStringSubmatch(text)
	if m == nil {
		b.t.Fatalf("%s has no form: %s", path, text)
	}
	return m[1]
}

// TestPages: each has what its statements answer, escaped, and says which they are; with an error in
// place of an answer it says that.
func TestPages(t *testing.T) {
	t.Parallel()
	for path, want := range map[string][]string{
		"/":                           {"10.0.0.1 refuses", "12\u202f345", "shop.users", "hash by id", "by_email", "all shards", "s1: 512 slots", "4\u202f321"},
		"/statements":                 {"SELECT &#39;&lt;b&gt;&#39; FROM users", "/statements/" + digest, "ORDER BY Total_ms DESC LIMIT 50", "to all shards", "all others together", `class="spark"`},
		"/statements?by=P99_ms":       {"ORDER BY P99_ms DESC", `aria-sort="descending"`},
		"/statements?by=x;DROP":       {"ORDER BY Total_ms DESC"},
		"/statements?like=it's\\":     {`LIKE &#39;%it&#39;&#39;s\\%&#39;`},
		"/statements/" + digest:       {"&lt;b&gt;", "p99", "s0", "1 s", "mean 1 ms", "CREATE VIRTUAL INDEX x", "times of shards", "Plan", "shards by "},
		"/indexes":                    {"by_email on shop.users", "1\u202f234\u202f567", "ready", "1.10", "900", "REBUILD VIRTUAL INDEX `by_email` ON `shop`.`users`"},
		"/columns":                    {"messages on shop.users", "SELECT COUNT(*)", "3\u202f456", "98.7 %", "CONSOLIDATE VIRTUAL COLUMN `messages` ON `shop`.`users`;"},
		"/advice":                     {"CREATE VIRTUAL INDEX x", "DROP VIRTUAL INDEX y", "SHOW INDEX ADVICE"},
		"/route":                      {"EXPLAIN ROUTE", "<option selected>shop"},
		"/route?sql=SELECT+<b>":       {"SELECT &lt;b&gt;"},
		"/sessions":                   {"SELECT &#39;&lt;script&gt;", "KILL QUERY 5", "KILL 6", "transaction or locks open", "Member 3", "SHOW FULL PROCESSLIST"},
		"/sessions/kill?id=6":         {"KILL 6", "<button class=\"danger\">KILL 6"},
		"/sessions/kill?id=5&query=1": {"KILL QUERY 5", "&lt;script&gt;"},
		"/sessions/kill?id=99":        {"No session has this number any more"},
		"/shards":                     {"&lt;refuses&gt;", "10.0.0.9", "SHOW SHARDS", "SHOW MEMBERS", `badge bad">down`},
		"/maintenance":                {"running", "not followed: &lt;why&gt;", "SHOW MAINTENANCE JOBS"},
	} {
		b := browse(t, newFake(), token)
		b.login()
		path := strings.NewReplacer("<", "%3C", ">", "%3E", "'", "%27", ";", "%3B", `\`, "%5C").Replace(path)
		r, text := b.ask(path, nil)
		if r.StatusCode != http.StatusOK || !strings.HasSuffix(strings.TrimSpace(text), "</html>") || strings.Contains(text, "ZgotmplZ") {
			t.Errorf("%s: %d %s", path, r.StatusCode, text)
		}
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s has no %q: %s", path, w, text)
			}
		}
		if csp := r.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: its policy is %q", path, csp)
		}
		if strings.Contains(text, "style=") || strings.Contains(text, "<script>") || strings.Contains(text, "onclick=") {
			t.Errorf("%s has what its policy forbids", path)
		}
		if r.Header.Get("Cache-Control") != "no-store" || len(text) > 60<<10 {
			t.Errorf("%s: %v, %d bytes", path, r.Header, len(text))
		}
		f := newFake()
		f.failed = errors.New("shard s1 <is> down")
		b = browse(t, f, token)
		b.login()
		if _, text := b.ask(path, nil); len(*f.executed) > 0 && path != "/" && !strings.Contains(text, "shard s1 &lt;is&gt; down") {
			t.Errorf("%s doesn't say what has failed: %s", path, text)
		}
	}
}

// TestNoSuchPage: what isn't there is 404, and posts go to forms alone.
func TestNoSuchPage(t *testing.T) {
	t.Parallel()
	b := browse(t, newFake(), token)
	b.login()
	for path, status := range map[string]int{"/no-such": 404, "/statements/00": 404, "/sessions/kill?id=x": 404, "/sessions/kill?id=0": 404, "/assets/no-such": 404, "/assets/..%2flayout.html": 404} {
		if r, _ := b.ask(path, nil); r.StatusCode != status {
			t.Errorf("%s: %d", path, r.StatusCode)
		}
	}
	if r, _ := b.ask("/statements", url.Values{"form": {b.form("/route")}}); r.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("a post to a page without a form: %d", r.StatusCode)
	}
}

// TestLogin: a browser is sent to the log-in, and from there back to where it wanted to be, on this site alone; the
// cookie is for this site, and holds for its time.
func TestLogin(t *testing.T) {
	t.Parallel()
	b := browse(t, newFake(), token)
	r, _ := b.ask("/statements?by=Calls", nil)
	if want := "/login?to=" + url.QueryEscape("/statements?by=Calls"); r.StatusCode != http.StatusSeeOther || r.Header.Get("Location") != want {
		t.Fatalf("%d %s", r.StatusCode, r.Header.Get("Location"))
	}
	if r, text := b.ask("/login?to=%2Fstatements%3Fby%3DCalls", nil); r.StatusCode != http.StatusOK || !strings.Contains(text, `value="/statements?by=Calls"`) || strings.Contains(text, "<nav") {
		t.Errorf("%d %s", r.StatusCode, text)
	}
	for _, wrong := range []string{"", "a", token[1:], token + "x"} {
		if r, text := b.ask("/login", url.Values{"token": {wrong}}); r.StatusCode != http.StatusForbidden || len(r.Cookies()) > 0 || !strings.Contains(text, "not the token") {
			t.Errorf("%q: %d %v", wrong, r.StatusCode, r.Cookies())
		}
	}
	for _, headers := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "https://evil.example"}, {"Origin", "null"}} {
		if r, _ := b.ask("/login", url.Values{"token": {token}}, headers...); r.StatusCode != http.StatusForbidden || len(r.Cookies()) > 0 {
			t.Errorf("another site's page logs in: %v %d", headers, r.StatusCode)
		}
	}
	for to, want := range map[string]string{"/shards": "/shards", "": "/", "//evil.example": "/", "https://evil.example": "/", `/\evil.example`: "/", "/\t/evil.example": "/"} {
		r, _ := b.ask("/login", url.Values{"token": {token}, "to": {to}})
		if r.StatusCode != http.StatusSeeOther || r.Header.Get("Location") != want {
			t.Errorf("%q: %d to %s", to, r.StatusCode, r.Header.Get("Location"))
		}
		c := r.Cookies()[0]
		if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.MaxAge != int(cookieAge/time.Second) || strings.Contains(c.Value, "token") {
			t.Errorf("%+v", c)
		}
	}
	for _, path := range []string{"/", "/metrics", "/debug/pprof/cmdline"} {
		if r, _ := b.ask(path, nil); r.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", path, r.StatusCode)
		}
	}
	if r, _ := b.ask("/logout", url.Values{}); r.StatusCode != http.StatusForbidden {
		t.Errorf("logged out without the form: %d", r.StatusCode)
	}
	if r, _ := b.ask("/logout", url.Values{"form": {b.form("/")}}); r.StatusCode != http.StatusSeeOther {
		t.Errorf("log out: %d", r.StatusCode)
	}
	if r, _ := b.ask("/", nil); r.StatusCode != http.StatusSeeOther {
		t.Errorf("after the log-out: %d", r.StatusCode)
	}
}

// TestCookie: none but one that was sealed by the same token, and that isn't over.
func TestCookie(t *testing.T) {
	t.Parallel()
	k, now := keysOf(token), time.Now()
	good := k.sealed(now.Add(time.Hour))
	for value, want := range map[string]bool{
		good: true, good + "x": false, "": false, "x": false, k.sealed(now.Add(-time.Second)): false,
		"9" + good: false, keysOf("another token of letters").sealed(now.Add(time.Hour)): false,
		fmt.Sprint(now.Add(time.Hour).Unix()) + ".": false,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.AddCookie(&http.Cookie{Name: cookieName, Value: value})
		if k.admit(r) != want {
			t.Errorf("%q is let in: %t", value, !want)
		}
	}
}

// TestKill: nothing is ended but by a post with the token of who was given the form.
func TestKill(t *testing.T) {
	t.Parallel()
	f := newFake()
	b := browse(t, f, token)
	b.login()
	form := b.form("/sessions/kill?id=5&query=1")
	other := browse(t, newFake(), "another token of letters")
	if r, _ := other.ask("/login", url.Values{"token": {"another token of letters"}}); r.StatusCode != http.StatusSeeOther {
		t.Fatal(r.StatusCode)
	}
	killed := func() (list []string) {
		for _, sql := range *f.executed {
			if strings.Contains(sql, "KILL") {
				list = append(list, sql)
			}
		}
		return list
	}
	for _, c := range []struct {
		form    url.Values
		headers []string
	}{
		{url.Values{"id": {"5"}}, nil},
		{url.Values{"id": {"5"}, "form": {"x"}}, nil},
		{url.Values{"id": {"5"}, "form": {other.form("/sessions/kill?id=5")}}, nil},
		{url.Values{"id": {"5"}, "form": {form}}, []string{"Sec-Fetch-Site", "cross-site"}},
		{url.Values{"id": {"5"}, "form": {form}}, []string{"Origin", "http://evil.example"}},
		{url.Values{"id": {"5"}, "form": {form}}, []string{"Cookie", cookieName + "=x"}},
	} {
		if r, text := b.ask("/sessions/kill", c.form, c.headers...); r.StatusCode == http.StatusOK || len(killed()) > 0 {
			t.Errorf("%v: %d %s; %v", c, r.StatusCode, text, killed())
		}
		b.login()
	}
	if r, text := b.ask("/sessions/kill", url.Values{"id": {"5"}, "query": {"1"}, "form": {b.form("/sessions/kill?id=5")}}, "Origin", b.server.URL, "Sec-Fetch-Site", "same-origin"); r.StatusCode != http.StatusOK || !strings.Contains(text, "Done.") {
		t.Errorf("%d %s", r.StatusCode, text)
	}
	if r, _ := b.ask("/sessions/kill", url.Values{"id": {"6"}, "form": {b.form("/sessions/kill?id=6")}}); r.StatusCode != http.StatusOK {
		t.Error(r.StatusCode)
	}
	if got := strings.Join(killed(), ", "); got != ": KILL QUERY 5, : KILL 6" {
		t.Errorf("executed %s", got)
	}
}

// TestRoute: a statement's route is drawn, in its schema, with the shards that it leaves out.
func TestRoute(t *testing.T) {
	t.Parallel()
	f := newFake()
	b := browse(t, f, token)
	b.login()
	r, text := b.ask("/route", url.Values{"sql": {"SELECT '<i>'"}, "schema": {"shop"}, "form": {b.form("/route")}})
	if r.StatusCode != http.StatusOK || !strings.Contains(text, "because") || !strings.Contains(text, "not asked") || !strings.Contains(text, "&lt;i&gt;") || !strings.Contains(text, "<option selected>shop") {
		t.Errorf("%d %s", r.StatusCode, text)
	}
	if got := (*f.executed)[len(*f.executed)-1]; got != "shop: EXPLAIN ROUTE SELECT '<i>'" {
		t.Error(got)
	}
	f.failed = errors.New("You have an <error>")
	b = browse(t, f, token)
	b.login()
	if r, text := b.ask("/route", url.Values{"sql": {"SELEC"}, "form": {b.form("/route")}}); r.StatusCode != http.StatusOK || !strings.Contains(text, "You have an &lt;error&gt;") {
		t.Errorf("%d %s", r.StatusCode, text)
	}
}

// TestClosed: without a token the first page says how to open the console, and there is no other.
func TestClosed(t *testing.T) {
	t.Parallel()
	b := browse(t, newFake(), "")
	r, text := b.ask("/", nil)
	if r.StatusCode != http.StatusOK || !strings.Contains(text, "http_token: ") || !strings.Contains(text, "shard s1 is down") || strings.Contains(text, "10.0.0.1") || strings.Contains(text, "users") || strings.Contains(text, "/sessions") {
		t.Errorf("%d %s", r.StatusCode, text)
	}
	for _, path := range []string{"/statements", "/sessions", "/route", "/login", "/indexes", "/statements/" + digest} {
		for _, form := range []url.Values{nil, {"id": {"5"}}} {
			if r, text := b.ask(path, form); r.StatusCode != http.StatusForbidden || !strings.Contains(text, "set one in the configuration") {
				t.Errorf("%s: %d %s", path, r.StatusCode, text)
			}
		}
	}
	if r, _ := b.ask("/assets/console.css", nil); r.StatusCode != http.StatusOK || !strings.HasPrefix(r.Header.Get("Content-Type"), "text/css") {
		t.Errorf("the style: %d", r.StatusCode)
	}
}

// TestEvents: who looks at a page is sent what has changed of it, and no more.
func TestEvents(t *testing.T) {
	t.Parallel()
	f := newFake()
	b := browse(t, f, token)
	b.login()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.server.URL+"/sessions", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	resp, err := b.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if kind := resp.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Fatal(kind)
	}
	var got []string
	for lines := bufio.NewScanner(resp.Body); len(got) < 2 && lines.Scan(); {
		if line := lines.Text(); strings.HasPrefix(line, "data: ") || line == ":" {
			if line == ":" || strings.Contains(line, "KILL QUERY 5") {
				got = append(got, line)
			}
		}
	}
	if len(got) != 2 || got[0] == ":" || got[1] != ":" {
		t.Errorf("%q", got)
	}
}
