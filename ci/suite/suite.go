// Package suite says by one word in a test's first line where the test belongs.
//
// `make test` runs with -short: what a change needs, in minutes. `make check` runs everything. A test of Long is
// in the second alone. A test of Promise is in either, and its failure stands: see command testrun.
package suite

import "testing"

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
