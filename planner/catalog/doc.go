// Package catalog holds an immutable snapshot of what Shunt knows: shards,
// the slot map, schemas, tables, columns and virtual indexes.
//
// A snapshot never changes after it is published. Sessions share it through an
// atomic pointer; whoever learns something new (DDL through Shunt, a changed
// index, an error that reveals a change) builds another one with a higher
// Version and publishes that.
//
// The package imports nothing of ours and does no I/O. Column types are kept
// as the server spells them (information_schema.columns); planner/keys turns
// them into key encodings.
package catalog
