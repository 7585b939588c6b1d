package wire

import "testing"

// TestOpensslName: the names are those that `openssl ciphers -stdname` lists.
func TestOpensslName(t *testing.T) {
	for standard, want := range map[string]string{
		"TLS_AES_128_GCM_SHA256":                        "TLS_AES_128_GCM_SHA256",
		"TLS_CHACHA20_POLY1305_SHA256":                  "TLS_CHACHA20_POLY1305_SHA256",
		"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384":         "ECDHE-RSA-AES256-GCM-SHA384",
		"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256":       "ECDHE-ECDSA-AES128-SHA256",
		"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256":   "ECDHE-RSA-CHACHA20-POLY1305",
		"TLS_RSA_WITH_AES_256_CBC_SHA":                  "AES256-SHA",
		"TLS_RSA_WITH_AES_128_GCM_SHA256":               "AES128-GCM-SHA256",
		"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
	} {
		if got := opensslName(standard); got != want {
			t.Errorf("%s: got %s, want %s", standard, got, want)
		}
	}
}
