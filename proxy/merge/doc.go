// Package merge makes one stream of rows of several: rows in, rows out, no
// connections, no SQL.
//
//	Layout   the columns of the shards' rows, and their protocol
//	Row      a row's packet, cut into values
//	keys     what rows are compared by, as bytes and numbers that order themselves
//	Streams  the k-way merge
//
// # Invariants
//
//   - A merge holds one row of each stream, whatever their number.
//   - Each stream is checked to be in the order of the keys. Shards sort by
//     rules of their own (collations, max_sort_length); where those differ from
//     ours the merge ends with an error rather than in a wrong order.
//   - Rows that compare equal come in the order of their streams.
package merge
