package main

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/planner/plan"
)

// lockPrefix begins the locks' names, which are at most maxLock characters long.
const (
	lockPrefix = plan.LockPrefix
	maxLock    = 64
)

// plainName needs no quoting in a lock's name.
var plainName = regexp.MustCompile(`^[a-z0-9_$-]+$`)

// lockName is the lock of a schema. Where names of schemas differ by case alone they
// share one: on another server they might be the same schema.
func lockName(schema string) string {
	name := lockPrefix + strings.ToLower(schema)
	if len(name) <= maxLock && plainName.MatchString(name) {
		return name
	}
	sum := sha256.Sum256([]byte(strings.ToLower(schema)))
	return lockPrefix + "#" + hex.EncodeToString(sum[:16])
}

// lockNames are those of a configuration, in an order that all Shunts share. Without
// schemas it is one lock that only such configurations have.
func lockNames(cfg *config.Config) []string {
	names := []string{}
	for _, s := range cfg.Schemas {
		names = append(names, lockName(s.Name))
	}
	if len(names) == 0 {
		names = append(names, lockPrefix+"*")
	}
	slices.Sort(names)
	return slices.Compact(names)
}
