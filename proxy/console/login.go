package console

import (
	"crypto/rand"
	"net/http"
	"strings"
	"time"
)

var (
	loginPage = &page{title: "Log in", body: `
<form class="card narrow" method="post" action="/login">
<h1>Log in</h1>
<p>This console asks for the <code>http_token</code> of Shunt's configuration.</p>
{{with .Data.Wrong}}<p class="alert" role="alert">{{.}}</p>{{end}}
<input type="hidden" name="to" value="{{.Data.To}}">
<input name="user" autocomplete="username" value="console" hidden>
<label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
<button class="primary">Log in</button>
</form>`}

	closedPage = &page{title: "The console is off", body: `
<section class="card narrow">
<h1>The console is off</h1>
<p>Without an <code>http_token</code> HTTP tells nothing of data or statements, since whoever is on this machine may ask. To open the console, set one in the
configuration (16 characters or more), and restart Shunt:</p>
<pre>http_token: {{.Data.Example}}</pre>
<p>Then this page asks for it.</p>
</section>
<section class="card narrow"><h2>Health</h2>
{{with .Data.Unready}}<p class="alert" role="alert">Takes no clients: {{.}}</p>{{else}}<p><span class="badge good">serving</span></p>{{end}}
{{range .Data.Degraded}}<p class="alert">{{.}}</p>{{end}}
<p><a href="/metrics">metrics</a> · <a href="/readyz">readyz</a></p>
</section>`}
)

// login asks for the token, and gives a cookie for it.
func (x *site) login(w http.ResponseWriter, r *http.Request) {
	type data struct{ To, Wrong string }
	v := &visit{site: x, r: r}
	if r.Method == http.MethodGet {
		v.show(w, loginPage, http.StatusOK, data{To: within(r.URL.Query().Get("to"))})
		return
	}
	if elsewhere(r) {
		http.Error(w, otherSite, http.StatusForbidden)
		return
	}
	to := within(r.PostFormValue("to"))
	if !x.keys.is(r.PostFormValue("token")) {
		v.show(w, loginPage, http.StatusForbidden, data{to, "That is not the token."})
		return
	}
	x.cookie(w, r, x.keys.sealed(time.Now().Add(cookieAge)), cookieAge)
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// logout takes the cookie back.
func (x *site) logout(w http.ResponseWriter, r *http.Request) {
	v := x.visitOf(r)
	if !v.formHolds() {
		http.Error(w, otherSite, http.StatusForbidden)
		return
	}
	x.cookie(w, r, "", -1)
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

func (x *site) cookie(w http.ResponseWriter, r *http.Request, value string, age time.Duration) {
	http.SetCookie(w, &http.Cookie{Name: cookieName, Value: value, Path: "/", MaxAge: int(age / time.Second), HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode})
}

// closed answers what needs a token where there is none.
func (x *site) closed(w http.ResponseWriter, r *http.Request) {
	if !isBrowser(r) || r.URL.Path != "/" {
		http.Error(w, withoutToken, http.StatusForbidden)
		return
	}
	(&visit{site: x, r: r}).show(w, closedPage, http.StatusOK, map[string]any{"Unready": x.served.Unready(), "Degraded": x.served.Degraded(false), "Example": exampleToken()})
}

// within is a path of this site, else the first page's.
func within(path string) string {
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\n\r\t") {
		return "/"
	}
	return path
}

const otherSite = "this form isn't one of the console's: open the page anew"

// elsewhere reports a post by another site's page.
func elsewhere(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return true
	}
	origin := r.Header.Get("Origin")
	_, host, ok := strings.Cut(origin, "://")
	return origin != "" && (!ok || !strings.EqualFold(host, r.Host))
}

// exampleToken is one that nobody else has.
func exampleToken() string { return rand.Text() }
