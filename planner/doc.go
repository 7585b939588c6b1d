// Package planner says what a statement will do: a pure function of the
// statement's text, the session's settings and a catalog snapshot.
//
//	text ── text.Read ───▶ Statement ──parse──▶ AST ──analysis──▶ Plan ──Bind──▶ Bound
//	        tokens, hint,    TiDB's      tables,       cacheable    values,
//	        bounds, rows     parser      conditions                 lookups
//
// A Text is lexed once for all that is asked of it, its plan among that.
//
// A Plan (package plan) is *Rows (routed by a condition or by values; Bind it), *DDL, *Temporary
// (about temporary tables), *Load, *Admin (Shunt's own statements) or *Session.
// An error is always a *text.Error with its MySQL code. 1235 names what is missing and the way out; 1146
// and 1049 say that the catalog doesn't know a name, which may be the catalog's
// fault: read the schema again and retry.
//
// # Invariants
//
//   - A Bound's shards hold every row that the statement reads or writes. What
//     is not understood bounds nothing: see cnode, whose trees only ever say too
//     much, and reach, which drops what is in doubt for the values at hand.
//   - Several shards are visited only where their answers together are the
//     answer: one anchor, all else on its shard (findAnchor), nothing that counts
//     or orders rows across shards (spoilsConcatenation). Else their answers to a
//     derived statement are merged where that is exact (Bound.Merge), or rows are
//     gathered (Bound.Gather), or Bound.Refuse.
//   - Statements but those of a merge or gather are sent as they are written. An INSERT of many rows is cut at
//     its rows, whose text stays but for AUTO_INCREMENT values that Shunt counts;
//     nothing is ever restored from a tree.
//   - Adds and Marks cover every key that the statement may create on any shard
//     that it visits: values known (Add), or not (Mark), by triggers and foreign
//     keys too (effects).
//   - Plans and what they hold never change once made, and keep no syntax tree.
//
// # Reading the text
//
// The parser is TiDB's. It is not MySQL's: it refuses valid statements, runs
// comments that MySQL skips (/*T! */), and its tree has lost what a literal was
// written as. So Shunt's own lexer (package text) reads each statement first. It finds the
// hint, parameters, rows and executable comments, bounds nesting (the parser's
// tree is walked by recursion, and a stack that overflows ends the process), and
// gives every literal its exact value, at the offset that the parser names.
// The parser sees a copy of equal length in which comments, and rows of plain
// literals, are blank. Session statements and most DDL are read from tokens alone (package spoken).
//
// # Plans by shape
//
// A Shape is a statement with its literals cut out. Find gives the plan of a
// shape that was met before, and BindShape binds it to the literals: nothing is
// parsed. What comes out is what Plan and Bind say of the same text, or nothing:
// see Shape and planCache for the rules, TestShapeGolden and TestShapeGenerated
// for what holds them.
//
// # Where things are
//
//	package plan                               Plan, Bound and what they hold
//	planner                                    from a statement's first words to its Plan; bindable:
//	                                           what a Rows is bound by; fixed: one that package
//	                                           spoken made
//	package spoken                             statements that are understood by their words
//	package text                               a statement's text, its literals and errors;
//	                                           literal: these in a tree
//	shape, cache                               plans by shape
//	parse, unparsed                            TiDB's parser, and what that refuses
//	resolve, cte, functions, condition         tables, columns, functions, condition trees;
//	                                           walk: through a syntax tree
//	query, query_route                         SELECT; anchors and routes
//	binder, reach, lookup                      which shards, for given values
//	view, view_text, derived                   views and derived tables as tables, or in their place
//	merge, merge_*                             what merges exactly, and the derived statement
//	gather, gather_*                           what is copied to be answered or written
//	insert, insert_rows, insert_bind,          INSERT and REPLACE: the plan, the rows' text, their shards
//	on_duplicate, row_alias
//	increment, constant, insert_subquery,      rows that are counted, asked for or tried before they are placed
//	meet
//	insert_select, copy                        INSERT ... SELECT, as many statements
//	write, assignment, limit                   UPDATE and DELETE
//	effects                                    the keys that writes make, their marks and maintenance
//	ddl, ddl_*                                 what DDL takes a tree for
//	system, restricted, explain                information_schema, who may not see all of it; EXPLAIN
//	select_limit, returning, user_variable     what a statement answers besides its rows
//
// # Not here
//
// No rows, no I/O, no clock: what a Bound says is done in package proxy. No
// evaluation of expressions beyond literals: an expression is unknown.
package planner
