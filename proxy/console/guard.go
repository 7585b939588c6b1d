package console

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	cookieName = "shunt_console"
	// cookieAge is for how long a log-in holds.
	cookieAge = 12 * time.Hour
	// bodyTimeout is for how long a request's body is read, maxBody how much of it.
	bodyTimeout = 10 * time.Second
	maxBody     = 256 << 10
)

const withoutToken = "only /metrics, /healthz and /readyz are answered without an http_token; for the console, index entries and profiles set one in the configuration (16 characters or more), and send it: Authorization: Bearer TOKEN"

// keys tell those who know the token. Nothing of a log-in is kept here, so that
// one holds for all members of the same token, and after a restart. nil: there is no token.
type keys struct {
	// token is a hash of it; cookie and form are keys of what is given out.
	token, cookie, form []byte
}

func keysOf(token string) *keys {
	if token == "" {
		return nil
	}
	derive := func(what string) []byte { return mac([]byte(token), "shunt console "+what) }
	k := &keys{cookie: derive("cookie"), form: derive("form")}
	k.token = mac(k.cookie, token)
	return k
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// is reports the token.
func (k *keys) is(token string) bool {
	return hmac.Equal(mac(k.cookie, token), k.token) // in a time that tells neither its length nor its beginning
}

// sealed is what a cookie holds that ends then.
func (k *keys) sealed(ends time.Time) string {
	end := strconv.FormatInt(ends.Unix(), 10)
	return end + "." + base64.RawURLEncoding.EncodeToString(mac(k.cookie, end))
}

// cookieOf is the valid cookie of a request, or "".
func (k *keys) cookieOf(r *http.Request) string {
	c, err := r.Cookie(cookieName)
	if err != nil {
		return ""
	}
	end, _, _ := strings.Cut(c.Value, ".")
	seconds, err := strconv.ParseInt(end, 10, 64)
	if err != nil || time.Now().Unix() >= seconds || !hmac.Equal([]byte(c.Value), []byte(k.sealed(time.Unix(seconds, 0)))) {
		return ""
	}
	return c.Value
}

// formOf is the token of forms that are given to who has a cookie: other sites' pages can't know it.
func (k *keys) formOf(cookie string) string {
	return base64.RawURLEncoding.EncodeToString(mac(k.form, cookie))
}

// admit reports that a request may know all: it has the token or a cookie, or there is no token.
func (k *keys) admit(r *http.Request) bool {
	if k == nil {
		return true
	}
	bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && k.is(bearer) || k.cookieOf(r) != ""
}

// guarded asks for the token, where there is one.
func guarded(mux *http.ServeMux, k *keys) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 { // nothing here takes much; what comes slowly would be waited for
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		}
		switch health := r.URL.Path == "/healthz" || r.URL.Path == "/readyz"; {
		case health:
		case k == nil && fromPage(r):
			http.Error(w, "asked for by another page, or by a name that anybody may point here: open it as localhost or by its address, or set http_token", http.StatusForbidden)
			return
		case k != nil && !k.admit(r) && r.URL.Path != "/login" && !isAsset(r.URL.Path):
			if isBrowser(r) {
				http.Redirect(w, r, "/login?to="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
				return
			}
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "expected the header Authorization: Bearer, with the http_token of the configuration", http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// isBrowser reports a request for a page that somebody is to read.
func isBrowser(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// fromPage reports a request that a page of some other site makes in the browser of
// somebody on this machine: directly, as browsers tell, or having pointed its own
// name here (DNS rebinding). Without a token these would read metrics.
func fromPage(r *http.Request) bool {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if host != "" && !strings.EqualFold(host, "localhost") && net.ParseIP(strings.Trim(host, "[]")) == nil {
		return true
	}
	site := r.Header.Get("Sec-Fetch-Site")
	return site == "cross-site" || site == "same-site"
}
