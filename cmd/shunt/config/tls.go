package config

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"sync"
	"time"
)

// TLS is Shunt's certificate toward clients. The files are read with the
// configuration, so SIGHUP reads them again.
type TLS struct {
	Cert, Key []byte // PEM
	// ClientCA holds the PEM certificates one of which must have signed a
	// client's; nil where clients need none.
	ClientCA []byte
	// SelfSigned is in place of Cert and Key: one that nobody has signed is made.
	SelfSigned bool
	// Required refuses clients that don't use TLS.
	Required bool
}

func readTLS(v value) *TLS {
	t := &TLS{}
	var key value
	seen := v.fields(tlsKeys(t, &key)...)
	switch {
	case t.SelfSigned && (seen["cert"] || seen["key"]):
		v.errorf("has self_signed beside a certificate: expected either")
	case t.SelfSigned:
	case !seen["cert"] || !seen["key"]:
		v.errorf("expected both cert and key, or self_signed: true")
	case t.Cert != nil && t.Key != nil:
		if _, err := tls.X509KeyPair(t.Cert, t.Key); err != nil {
			key.errorf("%v: expected a PEM file with the private key of cert", err)
		}
	}
	return t
}

// pemField is a field that names a PEM file with certificates.
func pemField(name, otherwise, help string, into *[]byte, holds string) field {
	return field{name: name, otherwise: otherwise, help: help, read: func(v value) {
		if *into = v.file(); *into == nil {
			return
		}
		if err := certificates(*into); err != nil {
			v.errorf("%v: expected a PEM file %s", err, holds)
			*into = nil
		}
	}}
}

// Server is the configuration of TLS for clients; nil where t is.
func (t *TLS) Server() *tls.Config {
	if t == nil {
		return nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.SelfSigned {
		c.Certificates = []tls.Certificate{selfSigned()}
	} else if pair, err := tls.X509KeyPair(t.Cert, t.Key); err == nil { // Parse has seen that it is
		c.Certificates = []tls.Certificate{pair}
	}
	if t.ClientCA != nil {
		c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		c.ClientCAs.AppendCertsFromPEM(t.ClientCA)
	}
	return c
}

// selfSigned is the certificate of this process that nobody has signed.
var selfSigned = sync.OnceValue(func() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err) // there is no such curve, or no randomness
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: "Shunt"},
		NotBefore:    now.Add(-24 * time.Hour), // clocks differ
		NotAfter:     now.AddDate(10, 0, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
})

// ShardTLS is how Shunt encrypts its connections to a shard, and how it makes
// sure of whom it talks to. The files are read once, with the configuration.
type ShardTLS struct {
	Verify Verify
	// CA holds the PEM certificates that may have signed the server's; nil
	// means the system's.
	CA []byte
	// Cert and Key are Shunt's own, for accounts with REQUIRE X509; PEM, both
	// or neither.
	Cert, Key []byte
	// ServerName is the name that the server's certificate must have; ""
	// means the host of the shard's address.
	ServerName string
}

// Verify says how much of the server's certificate must be right. MySQL's
// clients name the same by --ssl-mode.
type Verify string

const (
	// VerifyIdentity wants a certificate by a known authority, and for this
	// server's name.
	VerifyIdentity Verify = "identity"
	// VerifyCA leaves the name out. The certificates that MySQL makes for
	// itself have no name that could be checked.
	VerifyCA Verify = "ca"
	// VerifyNone takes any certificate: nobody can listen, but whoever is in
	// the middle can pretend to be the server.
	VerifyNone Verify = "none"
)

func readShardTLS(v value) *ShardTLS {
	t := &ShardTLS{Verify: VerifyIdentity}
	at := map[string]value{}
	seen := v.fields(shardTLSKeys(t, at)...)
	switch {
	case seen["cert"] != seen["key"]:
		v.errorf("expected both cert and key, or neither")
	case t.Cert != nil && t.Key != nil:
		if _, err := tls.X509KeyPair(t.Cert, t.Key); err != nil {
			at["key"].errorf("%v: expected a PEM file with the private key of cert", err)
		}
	}
	// What would be configured but not looked at.
	switch {
	case t.Verify == VerifyNone && seen["ca"]:
		at["ca"].errorf("is not looked at with verify: none: expected only one of them")
	case t.Verify == VerifyCA && !seen["ca"]:
		v.errorf("has verify: ca without a ca, which would trust any server on the internet: expected a ca")
	}
	if (t.Verify == VerifyNone || t.Verify == VerifyCA) && seen["server_name"] {
		at["server_name"].errorf("is not looked at with verify: %s: expected it with verify: identity only", t.Verify)
	}
	return t
}

// file reads the file that the value names; nil after an error.
func (v value) file() []byte {
	name := v.nonEmpty("a PEM file")
	if name == "" {
		return nil
	}
	data, err := os.ReadFile(name)
	if err != nil {
		v.errorf("%v: expected a PEM file that can be read", err)
		return nil
	}
	if len(data) == 0 {
		v.errorf("%s is empty: expected a PEM file", name)
		return nil
	}
	return data
}

// certificates reports whether PEM data holds certificates, all of them good.
func certificates(data []byte) error {
	found := false
	for rest := bytes.TrimSpace(data); len(rest) > 0; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return err
		}
		found = true
	}
	if !found {
		return errors.New("holds no certificate")
	}
	return nil
}

// Client is what crypto/tls needs to connect. REQUIRES: t is nil, or as Parse
// returned it. A ServerName that is left empty is the dialer's to set.
func (t *ShardTLS) Client() *tls.Config {
	if t == nil {
		return nil
	}
	c := &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
	if t.CA != nil {
		c.RootCAs = x509.NewCertPool()
		c.RootCAs.AppendCertsFromPEM(t.CA)
	}
	if t.Cert != nil {
		if pair, err := tls.X509KeyPair(t.Cert, t.Key); err == nil { // Parse has seen that it is
			c.Certificates = []tls.Certificate{pair}
		}
	}
	if t.Verify == VerifyIdentity {
		return c
	}
	// crypto/tls knows all or nothing: the rest is done here.
	c.InsecureSkipVerify = true
	if t.Verify == VerifyCA {
		c.VerifyConnection = func(s tls.ConnectionState) error {
			others := x509.NewCertPool()
			for _, cert := range s.PeerCertificates[1:] {
				others.AddCert(cert)
			}
			_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: c.RootCAs, Intermediates: others})
			if err != nil {
				return &tls.CertificateVerificationError{UnverifiedCertificates: s.PeerCertificates, Err: err}
			}
			return nil
		}
	}
	return c
}
