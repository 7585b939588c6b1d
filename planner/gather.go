package planner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// gatherer is a SELECT that may be gathered. All but its text is read when it
// is needed: most statements are routed.
type gatherer struct{ sql string }

// planGather keeps what a gather is made from.
func (a *analysis) planGather(ast.StmtNode, *queryRoute) *gatherer { return &gatherer{sql: a.st.Src} }

// bind says what to copy for the values at hand, or why this query can't be
// gathered; neither where the route's own refusal says it.
func (g *gatherer) bind(b *binder) (*plan.Bound, *text.Error) {
	q, err := readGather(g.sql, *b.settings, b.cat)
	if err != nil || q == nil {
		return nil, err
	}
	out := &plan.Bound{Plan: "gather", Gather: &plan.Gather{Text: q.text, NamesSchema: q.namesSchema, Temporary: q.temporary, Narrower: &narrower{b, q.refs}}}
	var hows []string
	for i, r := range q.refs {
		x := q.copies[i]
		b.aim(&x, r)
		if q.idle[r] {
			x.Shards, x.InPlace, x.Joins = catalog.ShardSet{}, catalog.ShardSet{}, nil
			x.Access, x.Reason = "none", "nothing reads the common table expression"
		}
		if r.table.Temporary {
			x.InPlace = catalog.ShardSet{} // the query runs on another connection
		}
		if !slices.Contains(hows, x.Access) {
			hows = append(hows, x.Access)
		}
		out.Gather.Locks = out.Gather.Locks || x.Lock != ""
		out.Gather.Refs = append(out.Gather.Refs, x)
	}
	out.Access = strings.Join(hows, ",")
	out.Reason = "no shard has all rows that the query needs: they are copied to where it runs"
	if out.Gather.Locks {
		out.Reason += ", and locked as they are read"
	}
	return out, nil
}

// aim says where the rows of a copy are.
func (b *binder) aim(x *plan.GatherRef, r *ref) {
	got := b.reach(r)
	x.Shards = got.set
	x.Bounded = len(got.used) > 0 || len(x.Filters) > 0
	switch {
	case r.reference():
		// Any one has all rows.
		x.Shards, x.InPlace = catalog.Only(r.table.Shards.First()), r.table.Shards
		x.Access, x.Reason = "reference", r.table.Name+" is on every shard"
	case r.table.Placement == catalog.Single:
		x.InPlace = r.table.Shards
		x.Access, x.Reason = "single", r.table.Name+" is on one shard"
	default:
		x.Access, x.Reason = b.describe(got, r.table, got.set)
	}
}

// joined is what the analysis of a query tells a gather about its references.
type joined struct {
	nodes map[*ref]*ast.TableName
	// on holds the conjuncts of ON clauses that a row of the reference alone
	// must satisfy to be joined at all.
	on map[*ref][]cond
}

func (j *joined) table(r *ref, n *ast.TableName) {
	if j != nil {
		j.nodes[r] = n
	}
}

// filter notes which references the ON clause of a join filters row by row.
//
// Rule not yet filled: a reference that an inner join has filled with NULLs is
// not filtered by the ON clause around it. Counter-example:
//
//	a LEFT JOIN (b LEFT JOIN c ON c.id = b.id) ON c.id IS NULL
//
// Without the rows of c that are not NULL, the b's that have one would seem to
// have none.
func (j *joined) filter(tp ast.JoinType, l, r side, on []cond) {
	if j == nil {
		return
	}
	add := func(refs []*ref) {
		for _, x := range refs {
			if !x.nullable {
				j.on[x] = append(j.on[x], on...)
			}
		}
	}
	if tp != ast.LeftJoin {
		add(l.refs)
	}
	if tp != ast.RightJoin {
		add(r.refs)
	}
}

// gatherable is a query that was read to be gathered.
type gatherable struct {
	refs   []*ref
	copies []plan.GatherRef
	text   text.Splice
	// idle are references that need no rows.
	idle map[*ref]bool

	// temporary is Gather.Temporary.
	temporary   bool
	namesSchema bool
}

