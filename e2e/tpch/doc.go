// Package tpch has the tables, rows and queries of the TPC-H benchmark
// (specification 3.0.1), for comparing Shunt with one MySQL: answers in the
// end-to-end tests, times in the benchmarks. It is pure and imports only the
// standard library.
//
// The rows are not those of the official dbgen, but made like them: the same
// tables, columns, value lists, ranges and dependencies (clauses 4.2.2 and
// 4.2.3), from a seed. So the 22 queries, with the validation parameters of
// clause 2.4 and its substitutions, find rows, but not the specification's
// answers. Monetary values are DECIMAL as there: sums are exact in any order.
package tpch
