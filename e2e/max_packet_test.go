package e2e

import (
	"strings"
	"testing"
)

// TestMaxPacket: a command over max_allowed_packet is told, and costs nothing.
func TestMaxPacket(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f *flavour) {
		p, c := startPeople(t, f, 5, setup{extra: "max_allowed_packet: 100KiB"})
		text := func(n int) string { return "SELECT LENGTH('" + strings.Repeat("x", n) + "') AS n" }
		want(t, c, text(99<<10), "n", "101376")
		big := p.conn()
		_, err := big.ExecContext(t.Context(), text(200<<10))
		wantError(t, err, 1153, "max_allowed_packet")
		p.reload("max_allowed_packet: 100KiB", "max_allowed_packet: 1MiB")
		want(t, p.conn(), text(200<<10), "n", "204800")
	})
}
