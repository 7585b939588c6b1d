package proxy

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"net/http/pprof"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Handler serves metrics, health, the console and the REST interface. Where there
// is a token, all but health asks for it: Authorization: Bearer TOKEN.
func (p *Proxy) Handler(gather prometheus.Gatherer, token string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(gather, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { p.readyz(w, token == "" || authorized(r, token)) })
	mux.HandleFunc("GET /{$}", p.console)
	mux.HandleFunc("GET /v1/indexes/{schema}/{table}/{index}", p.entries)
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return guarded(mux, token)
}

// WaitingHandler serves metrics and health of a process that takes no statements yet.
// why tells, in short for anybody and in full.
func WaitingHandler(gather prometheus.Gatherer, token string, why func() (short, full string)) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(gather, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		told, full := why()
		if token == "" || authorized(r, token) {
			told = full
		}
		http.Error(w, told, http.StatusServiceUnavailable)
	})
	return guarded(mux, token)
}

// guarded asks for the token, where there is one.
func guarded(mux *http.ServeMux, token string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 { // nothing here takes much; what comes slowly would be waited for
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
		}
		switch health := r.URL.Path == "/healthz" || r.URL.Path == "/readyz"; {
		case health:
		case token == "" && fromPage(r):
			http.Error(w, "asked for by another page, or by a name that anybody may point here: open it as localhost or by its address, or set http_token", http.StatusForbidden)
			return
		case token != "" && !authorized(r, token):
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "expected the header Authorization: Bearer, with the http_token of the configuration", http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// bodyTimeout is for how long a request's body is read.
const bodyTimeout = 10 * time.Second

func authorized(r *http.Request, token string) bool {
	want, got := sha256.Sum256([]byte("Bearer "+token)), sha256.Sum256([]byte(r.Header.Get("Authorization")))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// fromPage reports a request that a page of some other site makes in the browser of
// somebody on this machine: directly, as browsers tell, or having pointed its own
// name here (DNS rebinding). Without a token these would read index entries and
// profiles, or start them. A link to the console is harmless.
func fromPage(r *http.Request) bool {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if host != "" && !strings.EqualFold(host, "localhost") && net.ParseIP(strings.Trim(host, "[]")) == nil {
		return true
	}
	site := r.Header.Get("Sec-Fetch-Site")
	return (site == "cross-site" || site == "same-site") && (r.URL.Path != "/" || r.Header.Get("Sec-Fetch-Mode") != "navigate")
}

// readyz is 200 while clients are accepted and a schema is known. A shard that is
// down takes no proxy out of service: statements that don't need it go on, and
// any other proxy would miss it too. It is named, as is an index store that takes no
// writes; why tells of addresses, accounts and paths, for those who may know.
func (p *Proxy) readyz(w http.ResponseWriter, why bool) {
	switch {
	case p.draining.Load():
		http.Error(w, "draining", http.StatusServiceUnavailable)
	case p.opts.Directory.Catalog().Version == 0:
		http.Error(w, "no shard has answered yet", http.StatusServiceUnavailable)
	default:
		down := p.down(why)
		if err := p.opts.Admin.Writable(); err != nil {
			told := "writes to tables with virtual indexes are refused"
			if why {
				told += ": " + err.Error()
			}
			down = append(down, told)
		}
		if len(down) == 0 {
			fmt.Fprintln(w, "ok")
			return
		}
		fmt.Fprintln(w, "ok, degraded:")
		for _, err := range down {
			fmt.Fprintln(w, err)
		}
	}
}

// down names the shards that are down, and says why.
func (p *Proxy) down(why bool) []string {
	var out []string
	for _, sh := range p.opts.Directory.Catalog().Shards {
		pool := p.opts.Pools[sh.ID]
		if pool.State() == "up" {
			continue
		}
		switch err := pool.LastError(); {
		case err == nil:
		case !why:
			out = append(out, "shard "+sh.Name+" is down")
		default:
			out = append(out, fmt.Sprintf("shard %s is down: %v", sh.Name, err))
		}
	}
	return out
}

// entries answers GET /v1/indexes/{schema}/{table}/{index}?key=&gt=&lt=&limit=
// with entries in key order. Keys are hexadecimal canonical encodings.
func (p *Proxy) entries(w http.ResponseWriter, r *http.Request) {
	t := p.opts.Directory.Catalog().Table(r.PathValue("schema"), r.PathValue("table"))
	if t == nil || t.Index(r.PathValue("index")) == nil {
		http.Error(w, "no such virtual index", http.StatusNotFound)
		return
	}
	q := r.URL.Query()
	var bounds [3][]byte
	for i, name := range []string{"key", "gt", "lt"} {
		b, err := hex.DecodeString(q.Get(name))
		if err != nil {
			http.Error(w, name+" must be hexadecimal, as in the answer's keys", http.StatusBadRequest)
			return
		}
		if q.Has(name) {
			bounds[i] = b
		}
	}
	limit := 100
	if l := q.Get("limit"); l != "" {
		var err error
		if limit, err = strconv.Atoi(l); err != nil || limit < 1 || limit > 10000 {
			http.Error(w, "limit must be a number from 1 to 10000", http.StatusBadRequest)
			return
		}
	}
	from, to := bounds[1], bounds[2]
	if from != nil {
		from = append(from, 0) // the next key after it
	}
	if bounds[0] != nil {
		from, to = bounds[0], append(append([]byte(nil), bounds[0]...), 0)
	}
	rows, err := p.opts.Admin.Entries(t.Index(r.PathValue("index")), from, to, limit)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if rows == nil {
		rows = []EntryRow{}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"entries": rows})
}

var consolePage = template.Must(template.New("console").Parse(`<!doctype html><meta charset="utf-8"><title>Shunt</title>
<style>body{font:14px system-ui;margin:2em auto;max-width:70em;padding:0 1em}table{border-collapse:collapse;width:100%;margin:0 0 2em}
th,td{text-align:left;padding:.3em .6em;border-bottom:1px solid #ddd}th{font-weight:600}h2{font-size:1.1em}</style>
<h1>Shunt</h1><p><a href="/metrics">metrics</a> · <a href="/debug/pprof/">profiles</a> · {{.Sessions}} sessions</p>
<h2>Shards</h2><table><tr><th>Name<th>Address<th>State<th>Version<th>In use<th>Idle<th>Error<th>Role<th>Lag<th>Pinned</tr>
{{range .Shards}}<tr>{{range .}}<td>{{.}}</td>{{end}}</tr>{{end}}</table>
<h2>Virtual indexes</h2><table><tr><th>Index<th>Columns<th>Status<th>Progress<th>Entries<th>Unknown on<th>Jobs<th>Last scan<th>Error</tr>
{{range .Indexes}}<tr><td>{{.Schema}}.{{.Table}}.{{.Name}}<td>{{.Columns}}<td>{{.Status}}<td>{{printf "%.0f%%" .Percent}}<td>{{.Entries}}<td>{{.UnknownShards}}<td>{{.PendingJobs}}<td>{{.LastScan}}<td>{{.Error}}</tr>{{end}}</table>
<h2>Maintenance jobs</h2><table><tr><th>Id<th>Type<th>Table<th>Shards<th>State<th>Attempts<th>Error</tr>
{{range .Jobs}}<tr><td>{{.ID}}<td>{{.Type}}<td>{{.Schema}}.{{.Table}}<td>{{.Shards}}<td>{{.State}}<td>{{.Attempts}}<td>{{.Error}}</tr>{{end}}</table>
`))

// Percent is the progress for the console.
func (r IndexRow) Percent() float64 { return r.Progress * 100 }

func (p *Proxy) console(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = consolePage.Execute(w, map[string]any{
		"Sessions": p.sessions.len(), "Shards": p.shardRows(), "Indexes": p.opts.Admin.IndexRows(), "Jobs": p.opts.Admin.JobRows(),
	})
}
