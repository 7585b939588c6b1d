// Package text reads the text of one statement: tokens, names, literals, comments and hints,
// by the session's settings. What a statement does is not its business.
//
//	Statement    one statement, lexed: its tokens, `?`, comments, rows of VALUES and hint
//	Split        several statements in one text
//	Operand      the exact value of a literal, or which `?` it is
//	Derivation   the text with edits, Splice the text with other tables
//	Settings     what of a session changes what a text means
//	Error        a refusal, with its MySQL code
//
// # Invariants
//
//   - A text is read in one pass, without recursion: its nesting is bounded before anybody
//     walks a tree of it.
//   - Nothing is restored from a tree: every text that is derived keeps the client's bytes, at
//     the offsets of tokens.
//   - Rows of VALUES are no tokens: a statement of a million rows stays cheap.
//
// # Not here
//
// No parser, tables or plans: of the catalog it knows the servers' kind and version, and how
// names are quoted. It imports nothing of the planner's.
package text
