package config

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/e2e/throwaway"
)

func newAuthority(t *testing.T) *throwaway.Authority {
	t.Helper()
	a, err := throwaway.NewAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func issue(t *testing.T, a *throwaway.Authority, name string, template *x509.Certificate) tls.Certificate {
	t.Helper()
	cert, err := a.Issue(name, template)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func parseShardTLS(t *testing.T, block string) (*ShardTLS, error) {
	t.Helper()
	c, err := Parse("f", []byte("users: [{name: a, password: b}]\nshards: [{name: s, addr: h:1, user: u, tls: "+block+"}]\n"), noEnv)
	if err != nil {
		return nil, err
	}
	return c.Shards[0].TLS, nil
}

// TestShardTLSVerifies does handshakes with servers that have a good name, no
// name, or another authority.
func TestShardTLSVerifies(t *testing.T) {
	t.Parallel()
	ours, other := newAuthority(t), newAuthority(t)
	servers := map[string]tls.Certificate{
		"named":    issue(t, ours, "named", &x509.Certificate{DNSNames: []string{"db.example"}}),
		"nameless": issue(t, ours, "nameless", &x509.Certificate{Subject: pkix.Name{CommonName: "db.example"}}),
		"foreign":  issue(t, other, "foreign", &x509.Certificate{DNSNames: []string{"db.example"}}),
	}
	for block, good := range map[string]string{
		"{}":                                   "",
		"{verify: none}":                       "named nameless foreign",
		"{ca: %[1]s}":                          "", // the dialer's name is another one
		"{ca: %[1]s, verify: ca}":              "named nameless",
		"{ca: %[2]s, verify: ca}":              "foreign",
		"{ca: %[1]s, server_name: db.example}": "named",
		"{ca: %[1]s, server_name: db.example, cert: %[3]s, key: %[4]s}": "named",
		"{verify: identity, ca: %[1]s, server_name: other.example}":     "",
	} {
		if strings.Contains(block, "%") {
			block = fmt.Sprintf(block+"%.0[1]s%.0[2]s%.0[3]s%.0[4]s", ours.File("ca.pem"), other.File("ca.pem"), ours.File("named.pem"), ours.File("named.key"))
		}
		shard, err := parseShardTLS(t, block)
		if err != nil {
			t.Fatalf("%s: %v", block, err)
		}
		for name, cert := range servers {
			config := shard.Client()
			if config.ServerName == "" && !config.InsecureSkipVerify {
				config.ServerName = "localhost" // as the dialer does
			}
			near, far := net.Pipe()
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = tls.Server(far, &tls.Config{Certificates: []tls.Certificate{cert}}).HandshakeContext(t.Context())
				far.Close()
			}()
			err := tls.Client(near, config).HandshakeContext(t.Context())
			near.Close()
			<-done
			if want := strings.Contains(" "+good+" ", " "+name+" "); want != (err == nil) {
				t.Errorf("%s with a server that is %s: %v", block, name, err)
			}
		}
	}
}

func TestShardTLSKeyPair(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	issue(t, a, "one", &x509.Certificate{})
	issue(t, a, "two", &x509.Certificate{})
	if _, err := parseShardTLS(t, fmt.Sprintf("{cert: %s, key: %s}", a.File("one.pem"), a.File("one.key"))); err != nil {
		t.Error(err)
	}
	_, err := parseShardTLS(t, fmt.Sprintf("{cert: %s, key: %s}", a.File("one.pem"), a.File("two.key")))
	if err == nil || !strings.Contains(err.Error(), "f:2:") || !strings.Contains(err.Error(), "shards[0].tls.key: tls: private key does not match public key: expected") {
		t.Error(err)
	}
}
