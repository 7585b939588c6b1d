package advise

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/shunt-sql/shunt/mysqlerr"
	"github.com/shunt-sql/shunt/planner"
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// Route sorts statements by what a Shunt does with them.
type Route string

// Session are statements that reach no shard, DDL those that change the schema. Copied are those for
// which rows are copied between shards. Unread ones say nothing: see Verdict.Reason.
const (
	One     Route = "one"
	Few     Route = "few"
	All     Route = "all"
	Copied  Route = "copied"
	Refused Route = "refused"
	Session Route = "session"
	DDL     Route = "ddl"
	Unread  Route = "unread"
)

// Verdict is what a Shunt would do with a shape under a design.
type Verdict struct {
	Route Route
	// Shards is to how many it goes, on average over its values.
	Shards float64
	Writes bool
	// Access and Reason are EXPLAIN ROUTE's; Reason of what is refused or unread says why.
	Access, Reason string
	// indexes are the virtual ones that were asked.
	indexes []*catalog.Index
}

// cost is what a statement costs, in statements to one shard of all.
//
// Rules: a statement to k shards has k of them work. Changes over several shards commit on each in turn, and copies
// are read, written and read again. Nothing is as dear as what fails.
func (v Verdict) cost(shards int) float64 {
	n := float64(shards)
	switch v.Route {
	case Refused:
		return 20 * n
	case Copied:
		return 4*n + 2*v.Shards
	case One, Few, All:
		c := v.Shards
		if v.Writes && v.Shards > 1 {
			c *= 2
		}
		if len(v.indexes) > 0 {
			c += 0.3 // the lookup, and that entries have to be kept
		}
		return c
	case Session, DDL, Unread:
	}
	return 0
}

// judge asks the planner.
type judge struct {
	planner *planner.Planner
	shards  int
	// trials is how many values a shape without samples is bound to.
	trials int
	// fan is to how many shards a lookup leads.
	fan func(*catalog.Index) float64
}

const (
	trialsToChoose = 4
	trialsToReport = 32
)

var cutShort = Verdict{Route: Unread, Reason: "its digest was cut short: raise max_digest_length and performance_schema_max_digest_length, or read a log"}

// of is the verdict of a shape under a catalog: the worst route that its values have, and the average number of shards.
func (j *judge) of(s *Shape, cat *catalog.Catalog) Verdict {
	texts := s.Samples
	set := settings(cat, s.Schema)
	if len(texts) == 0 {
		if s.Cut || strings.Count(s.Digest, "(") > strings.Count(s.Digest, ")") { // not all servers mark it
			return cutShort
		}
		texts, set.IgnoreSpace = []string{plannable(s.Digest, s.Schema, cat)}, true
	}
	var sum Verdict
	n := 0
	for i, sql := range texts {
		for _, v := range j.text(sql, set, cat, i, len(texts) == 1) {
			shards, indexes := sum.Shards+v.Shards, append(sum.indexes, v.indexes...)
			if n == 0 || weight[v.Route] > weight[sum.Route] {
				sum = v
			}
			sum.Shards, sum.indexes = shards, indexes
			n++
		}
	}
	if len(s.Samples) == 0 && sum.Route == Unread && strings.Contains(sum.Reason, `(near "")`) { // it lacks its end
		return cutShort
	}
	if sum.Shards /= float64(n); sum.Route == One || sum.Route == Few || sum.Route == All {
		sum.Route = j.routeTo(sum.Shards)
	}
	return sum
}

// text is a text's verdicts for values, of which there are several where it has parameters or is the only one.
func (j *judge) text(sql string, set text.Settings, cat *catalog.Catalog, nth int, only bool) (out []Verdict) {
	planned, err := j.planner.Plan(sql, set, cat)
	if err != nil {
		return []Verdict{failed(err)}
	}
	switch rows := planned.(type) {
	case *plan.Rows:
		all := parametersOf(sql, set, rows.Tables)
		for k := range j.trials {
			if k == 0 || only || rows.Params > 0 {
				out = append(out, j.bound(rows, sql, set, cat, all, uint64(nth*j.trials+k)))
			}
		}
		return out
	case *plan.DDL, *plan.Temporary:
		return []Verdict{{Route: DDL}}
	case *plan.Load:
		return []Verdict{{Route: All, Shards: float64(j.shards), Writes: true, Access: "shard_key"}}
	case *plan.Admin, *plan.LockTables, *plan.Session:
	}
	return []Verdict{{Route: Session}}
}

// weight orders routes by how bad they are.
var weight = map[Route]int{One: 1, Few: 2, All: 3, Copied: 4, Unread: 5, Refused: 6}

func (j *judge) routeTo(shards float64) Route {
	switch {
	case shards < 1.05 || j.shards == 1:
		return One
	case shards > float64(j.shards)-0.05:
		return All
	}
	return Few
}

// failed is the verdict of a text that the planner has an error for.
func failed(err error) Verdict {
	v := Verdict{Route: Refused, Reason: err.Error()}
	if e, ok := errors.AsType[*text.Error](err); ok && (e.Code != mysqlerr.NotSupportedYet || e.Unread) {
		v.Route = Unread // its tables are gone, or no parser reads it
	}
	return v
}

