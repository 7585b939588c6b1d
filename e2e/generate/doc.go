// Package generate makes random SQL: a seed -> tables, rows and statements
// whose answers are determined, so that they can be compared between Shunt and
// one plain server. It is pure (no clock, no I/O) and imports only the standard
// library.
//
//	New(seed, dialect) ──▶ World ── Setup() ──▶ CREATE TABLE, INSERT
//	                             └─ Next()  ──▶ Statement, Statement, ...
//
// A Statement is a tree of Nodes that is written out as text. What makes it
// smaller without making it another sort of thing is in the tree (Node.Simpler):
// a difference is shrunk by trying those.
//
// # What is determined
//
// SQL leaves much of an answer to the server. Statements are made so that the
// rest can be compared exactly, and say what that is (Check, and the marks on
// the select list's items):
//
//   - the order of rows: only by what ORDER BY names. Where that is a unique key
//     of what is selected, the whole order; else the sequence of the ordering
//     columns. LIMIT without a total order leaves the sequence of the ordering
//     columns, and without ORDER BY the number of rows;
//   - which of several equal texts stands for them (GROUP BY, DISTINCT, UNION,
//     MIN and MAX under a collation that takes 'a' for 'A'): such columns are
//     marked Folded, compared by Fold, and used for nothing else;
//   - sums of DOUBLE: the values are multiples of 0.25, whose sums are exact in
//     any order. Only deviations and variances are marked Approximate;
//   - window functions over frames of rows, LAG, FIRST_VALUE, GROUP_CONCAT: over
//     a total order;
//   - errors while a row is evaluated depend on which rows the server evaluates,
//     and in which order: values are small, so that nothing overflows, and
//     scalar subqueries answer one row;
//   - unique keys hold the shard key: only those are unique over shards.
package generate
