// Package schema reads what the shards' information_schema says and makes a
// catalog snapshot of it, together with the configured placements, the slot
// map and the virtual indexes.
//
// ReadAll asks every shard, behind DDL for the tables that it names; a shard that does not answer is left out and named in
// the result, so that one dead server neither stops the start nor a refresh: a
// hash table's columns are the same everywhere, and a statement that needs the
// dead shard fails on its own. Build is pure and does the rest. A Directory owns the current
// catalog: it has the shards asked again, and publishes what they say.
//
// Where shards disagree about a table, the table is marked (Table.Differs) and
// its virtual indexes are not used, since keys made under one definition say
// nothing about rows stored under another. So it is where an event, which runs on the
// shards by itself, sets off a trigger or foreign key that changes a table's rows
// (Table.Unseen). Of events are known those of schemas whose EVENT privilege the account has.
package schema
