//go:build !race

package storage

const underRace = false