// bound is the verdict of a plan for values of a trial.
func (j *judge) bound(rows *plan.Rows, sql string, set text.Settings, cat *catalog.Catalog, all []parameter, trial uint64) Verdict {
	r := rand.New(rand.NewPCG(trial, 7))
	params := valuesOf(all, r)
	if len(params) != rows.Params {
		return Verdict{Route: Unread, Reason: "its literals could not be told apart"}
	}
	if rows.Meets != nil && rows.Constants == nil {
		return Verdict{
			Route: All, Shards: float64(j.shards), Writes: true, Access: "scatter",
			Reason: "each row is tried on all shards: a unique key without the shard key may be there on any",
		}
	}
	ix := &lookups{j: j, trial: trial, shards: cat.Shards, first: map[catalog.IndexID]string{}}
	b, err := j.bind(rows, params, ix, 1+r.Uint64N(1<<30))
	if err == nil && b.Refuse == nil {
		return j.visits(rows, b, ix)
	}
	if err == nil {
		err = b.Refuse
	}
	query, also := "", 0.0
	switch {
	case rows.Copy != nil:
		_, query, _ = rows.Copy.Texts(params)
		also = float64(j.shards)
	case rows.Computes != "":
		query = rows.Computes
	case rows.Constants != nil:
		return Verdict{Route: One, Shards: 1, Writes: true, Access: "shard_key", Reason: "a shard is asked first for values that are needed"}
	case rows.Keyed != nil && b != nil:
		query, also = rows.Keyed.Query(params), 1
	default:
		return failed(err)
	}
	planned, queryErr := j.planner.Plan(query, set, cat)
	if inner, ok := planned.(*plan.Rows); ok && queryErr == nil && inner.Params == 0 && inner.Copy == nil && inner.Keyed == nil {
		v := j.bound(inner, query, set, cat, nil, trial)
		v.Writes = true
		if rows.Copy != nil && v.Route != Refused {
			v.Route = Copied
		}
		v.Shards = math.Min(v.Shards+also, 2*float64(j.shards))
		return v
	}
	return failed(err)
}

func (j *judge) bind(rows *plan.Rows, params []keys.Value, ix plan.Indexes, first uint64) (*plan.Bound, error) {
	n, err := j.planner.Increment(rows, params)
	if err != nil {
		return nil, err
	}
	if n == nil {
		return j.planner.Bind(rows, params, ix)
	}
	return j.planner.BindGenerated(rows, params, ix, first, rows.Params > 0)
}

// visits is the verdict of what can be executed.
func (j *judge) visits(rows *plan.Rows, b *plan.Bound, ix *lookups) Verdict {
	v := Verdict{Writes: rows.Kind.Writes() || rows.Kind == plan.Locking, Access: b.Access, Reason: b.Reason, indexes: ix.asked}
	var set catalog.ShardSet
	for _, st := range b.Statements {
		set.Add(st.Shard)
	}
	if b.Gather != nil {
		for i := range b.Gather.Refs {
			set = set.Union(b.Gather.Refs[i].Shards)
		}
		v.Route, v.Shards = Copied, float64(max(1, set.Len()))
		return v
	}
	v.Shards = float64(set.Len())
	v.Route = j.routeTo(v.Shards)
	return v
}

// lookups stand for virtual indexes that nobody has made: a lookup leads to as many shards as it would on
// average, and the same key to the same ones.
//
// Rule of one row: what a statement asks for by two indexes of a table has rows on the shards that both lead to, so their
// first keys lead to the same shards, or to some of these. Counter-example: (family, given) leads to three shards of four,
// and given to all three and the fourth; were they any three, given seemed to narrow what (family, given) says.
type lookups struct {
	j      *judge
	trial  uint64
	shards []catalog.Shard
	asked  []*catalog.Index
	first  map[catalog.IndexID]string // keys
}

func (l *lookups) Lookup(ix *catalog.Index, key []byte, _ [][]byte) (set catalog.ShardSet, err error) {
	l.asked = append(l.asked, ix)
	if _, ok := l.first[ix.ID]; !ok {
		l.first[ix.ID] = string(key)
	}
	of := string(key)
	if of == l.first[ix.ID] {
		of = ix.Table.Schema + "." + ix.Table.Name
	}
	r := rand.New(rand.NewPCG(xxhash.Sum64String(of), l.trial))
	fan := l.j.fan(ix)
	n := int(fan)
	if r.Float64() < fan-float64(n) {
		n++
	}
	for _, i := range r.Perm(len(l.shards))[:min(max(n, 1), len(l.shards))] {
		set.Add(l.shards[i].ID)
	}
	return set, nil
}

// Range is as of an index with more keys within than are asked for.
func (l *lookups) Range(*catalog.Index, []byte, []byte, int) (set catalog.ShardSet, ok bool, err error) {
	return set, false, nil
}

func (l *lookups) Removals() uint64 { return 0 }

// settings are those of a session that begins on the server.
func settings(cat *catalog.Catalog, schema string) text.Settings {
	has := func(mode string) bool { return text.ContainsFold(cat.SQLMode, mode) }
	return text.Settings{
		Schema: schema, Charset: "utf8mb4", Collation: cat.DefaultCollation["utf8mb4"],
		ANSIQuotes: has("ansi_quotes"), NoBackslashEscapes: has("no_backslash_escapes"), PipesAsConcat: has("pipes_as_concat"),
		IgnoreSpace: has("ignore_space"), Strict: has("strict_all_tables") || has("strict_trans_tables"),
		PadCharToFullLength: has("pad_char_to_full_length"), NoAutoValueOnZero: has("no_auto_value_on_zero"),
	}
}

// spread is over how many of n shards rows lie on average that have one value, r of them, if each lies anywhere.
func spread(n int, r float64) float64 {
	if r <= 1 {
		return 1
	}
	return float64(n) * (1 - math.Pow(1-1/float64(n), r))
}
