// Package spoken plans statements that are understood by their words, without a syntax tree: SET,
// SHOW, LOCK, LOAD DATA, CALL, DDL, Shunt's own SQL, what goes by a hint, and what the parser refuses. It
// answers what else a text is asked for its words: whom it names, what it prepares, where its answer goes.
//
//	read                                       a Text, lexed once for all that is asked of it
//	session, set_statement, splice_session,    the session's settings, and what it tells of itself
//	show_session, connection
//	prepared_text, select_into, lock_*         PREPARE; SELECT ... INTO; locks by name and of tables
//	show, show_values, system, own,            SHOW, information_schema, Shunt's own SQL and schema
//	own_schema
//	ddl, ddl_*, create_as, sequence,           DDL; what it takes a tree for (Trees)
//	temporary, trees
//	trigger, program_block, stored_programs,   stored programs, what they write and read; CALL
//	call
//	load                                       LOAD DATA
//	hinted, unread, fixed                      by a hint; what the parser refuses; to shards that are known
//	named_schemas, beyond                      what a user's rights are asked of
//	found_rows, transaction_marks              what a statement answers besides its rows
//	tables, functions, constant                names of tables, functions' traits, constant expressions
//
// # Invariants
//
//   - Words say more than a statement does, never less: a name that may be a table's is taken for one
//     (Mentioned), and a word that may write for a write.
//   - A Rows of this package has a *Fixed as its Own. Package planner binds it.
//
// # Not here
//
// No parser: SELECT, INSERT, UPDATE and DELETE are package planner's, and so is what DDL takes a tree for.
package spoken
