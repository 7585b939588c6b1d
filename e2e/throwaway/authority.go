package throwaway

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// Authority signs certificates for servers that are gone within the hour.
type Authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority writes its own certificate to ca.pem in the directory.
func NewAuthority(dir string) (*Authority, error) {
	a := &Authority{dir: dir}
	_, err := a.Issue("ca", &x509.Certificate{
		Subject: pkix.Name{CommonName: "Throwaway authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	return a, err
}

// File is the path of a file in the authority's directory.
func (a *Authority) File(name string) string { return filepath.Join(a.dir, name) }

// Issue signs a certificate with the names and uses that the template has. It
// writes NAME.pem and NAME.key.
func (a *Authority) Issue(name string, template *x509.Certificate) (tls.Certificate, error) {
	fail := func(err error) (tls.Certificate, error) {
		return tls.Certificate{}, fmt.Errorf("issue certificate %s: %w", name, err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fail(err)
	}
	now := time.Now()
	template.SerialNumber = big.NewInt(now.UnixNano())
	template.NotBefore, template.NotAfter = now.Add(-time.Hour), now.Add(time.Hour)
	if a.cert == nil { // its own
		a.cert, a.key = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return fail(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fail(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	if err := os.WriteFile(a.File(name+".pem"), certPEM, 0o600); err != nil {
		return fail(err)
	}
	if err := os.WriteFile(a.File(name+".key"), keyPEM, 0o600); err != nil {
		return fail(err)
	}
	return tls.X509KeyPair(certPEM, keyPEM)
}
