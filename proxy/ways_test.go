package proxy

import (
	"testing"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/planner/plan"
	"github.com/shunt-sql/shunt/planner/text"
)

// TestWays: by which way statements are executed, and that of those that fit the first is taken.
func TestWays(t *testing.T) {
	t.Parallel()
	s := &session{proxy: &Proxy{ways: allWays()}}
	one := func(b plan.Bound) *plan.Bound {
		b.Statements = []plan.ShardStatement{{Shard: 0}}
		return &b
	}
	refusal := &text.Error{Unstored: true}
	for _, x := range []struct {
		name string
		r    request
		at   stage
		want *way
	}{
		{"GET_LOCK()", request{plan: &plan.Rows{Lock: &plan.NamedLock{}}}, unbound, lockWay},
		{"rows to try first", request{plan: &plan.Rows{Meets: &plan.Meets{}}}, unbound, meetWay},
		{"rows to try, with values to ask for", request{plan: &plan.Rows{Meets: &plan.Meets{}, Constants: &plan.Constants{}}}, unbound, nil},
		{"any other", request{plan: &plan.Rows{Kind: plan.Insert}}, unbound, nil},

		{"INSERT ... SELECT", request{plan: &plan.Rows{Copy: &plan.Copy{}, Constants: &plan.Constants{}}, why: refusal}, refused, copyWay},
		{"DO", request{plan: &plan.Rows{Computes: "SELECT 1"}, why: refusal}, refused, computeWay},
		{"INSERT of expressions", request{plan: &plan.Rows{Constants: &plan.Constants{}}, why: refusal}, refused, askWay},
		{"nothing to ask for", request{plan: &plan.Rows{}, why: refusal}, refused, nil},
		{"UPDATE ... LIMIT", request{plan: &plan.Rows{Keyed: &plan.Limited{}}, bound: one(plan.Bound{}), why: refusal}, refused, keyedWay},
		{"DELETE from several tables", request{plan: &plan.Rows{Keyed: &plan.DeletedTables{}}, bound: one(plan.Bound{}), why: refusal}, refused, keyedWay},
		{"UPDATE ... LIMIT that can't be bound", request{plan: &plan.Rows{Keyed: &plan.Limited{}}, why: refusal}, refused, nil},

		{"a write from copies", request{plan: &plan.Rows{}, bound: &plan.Bound{Gather: &plan.Gather{}}, writes: true}, bound, gatherWriteWay},
		{"a write to a shard", request{plan: &plan.Rows{}, bound: one(plan.Bound{}), writes: true}, bound, writeOneWay},
		{"a write of a unique key", request{plan: &plan.Rows{}, bound: one(plan.Bound{Unique: &plan.Unique{}}), writes: true}, bound, writeWay},
		{"SHOW TABLES", request{plan: &plan.Rows{}, bound: one(plan.Bound{System: &plan.System{}})}, bound, systemWay},
		{"a query from copies", request{plan: &plan.Rows{}, bound: &plan.Bound{Gather: &plan.Gather{}}}, bound, gatherWay},
		{"ORDER BY", request{plan: &plan.Rows{}, bound: one(plan.Bound{Merge: &plan.Merge{}})}, bound, mergeWay},
		{"SHOW VARIABLES", request{plan: &plan.Rows{Shown: &plan.ShownValues{}}, bound: one(plan.Bound{})}, bound, showValuesWay},
		{"SHOW CREATE TABLE", request{plan: &plan.Rows{Creates: &catalog.Table{}}, bound: one(plan.Bound{})}, bound, showCreateWay},
		{"a query of a shard", request{plan: &plan.Rows{}, bound: one(plan.Bound{})}, bound, forwardWay},
		{"a query of all shards", request{plan: &plan.Rows{}, bound: &plan.Bound{}}, bound, concatenateWay},
	} {
		if got := s.wayOf(&x.r, x.at); got != x.want {
			t.Errorf("%s goes another way", x.name)
		}
	}
}
