package wire

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"slices"
	"strings"
)

// MariaDB's clients of 11.4 and later want a certificate that they trust. One that
// nobody has signed they trust where the server shows, in the OK that ends the log-in,
// that it knows the hash of the password and has this very certificate: who stands in
// between has another one. It takes mysql_native_password, named in the greeting
// (run_plugin_auth in their Connector/C).

// selfSigned is the hash of the certificate that clients are shown, nil where it was
// signed by another.
func selfSigned(c *tls.Config) []byte {
	if c == nil || len(c.Certificates) == 0 {
		return nil
	}
	leaf := c.Certificates[0].Leaf
	if leaf == nil {
		var err error
		if leaf, err = x509.ParseCertificate(c.Certificates[0].Certificate[0]); err != nil {
			return nil
		}
	}
	if !bytes.Equal(leaf.RawIssuer, leaf.RawSubject) {
		return nil
	}
	hash := sha256.Sum256(leaf.Raw)
	return hash[:]
}

// vouch is what shows it to a client that has answered a salt, "" where its password's
// hash isn't known.
func (c Credential) vouch(salt, certificate []byte) string {
	if c.native == nil || certificate == nil {
		return ""
	}
	sum := sha256.Sum256(slices.Concat(c.native, salt, certificate))
	return "\x01" + strings.ToUpper(hex.EncodeToString(sum[:]))
}
