package console

import (
	"context"
	"fmt"
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/insights"
)

// Served is what is told of. Its methods are called at any time, by several goroutines.
type Served interface {
	Standing
	Statements
	// Catalog is the current one.
	Catalog() *catalog.Catalog
	// Entries are up to limit entries of an index, in the order of their keys, from one key on and
	// before another, nil for no bound: what JSON makes of them is the answer.
	Entries(ix *catalog.Index, from, to []byte, limit int) (rows any, err error)
}

// Standing is how it is.
type Standing interface {
	// Unready is why no clients are served, "" where they are.
	Unready() string
	// Degraded are the lines about what doesn't work while clients are served. why: they tell of
	// addresses, accounts and paths too, which are for those who may know.
	Degraded(why bool) []string
}

// Statements are those that it executes, and has executed.
type Statements interface {
	// Execute executes one of Shunt's own, with all rights; schema is the current one, "" for none.
	Execute(ctx context.Context, schema, sql string) (*Answer, error)
	// Traffic is what was executed, by shape.
	Traffic() []Traffic
	// Histograms are those of shapes, by their digests.
	Histograms(digests ...string) map[string]insights.Histograms
}

// Traffic is what a shape of statements has sent to shards.
type Traffic struct {
	// Digest is "" for the shapes that are not told apart.
	Digest, Schema, Statement string
	// Route and Access are those of EXPLAIN ROUTE.
	Route, Access string
	Tables        []catalog.TableName
	Calls         uint64
	Shards        []insights.ShardRow
}

// Handler serves metrics, health, the console and the REST interface. Where there is a token, all
// but health asks for it: in Authorization: Bearer TOKEN, or by the cookie of who has logged in.
// Without one there are metrics and health alone: whoever is on this machine may ask.
func Handler(s Served, gather prometheus.Gatherer, token string) http.Handler {
	keys := keysOf(token)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(gather, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { readyz(w, s, keys.admit(r)) })
	x := &site{served: s, gather: gather, keys: keys}
	mux.HandleFunc("GET /assets/{name}", serveAsset)
	if keys == nil {
		mux.HandleFunc("/", x.closed)
		return guarded(mux, keys)
	}
	mux.HandleFunc("GET /login", x.login)
	mux.HandleFunc("POST /login", x.login)
	mux.HandleFunc("POST /logout", x.logout)
	x.register(mux)
	mux.HandleFunc("GET /v1/indexes/{schema}/{table}/{index}", func(w http.ResponseWriter, r *http.Request) { entries(w, r, s) })
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return guarded(mux, keys)
}

// Waiting serves metrics and health of a process that takes no statements yet.
// why tells, in short for anybody and in full.
func Waiting(gather prometheus.Gatherer, token string, why func() (short, full string)) http.Handler {
	keys := keysOf(token)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(gather, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		told, full := why()
		if keys.admit(r) {
			told = full
		}
		http.Error(w, told, http.StatusServiceUnavailable)
	})
	return guarded(mux, keys)
}

// readyz is 200 while clients are accepted and a schema is known. A shard that is
// down takes no proxy out of service: statements that don't need it go on, and
// any other proxy would miss it too. It is named, as is an index store that takes no
// writes; why tells of addresses, accounts and paths, for those who may know.
func readyz(w http.ResponseWriter, s Standing, why bool) {
	if unready := s.Unready(); unready != "" {
		http.Error(w, unready, http.StatusServiceUnavailable)
		return
	}
	degraded := s.Degraded(why)
	if len(degraded) == 0 {
		fmt.Fprintln(w, "ok")
		return
	}
	fmt.Fprintln(w, "ok, degraded:")
	for _, line := range degraded {
		fmt.Fprintln(w, line)
	}
}
