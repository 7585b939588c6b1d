package proxy

import "testing"

func TestHasDecimal(t *testing.T) {
	for text, want := range map[string]bool{
		`{"p": 1.50}`: true, `[20.00]`: true, `-0.10`: true, `[0.1234567890123456789]`: true,
		`{"p": 1.5, "n": 10, "z": 0.0}`: false, `["1.50", "a\"1.50"]`: false, `[1.5e20, 10000000000.0, 0.00012345678901234567]`: false, `null`: false,
	} {
		if got := hasDecimal([]byte(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
