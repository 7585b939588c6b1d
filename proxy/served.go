package proxy

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
	"github.com/shunt-sql/shunt/proxy/console"
	"github.com/shunt-sql/shunt/proxy/insights"
	"github.com/shunt-sql/shunt/proxy/wire"
)

// Handler serves metrics, health and the console, see console.Handler.
func (p *Proxy) Handler(gather prometheus.Gatherer, token string) http.Handler {
	return console.Handler(&served{p: p}, gather, token)
}

// served is what the console tells of a Proxy.
type served struct {
	p     *Proxy
	named namedTables
}

func (s *served) Unready() string {
	switch {
	case s.p.draining.Load():
		return "draining"
	case s.p.opts.Directory.Catalog().Version == 0:
		return "no shard has answered yet"
	}
	if s.p.opts.Standing != nil {
		unready, _ := s.p.opts.Standing(false)
		return unready
	}
	return ""
}

func (s *served) Degraded(why bool) []string {
	var out []string
	for _, sh := range s.p.opts.Directory.Catalog().Shards {
		pool := s.p.pool(sh.ID)
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
	if err := s.p.opts.Admin.Writable(); err != nil {
		told := "writes to tables with virtual indexes are refused"
		if why {
			told += ": " + err.Error()
		}
		out = append(out, told)
	}
	if s.p.opts.Standing != nil {
		_, lacks := s.p.opts.Standing(why)
		out = append(out, lacks...)
	}
	return out
}

func (s *served) Catalog() *catalog.Catalog { return s.p.opts.Directory.Catalog() }

func (s *served) Entries(ix *catalog.Index, from, to []byte, limit int) (any, error) {
	rows, err := s.p.opts.Admin.Entries(ix, from, to, limit)
	if rows == nil {
		rows = []EntryRow{}
	}
	return rows, err
}

// Execute executes a statement as a client would who has all rights. Nothing but Shunt's own is
// executed: it has no connection that a shard's answer could be forwarded to.
func (s *served) Execute(ctx context.Context, schema, sql string) (*console.Answer, error) {
	x := s.p.clientless(schema)
	defer x.end()
	planned, err := x.plan(ctx, sql)
	if err != nil {
		return nil, err
	}
	a, ok := planned.(*plan.Admin)
	if !ok {
		return nil, refuse("the console executes Shunt's own statements alone")
	}
	o := s.p.own[a.Form]
	rows, err := o.do(x, ctx, a)
	if err != nil || o.columns == nil {
		return &console.Answer{}, err
	}
	answer := &console.Answer{Rows: rows}
	for _, c := range o.columns(x, a) {
		answer.Columns = append(answer.Columns, c.Name)
	}
	if o.warns != nil {
		for _, w := range o.warns(x, a) {
			answer.Warnings = append(answer.Warnings, string(w[len(w)-1]))
		}
	}
	return answer, nil
}

// clientless is a session without a client, which has all rights; it isn't among those that are listed,
// or counted.
func (p *Proxy) clientless(schema string) *session {
	s := &session{proxy: p, log: p.opts.Logger, client: &wire.Conn{}}
	s.account.users = p.users.Load() // of whom none is it
	s.settings = newSettings(s.catalog(), 0, schema, p.ownDefaults(0))
	return s
}

func (s *served) Traffic() []console.Traffic {
	rows := s.p.insights.Counts()
	c := s.Catalog()
	out := make([]console.Traffic, 0, len(rows))
	for i := range rows {
		r := &rows[i]
		t := console.Traffic{Schema: r.Schema, Statement: r.Text, Route: r.Plan, Access: r.Access, Calls: r.Calls, Shards: r.Shards}
		if r.ID != 0 {
			t.Digest, t.Tables = digestID(r.ID), s.named.of(s.p, c, r)
		}
		out = append(out, t)
	}
	return out
}

func (s *served) Histograms(digests ...string) map[string]insights.Histograms {
	ids := make([]uint64, len(digests))
	for i, d := range digests {
		ids[i], _ = strconv.ParseUint(d, 16, 64)
	}
	out := map[string]insights.Histograms{}
	for id, h := range s.p.insights.Histograms(ids...) {
		out[digestID(id)] = h
	}
	return out
}

// namedTables are those of shapes, by a catalog: to plan all shapes at each look would cost more than
// all else of it.
type namedTables struct {
	mu      sync.Mutex
	version uint64
	byShape map[uint64][]catalog.TableName
}

func (n *namedTables) of(p *Proxy, c *catalog.Catalog, r *insights.Row) []catalog.TableName {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.byShape == nil || n.version != c.Version || len(n.byShape) > 2*p.opts.Shapes {
		n.version, n.byShape = c.Version, map[uint64][]catalog.TableName{}
	}
	tables, known := n.byShape[r.ID]
	if !known {
		tables = tablesOf(p, c, r)
		n.byShape[r.ID] = tables
	}
	return tables
}

// tablesOf are the tables of a shape, none where its text was cut or can't be planned by itself.
func tablesOf(p *Proxy, c *catalog.Catalog, r *insights.Row) (names []catalog.TableName) {
	sql := strings.ReplaceAll(r.Text, "(...)", "(?)") // as Digest writes lists
	planned, err := p.planner.Plan(sql, text.Settings{Schema: r.Schema, Charset: "utf8mb4"}, c)
	rows, ok := planned.(*plan.Rows)
	if err != nil || !ok {
		return nil
	}
	for _, t := range rows.Tables {
		names = append(names, catalog.TableName{Schema: t.Schema, Name: t.Name})
	}
	return names
}
