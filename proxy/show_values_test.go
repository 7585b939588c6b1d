package proxy

import (
	"strings"
	"testing"
)

func TestLikeName(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]bool{
		strings.Repeat("%", 100) + "m": true, strings.Repeat("%_", 100): false, strings.Repeat("%r", 50): false, "s%t%_from": true,
		"shunt_read_from": true, "SHUNT%": true, "%": true, "%from": true, "%read%": true, `shunt\_read\_from`: true, "_hunt_rea__%": true, "%%m": true,
		"": false, "shunt": false, "shunt_read_from_": false, "%x%": false, `shunt\%`: false, `shunt\`: false, "hunt%": false, "_": false,
	} {
		if got := likeName(pattern, readFromVariable); got != want {
			t.Errorf("LIKE '%s': %v", pattern, got)
		}
	}
}
