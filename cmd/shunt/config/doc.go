// Package config reads shunt.yaml.
//
// Load gives either a Config in which every field is filled in and every name
// resolves, or Errors: all that is wrong with the file at once, each with its
// line, column, the key's path, and what was expected there. Nothing is
// ignored: a key that Shunt doesn't know is an error, since a misspelt
// `shard_key` would otherwise spread a table by another column.
//
// ${NAME} in a value is replaced by that environment variable's value; one that
// is not set is an error, so that a missing secret never becomes an empty
// password. $${ stands for a literal ${.
//
// The package reads text only: whether the shards answer and the tables exist
// is found out by `shunt check` and at start.
package config
