// Package insights counts what statements cost, by their shape: the text without its literals.
//
// Statistics holds a bounded number of Shapes. A session finds the one of its statement by a hash of
// what it has read of the text (Find), or by the text itself (Name), and tells it of each Execution
// (Observe). What was used least lately gives way to what is new, and counts among the others: sums
// over all rows stay what they were.
//
// Invariants:
//   - finding and observing allocate nothing, but when a shape, or a magnitude of its times, is new;
//   - a Shape is Gone when its figures were added to the others, and takes no more;
//   - memory is bounded: see bytesOfShape.
//
// A Shape's figures are behind a mutex of its own: it is held for some 30 ns, and cheaper than as
// many atomic counters.
package insights
