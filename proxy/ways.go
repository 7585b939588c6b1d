package proxy

import "context"

// way is how statements of rows are executed. A new one is a file with its struct, and a line in
// ways; EXPLAIN ROUTE walks the same table.
type way struct {
	// at is how far a statement is when the way is chosen.
	at stage
	// fits reports whether a statement goes this way, if it goes none before.
	fits func(*session, *request) bool
	// explain are EXPLAIN ROUTE's rows; nil: a row for each statement that it is bound to, or why it
	// is refused.
	explain func(*session, context.Context, *request) ([][]any, error)
	execute func(*session, context.Context, *request) error
}

type stage uint8

const (
	unbound stage = iota // it has no Bound yet
	refused              // it can't be bound, or its Bound not be executed: see request.why
	bound                // it has a Bound that can be executed
)

// ways are those of each stage, in order.
type ways [bound + 1][]*way

// allWays are all of them.
func allWays() (all ways) {
	for _, w := range []*way{
		lockWay, meetWay,
		copyWay, computeWay, askWay, askAnywayWay, keyedWay,
		gatherWriteWay, writeOneWay, writeWay,
		systemWay, gatherWay, mergeWay, showValuesWay, showCreateWay, forwardWay, concatenateWay,
	} {
		all[w.at] = append(all[w.at], w)
	}
	return all
}

// wayOf is a statement's way; nil where a statement is bound first, or is refused.
func (s *session) wayOf(r *request, at stage) *way {
	for _, w := range s.proxy.ways[at] {
		if w.fits(s, r) {
			return w
		}
	}
	return nil
}
