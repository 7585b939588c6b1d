// Package suite says by one word in a test's first line where the test belongs.
//
// `make test` runs with -short: what a change needs, in minutes. `make check` runs everything. A test of Long is
// in the second alone. A test of Promise is in either, and its failure stands: see command testrun.
package suite

import (
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// Long has t run in `make check` alone.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("make check runs it")
	}
}

// OfPromise is in the output of tests that testrun doesn't run again.
const OfPromise = "a test of the promise: what it sees once is a fault"

// Promise says that t tests what Shunt promises above all, by chance and by seeds: that it passes another time excuses nothing.
func Promise(t testing.TB) {
	t.Helper()
	t.Log(OfPromise)
}

// Size is how much a test does of what it does: little in `make test`, more in `make check`.
func Size[T any](test, check T) T {
	if testing.Short() {
		return test
	}
	return check
}

// TurnSeed is the variable of the environment that testrun sets for all that it runs: what it runs again has the same turn.
const TurnSeed = "SHUNT_TURN"

// Turn reports whether it is a case's turn, by chance: in `make test` that of one case in n, in `make check` of all.
//
// The environment's TurnSeed is the seed, which t's output tells. The turns of each test are others.
func Turn(t testing.TB, n int) func() bool {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv(TurnSeed), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("%s=%d", TurnSeed, seed)
	name := fnv.New64a()
	_, _ = name.Write([]byte(t.Name()))
	r := rand.New(rand.NewPCG(seed, name.Sum64()))
	return func() bool { return !testing.Short() || r.IntN(n) == 0 }
}

// UsedBy begins what a test's output tells testrun of the processor time of processes that it has run.
const UsedBy = "processor time "

// Used says what processor time a process of t's own has used.
func Used(t testing.TB, of time.Duration) {
	t.Helper()
	t.Logf("%s%.1f s", UsedBy, of.Seconds())
}
