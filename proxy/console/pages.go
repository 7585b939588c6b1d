package console

import (
	"bytes"
	"context"
	"crypto/hmac"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// pages are all of them, those with a name in the menu in its order. A new one is a file, and a line here.
var pages = []*page{
	overviewPage, statementsPage, statementPage, indexesPage, columnsPage, advicePage, routePage, sessionsPage, killPage, shardsPage, maintenancePage,
}

// page is one of the console's.
type page struct {
	path, title string
	// menu is its name there, "" for none.
	menu string
	// body is the template of what is in <main>: .Data is what data gives, .Form the token of its forms.
	body string
	data func(*visit) (any, error)
	// every is how often it is sent anew to who looks at it; 0: never.
	every time.Duration
	// posts: it has a form that does something, for which data is asked too.
	posts bool

	template *template.Template
}

// site is what all pages show.
type site struct {
	served Served
	gather prometheus.Gatherer
	keys   *keys
	pace   pace
}

// visit is a request for a page.
type visit struct {
	*site
	r *http.Request
	// cookie is that of who has logged in, "" where a token was sent.
	cookie string
	// again: the page is there already, and what changes is asked for.
	again bool
}

func (x *site) visitOf(r *http.Request) *visit {
	return &visit{site: x, r: r, cookie: x.keys.cookieOf(r)}
}

// pageTime bounds how long what a page shows is waited for.
const pageTime = 30 * time.Second

// execute executes a statement of Shunt's own.
func (v *visit) execute(sql string) (*Answer, error) { return v.executeIn("", sql) }

func (v *visit) executeIn(schema, sql string) (*Answer, error) {
	ctx, cancel := context.WithTimeout(v.r.Context(), pageTime)
	defer cancel()
	return v.served.Execute(ctx, schema, sql)
}

// form is the token of its forms.
func (v *visit) form() string { return v.keys.formOf(v.cookie) }

// formHolds reports a post of a form that was given to this one who posts it.
func (v *visit) formHolds() bool {
	return !elsewhere(v.r) && hmac.Equal([]byte(v.r.PostFormValue("form")), []byte(v.form()))
}

func (x *site) register(mux *http.ServeMux) {
	for _, p := range pages {
		mux.HandleFunc("GET "+p.path, func(w http.ResponseWriter, r *http.Request) {
			if v := x.visitOf(r); p.every > 0 && r.Header.Get("Accept") == "text/event-stream" {
				v.stream(w, p)
			} else {
				v.serve(w, p)
			}
		})
		if p.posts {
			mux.HandleFunc("POST "+strings.TrimSuffix(p.path, "{$}"), func(w http.ResponseWriter, r *http.Request) {
				if v := x.visitOf(r); v.formHolds() {
					v.serve(w, p)
				} else {
					http.Error(w, otherSite, http.StatusForbidden)
				}
			})
		}
	}
}

// errNotFound is of a page about something that isn't there.
type errNotFound string

func (e errNotFound) Error() string { return string(e) }

// serve answers with a page.
func (v *visit) serve(w http.ResponseWriter, p *page) {
	data, err := p.data(v)
	if err == nil {
		v.show(w, p, http.StatusOK, data)
		return
	}
	status := http.StatusInternalServerError
	if _, ok := errors.AsType[errNotFound](err); ok {
		status = http.StatusNotFound
	}
	v.show(w, failedPage, status, err)
}

// failedPage is in the place of one that can't be shown.
var failedPage = &page{title: "This can't be shown", body: `
<h1>This can't be shown</h1>
<p class="alert" role="alert">{{.Data}}</p>
`}

// view is what templates are given.
type view struct {
	Page  *page
	Pages []*page
	// At is the entry of the menu.
	At    string
	Data  any
	Form  string
	Asset func(string) string
	// Cookie: who looks has logged in, and can log out.
	Cookie bool
}

func (p *page) Title() string { return p.title }
func (p *page) Menu() string  { return p.menu }
func (p *page) Live() bool    { return p.every > 0 }
func (p *page) Path() string  { return strings.TrimSuffix(p.path, "{$}") }

func (v *visit) view(p *page, data any) *view {
	x := &view{Page: p, Data: data, Asset: assetPath, Cookie: v.cookie != ""}
	if v.keys != nil {
		x.Form = v.form()
		if p != loginPage {
			x.Pages = pages
		}
	}
	for _, m := range pages {
		if at := m.Path(); m.menu != "" && (v.r.URL.Path == at || at != "/" && strings.HasPrefix(v.r.URL.Path, at)) {
			x.At = m.menu
		}
	}
	return x
}

// policy lets a page have nothing but the console's own files.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

func protect(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// show writes a page.
func (v *visit) show(w http.ResponseWriter, p *page, status int, data any) {
	var out bytes.Buffer
	if err := p.templates().ExecuteTemplate(&out, "layout", v.view(p, data)); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	protect(w.Header())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Vary", "Accept")
	w.WriteHeader(status)
	_, _ = w.Write(out.Bytes())
}

// writeTime is how long somebody is waited for who reads no events.
const writeTime = 10 * time.Second

// stream sends what is in <main> each time that it has changed, as server-sent events.
func (v *visit) stream(w http.ResponseWriter, p *page) {
	protect(w.Header())
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	c := http.NewResponseController(w)
	defer func() { _ = c.SetWriteDeadline(time.Time{}) }()
	v.again = true
	last := ""
	tick := time.NewTicker(p.every)
	defer tick.Stop()
	for event := ": hello\n\n"; ; {
		_ = c.SetWriteDeadline(time.Now().Add(writeTime))
		if _, err := w.Write([]byte(event)); err != nil || c.Flush() != nil {
			return
		}
		select {
		case <-v.r.Context().Done():
			return
		case <-tick.C:
		}
		if v.cookie != "" && v.keys.cookieOf(v.r) == "" {
			return // it has ended; the page asks to log in when it is opened again
		}
		var out strings.Builder
		data, err := p.data(v)
		if err == nil {
			err = p.templates().ExecuteTemplate(&out, "main", v.view(p, data))
		}
		switch now := out.String(); {
		case err != nil:
			event, last = "event: failure\n"+asData(err.Error()), "" // what comes behind it is shown, though it be as before
		case now == last:
			event = ":\n\n"
		default:
			event, last = asData(now), now
		}
	}
}

// asData is an event's.
func asData(text string) string {
	text = strings.NewReplacer("\r", "", "\n", "\ndata: ").Replace(text)
	return "data: " + text + "\n\n"
}

//go:embed assets
var assets embed.FS

//go:embed layout.html
var layout string

var shared = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{"count": count, "short": short}).Parse(layout))
})

// parsing is held to parse a page's template when it is first shown.
var parsing sync.Mutex

func (p *page) templates() *template.Template {
	parsing.Lock()
	defer parsing.Unlock()
	if p.template == nil {
		p.template = template.Must(template.Must(shared().Clone()).New("main").Parse(p.body))
	}
	return p.template
}

// count is a number with its thousands apart.
func count(n any) string {
	digits := fmt.Sprint(n)
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "\u202f" + digits[i:]
	}
	return sign + digits
}

// short is a text that may be long, up to some characters.
func short(n int, s string) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
