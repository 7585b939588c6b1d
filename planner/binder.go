package planner

import (
	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/keys"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// binder evaluates condition trees for given parameter values.
type binder struct {
	cat      *catalog.Catalog
	settings *text.Settings
	params   []keys.Value
	ix       plan.Indexes
	lookups  int
	reached  []reached
	// room, when set, is where the Bound is made; brief: without its Reason.
	// ungathered: a gather is not wanted, only to know that it takes one.
	room              *Binding
	brief, ungathered bool
	// Room for what a reach is found by. What is cut from these stays as it is
	// when they grow: it is in the memory from before then.
	components []byte
	found      [][]byte
	values     []keys.Value
	uses       []access
	probes     []plan.Probe
	alone      [1]*cnode
	columns    []listColumn
	// labels are those of the reference whose tree is evaluated.
	labels []string
	// next is the AUTO_INCREMENT counter, 0 unknown; asParams: its values become
	// parameters.
	next     uint64
	asParams bool
	// placing: a row of Meets is bound, for the shard at; nil: that of a new row.
	placing bool
	at      *catalog.ShardID
}

// reached is a reference's reach.
type reached struct {
	ref   *ref
	reach reach
}

// Binding is room for binding one statement after the other without allocating.
// What is bound in it is good until it is used again, but for Adds, Marks and
// Maintain; whoever keeps a Probe makes a copy.
type Binding struct {
	binder     binder
	bound      plan.Bound
	statements []plan.ShardStatement
}

// roomKept bounds what a Binding keeps of its room.
const roomKept = 1 << 10

// begin makes a binder in the Binding.
func (bd *Binding) begin(r *plan.Rows, params []keys.Value, ix plan.Indexes) *binder {
	b := &bd.binder
	if cap(b.components) > roomKept || cap(b.found) > roomKept/16 || cap(b.values) > roomKept/16 || cap(bd.statements) > roomKept/64 {
		*bd = Binding{}
	}
	b.begin(r, params, ix)
	b.room, b.brief = bd, true
	return b
}

// newBinder is for a statement without a Binding.
func newBinder(r *plan.Rows, params []keys.Value, ix plan.Indexes) *binder {
	b := &binder{}
	b.begin(r, params, ix)
	return b
}

// begin is for another statement, whose room is that of the one before. It sets each field for itself, for a third of the
// instructions.
func (b *binder) begin(r *plan.Rows, params []keys.Value, ix plan.Indexes) {
	b.cat, b.settings, b.params, b.ix, b.lookups, b.reached = r.Catalog, &bindableOf(r).settings, params, ix, 0, b.reached[:0]
	b.room, b.brief, b.ungathered = nil, false, false
	b.components, b.found, b.values, b.uses, b.probes, b.columns = b.components[:0], b.found[:0], b.values[:0], b.uses[:0], b.probes[:0], b.columns[:0]
	b.alone[0], b.labels, b.next, b.asParams, b.placing, b.at = nil, nil, 0, false, false, nil
}

// Clear drops what was bound: it keeps the catalog in memory.
func (bd *Binding) Clear() {
	b := &bd.binder
	if b.room == nil {
		return // nothing was bound since
	}
	clearFew(b.reached)
	clearFew(b.found)
	clearFew(b.values)
	clearFew(b.uses)
	clearFew(b.probes)
	clearFew(b.columns)
	clearFew(bd.statements)
	b.cat, b.ix, b.params, b.labels, b.alone[0], b.room, bd.bound = nil, nil, nil, nil, nil, nil, plan.Bound{}
}

// clearFew is clear, which is dear for what is empty or has one element, as most.
func clearFew[T any](s []T) {
	switch len(s) {
	case 0:
	case 1:
		var none T
		s[0] = none
	default:
		clear(s)
	}
}

// explained is the binder of what has Reasons.
func (b *binder) explained() *binder {
	if !b.brief {
		return b
	}
	return &binder{cat: b.cat, settings: b.settings, params: b.params, ix: b.ix, next: b.next, asParams: b.asParams, placing: b.placing, at: b.at}
}

// bound is the Bound to fill.
func (b *binder) bound() *plan.Bound {
	if b.room == nil {
		return &plan.Bound{}
	}
	b.room.bound = plan.Bound{}
	return &b.room.bound
}

// sendTo sends one text to all of a set.
func (b *binder) sendTo(set catalog.ShardSet, sql string) *plan.Bound {
	out := b.bound()
	out.Plan = "route"
	if b.room != nil {
		out.Statements = b.room.statements[:0]
	} else {
		out.Statements = make([]plan.ShardStatement, 0, set.Len())
	}
	for id := range set.All {
		out.Statements = append(out.Statements, plan.ShardStatement{Shard: id, SQL: sql})
	}
	if b.room != nil {
		b.room.statements = out.Statements
	}
	return out
}