// readGather reads a query once more, for itself. Without an error it is nil
// where the query reads system tables or views.
func readGather(sql string, s text.Settings, cat *catalog.Catalog) (*gatherable, *text.Error) {
	st, err := text.Read(sql, s, cat)
	if err != nil {
		return nil, err
	}
	n, err := (&Planner{}).parse(st, cat)
	if err != nil {
		return nil, err
	}
	parsers := &parserPool{}
	a := &analysis{st: st, cat: cat, parsers: parsers, joined: &joined{nodes: map[*ref]*ast.TableName{}, on: map[*ref][]cond{}}}
	a.query(n, nil, false)
	if a.err != nil {
		return nil, a.err
	}
	if len(a.refs) > maxCopies {
		return nil, refuseGather(fmt.Sprintf("a query over several shards with more than %d tables", maxCopies), "split it")
	}
	for _, r := range a.refs {
		if r.system || r.table.IsView || len(r.table.Columns) == 0 {
			return nil, nil
		}
	}
	lock, ok := a.lockedBy(n)
	if !ok {
		return nil, refuseGather("this form of a locking read (FOR UPDATE, FOR SHARE) over several shards", "lock the rows by statements that each name the shard key")
	}
	q := &gatherable{refs: a.refs, idle: a.idle(), temporary: fromTemporary(n)}
	if q.namesSchema, err = a.mayGather(n); err != nil {
		return nil, err
	}
	for _, r := range a.refs {
		a.plant(r)
	}
	needs := a.needs(n)
	for _, r := range a.refs {
		c := a.copyOf(r, needs)
		c.Lock = lock[a.joined.nodes[r]]
		q.copies = append(q.copies, c)
	}
	for i, r := range a.refs {
		q.copies[i].Joins = joinsOf(a.refs, q.copies, a.narrowings(r))
	}
	// Last: it changes the tree.
	if q.text, err = a.splice(n); err != nil {
		return nil, err
	}
	return q, nil
}

// fromTemporary finds UNION and window functions.
func fromTemporary(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.SetOprStmt:
		return true
	case *ast.SelectStmt:
		return n.Fields != nil && featuresOf(n.Fields).window
	}
	return false
}

// maxCopies bounds the references of a query that is gathered. MySQL joins up to 61, and unites any number of joins.
const maxCopies = 1000

func refuseGather(what, way string) *text.Error {
	return text.NotSupported("%s is not supported: %s, or send it to one shard with /* shunt: shard=NAME */", what, way)
}

// mayGather refuses what would not mean the same over copies. namesSchema is
// Gather.NamesSchema.
func (a *analysis) mayGather(n ast.Node) (namesSchema bool, err *text.Error) {
	for _, r := range a.refs {
		if err := a.mayCopy(r); err != nil {
			return false, err
		}
	}
	return meaning(n)
}

// mayCopy refuses a reference whose copy would not be the same.
func (a *analysis) mayCopy(r *ref) *text.Error {
	if r.table.Differs != "" {
		e := refuseGather("a query that copies "+r.table.Name+", about whose columns the shards disagree ("+r.table.Differs+"),", "make them alike")
		e.Differs = true
		return e
	}
	var names strings.Builder
	names.WriteString(r.table.Schema + r.table.Name)
	for _, c := range r.table.Columns {
		names.WriteString(c.Name)
	}
	if !text.IsASCII(names.String()) && !strings.HasPrefix(a.st.Settings.Charset, "utf8") {
		return refuseGather("a query over several shards that copies "+r.table.Name+" for a client with the character set "+a.st.Settings.Charset, "SET NAMES utf8mb4")
	}
	t := a.joined.nodes[r]
	if len(t.PartitionNames) > 0 || t.TableSample != nil || t.AsOf != nil {
		return refuseGather("PARTITION, TABLESAMPLE or AS OF in a query over several shards", "name the rows by a condition")
	}
	return nil
}

// meaning refuses expressions that ask about more than rows. namesSchema: DATABASE().
func meaning(n ast.Node) (namesSchema bool, err *text.Error) {
	walk(n, func(n ast.Node) bool {
		if err != nil {
			return false
		}
		switch n := n.(type) {
		case *ast.DefaultExpr:
			if n.Name != nil { // SET a = DEFAULT
				err = refuseGather("DEFAULT() in a query over several shards", "write the value out")
			}
		case *ast.MatchAgainst:
			err = refuseGather("MATCH ... AGAINST in a query over several shards that can't be merged", "search in a query of its own")
		case *ast.FuncCallExpr:
			namesSchema = namesSchema || n.FnName.L == "database" || n.FnName.L == "schema"
			// A stored function reads what its own server has.
			if n.Schema.O != "" || !isBuiltinCall(n.FnName.L) {
				err = refuseGather("the function "+n.FnName.O+"(), unless it is the servers' own, in a query over several shards,", "call it in a query of one shard")
			}
		}
		return true
	})
	return namesSchema, err
}
