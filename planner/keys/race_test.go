//go:build race

package keys

// Under the race detector sync.Pool drops some of what it is given.
const raceEnabled = true
