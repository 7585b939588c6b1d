//go:build invariants

package wire

// poison overwrites a buffer that is handed back, so that a slice kept too
// long shows in tests.
func poison(p []byte) {
	for i := range p {
		p[i] = 0xDB
	}
}
