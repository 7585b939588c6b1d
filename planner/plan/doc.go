// Package plan is what the planner answers, as data: the executor, the merges and the indexer
// know plans without the parser that they were made by.
//
//	Plan         what a statement will do: Rows, DDL, Temporary, Load, LockTables, Admin or Session
//	Bound        a Rows with its values: shards, their texts, and what is to be done around them
//	Merge        how the shards' rows become the client's
//	Gather       what is copied to one server, which answers then
//	System       what is made of what several shards say of themselves
//	Entry, Mark, Probe, Maintenance    what a statement does to virtual indexes
//
// Copy, Keyed, Constants and Meets are other ways to execute what can't be sent as it is: each
// says the texts of its steps, for given parameters.
//
// # Invariants
//
//   - Plans and what they hold never change once made, so that sessions share them.
//   - Nothing here parses or plans. Rows.Own is the planner's, and what Gather.Narrower and
//     Unique.Looks answer is of the planner, too.
package plan
