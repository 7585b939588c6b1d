package wire

import (
	"crypto/tls"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// Cipher is the TLS version and cipher suite of the client's connection as
// servers name them (OpenSSL's names): "TLSv1.3", "TLS_AES_128_GCM_SHA256". Both
// are "" without TLS.
func (c *Conn) Cipher() (version, suite string) {
	t, ok := c.nc.(*tls.Conn)
	if !ok {
		return "", ""
	}
	state := t.ConnectionState()
	return strings.Replace(tls.VersionName(state.Version), "TLS ", "TLSv", 1), opensslName(tls.CipherSuiteName(state.CipherSuite))
}

// Compression is the algorithm of the client's connection, "zlib", "zstd", or ""
// without compression, and its level as servers tell it.
func (c *Conn) Compression() (algorithm string, level int) {
	switch {
	case c.Capabilities&mysql.CLIENT_COMPRESS != 0: // before the other
		return "zlib", 6
	case c.Capabilities&mysql.CLIENT_ZSTD_COMPRESSION_ALGORITHM != 0:
		return "zstd", int(c.zstdLevel)
	}
	return "", 0
}

// opensslName is OpenSSL's name of a suite, from that of the standard. Those of
// TLS 1.3 have one name.
func opensslName(standard string) string {
	name, old := strings.CutPrefix(standard, "TLS_")
	exchange, rest, with := strings.Cut(name, "_WITH_")
	if !old || !with {
		return standard
	}
	if cipher, chacha := strings.CutSuffix(rest, "_POLY1305_SHA256"); chacha {
		rest = cipher + "_POLY1305"
	}
	rest = strings.NewReplacer("AES_", "AES", "_CBC_", "_").Replace(rest)
	if exchange != "RSA" {
		rest = exchange + "_" + rest
	}
	return strings.ReplaceAll(rest, "_", "-")
}
