//go:build race

package indexer

const underRace = true
